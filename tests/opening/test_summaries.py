"""Traces of ranks summed up by worker processes: the same numbers, and no process that dies or stays costs a set."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import rank_workers
from tests.support.paths import ROOT, SHARED
from tests.support.rank_workers import is_running, noted_processes
from tests.support.waiting import PROCESS_SECONDS, SOON, wait_until
from tracetui.cli.main import main
from tracetui.errors import TraceError
from tracetui.opening import rank_reading
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
