"""Ranks read by a Dask cluster of other processes: the same numbers, and sentences on what a worker lacks."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import rank_workers
from tests.support.rank_files import write_ranks
from tests.support.rank_workers import noted_processes
from tests.support.waiting import wait_until
from tracetui.cli.main import main
from tracetui.errors import ClusterUnusable
from tracetui.opening import dask_cluster
from tracetui.opening.dask_cluster import dask_work
from tracetui.opening.rank_folder import open_rank_set
from tracetui.opening.rank_reading import SummaryWork, summarise_files

distributed = pytest.importorskip("distributed", reason="distributed is not installed")
pytestmark = [
    pytest.mark.full,
    # What the cluster's own threads leave open when it ends is none of the program's.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
    ) as cluster:
        yield cluster


@pytest.fixture
def address(cluster: Any) -> str:
    """The address of the scheduler, once both workers are there."""
    with distributed.Client(cluster.scheduler_address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)
    return str(cluster.scheduler_address)


def quiet(sentence: str) -> None:
    raise AssertionError(sentence)


def test_the_cluster_and_this_process_read_the_same(address: str, tmp_path: Path) -> None:
    folder = [str(write_ranks(tmp_path / "run"))]
    here = open_rank_set(folder, work=SummaryWork(1))
    with dask_work(address, SummaryWork(), quiet) as work:
        there = open_rank_set(folder, work=work)
    assert [each.to_bytes() for each in here.summaries] == [each.to_bytes() for each in there.summaries]


def test_the_command_reads_by_the_cluster_and_leaves_it_running(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(write_ranks(tmp_path / "run"))
    for words in (["ranks", folder], ["check", folder, "count(ranks) == 4"], ["report", folder, "-o", "-"]):
        assert main([*words, "--dask", address]) == 0
        said = capsys.readouterr()
        assert said.out and not said.err
    with distributed.Client(address, set_as_default=False) as client:
        assert len(client.nthreads()) == 2 and not client.who_has()


def test_files_are_read_by_the_workers(address: str, tmp_path: Path) -> None:
    files = sorted(map(str, write_ranks(tmp_path / "run", ranks=3, late=None).iterdir()))
    with dask_work(address, SummaryWork(summary_of=rank_workers.notes_process), quiet) as work:
        outcomes = summarise_files(files, work)
        assert summarise_files(files[:1], work).keys() == {files[0]}
    assert len(outcomes) == 3
    assert all(os.getpid() not in noted_processes(Path(path)) for path in files)


def test_a_worker_that_dies_costs_its_file_one_more_attempt(address: str, tmp_path: Path) -> None:
    folder = write_ranks(tmp_path / "run")
    with dask_work(address, SummaryWork(summary_of=rank_workers.dies_of_rank_2), quiet) as work:
        ranks = open_rank_set([str(folder)], work=work)
    assert ranks.ranks == (0, 1, 3) and ranks.run.missing == (2,)
    (left_out,) = ranks.left_out
    assert left_out.why.startswith("could not be read: The process that read rank2") and "twice" in left_out.why
    assert len(noted_processes(folder / "rank2_trace.json")) == 2


def test_a_file_that_kills_one_worker_is_read_by_the_next(address: str, tmp_path: Path) -> None:
    folder = write_ranks(tmp_path / "run")
    with dask_work(address, SummaryWork(summary_of=rank_workers.dies_of_rank_2_once), quiet) as work:
        assert open_rank_set([str(folder)], work=work).ranks == (0, 1, 2, 3)


def test_files_that_workers_do_not_see_are_sent(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_ranks(tmp_path)
    monkeypatch.chdir(tmp_path)
    told: list[str] = []
    # Of each process its own.
    folder = ["/proc/self/cwd/"]
    with dask_work(address, SummaryWork(), told.append) as work:
        ranks = open_rank_set(folder, work=work)
    assert ranks.ranks == (0, 1, 2, 3) and {each.rank for each in ranks.run.files} == {0, 1, 2, 3}
    (sentence,) = told
    assert "does not see /proc/self/cwd/rank" in sentence and sentence.endswith("files are sent to the cluster.")
    assert sentence.startswith("Worker tcp://")


def test_a_file_that_is_too_large_to_be_sent_is_left_out(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_ranks(tmp_path, ranks=3, late=None)
    large = tmp_path / "rank2_trace.json"
    large.write_text(large.read_text() + " " * 100_000)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(dask_cluster, "MAX_SENT_BYTES", 50_000)
    with dask_work(address, SummaryWork(), lambda sentence: None) as work:
        ranks = open_rank_set(["/proc/self/cwd/"], work=work)
    assert ranks.ranks == (0, 1)
    assert "the workers of the cluster do not see it" in ranks.left_out[0].why


def pretend(worker: str, address: str, version: str | None) -> None:
    """Change what a worker says of its tracetui; None: that it has none."""

    def change(version: str | None) -> None:
        import sys

        import tracetui

        if version is None:
            sys.modules["tracetui.opening.cache_folder"] = None  # type: ignore[assignment]
        else:
            tracetui.__version__ = version

    with distributed.Client(address, set_as_default=False) as client:
        client.run(change, version, workers=[worker])


def test_a_worker_of_another_version_and_one_without_are_named(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(write_ranks(tmp_path / "run"))
    with distributed.Client(address, set_as_default=False) as client:
        first, second = client.nthreads()
    version = sys.modules["tracetui"].__version__
    pretend(first, address, "0.0.9")
    pretend(second, address, None)
    try:
        assert main(["ranks", folder, "--dask", address]) == 1
    finally:
        pretend(first, address, version)
        with distributed.Client(address, set_as_default=False) as client:
            client.restart_workers([second], timeout=60)
    said = capsys.readouterr()
    assert f"orker {first} has tracetui 0.0.9" in said.err and f"orker {second} has no tracetui" in said.err
    assert not said.out


def test_no_scheduler_and_no_distributed_are_sentences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dask_cluster, "CONNECT_SECONDS", 1)
    folder = str(write_ranks(tmp_path / "run"))
    assert main(["ranks", folder, "--dask", "tcp://127.0.0.1:9"]) == 1
    assert "There is no Dask scheduler to be reached at tcp://127.0.0.1:9" in capsys.readouterr().err
    assert main(["ranks", folder, "--dask", "nothing"]) == 1
    assert "nothing is no address of a Dask scheduler" in capsys.readouterr().err
    assert main(["ranks", folder, "--dask", "tcp://127.0.0.1:9", "--jobs", "2"]) == 2
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert main(["ranks", folder, "--dask", "tcp://127.0.0.1:9"]) == 1
    assert "pip install distributed" in capsys.readouterr().err


def test_ctrl_c_cancels_what_was_submitted(address: str, tmp_path: Path) -> None:
    folder = write_ranks(tmp_path / "run")
    files = sorted(map(str, folder.iterdir()))

    def interrupt() -> None:
        wait_until(lambda: any(noted_processes(Path(path)) for path in files))
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    with (
        pytest.raises(KeyboardInterrupt),
        dask_work(address, SummaryWork(summary_of=rank_workers.waits_a_while), quiet) as work,
    ):
        thread.start()
        summarise_files(files, work)
    thread.join()
    with distributed.Client(address, set_as_default=False) as client:
        wait_until(lambda: not any(client.processing().values()))
        assert len(client.nthreads()) == 2


def test_a_cluster_that_goes_is_said(tmp_path: Path) -> None:
    folder = write_ranks(tmp_path / "run")
    cluster = distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
    )
    with pytest.raises(ClusterUnusable), dask_work(cluster.scheduler_address, SummaryWork(), quiet) as work:
        cluster.close()
        open_rank_set([str(folder)], work=work)
