"""Recordings by several ranks: a trace of each in one folder, or nothing and the name of the rank that failed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace

import pytest
from tracetui_workloads import registry
from tracetui_workloads.api import BadRequest, Unavailable
from tracetui_workloads.recording import protocol, trace_file
from tracetui_workloads.recording.launcher import (
    Hello,
    Options,
    Outcome,
    Stage,
    keep_times,
    plan,
    record,
    time_variants,
)
from tracetui_workloads.recording.protocol import Failure

from tests.support.paths import IMPORT_PATH, ROOT
from tests.support.waiting import PROCESS_SECONDS, wait_until
from tests.support.workloads.children import QUICK, content_of, followed, is_gone, needs_torch
from tests.support.workloads.ranks import faulty, faulty_site
from tracetui.opening.rank_folder import open_rank_set
from tracetui.reading.load import load
from tracetui.verification import NEEDS_RANKS, verify

CPU = Options(device="cpu")


@pytest.fixture(autouse=True)
def meeting(monkeypatch, tmp_path_factory):
    """The temporary folder, in which the ranks find each other; nothing may stay there."""
    folder = tmp_path_factory.mktemp("meeting")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("out", "path"),
    [
        (None, "traces/ddp/2_1_16_1024_12_fp32_warm_eager"),
        ("run", "run"),
        ("runs/", "runs/ddp_2_1_16_1024_12_fp32_warm_eager"),
        (".", "ddp_2_1_16_1024_12_fp32_warm_eager"),
    ],
)
def test_where_the_traces_of_ranks_go(monkeypatch, tmp_path, out, path):
    monkeypatch.chdir(tmp_path)
    request = plan("ddp", {}, Options(), out)
    assert (request.out, request.ranks, request.rendezvous) == (path, 2, "")


def test_a_file_and_older_ranks_are_refused(tmp_path):
    with pytest.raises(BadRequest, match="is one file, and ddp leaves one for each rank"):
        plan("ddp", {}, Options(), tmp_path / "x.json.gz")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "rank0.json.gz").write_text("")
    with pytest.raises(BadRequest, match="holds the traces of ranks already"):
        plan("ddp", {}, Options(), tmp_path / "run")
    assert plan("ddp", {}, Options(), tmp_path / "run", replace=True).out == str(tmp_path / "run")


def test_ranks_are_a_parameter():
    assert plan("ddp", {"ranks": "3"}, Options()).ranks == 3
    assert plan("mlp", {}, Options()).ranks == 0
    with pytest.raises(BadRequest, match="ranks must be at least 2"):
        plan("ddp", {"ranks": "1"}, Options())


def folder_of(path, *names):
    path.mkdir()
    for name in names:
        (path / name).write_text(path.name)
    return path


def test_a_folder_gets_the_next_number(tmp_path):
    folder_of(tmp_path / "run", "rank0.json.gz")
    (tmp_path / "run-2").write_text("a file")
    part = folder_of(tmp_path / "part", "rank0.json.gz")
    assert trace_file.move_folder(part, tmp_path / "run", replace=False) == tmp_path / "run-3"
    assert (tmp_path / "run" / "rank0.json.gz").read_text() == "run"


def test_only_ranks_are_replaced(tmp_path):
    old = folder_of(tmp_path / "run", "rank0.json.gz", "rank1.json.gz", "rank1.txt", "rank1.compile.log.gz")
    part = folder_of(tmp_path / "part", "rank0.json.gz")
    assert trace_file.destination_failure(old, replace=True, is_folder=True) is None
    assert trace_file.move_folder(part, old, replace=True) == old
    assert {path.name: path.read_text() for path in old.iterdir()} == {"rank0.json.gz": "part"}
    other = folder_of(tmp_path / "other", "rank0.json.gz", "notes.txt")
    failure = trace_file.destination_failure(other, replace=True, is_folder=True)
    assert failure and "holds something else than traces of ranks" in failure.message
    with pytest.raises(OSError, match="something else"):
        trace_file.move_folder(folder_of(tmp_path / "part", "rank0.json.gz"), other, replace=True)
    assert (other / "notes.txt").exists()


def test_a_rank_without_a_trace_takes_the_others_along(tmp_path):
    part, meet = folder_of(tmp_path / "part", "rank0.json.gz"), folder_of(tmp_path / "meet", "store")
    request = replace(faulty(part, "none"), rendezvous=str(meet / "store"))
    trace_file.remove_files(request, part / "rank0.json.gz", "token")
    assert part.exists() and meet.exists(), "this one is complete"
    trace_file.remove_files(request, part / "rank1.json.gz", "token")
    assert not part.exists() and not meet.exists()


def test_who_is_no_rank_takes_nothing_along(tmp_path):
    folder = folder_of(tmp_path / "traces", "other.json.gz")
    trace_file.remove_files(plan("mlp", {}, Options(), folder / "x.json"), folder / "x.json", "token")
    assert folder.exists()


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (Failure("error", "It raised."), "Rank 1 of 2: It raised."),
        (Failure("killed", "Killed."), "Rank 1 of 2: Killed."),
        (Failure("usage", "No such parameter."), "No such parameter."),
        (Failure("missing:torch", "No torch."), "No torch."),
        (Failure("cancelled", "Cancelled."), "Cancelled."),
        (Failure("destination", "Full."), "Full."),
    ],
)
def test_a_failure_names_the_rank_unless_all_fail_alike(failure, message):
    assert protocol.of_rank(failure, 1, 2).message == message


def test_a_time_limit_says_where_each_rank_was():
    one, other = protocol.cancelled("connecting ranks"), protocol.cancelled("importing torch", "in import torch")
    told = protocol.ranks_timed_out(5, {0: one, 1: other}, "")
    assert told.message == "Stopped after 5 s: rank 0 while connecting ranks, rank 1 while importing torch."
    assert told.details == "rank 1:\nin import torch"
    told = protocol.ranks_timed_out(5, {0: one, 1: one}, "last\nwords")
    assert told.message == "Stopped after 5 s, while connecting ranks."
    assert told.details == "last\nwords"


@needs_torch
@pytest.mark.parametrize(("count", "told"), [(1, "this machine has 1 GPU:"), (3, "this machine has 3 GPUs:")])
def test_every_rank_needs_a_gpu_of_its_own(monkeypatch, count, told):
    import torch
    from tracetui_workloads.recording import devices

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    for requested in ("auto", "cuda"):
        with pytest.raises(Unavailable, match=f"4 ranks need a GPU each, and {told} add --device cpu"):
            devices.choose_for_rank(requested, 0, 4)
    with pytest.raises(BadRequest, match="Every rank has a GPU of its own"):
        devices.choose_for_rank("cuda:1", 0, 2)
    assert devices.choose_for_rank("cpu", 1, 4).device == "cpu"


SMALL = {"width": 64, "layers": 2, "batch": 4}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A function that records `ddp` with some parameters, each once."""
    stories: dict = {}
    folder = tmp_path_factory.mktemp("ranks")

    def record_once(**given):
        key = tuple(given.items())
        if key not in stories:
            request = plan("ddp", given, CPU, folder / f"run{len(stories)}", table=not given)
            stories[key] = asyncio.run(followed(request))
            assert stories[key].outcome.failure is None, stories[key].outcome
        return stories[key]

    return record_once


def verified(outcome):
    """The promises of ddp and what was found."""
    ranks = open_rank_set([str(outcome.path)])
    return verify(registry.find("ddp"), outcome.metadata, load(str(outcome.traces[0])), ranks)


@pytest.mark.full
@needs_torch
@pytest.mark.parametrize(
    "given",
    [
        {},
        *(dict(changes) for _, changes in registry.built_in("ddp").variants if "compile" not in changes),
    ],
    ids=lambda given: "_".join(given) or "eager",
)
def test_what_ddp_promises_is_in_its_traces(recorded, given):
    outcome = recorded(**given).outcome
    found = verified(outcome)
    lines = {str(row["expectation"]): row["found"] for row in found.table.rows()}
    assert lines["ranks that left a trace"] == "2"
    assert [row for row in found.table.rows() if not row["holds"]] == []
    assert ("the rank that is late, and why" in lines) == ("late_ms" in given)
    assert NEEDS_RANKS not in [reason for _, reason in found.skipped]


@pytest.mark.full
@needs_torch
def test_every_rank_leaves_a_trace_and_nothing_else(recorded):
    story = recorded()
    outcome = story.outcome
    assert {path.name for path in outcome.path.iterdir()} == {
        "rank0.json.gz",
        "rank1.json.gz",
        "rank0.txt",
        "rank1.txt",
    }
    assert not [path for path in outcome.path.parent.iterdir() if "part" in path.name]
    contents = [content_of(path) for path in outcome.traces]
    assert [content["distributedInfo"]["rank"] for content in contents] == [0, 1]
    assert {content["distributedInfo"]["world_size"] for content in contents} == {2}
    assert contents[0]["tracetui"] == outcome.metadata
    assert outcome.bytes == sum(path.stat().st_size for path in outcome.traces)
    pids = [event.pid for event in story.events if isinstance(event, Hello)]
    assert len(pids) == 1 and all(map(is_gone, pids)), "rank 0 reports for all"
    operands = [each.metadata["operands"] for each in outcome.ranks]
    assert operands[0]["model"] == operands[1]["model"]


@pytest.mark.full
@needs_torch
def test_without_the_other_ranks_what_is_promised_of_them_is_skipped(recorded):
    outcome = recorded().outcome
    found = verify(registry.find("ddp"), outcome.metadata, load(str(outcome.traces[0])))
    assert ("ranks that left a trace", NEEDS_RANKS) in found.skipped


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """An environment with a workload of which one rank fails."""
    return faulty_site(tmp_path_factory.mktemp("site"))


@pytest.mark.full
@needs_torch
@pytest.mark.parametrize(
    ("how", "kind", "message"),
    [
        pytest.param("raise", "error", "raised ValueError while warming up: a bad batch", marks=pytest.mark.smoke),
        ("kill", "killed", "The system killed the recording while warming up"),
        ("exit", "crash", "The recording ended while warming up, with exit code 7"),
        ("build", "error", "raised ValueError while building: no data here"),
    ],
)
def test_one_rank_that_fails_ends_all_and_is_named(tmp_path, site, how, kind, message):
    story = asyncio.run(followed(faulty(tmp_path / "run", how), environment=site))
    failure = story.outcome.failure
    assert failure and failure.kind == kind, story.outcome
    assert failure.message.startswith("Rank 1 of 2: ") and message in failure.message
    assert ("last words" in failure.details) == (how in ("kill", "exit"))
    assert is_gone(story.pid)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
@needs_torch
def test_a_rank_that_hangs_is_ended_by_the_time_limit(tmp_path, site):
    story = asyncio.run(followed(faulty(tmp_path / "run", "hang"), environment=site, timeout=20))
    assert story.kind == "timeout"
    failure = story.outcome.failure
    assert failure and failure.message.startswith("Stopped after 20 s")
    assert failure.stage != "warming up" or "time.sleep(600)" in failure.details, "rank 1 says where it hangs"
    assert is_gone(story.pid)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
@needs_torch
@pytest.mark.parametrize("stage", ["importing torch", "connecting ranks", "recording"])
def test_all_ranks_are_cancelled_together(tmp_path, stage):
    pids = []

    async def main():
        cancel = asyncio.Event()

        def hear(event):
            if isinstance(event, Hello):
                pids.append(event.pid)
            if isinstance(event, Stage) and event.name == stage:
                cancel.set()

        return await record(plan("ddp", SMALL, CPU, tmp_path / "run"), hear, cancel, environment=QUICK)

    outcome = asyncio.run(main())
    assert (outcome.failure.kind, outcome.exit_code) == ("cancelled", 130)
    assert all(map(is_gone, pids))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
@needs_torch
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the ranks notice within a second")
def test_who_kills_the_launcher_kills_the_ranks(tmp_path, site, meeting):
    script = f"""
import sys
from pathlib import Path
from tests.support.workloads.ranks import faulty
from tracetui_workloads.recording.launcher import record_now
record_now(faulty(Path({str(tmp_path / "run")!r}), "hang"), lambda event: print(event, flush=True))
"""
    environment = {**os.environ, **QUICK, "TMPDIR": str(meeting)}
    environment["PYTHONPATH"] = os.pathsep.join([site["PYTHONPATH"], IMPORT_PATH])
    parent = subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True, env=environment
    )
    assert parent.stdout
    pid = int(parent.stdout.readline().split("pid=")[1].split(",")[0])
    while "warming up" not in parent.stdout.readline():
        pass
    parent.send_signal(signal.SIGKILL)
    parent.wait(PROCESS_SECONDS)
    parent.stdout.close()
    wait_until(lambda: is_gone(pid), "rank 0 stays")
    wait_until(lambda: not list(meeting.iterdir()), "the ranks stay")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
@needs_torch
def test_ranks_are_timed_in_turns_with_those_of_another_variant(tmp_path, recorded):
    requests = [plan("ddp", {**SMALL, "bucket_mb": mb}, CPU, tmp_path / f"{mb}") for mb in ("0", "1")]
    short = replace(CPU, time_seconds=0.2)
    timed = asyncio.run(time_variants([replace(each, options=short) for each in requests], environment=QUICK))
    assert [each.failure for each in timed] == [None, None]
    assert len({each.metadata["unprofiled"]["session"] for each in timed}) == 1
    counts = [[rank.metadata["unprofiled"]["samples"] for rank in each.ranks] for each in timed]
    assert all(one == other > 0 for one, other in counts), "both ranks took the same samples"


@pytest.mark.full
@needs_torch
def test_times_are_kept_in_every_trace(tmp_path):
    request = plan("ddp", SMALL, replace(CPU, time_seconds=0.1), tmp_path / "run")
    outcome = asyncio.run(record(request, environment=QUICK))
    assert outcome.failure is None, outcome
    timed = [replace(each, metadata={"unprofiled": {"median_us": 1.0, "session": "x"}}) for each in outcome.ranks]
    kept = keep_times(outcome, replace(timed[0], ranks=timed))
    for path, rank in zip(outcome.traces, kept.ranks, strict=True):
        assert content_of(path)["tracetui"] == rank.metadata
        assert rank.metadata["unprofiled"]["median_us"] == 1.0
    assert kept.metadata == kept.ranks[0].metadata


def test_the_traces_of_an_outcome(tmp_path):
    alone = Outcome(tmp_path / "x.json", None)
    assert alone.traces == [tmp_path / "x.json"]
    assert Outcome(tmp_path, None, ranks=[alone, alone]).traces == [tmp_path / "x.json"] * 2
    assert Outcome(None, Failure("error", "No.")).traces == []


@pytest.mark.full
@needs_torch
async def test_the_log_of_torch_compile_of_each_rank_is_beside_its_trace(tmp_path, monkeypatch):
    monkeypatch.delenv("TORCH_TRACE", raising=False)
    options = replace(CPU, compile=True, backend="eager")
    request = plan("ddp", {"batch": "2", "width": "4", "layers": "1"}, options, tmp_path / "run")
    outcome = await record(request)
    assert outcome.failure is None
    assert {each.name for each in (tmp_path / "run").glob("*.log.gz")} == {f"rank{n}.compile.log.gz" for n in range(2)}
    ranks = open_rank_set([str(tmp_path / "run")])
    assert [log.rank for log in ranks.logs] == [0, 1]
    assert {log.compilations[0].id for log in ranks.logs} == {"0/0"}
