"""A recording by several ranks: a child process for each, all or none of their traces, in one folder.

The traces are written to a folder with the name of a partial file, which gets its own name once every rank has
succeeded. Where one rank fails the others are killed, and its failure is that of the recording.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tracetui_workloads.recording import failures, rank_files
from tracetui_workloads.recording.child import Listener
from tracetui_workloads.recording.events import Event, LogLine, Note
from tracetui_workloads.recording.failures import Failure
from tracetui_workloads.recording.process import Outcome, record_process
from tracetui_workloads.recording.request import Request
from tracetui_workloads.recording.trace_file import new_token

LOST_PATIENCE_S = 10.0
"""Seconds after a rank lost its connection in which the rank that ended is waited for, to be told why it did."""


async def record_ranks(
    request: Request,
    on_event: Listener | None = None,
    cancel: asyncio.Event | None = None,
    *,
    timeout: float | None = None,
    ring: Sequence[int] = (),
    **more: Any,
) -> Outcome:
    """Make one recording with a child process for each rank; the outcome has the folder, and the outcome of each rank.

    `more` are further arguments of `record_process`, the same for all. The listener hears what rank 0 reports, and of
    the others what is new. Only rank 0 has the `ring` for timing in turns: the others follow it.
    """
    started = time.monotonic()
    out = Path(request.out)
    failure = None if request.bench else rank_files.destination_failure(out, request.replace)
    if failure:
        return Outcome(None, failure)
    folder = rank_files.part_folder(out, new_token())
    meeting = Path(tempfile.mkdtemp(prefix="tracetui-ranks-"))
    run = _RankRun(request, folder, meeting / "store", on_event)
    try:
        await run.until_end(cancel or asyncio.Event(), timeout, ring, more)
        outcome = run.outcome(timeout)
        if outcome.failure is None and not request.bench:
            outcome = _moved(outcome, folder, out, request.replace)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(meeting, ignore_errors=True)
    return replace(outcome, seconds=time.monotonic() - started)


class _RankRun:
    """The ranks of one recording while their processes run."""

    def __init__(self, request: Request, folder: Path, store: Path, on_event: Listener | None) -> None:
        self._requests = [
            replace(request, rank=rank, rendezvous=str(store), out=str(folder / rank_files.file_name(rank)))
            for rank in range(request.ranks)
        ]
        self._on_event = on_event
        self._notes: set[str] = set()
        self._give_up = asyncio.Event()
        self._stopped_by = ""
        """Why the ranks were asked to stop: `cancel`, `timeout`, or an empty text."""
        self._ended: dict[int, Outcome] = {}
        """The outcome of each rank, in the order in which they ended."""

    async def until_end(
        self, cancel: asyncio.Event, timeout: float | None, ring: Sequence[int], more: dict[str, Any]
    ) -> None:
        """Run all ranks until the last has ended; whatever is raised, none is left."""
        stop = asyncio.Event()
        ranks = [
            asyncio.create_task(self._follow(request, stop, ring if request.rank == 0 else (), more))
            for request in self._requests
        ]
        watch = asyncio.create_task(self._watch(cancel, timeout, stop))
        try:
            await asyncio.gather(*ranks)
        finally:
            for task in (*ranks, watch):
                task.cancel()
            await asyncio.wait((*ranks, watch))

    async def _watch(self, cancel: asyncio.Event, timeout: float | None, stop: asyncio.Event) -> None:
        """Ask all ranks to stop, once that is wanted or the time is over."""
        try:
            await asyncio.wait_for(cancel.wait(), timeout)
            self._stopped_by = "cancel"
        except TimeoutError:
            self._stopped_by = "timeout"
        stop.set()

    async def _follow(self, request: Request, stop: asyncio.Event, ring: Sequence[int], more: dict[str, Any]) -> None:
        """Run one rank; after its failure no other is needed."""
        rank = request.rank
        outcome = await record_process(
            request, lambda event: self._hear(rank, event), stop, ring=ring, give_up=self._give_up, **more
        )
        self._ended[rank] = outcome
        if outcome.failure is None:
            return
        if outcome.failure.kind == "rank":
            # The rank that ended first is the cause, and may be noticed only now.
            asyncio.get_running_loop().call_later(LOST_PATIENCE_S, self._give_up.set)
        else:
            self._give_up.set()

    def _hear(self, rank: int, event: Event) -> None:
        """Pass on what rank 0 reports, and what others print or remark."""
        if isinstance(event, Note):
            if event.text in self._notes:
                return
            self._notes.add(event.text)
        if self._on_event and (rank == 0 or isinstance(event, Note | LogLine)):
            self._on_event(event)

    def outcome(self, timeout: float | None) -> Outcome:
        """The outcome of all: that of rank 0 with the files of every rank, or the failure that came first."""
        ranks = [self._ended[rank] for rank in range(len(self._requests))]
        notes = tuple(dict.fromkeys(note for each in ranks for note in each.notes))
        failed = {rank: each.failure for rank, each in self._ended.items() if each.failure}
        if not failed:
            size, too_late = sum(each.bytes for each in ranks), self._stopped_by == "cancel"
            return replace(ranks[0], ranks=ranks, bytes=size, notes=notes, too_late=too_late)
        log = "\n".join(each.log for each in ranks if each.log)
        return Outcome(None, self._failure(failed, timeout, log), device=ranks[0].device, notes=notes, log=log)

    def _failure(self, failed: dict[int, Failure], timeout: float | None, log: str) -> Failure:
        """The failure of the recording: that of the rank which did not fail because of another."""
        rank = next((rank for rank, each in failed.items() if each.kind != "rank"), next(iter(failed)))
        failure = failed[rank]
        if self._stopped_by == "timeout" and timeout is not None and failure.kind == "cancelled":
            return failures.ranks_timed_out(timeout, dict(sorted(failed.items())), log)
        return failures.of_rank(failure, rank, len(self._requests))


def _moved(outcome: Outcome, part: Path, out: Path, replace_old: bool) -> Outcome:
    """The outcome with the folder under its own name, or with the reason why it cannot get it."""
    try:
        folder = rank_files.move_folder(part, out, replace_old)
    except OSError as error:
        failure = Failure(
            "destination", f"{out} cannot be written: {error.strerror or error}.", "Choose another with -o."
        )
        return Outcome(None, failure, device=outcome.device, notes=outcome.notes, log=outcome.log)
    ranks = [replace(each, path=folder / each.path.name) for each in outcome.ranks if each.path is not None]
    return replace(outcome, path=folder, ranks=ranks)
