"""Settings: what a file says, and a sentence with its line for everything in it that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetui.cli.main import main
from tracetui.config import CHOICES, MAX_CONFIG_BYTES, Config, config
from tracetui.model import columns
from tracetui.model.table import ColumnSpec
from tracetui.panes import PANES, columns_of, declared_columns


def settings(text: str | bytes, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    path = folder / "config.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    monkeypatch.setenv("TRACETUI_CONFIG", str(path))
    return config()


def test_a_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'pane = "gaps"\n[columns]\nops = ["name", "calls"]\n"ops by shape" = "calls"\n[keys]\npin = "f2"\n'
    found = settings(text, tmp_path, monkeypatch)
    assert found.problems == ()
    assert (found.word("pane"), found.word("theme")) == ("gaps", "auto")
    assert found.columns_of("ops") == ("name", "calls") and found.columns_of("ops", "shape") == ("calls",)
    assert found.columns_of("ops", "module") == () and found.keys == {"pin": ("f2",)}


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ('theme = "drak"', 1, "dark"),
        ("\n\ntheme = 3", 3, "ansi-dark"),
        ('colour = "never"', 1, "color"),
        ('pane = "kernals"', 1, "kernels"),
        ('pane = "flame"', 1, "modules"),
        ("columns = 3", 1, "[columns]"),
        ('[columns]\nkernls = ["name"]', 2, "kernels"),
        ('# ops\n[columns]\nops = ["name", "clls"]', 3, "calls"),
        ("[columns]\nops = []", 2, "word"),
        ("[columns]\nops = [1]", 2, "word"),
        ('[columns.ops]\nx = "y"', 0, "word"),
        ('pane = "ops"\ntheme = dark', 0, "line 2"),
        ('theme = "dark"\ntheme = "light"', 0, "overwrite"),
        ("[" * 100_000, 0, "TOML"),
        (b"\xff", 0, "UTF-8"),
        (b"#" * (MAX_CONFIG_BYTES + 1), 0, "larger"),
        ('theme = "\\u001b[31m"', 1, "dark"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(
    text: str | bytes, line: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = settings(text, tmp_path, monkeypatch)
    [problem] = found.problems
    assert problem.startswith(str(tmp_path)) and said in problem
    assert problem.endswith((".", "?")) and problem.isprintable() and len(problem) < 400
    assert not line or f", line {line}: " in problem


def test_what_is_right_stays_beside_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = settings('theme = "x"\npane = "ops"\n[columns]\nops = "x"\ngaps = "cause"', tmp_path, monkeypatch)
    assert len(found.problems) == 2
    assert (found.word("theme"), found.word("pane"), set(found.columns)) == ("auto", "ops", {"gaps"})


def test_a_theme_of_the_environment_that_does_not_exist_is_told(monkeypatch, capsys) -> None:
    monkeypatch.setenv("TRACETUI_THEME", "blue")
    assert main(["config"]) == 2
    assert "TRACETUI_THEME: there is no theme 'blue'. There are" in capsys.readouterr().err


def test_no_file_and_no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of the user need not be there; one that is named has to be."""
    monkeypatch.setenv("TRACETUI_CONFIG", "")
    assert config() == Config("")
    monkeypatch.setenv("TRACETUI_CONFIG", str(tmp_path / "absent.toml"))
    assert "is no file" in config().problems[0]
    monkeypatch.delenv("TRACETUI_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert config().problems == () and config().path == str(tmp_path / "tracetui" / "config.toml")


@given(
    st.dictionaries(
        st.sampled_from([*CHOICES, "columns", "keys", "x"]),
        st.one_of(st.integers(), st.booleans(), st.text(max_size=9), st.lists(st.integers(), max_size=2)),
    )
)
def test_any_value_is_taken_or_refused(values: dict[str, object]) -> None:
    from tracetui.config import _checked

    found = _checked(Config("c"), values)
    assert len(found.words) + len(found.problems) == len(values)
    assert all(found.word(name) in CHOICES[name] for name in CHOICES)


def test_the_names_of_columns_are_those_that_are_declared() -> None:
    declared = {name: each.name for name, each in vars(columns).items() if isinstance(each, ColumnSpec)}
    assert declared_columns() == declared


@pytest.mark.parametrize("pane", PANES)
def test_the_columns_of_a_pane_are_found_in_its_source(pane: str) -> None:
    from tracetui.panes import PANE_FILES

    found = columns_of(PANE_FILES[pane])
    assert set(PANES[pane].columns_by(None)) <= set(found) <= set(declared_columns().values())
