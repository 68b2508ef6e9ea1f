"""The profiled loop: a schedule, an annotation around each step, and the metadata of the recording.

The metadata is written into the trace, so that the trace can be understood later and comparisons can be labelled.
"""

from __future__ import annotations

import os
import platform
import signal
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING, Any

from tracetui_workloads.api import Prepared, Value, Workload
from tracetui_workloads.recording.devices import Target, describe, driver_version
from tracetui_workloads.recording.exceptions import Cancel
from tracetui_workloads.recording.protocol import (
    LOST_PIPE,
    STARTING,
    Event,
    Heartbeat,
    Note,
    Options,
    Progress,
    Request,
    Stage,
    StageDone,
    as_line,
    encode,
    plain,
)

if TYPE_CHECKING:
    from torch.profiler import profile


# The child's reports to its parent: events on the inherited pipe, stages, a heartbeat; and the signals that stop it.
#
# Events never go to standard output: torch, compilers and the workload itself print there.

# Imported by name: a workload may replace `time.monotonic`.


CANCELLED = 130
"""Exit code of a child that was stopped on request."""


class Interrupts:
    """The signals that stop a recording: the first raises Cancel, the second ends the process at once."""

    def __init__(self) -> None:
        self.stop_requested = False

    def install(self) -> None:
        """Install handlers for SIGINT and SIGTERM."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle)

    def check(self) -> None:
        """Raise Cancel after a stop request: one that the handler raised inside a destructor was lost."""
        if self.stop_requested:
            raise Cancel

    def ignore(self) -> None:
        """Ignore SIGINT and SIGTERM from now on."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)

    def _handle(self, *_: int | FrameType | None) -> None:
        if self.stop_requested:
            os._exit(CANCELLED)
        self.stop_requested = True
        raise Cancel


HEARTBEAT_INTERVAL_S = 1.0
"""Seconds between two heartbeats."""
PROGRESS_INTERVAL_S = 0.1
"""Minimum seconds between two progress events: one takes as long as a small operator, which would show in a trace."""
MAX_NOTES = 20
"""Maximum notes that are sent per recording; a program can warn without end."""


class Reporter:
    """Writes events to the pipe, one line each, and keeps the current stage."""

    def __init__(self, pipe: int) -> None:
        self.stage = STARTING
        self.interrupts = Interrupts()
        self._pipe = pipe
        self._pipe_identity = _identity(pipe)
        self._owner = os.getpid()
        # Re-entrant: a signal that arrives while a line is written must not wait for itself.
        self._lock = threading.RLock()
        self._is_line_unfinished = False
        self._stage_started = monotonic()
        self._next_progress = 0.0
        self._notes = 0
        self._heartbeat_thread: threading.Thread | None = None
        self._heartbeat_stopped = threading.Event()

    def send(self, event: Event) -> None:
        """Write an event; ends the process where the parent has ended, because nobody could stop it."""
        self.require_own_process()
        with self._lock:
            # A line that a signal interrupted is ended here, and the parent skips it.
            line = b"\n" * self._is_line_unfinished + as_line(event)
            self._is_line_unfinished = True
            try:
                while line:
                    self._require_pipe()
                    line = line[os.write(self._pipe, line) :]
            except BrokenPipeError:
                os._exit(CANCELLED)
            self._is_line_unfinished = False

    def require_own_process(self) -> None:
        """End a process that the workload forked and that returned to the recorder: it must not record again."""
        if os.getpid() != self._owner:
            os._exit(0)

    def note(self, text: str, level: str = "info") -> None:
        """Send a sentence for the user."""
        self._notes += 1
        if self._notes <= MAX_NOTES:
            self.send(Note(level, plain(" ".join(text.split()))[:500]))

    @contextmanager
    def during(self, name: str, total: int = 0) -> Iterator[None]:
        """A stage of the recording: reported at its start and end, and named in a failure."""
        self.interrupts.check()
        self.stage, self._stage_started, self._next_progress = name, monotonic(), 0.0
        self.send(Stage(name, total))
        yield
        self.send(StageDone(name, round(monotonic() - self._stage_started, 4)))
        self.interrupts.check()

    def progress(self, done: int, total: int) -> None:
        """Report how many parts of the stage are done, at most once per `PROGRESS_INTERVAL_S`."""
        self.require_own_process()
        self.interrupts.check()
        now = monotonic()
        if now >= self._next_progress:
            # The first call only starts the interval, so that short stages report no progress.
            if self._next_progress:
                self.send(Progress(self.stage, done, total))
            self._next_progress = now + PROGRESS_INTERVAL_S

    def start_heartbeat(self) -> None:
        """Start a thread that reports every `HEARTBEAT_INTERVAL_S` that the process is alive."""
        self._heartbeat_stopped.clear()
        self._heartbeat_thread = threading.Thread(target=self._send_heartbeats, name="heartbeat", daemon=True)
        self._heartbeat_thread.start()

    @contextmanager
    def without_heartbeat(self) -> Iterator[None]:
        """Stop the heartbeat thread for a while: a profiler that records stacks would record that thread as well."""
        self._heartbeat_stopped.set()
        if self._heartbeat_thread:
            self._heartbeat_thread.join()
        yield
        self.start_heartbeat()

    def collect_warnings(self) -> None:
        """Send Python's warnings as notes."""

        def show(message: Warning | str, *_: object, **__: object) -> None:
            self.note(str(message), "warning")

        warnings.showwarning = show

    def _require_pipe(self) -> None:
        """End the process where the workload has closed the pipe: its descriptor may now be another file."""
        try:
            is_there = _identity(self._pipe) == self._pipe_identity
        except OSError:
            is_there = False
        if not is_there:
            os._exit(LOST_PIPE)

    def _send_heartbeats(self) -> None:
        while not self._heartbeat_stopped.wait(HEARTBEAT_INTERVAL_S):
            self.send(Heartbeat(self.stage, round(monotonic() - self._stage_started, 1)))


def _identity(file: int) -> tuple[int, int]:
    """Device and inode of an open file, which tell it from another file with the same descriptor."""
    status = os.fstat(file)
    return status.st_dev, status.st_ino


def recording_metadata(
    request: Request,
    workload: Workload,
    params: Mapping[str, Value],
    prepared: Prepared,
    target: Target,
    resolved: Mapping[str, Any],
    operands: Mapping[str, str],
) -> dict[str, Any]:
    """The entry `tracetui` of a trace; `resolved` holds the actual values of automatic options, `operands` digests."""
    return {
        "workload": workload.name,
        "variant": request.variant or None,
        "label": prepared.label,
        "params": dict(params),
        "options": {**asdict(request.options), **resolved},
        "seed": request.options.seed,
        "argv": list(request.argv),
        **machine_metadata(target),
        "flops_per_step": prepared.flops,
        "bytes_per_step": prepared.bytes,
        "operands": dict(operands),
    }


def machine_metadata(target: Target) -> dict[str, Any]:
    """The machine's part of the metadata: device, versions, threads."""
    import torch

    return {
        "device": target.device,
        "gpu": describe(target),
        "driver": driver_version() if target.kind == "cuda" else None,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
    }


METADATA_KEY = "tracetui"
"""The top-level key of a trace that holds the metadata of the recording."""


def annotated_step(prepared: Prepared) -> None:
    """Run one iteration inside its annotation."""
    from torch.profiler import record_function

    with record_function(prepared.label):
        prepared.step()


def load_profiler() -> None:
    """Import the modules that the profiler would otherwise import during its first step.

    No profiler session is opened for that: after an empty session some versions of CUDA and ROCm record nothing.
    """
    import torch._inductor  # noqa: F401


def new_profiler(target: Target, options: Options, shapes: bool) -> profile:
    """A profiler with the given options; it has not started to record."""
    from torch.profiler import profile, schedule

    return profile(
        activities=target.activities,
        schedule=schedule(wait=options.wait, warmup=options.warmup, active=options.active, repeat=1),
        record_shapes=shapes,
        profile_memory=options.memory,
        with_stack=options.stack,
    )


def record_steps(profiler: profile, prepared: Prepared, options: Options, text: str, reporter: Reporter) -> None:
    """Run all steps of the schedule; afterwards the profiler can be exported once.

    `text` is a placeholder for the metadata, some of which is known only after the recording.
    """
    first_active = options.wait + options.warmup
    with profiler:
        for number in range(options.steps):
            annotated_step(prepared)
            if number == first_active:
                # After the step, because the call takes time that would otherwise count as the start of the step.
                add_metadata(profiler, text)
            profiler.step()
            reporter.progress(number + 1, options.steps)


def metadata_text(metadata: Mapping[str, Any]) -> str:
    """The metadata as text for `add_metadata`; encoded before the recording, which would otherwise include it."""
    return encode(metadata)


def add_metadata(profiler: profile, text: str) -> None:
    """Add the metadata to the trace; the profiler accepts it only while it records."""
    profiler.add_metadata_json(METADATA_KEY, text)


def table(profiler: profile, is_gpu: bool) -> str:
    """Torch's table of sums per name, longest self time first, with full names; call it after `export`."""
    sums: str = profiler.key_averages().table(
        sort_by="self_device_time_total" if is_gpu else "self_cpu_time_total",
        row_limit=-1,
        max_name_column_width=None,
    )
    return sums


def export(profiler: profile, raw: Path) -> None:
    """Write the profiler's file; the profiler reports no error, so the file must be checked afterwards."""
    profiler.export_chrome_trace(str(raw))
