"""Commands on traces at URLs, and on folders that are too large: what works prints, what does not is a sentence."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.http_files import HttpFiles, served
from tests.support.own_cache import own_cache
from tests.support.rank_files import write_ranks
from tracetui.cli.main import main
from tracetui.files import public_url
from tracetui.opening import rank_folder
from tracetui.opening.rank_folder import RankOptions, RankSetName
from tracetui.opening.rank_reading import summarise_files
from tracetui.ranks.rank_summary import RankSummary
from tracetui.reading import remote_files

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
pytest.importorskip("aiohttp", reason="aiohttp is not installed")

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpFiles]:
    """A server with the ranks of a run, which asks for a password."""
    monkeypatch.setattr(remote_files, "RETRY_SECONDS", (0.01, 0.01, 0.01))
    run = write_ranks(tmp_path / "run")
    with served({f"/all/run/{path.name}": path.read_bytes() for path in run.iterdir()}) as state:
        state.password = "me:s3cret"
        yield state


def secret(server: HttpFiles, path: str) -> str:
    """The URL of a path with the password."""
    return f"http://me:s3cret@{server.address}{path}"


@pytest.mark.parametrize("path", ["/all/run/", "/all/", "/all/run/rank*_trace.json"])
@pytest.mark.full
def test_a_folder_and_a_pattern_are_a_set_of_ranks(server: HttpFiles, capsys: Capture, path: str) -> None:
    assert main(["ranks", secret(server, path), "--format", "json"]) == 0
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert [row["rank"] for row in document["rows"]] == [2, 0, 1, 3] and document["rows"][0]["cause"] == "kernels"
    assert document["rows"][0]["file"].endswith("rank2_trace.json") and "s3cret" not in said.out + said.err


@pytest.mark.parametrize(
    "words",
    [
        ["show", "kernels", "RANK0"],
        ["check", "RANK0", "kernels > 3"],
        ["check", "FOLDER", "count(ranks) == 4"],
        ["compare", "RANK0", "RANK2"],
        ["compare", "RANK0#1", "RANK2#1"],
        ["report", "RANK0", "-o", "-"],
        ["report", "FOLDER", "-o", "-"],
        ["cut", "RANK0", "--steps", "1", "-o", "-"],
        ["repair", "RANK0", "-o", "-"],
        ["merge", "FOLDER", "-o", "-"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
@pytest.mark.full
def test_commands_take_urls_and_print_no_password(
    server: HttpFiles, capfdbinary: pytest.CaptureFixture[bytes], words: list[str]
) -> None:
    places = {"FOLDER": "/all/run/", "RANK0": "/all/run/rank0_trace.json", "RANK2": "/all/run/rank2_trace.json"}
    for name, path in places.items():
        words = [word.replace(name, secret(server, path)) for word in words]
    assert main(words) == 0
    said = capfdbinary.readouterr()
    assert said.out and b"s3cret" not in said.out.replace(b"keyword", b"") + said.err


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["show", "summary", "URL?sign=other"], 1, "there is no permission (HTTP 403)"),
        (["show", "summary", "s4://bucket/trace.json"], 1, "s4://bucket/trace.json cannot be read"),
        (["ranks", "URL"], 1, "there is no permission (HTTP 403)"),
        (["cut", "URL", "-o", "memory://cut.json"], 2, "only files of this machine are written"),
        (["perfetto", "URL"], 2, "a trace is served whole from this machine"),
        (["open", "URL", "URL", "memory://x.json"], 2, "a list is of files of this machine"),
        (["open", "URL", "--run", "2"], 2, "name one folder"),
        (["show", "summary", "FILE", "--capture", "URL"], 2, "--capture takes files and folders of this machine"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else "",
)
def test_what_cannot_be_done_is_a_sentence_without_secrets(
    server: HttpFiles, tmp_path: Path, capsys: Capture, words: list[str], code: int, sentence: str
) -> None:
    url = f"http://me:other@{server.address}/all/run/rank0_trace.json"
    here = str(tmp_path / "run" / "rank0_trace.json")
    assert main([word.replace("URL", url).replace("FILE", here) for word in words]) == code
    said = capsys.readouterr()
    assert sentence in said.err and "other@" not in said.err and "sign" not in said.err


def test_a_set_in_the_memory_of_this_process_is_read_here(tmp_path: Path, capsys: Capture) -> None:
    memory = fsspec.filesystem("memory")
    for path in write_ranks(tmp_path / "run").iterdir():
        memory.pipe(f"/ranks/run/{path.name}", path.read_bytes())
    assert main(["ranks", "memory://ranks/run", "--jobs", "2", "--format", "json"]) == 0
    assert main(["ranks", "memory://ranks/nothing/*.json"]) == 1
    memory.rm("/ranks", recursive=True)
    said = capsys.readouterr()
    assert json.loads(said.out)["rows"][0]["file"] == "rank2_trace.json"
    assert "is a pattern that matches nothing" in said.err


def test_a_rank_that_was_read_before_is_not_fetched_again(
    server: HttpFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_cache(monkeypatch, tmp_path)
    url = public_url(secret(server, "/all/run/rank1_trace.json"))
    assert isinstance(summarise_files([url])[url], RankSummary)
    server.asked.clear()
    assert isinstance(summarise_files([url])[url], RankSummary) and not server.fetched
    server.etag = '"2"'
    assert isinstance(summarise_files([url])[url], RankSummary) and server.fetched


@pytest.mark.full
def test_processes_read_urls_with_their_password(server: HttpFiles, capsys: Capture) -> None:
    assert main(["ranks", secret(server, "/all/run/"), "--jobs", "2", "--format", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 4


def test_a_folder_that_is_too_large_is_not_searched_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(rank_folder, "MAX_SEARCHED_ENTRIES", 3)
    folder = str(write_ranks(tmp_path / "run"))
    for words in (["ranks", folder], ["report", folder], ["check", folder, "count(ranks) == 4"]):
        assert main(words) == 2
        said = capsys.readouterr().err
        assert f"{folder} is too large" in said and "after 4 files and folders, of which 4 have the ending" in said
    assert main(["ranks", f"{folder}/rank*.json"]) == 0


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["--run", "2"], RankOptions(None, 2)),
        (["--rank-pattern", r"gpu(\d+)"], RankOptions(r"gpu(\d+)", 1)),
    ],
)
def test_the_app_is_told_which_ranks_are_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], name: RankOptions
) -> None:
    begun: list[RankSetName | None] = []

    def start(
        paths: list[str], step: int | None, at: str, options: object, ranks: RankSetName | None, follows: bool
    ) -> int:
        begun.append(ranks)
        assert not follows
        return 0

    monkeypatch.setattr("tracetui.cli.open.require_terminal", lambda: None)
    monkeypatch.setattr("tracetui.cli.open._keep_keyboard", lambda: None)
    monkeypatch.setattr("tracetui.ui.app.run", start)
    assert main(["open", str(tmp_path), *words]) == 0
    assert main(["open", str(tmp_path)]) == 0
    assert begun == [RankSetName((str(tmp_path),), name), None]
