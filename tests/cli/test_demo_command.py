"""`tracetui demo` without a terminal: the list, the files that it writes, and what it refuses."""

from __future__ import annotations

from functools import partial

import pytest

from tracetui.cli.main import main
from tracetui.demo.catalogue import DEMOS, PAIRS, file_name


@pytest.fixture(autouse=True)
def caches(monkeypatch, tmp_path):
    """A folder of caches of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    return tmp_path / "caches" / "tracetui" / "demo"


def test_the_list_has_every_demo_with_its_keys_and_the_pairs(capsys, caches):
    assert main(["demo"]) == 0
    printed = capsys.readouterr().out
    assert [name for name in DEMOS if f"\n{name} " not in printed] == []
    assert printed.count("keys: ") == len(DEMOS) and "nothing was measured" in printed
    assert all(f"tracetui demo {a} {b}" in printed for a, b, _ in PAIRS)
    assert not caches.exists()


def test_a_demo_goes_to_the_cache_and_its_path_is_printed(capsys, caches):
    assert main(["demo", "mlp-compile"]) == 0 and main(["demo", "mlp_compile"]) == 0
    assert capsys.readouterr().out.split() == [str(caches / file_name("mlp_compile"))] * 2


def test_a_file_of_the_user_is_replaced_with_force_only(capsys, tmp_path):
    words = ["demo", "linear", "--no-open", "-o", str(tmp_path / "new")]
    assert main(words) == 0
    kept = tmp_path / "new" / file_name("linear")
    kept.write_bytes(b"mine")
    assert main(words) == 2 and "exists already" in capsys.readouterr().err and kept.read_bytes() == b"mine"
    assert main([*words, "--force"]) == 0 and kept.read_bytes() != b"mine"


@pytest.mark.parametrize(
    ("names", "opened"),
    [
        ([], ("run", ["."])),
        (["linear"], ("run", ["linear"])),
        (["mlp_compile", "mlp"], ("compare_all", ["mlp_compile", "mlp"])),
    ],
)
def test_on_a_terminal_the_list_one_trace_or_both_are_opened(names, opened, monkeypatch, caches):
    calls: list[tuple[str, list[str]]] = []
    monkeypatch.setattr("tracetui.cli.demo.has_terminal", lambda: True)

    def called(way, paths):
        calls.append((way, paths))
        return 0

    for way in ("run", "compare_all"):
        monkeypatch.setattr(f"tracetui.ui.app.{way}", partial(called, way))
    assert main(["demo", *names]) == 0
    way, asked = opened
    assert calls == [(way, [str(caches if name == "." else caches / file_name(name)) for name in asked])]
    assert all((caches / file_name(name)).exists() for name in names or DEMOS)


def test_a_name_that_is_none_is_refused_with_what_was_meant(capsys):
    assert main(["demo", "mlpp"]) == 2
    assert "Did you mean mlp?" in capsys.readouterr().err
