"""Take a trace of PyTorch processes that already run, without a change to their code, and open it.

A job can be attached to when it was started with KINETO_USE_DAEMON=1 in its environment: the recorder inside PyTorch
(torch 2.1 and later) then asks every five seconds whether somebody wants a trace. Without a PID the processes that
ask are listed. Several PIDs, or --all, leave a folder of ranks. ctrl+c gives up, and the job goes on."""

from __future__ import annotations

import argparse
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from tracetui.cli.arguments import Command, add_force, completes_files
from tracetui.cli.settings import age
from tracetui.cli.streams import complain, remark
from tracetui.errors import CannotRun, RunFailed, UsageError
from tracetui.text import clean

if TYPE_CHECKING:
    from tracetui.opening.attach_listener import Job, Listener
    from tracetui.opening.attached_capture import Capture, Target, TraceRequest

LISTENING_SECONDS = 6.5
"""Seconds in which every process that can be attached to has asked at least once."""
HOW_TO_START = "start it with KINETO_USE_DAEMON=1, as in `KINETO_USE_DAEMON=1 torchrun train.py`"

EXAMPLES = """\
examples:
  KINETO_USE_DAEMON=1 torchrun train.py          start a job so that it can be attached to
  tracetui attach                                which processes can be attached to
  tracetui attach 4242 --seconds 2               a trace of two seconds, then open it
  tracetui attach --all --iterations 3 --shapes -o ranks/   all of them at once, as a folder of ranks
  tracetui attach 4242 --stack --no-open --json  for a script

what to know:
  It takes up to five seconds until a process asks, and one more while its recorder warms up.
  --iterations counts calls of an optimizer's step, in programs that import torch.profiler.
  A job that was not started so cannot be attached to: `tracetui.record` in its code records it.

exit codes:
  0 done; 1 the trace could not be kept; 2 not understood, or OUT exists; 3 nothing here can be attached to;
  4 a process ended, refused, or took too long; 130 cancelled"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tracetui attach`."""
    parser.epilog = EXAMPLES
    parser.add_argument("pids", nargs="*", type=int, metavar="PID", help="processes; without one they are listed")
    parser.add_argument("--all", action="store_true", help="all processes that can be attached to")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--seconds", type=float, default=2.0, metavar="S", help="how long to record (default: 2)")
    length.add_argument(
        "--iterations", type=int, default=0, metavar="N", help="iterations to record, in place of seconds"
    )
    parser.add_argument("--shapes", action="store_true", help="record shapes of inputs")
    parser.add_argument("--stack", action="store_true", help="record the Python stack; slows the job down meanwhile")
    parser.add_argument("--memory", action="store_true", help="record allocations, which torch up to 2.15 leaves out")
    out = parser.add_argument(
        "-o", "--out", metavar="OUT", help="a file, or a folder (default: traces/attach/, numbered)"
    )
    completes_files(out)
    add_force(parser)
    parser.add_argument(
        "--timeout", type=float, metavar="S", help="give up after S seconds (default: by what is asked)"
    )
    parser.add_argument("--no-open", dest="open", action="store_false", help="do not open the trace afterwards")
    parser.add_argument("--json", action="store_true", help="print JSON, and do not open the trace")


def run(options: argparse.Namespace) -> int:
    """List the processes, or take the traces, print where they are, and open them.

    Raises: UsageError, CannotRun, RunFailed, CannotWrite.
    """
    from tracetui.opening.attach_listener import Listener, socket_folder
    from tracetui.opening.attached_capture import TraceRequest

    request = TraceRequest(options.seconds, options.iterations, options.shapes, options.stack, options.memory)
    if options.timeout is not None and not options.timeout > 0:
        raise UsageError("--timeout takes more than 0 seconds.")
    # Loaded before there is anything to wait for: ctrl+c while msgspec makes its classes is a segmentation fault.
    import_module("tracetui.writing.output")
    with Listener(socket_folder()) as listener:
        if not options.pids:
            jobs = listed(listener)
            if not options.all:
                # Loads orjson, which `--help` must not wait for.
                from tracetui.drawing.text.envelope import json_text

                text = json_text("attach-list", document(jobs), indented=True) if options.json else None
                sys.stdout.write(text or "".join(f"{line}\n" for line in lines(jobs)))
                return 0
            if not jobs:
                raise CannotRun(f"No process asked within {LISTENING_SECONDS:g} s. To attach to a job, {HOW_TO_START}.")
        else:
            jobs = [required(pid) for pid in dict.fromkeys(options.pids)]
        return _take(listener, jobs, request, options)


def listed(listener: Listener) -> list[Job]:
    """The processes that ask, each answered that nothing is wanted, by rank."""
    from tracetui.opening.attach_listener import by_rank, job_of

    remark(f"listening for {LISTENING_SECONDS:g} s …")
    jobs: dict[int, Job] = {}
    ends = time.monotonic() + LISTENING_SECONDS
    while (left := ends - time.monotonic()) > 0:
        call = listener.receive(left)
        if call is not None:
            call.answer()
            job = job_of(call.pid)
            if job is not None:
                jobs[call.pid] = job
    return by_rank(jobs.values())


def required(pid: int) -> Job:
    """A process that was named.

    Raises: CannotRun for one that is not there, is somebody else's, or cannot be attached to.
    """
    from tracetui.opening.attach_listener import job_of

    job = job_of(pid)
    if job is None:
        raise CannotRun(f"There is no process {pid} of yours.")
    if not job.is_switched_on:
        raise CannotRun(
            f"Process {pid} (`{job.command}`) was not started so that it can be attached to: {HOW_TO_START}. In its "
            "code, `tracetui.record` records a loop."
        )
    return job


def lines(jobs: list[Job]) -> list[str]:
    """One line per process that can be attached to, and what there is besides."""
    from tracetui.opening.attach_listener import torch_jobs

    rows = [("pid", "rank", "running", "command")]
    for job in jobs:
        rank = "–" if job.rank is None else str(job.rank)
        rows.append((str(job.pid), rank, age(job.seconds), job.command))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    text = [
        "  ".join([*(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=False)), row[3]]) for row in rows
    ]
    if not jobs:
        text = [f"No process asked for a request. To attach to a job, {HOW_TO_START}."]
    known = {job.pid for job in jobs}
    for job in torch_jobs():
        if job.pid not in known:
            why = "has not asked yet" if job.is_switched_on else "was started without KINETO_USE_DAEMON=1"
            text.append(f"process {job.pid} has PyTorch loaded, but {why}: {job.command}")
    return text


class ProcessDocument(TypedDict):
    """A process that can be attached to, and seconds since its start."""

    pid: int
    rank: int | None
    seconds: float
    command: str


class ProcessesDocument(TypedDict):
    processes: list[ProcessDocument]


def document(jobs: list[Job]) -> ProcessesDocument:
    """The processes for a script."""
    rows: list[ProcessDocument] = [
        {"pid": job.pid, "rank": job.rank, "seconds": round(job.seconds, 1), "command": job.command} for job in jobs
    ]
    return {"processes": rows}


def _take(listener: Listener, jobs: list[Job], request: TraceRequest, options: argparse.Namespace) -> int:
    """Take the traces of some processes, keep them, and open them."""
    from tracetui.opening.attached_capture import Capture, PrivateFolders, State, least_timeout
    from tracetui.writing.output import destinations, keep

    paths = destinations(jobs, options.out, options.force)
    kept: list[Path] = []
    with PrivateFolders() as folders:
        capture = Capture(jobs, request, folders.of, options.timeout or least_timeout(request))
        _wait(listener, capture, request.words)
        for pid, target in capture.targets.items():
            if target.state is State.DONE and target.file is not None:
                keep(target.file, paths[pid], options.force)
                kept.append(paths[pid])
    failed = [target for target in capture.targets.values() if target.state is State.FAILED]
    if options.json:
        from tracetui.drawing.text.envelope import json_text

        sys.stdout.write(json_text("attach", _outcome(capture, paths), indented=True))
    else:
        for path in kept:
            print(clean(str(path)), flush=True)
    for target in failed:
        complain(f"process {target.job.pid} left no trace: {clean(target.why)}.")
    for target in capture.targets.values():
        if target.lacks:
            remark(f"the trace of process {target.job.pid} is kept, but {target.lacks}.")
    if not kept:
        raise RunFailed("No trace was taken. The job is as it was.")
    if options.open and not options.json and not failed:
        return _open(kept)
    return RunFailed.exit_code if failed else 0


def _wait(listener: Listener, capture: Capture, words: str) -> None:
    """Answer processes until all traces are there, or none will come."""
    from tracetui.cli.streams import AttachProgress

    with AttachProgress(words) as bar:
        while not capture.is_over:
            capture.turn(listener)
            bar.update(capture.words)


def _open(paths: list[Path]) -> int:
    from tracetui.cli.recording import has_terminal

    if not has_terminal():
        return 0
    # Textual takes a third of a second to import.
    from tracetui.ui.app import run as run_app

    return run_app([str(paths[0] if len(paths) == 1 else paths[0].parent)])


class AttachedTrace(TypedDict):
    """The trace of a process, or the reason why there is none; `lacks` is what was asked for and is not in it."""

    pid: int
    rank: int | None
    path: str | None
    failure: str | None
    lacks: str | None


class AttachedTraces(TypedDict):
    traces: list[AttachedTrace]


def _outcome(capture: Capture, paths: dict[int, Path]) -> AttachedTraces:
    def row(target: Target) -> AttachedTrace:
        job = target.job
        return {
            "pid": job.pid,
            "rank": job.rank,
            "path": str(paths[job.pid]) if target.file is not None else None,
            "failure": target.why or None,
            "lacks": target.lacks or None,
        }

    return {"traces": [row(target) for target in capture.targets.values()]}


COMMANDS = {
    "attach": Command("take a trace of a PyTorch job that already runs, and open it", __doc__, add_arguments, run)
}
