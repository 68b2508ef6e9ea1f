"""Recording a loop inside the user's own program, with a context manager:

    import tracetui

    with tracetui.record("train.json.gz", label="train") as step:
        for batch in batches:
            train(batch)
            step()

The schedule, the trace and its metadata are the same as those of `tracetui run`; but there is no child process, so a
crash ends the user's program. torch is imported when the recording starts.

A recording that fails must not end a training: it becomes a warning, and the loop goes on without it. That holds from
the first line on: without torch, or without a current folder, the loop runs unrecorded.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tracetui_workloads.recording import devices, profiling, trace_file
from tracetui_workloads.recording.exceptions import RecordingError
from tracetui_workloads.recording.protocol import Options, encode

if TYPE_CHECKING:
    from tracetui_workloads.recording.lines import LineRecorder


@contextmanager
def record(
    out: str | os.PathLike[str],
    *,
    label: str = "train",
    wait: int = 1,
    warmup: int = 1,
    active: int = 3,
    shapes: bool = True,
    stack: bool = False,
    memory: bool = False,
    lines: bool = False,
    params: Mapping[str, Any] | None = None,
    replace: bool = False,
) -> Iterator[Recorder]:
    """Record some iterations of a loop; call the yielded recorder at the end of each iteration.

    Args:
        out: path of the trace, compressed if it ends in `.gz`; folders are created. Where a file exists
            the trace gets a number (`train-2.json.gz`), with a warning that names it. Of several processes
            (`torchrun`, or an initialised `torch.distributed`) each writes its own: `train-rank3.json.gz`.
        label: the annotation around each recorded iteration.
        wait: iterations before the profiler starts.
        warmup: iterations that the profiler observes and discards.
        active: iterations that are recorded; the trace is written after the last of them, and the loop may continue.
        lines: record the line of source that ran, in functions of your own files and in the loop itself.
        params: kept in the trace, to tell recordings apart.
        replace: replace a file that exists.

    A loop that ends earlier gives a trace of the iterations that were recorded, with a warning. Where no iteration was
    recorded, the profiler fails or the trace cannot be written, there is no trace, and a warning says why.

    Raises: BadRequest for an impossible schedule, before the loop begins. An exception of the program is raised
    unchanged, and no trace is written.
    """
    options = Options(
        wait=wait,
        warmup=warmup,
        active=active,
        shapes="on" if shapes else "off",
        stack=stack,
        memory=memory,
        lines=lines,
    )
    recorder = Recorder(Path(out), label, options, params or {}, replace)
    try:
        recorder.start()
        yield recorder
        recorder.finish()
    finally:
        recorder.abandon()


class Recorder:
    """Counts iterations, and writes the trace after the last recorded one; further calls do nothing."""

    def __init__(
        self, out: Path, label: str, options: Options, params: Mapping[str, Any], replace: bool = False
    ) -> None:
        self._out = out
        self.path = out
        """The path of the trace, once it is written: numbered where another file was there."""
        self._replaces = replace
        self.written = False
        """True once the trace has been written."""
        self._label = label
        self._options = options
        self._params = params
        self._annotation: AbstractContextManager[Any] | None = None
        self._is_running = False
        self._done = 0
        self._token = trace_file.new_token()
        self._owner = os.getpid()
        self._lines: LineRecorder | None = None

    def __call__(self) -> None:
        """End an iteration."""
        if not self._is_running:
            return
        with self._harmless():
            if self._lines:
                # The line that calls this would end within the next iteration.
                self._lines.close_lines()
            self._close_annotation()
            if self._done == self._options.wait + self._options.warmup:
                self._add_metadata()
            self._done += 1
            self._record_lines()
            self._profiler.step()
            if self._done < self._options.steps:
                self._open_annotation()
        if self._done == self._options.steps:
            self.finish()

    def start(self) -> None:
        """Start the first iteration."""
        with self._harmless():
            # The program may change the current folder meanwhile.
            self._out = self._out.absolute()
            if rank := rank_of_process():
                # Each of several processes has a trace of its own.
                self._out = trace_file.with_suffix_word(self._out, f"-rank{rank.number}")
            self.path = self._out
            self._target = devices.current()
            metadata = loop_metadata(self._label, self._options, self._params, self._target)
            # Encoded before the recording, which would otherwise include it.
            self._metadata = metadata
            self._text = encode({"recording": self._token} if self._options.lines else metadata)
            self._profiler = profiling.new_profiler(self._target, self._options, self._options.shapes == "on")
            profiling.load_profiler()
            if self._options.lines:
                # Imports torch.
                from tracetui_workloads.recording.lines import LineRecorder

                self._lines = LineRecorder()
                self._lines.install()
            self._is_running = True
            self._record_lines()
            self._profiler.start()
            self._open_annotation()

    def _record_lines(self) -> None:
        """Record lines from the first recorded iteration on."""
        if self._lines and self._done == self._options.wait + self._options.warmup:
            self._lines.install()
            self._lines.switch(True)
            if reason := self._lines.watch_frames():
                warn(reason)

    def finish(self) -> None:
        """Write the recorded iterations, unless the trace has been written; what prevents it becomes a warning."""
        if not self._is_running or os.getpid() != self._owner:
            # A process that the program forked and that also gets here must not write a second time.
            return
        with self._harmless():
            self._stop()
            self._write()

    def _write(self) -> None:
        """Write the trace.

        Raises: RecordingError, OSError.
        """
        recorded = self._done - self._options.wait - self._options.warmup
        if recorded < 1:
            raise RecordingError(
                "incomplete",
                f"The loop made {self._done} steps, and the first {self._options.wait + self._options.warmup} of them "
                "are not recorded: there is no trace.",
            )
        if recorded < self._options.active:
            warn(
                f"The loop ended after {self._done} steps: the trace holds {recorded} of {self._options.active}, "
                "and the start of the next."
            )
        raw, part = trace_file.part_paths(self._out, self._token)
        trace_file.create_empty(raw)
        # The profiler reports no error: the file is checked below.
        self._profiler.export_chrome_trace(str(raw))
        contents = trace_file.read_contents(raw)
        if contents.steps < recorded:
            raise RecordingError("incomplete", f"The trace holds {contents.steps} of {recorded} steps.")
        placeholder = b""
        if self._lines:
            from tracetui_workloads.recording import lines

            placeholder = self._text.encode()
            self._metadata["lines"] = lines.metadata(self._lines, contents.lines, contents.step_us)
            said, level = lines.sentence(self._metadata["lines"], contents.steps)
            if level == "warning":
                warn(said)
        trace_file.pack(raw, part, self._out, placeholder, encode(self._metadata).encode() if placeholder else b"")
        trace_file.require_writable(self._out)
        self.path = trace_file.move_to_destination(part, self._out, self._replaces)
        if self.path != self._out:
            warn(f"{self._out.name} exists: the trace is in {self.path.name}; replace=True replaces it.")
        self.written = True

    @contextmanager
    def _harmless(self) -> Iterator[None]:
        """Turn a failure of the recording into a warning, after which nothing more is recorded."""
        try:
            yield
        except Exception as error:
            # Whatever the profiler or a file system raises, the training is worth more than its trace.
            was_running, self._is_running = self._is_running, False
            if was_running:
                with suppress(Exception):
                    self._stop()
            trace_file.remove_parts(self._out, self._token)
            warn(f"There is no trace {self._out.name}: {sentence(error)}")

    def _add_metadata(self) -> None:
        """Add what the trace says of itself, with the rank where torch does not add it."""
        self._profiler.add_metadata_json(profiling.METADATA_KEY, self._text)
        rank = rank_of_process()
        if rank is not None and not rank.is_known_to_torch:
            info = {"rank": rank.number, "world_size": rank.world_size}
            self._profiler.add_metadata_json("distributedInfo", json.dumps(info))

    def abandon(self) -> None:
        """Stop without a trace and remove partial files; does nothing after the trace has been written."""
        if os.getpid() != self._owner:
            return
        if self._is_running:
            with self._harmless():
                self._stop()
        trace_file.remove_parts(self._out, self._token)

    def _stop(self) -> None:
        self._is_running = False
        if self._lines:
            self._lines.restore()
        self._close_annotation()
        self._target.synchronize()
        self._profiler.stop()

    def _open_annotation(self) -> None:
        from torch.profiler import record_function

        self._annotation = cast(AbstractContextManager[Any], record_function(self._label))
        self._annotation.__enter__()

    def _close_annotation(self) -> None:
        if self._annotation is not None:
            self._annotation.__exit__(None, None, None)
            self._annotation = None


@dataclass(frozen=True, slots=True)
class ProcessRank:
    """The rank of this process among several."""

    number: int
    world_size: int
    is_known_to_torch: bool
    """True where `torch.distributed` is initialised: the profiler then writes the rank into the trace by itself."""


def rank_of_process() -> ProcessRank | None:
    """The rank by `torch.distributed`, else by the variables that `torchrun` sets; None for a single process."""
    import torch.distributed as dist

    is_known = bool(dist.is_available() and dist.is_initialized())
    if is_known:
        number, size = int(dist.get_rank()), int(dist.get_world_size())
    else:
        try:
            number, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        except (KeyError, ValueError):
            return None
    return ProcessRank(number, size, is_known) if size > 1 else None


def sentence(error: Exception) -> str:
    """The reason why there is no trace, in words."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}." if error.filename else f"{error.strerror}."
    return str(error) or type(error).__name__


def warn(text: str) -> None:
    """Warn the user of the loop, also where warnings are errors, which would end the training."""
    # The first frame that is neither of this file nor of `contextlib`, so that the loop is named.
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_code.co_filename in (__file__, contextlib.__file__):
        frame, level = frame.f_back, level + 1
    try:
        warnings.warn(text, stacklevel=level)
    except UserWarning:
        print(f"tracetui: {text}", file=sys.stderr)


def loop_metadata(label: str, options: Options, params: Mapping[str, Any], target: devices.Target) -> dict[str, Any]:
    """The metadata of the trace; without options of compiling and seeding, which the program itself decides."""
    return {
        "workload": label,
        "label": label,
        "params": dict(params),
        "options": {
            "wait": options.wait,
            "warmup": options.warmup,
            "active": options.active,
            "shapes": options.shapes == "on",
            "stack": options.stack,
            "memory": options.memory,
            "lines": options.lines,
        },
        "argv": list(sys.argv),
        "git": profiling.working_tree(f"{sys.argv[0]}:"),
        **profiling.machine_metadata(target),
    }
