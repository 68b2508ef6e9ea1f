"""Summaries of ranks, and their cache."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import rank_workers
from tests.support.paths import ROOT, SHARED
from tests.support.rank_workers import is_running, noted_processes
from tests.support.waiting import PROCESS_SECONDS, SOON, wait_until
from tracetui.cli.main import main
from tracetui.errors import TraceError
from tracetui.opening import cache_folder, rank_reading
from tracetui.opening.rank_folder import open_rank_set
from tracetui.opening.rank_reading import (
    SummaryWork,
    available_bytes,
    core_count,
    summarise,
    summarise_files,
    unpacked_bytes,
    worker_count,
)
from tracetui.ranks.rank_tables import TABLES

SETS = SHARED / "ranks"
pytestmark = pytest.mark.skipif(not SETS.exists(), reason="the sets of ranks are not here")


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Traces of four ranks that may be changed."""
    for path in (SETS / "g1_input_4ranks").glob("*/*.json.gz"):
        copy = Path(shutil.copyfile(path, tmp_path / path.name))
        copy.chmod(0o600)
    return sorted(tmp_path.iterdir())


@pytest.mark.full
@pytest.mark.smoke
def test_processes_and_this_one_read_the_same() -> None:
    folder = [str(SETS / "g1_input_4ranks")]
    here, there = (open_rank_set(folder, work=SummaryWork(jobs)) for jobs in (1, 2))
    assert [each.to_bytes() for each in here.summaries] == [each.to_bytes() for each in there.summaries]
    for table in TABLES.values():
        assert list(table(here).rows()) == list(table(there).rows())


def test_one_file_and_small_ones_start_no_process(files: list[Path]) -> None:
    def here(path: str) -> bytes:
        # Cannot be sent to another process.
        return summarise(path)

    assert len(summarise_files([str(files[0])], SummaryWork(2, here))) == 1
    assert len(summarise_files([str(each) for each in files], SummaryWork(None, here))) == 4


@pytest.mark.full
def test_a_process_that_dies_costs_its_file_alone(files: list[Path]) -> None:
    ranks = open_rank_set([str(files[0].parent)], work=SummaryWork(2, rank_workers.dies_of_rank_2))
    assert ranks.ranks == (0, 1, 3) and ranks.run.missing == (2,)
    (left_out,) = ranks.left_out
    assert left_out.why.startswith("could not be read: The process that read rank2") and "twice" in left_out.why
    assert len(set(noted_processes(files[2]))) == 2 and not multiprocessing.active_children()


@pytest.mark.full
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_file_without_memory_costs_its_rank(files: list[Path], jobs: int) -> None:
    work = SummaryWork(jobs, rank_workers.has_no_memory_for_rank_2)
    ranks = open_rank_set([str(files[0].parent)], work=work)
    assert ranks.ranks == (0, 1, 3) and "memory" in ranks.left_out[0].why
    assert len(noted_processes(files[2])) == jobs


@pytest.mark.full
def test_a_file_that_kills_one_process_is_read_by_the_next(files: list[Path]) -> None:
    done: list[tuple[int, int]] = []
    outcomes = summarise_files(
        [str(each) for each in files],
        SummaryWork(2, rank_workers.dies_of_rank_2_once),
        lambda number, total: done.append((number, total)),
    )
    assert not any(isinstance(each, TraceError) for each in outcomes.values())
    assert done == [(number, 4) for number in range(5)]


@pytest.mark.full
def test_an_exception_in_the_middle_leaves_no_process(files: list[Path]) -> None:
    def cancel(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    before = set(multiprocessing.active_children())
    with pytest.raises(KeyboardInterrupt):
        summarise_files([str(each) for each in files], SummaryWork(2), cancel)
    assert set(multiprocessing.active_children()) <= before


def started(files: list[Path]) -> tuple[subprocess.Popen[str], list[int]]:
    """A process whose workers never end, and these."""
    script = (
        "import sys\nfrom tests.support.rank_workers import never_ends\n"
        "from tracetui.opening.rank_reading import SummaryWork, summarise_files\n"
        "try:\n    summarise_files(sys.argv[1:], SummaryWork(2, never_ends))\n"
        "except KeyboardInterrupt:\n    sys.exit(130)\n"
    )
    words = [sys.executable, "-c", script, *map(str, files)]
    pipe = subprocess.PIPE
    parent = subprocess.Popen(words, cwd=ROOT, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
    workers = wait_until(lambda: (found := [each for path in files for each in noted_processes(path)])[1:] and found)
    assert len(set(workers)) == 2 and all(map(is_running, workers))
    return parent, workers


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_a_parent_that_is_killed_leaves_no_worker(files: list[Path]) -> None:
    parent, workers = started(files)
    parent.kill()
    parent.communicate(timeout=PROCESS_SECONDS)
    wait_until(lambda: not any(map(is_running, workers)), "a worker is left", SOON)


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_ctrl_c_ends_all_and_nobody_says_anything(files: list[Path]) -> None:
    parent, workers = started(files)
    # A terminal sends it to all processes of the command.
    os.killpg(parent.pid, signal.SIGINT)
    assert parent.communicate(timeout=PROCESS_SECONDS) == ("", "") and parent.returncode == 130
    assert not any(map(is_running, workers))


def test_as_many_workers_as_cores_files_and_memory_allow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    paths = []
    for number in range(40):
        paths.append(str(tmp_path / f"{number}.json"))
        Path(paths[-1]).write_bytes(b" " * 1000)
    assert core_count() >= 1
    assert sys.platform != "linux" or (available_bytes() or 0) > 10 << 20
    monkeypatch.setattr(rank_reading, "core_count", lambda: 8)
    for free, count, expected in ((None, 40, 8), (1 << 40, 40, 8), (1 << 40, 3, 3), (250 << 20, 40, 2), (0, 40, 1)):
        monkeypatch.setattr(rank_reading, "available_bytes", lambda free=free: free)
        assert worker_count(paths[:count]) == expected
        assert worker_count(paths[:count], 5) == min(count, 5)
    assert worker_count([]) == 0
    assert (unpacked_bytes(paths[0]), unpacked_bytes("nowhere.json.gz")) == (1000, 0)


def test_the_number_of_processes_is_checked(capsys: pytest.CaptureFixture[str]) -> None:
    for word in ("0", "-1", "two", "1001"):
        assert main(["ranks", "x", "--jobs", word]) == 2
        assert "--jobs" in capsys.readouterr().err
    assert main(["ranks", str(SETS / "g1_input_4ranks"), "--jobs", "1"]) == 0


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.delenv(cache_folder.SIZE_VARIABLE)
    return tmp_path / "caches" / "tracetui" / "ranks"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A folder with the traces of four ranks, which may be changed."""
    folder = tmp_path / "run"
    folder.mkdir()
    for path in (SETS / "g1_input_4ranks").glob("*/*.json.gz"):
        Path(shutil.copyfile(path, folder / path.name)).chmod(0o600)
    return folder


Reader = Callable[[str], bytes]


@pytest.fixture
def read() -> tuple[list[str], Reader]:
    """The names of the files that were read, and the function that reads them."""
    names: list[str] = []

    def counted(path: str) -> bytes:
        names.append(os.path.basename(path))
        return summarise(path)

    return names, counted


def paths(run: Path) -> list[str]:
    return sorted(str(each) for each in run.iterdir())


def test_a_file_is_not_read_again_and_says_the_same(run: Path, read: tuple[list[str], Reader], cache: Path) -> None:
    names, reader = read
    first, second = (open_rank_set([str(run)], work=SummaryWork(1, reader)) for _ in range(2))
    assert sorted(names) == sorted(each.name for each in run.iterdir()) and len(names) == 4
    assert [each.to_bytes() for each in first.summaries] == [each.to_bytes() for each in second.summaries]
    for table in TABLES.values():
        assert list(table(first).rows()) == list(table(second).rows())
    assert len(list(cache.iterdir())) == 5 and all(each.stat().st_mode & 0o077 == 0 for each in cache.iterdir())


def test_an_unchanged_file_is_not_even_hashed(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    summarise_files(paths(run))

    def fail(path: str) -> str:
        raise AssertionError("it was hashed again")

    monkeypatch.setattr("tracetui.opening.rank_reading.content_digest", fail)
    assert len(summarise_files(paths(run))) == 4


def test_a_changed_file_is_read_anew_also_with_its_old_time_and_size(run: Path, read: tuple[list[str], Reader]) -> None:
    names, reader = read
    summarise_files(paths(run), SummaryWork(1, reader))
    names.clear()
    changed = Path(paths(run)[1])
    status = changed.stat()
    data = bytearray(changed.read_bytes())
    # The time in the head of a gzip file: another content that unpacks to the same.
    data[4] ^= 1
    changed.write_bytes(data)
    os.utime(changed, ns=(status.st_atime_ns, status.st_mtime_ns))
    summarise_files(paths(run), SummaryWork(1, reader))
    assert names == [changed.name]


def test_a_copy_and_a_file_under_another_name_are_known_by_their_content(
    run: Path, read: tuple[list[str], Reader], cache: Path
) -> None:
    names, reader = read
    summarise_files(paths(run), SummaryWork(1, reader))
    names.clear()
    moved = run.rename(run.with_name("elsewhere"))
    outcomes = summarise_files(paths(moved), SummaryWork(1, reader))
    assert names == [] and len(outcomes) == 4
    assert len(list(cache.iterdir())) == 5


@pytest.mark.parametrize("damage", ["cut off", "a bit", "another release", "empty", "not readable as a summary"])
def test_a_bad_entry_is_removed_and_the_file_read(
    damage: str, run: Path, read: tuple[list[str], Reader], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, reader = read
    path = paths(run)[0]
    summarise_files([path], SummaryWork(1, reader))
    (entry,) = cache.glob("*.summary")
    data = entry.read_bytes()
    bad = {
        "cut off": data[:-1],
        "a bit": data[:-1] + bytes([data[-1] ^ 1]),
        "another release": data[:8] + bytes(16) + data[24:],
        "empty": b"",
        "not readable as a summary": rank_reading._packed(b"other bytes", rank_reading.RANKS),
    }[damage]
    entry.write_bytes(bad)
    assert rank_reading.known_summaries([path], rank_reading.RANKS) == {} and not entry.exists()
    summarise_files([path], SummaryWork(1, reader))
    assert names == [os.path.basename(path)] * 2 and entry.read_bytes() == data


def test_a_damaged_index_costs_only_the_hashing(run: Path, read: tuple[list[str], Reader], cache: Path) -> None:
    names, reader = read
    summarise_files(paths(run), SummaryWork(1, reader))
    (cache / rank_reading.INDEX).write_bytes(b"x" * 1000)
    names.clear()
    assert len(summarise_files(paths(run), SummaryWork(1, reader))) == 4 and names == []


def test_a_file_that_changes_while_it_is_read_is_not_kept(run: Path, cache: Path) -> None:
    def changing(path: str) -> bytes:
        data = summarise(path)
        with Path(path).open("ab") as file:
            file.write(b"\n")
        return data

    assert len(summarise_files(paths(run), SummaryWork(1, changing))) == 4
    assert not cache.exists()


def test_a_folder_that_others_can_write_to_is_not_used(run: Path, read: tuple[list[str], Reader], cache: Path) -> None:
    names, reader = read
    summarise_files(paths(run), SummaryWork(1, reader))
    cache.chmod(0o777)
    summarise_files(paths(run), SummaryWork(1, reader))
    assert len(names) == 8


def test_no_cache_neither_reads_nor_writes_it(run: Path, read: tuple[list[str], Reader], cache: Path) -> None:
    names, reader = read
    for _ in range(2):
        summarise_files(paths(run), SummaryWork(1, reader, uses_cache=False))
    assert len(names) == 8 and not cache.exists()
    assert main(["ranks", str(run), "--no-cache"]) == 0
    assert not cache.exists()
    assert main(["ranks", str(run)]) == 0
    assert len(list(cache.glob("*.summary"))) == 4


def test_the_oldest_go_first(run: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, *others = paths(run)
    summarise_files([first])
    (entry,) = cache.glob("*.summary")
    os.utime(entry, (1, 1))
    summarise_files(others[:2])
    size = sum(each.stat().st_size for each in cache.iterdir())
    monkeypatch.setenv(cache_folder.SIZE_VARIABLE, str(size + entry.stat().st_size // 2))
    summarise_files(others[2:])
    assert not entry.exists() and len(list(cache.glob("*.summary"))) == 3
    monkeypatch.setenv(cache_folder.SIZE_VARIABLE, "0")
    assert rank_reading.is_cache_used() is False


@pytest.mark.full
def test_processes_take_from_the_cache_and_give_to_it(run: Path, cache: Path) -> None:
    read, taken = (open_rank_set([str(run)], work=SummaryWork(2)) for _ in range(2))
    assert len(list(cache.glob("*.summary"))) == 4
    assert [each.to_bytes() for each in read.summaries] == [each.to_bytes() for each in taken.summaries]


def test_the_command_counts_and_clears_them(run: Path, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summarise_files(paths(run))
    assert main(["cache"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("4 summaries of ranks, ") and last.endswith(f" of 2.0 GiB, in {cache}")
    assert main(["cache", "--clear", paths(run)[0]]) == 0
    assert capsys.readouterr().err.startswith("tracetui: removed 0 traces and 1 summary of ranks, ")
    assert main(["cache", "--format", "json"]) == 0
    said = json.loads(capsys.readouterr().out)["rank_summaries"]
    assert said["count"] == 3 and said["folder"] == str(cache) and said["max_bytes"] == 2 << 30
    assert main(["cache", "--clear"]) == 0
    assert "3 summaries of ranks" in capsys.readouterr().err and list(cache.iterdir()) == []
