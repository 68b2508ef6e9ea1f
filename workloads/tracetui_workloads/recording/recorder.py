"""The child process of a recording: `python -m tracetui_workloads.recording.recorder PIPE PARENT_PIPE TOKEN REQUEST`.

The launcher starts it. It runs one workload under torch.profiler, reports events as JSON lines on the inherited pipe,
and moves the trace to its destination only when the trace is complete and the result was correct. A new process per
trace makes a cold run cold, and a crash ends only that process.
"""

from __future__ import annotations

import faulthandler
import os
import platform
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NoReturn

from tracetui_workloads import machine
from tracetui_workloads.api import BadRequest, Prepared, Unavailable, Value, Workload
from tracetui_workloads.recording import devices, profiling, rank_files, supervisor, trace_file
from tracetui_workloads.recording.digests import digests
from tracetui_workloads.recording.events import DeviceChosen, Failed, Hello, Result, encode
from tracetui_workloads.recording.exceptions import (
    Incomplete,
    MissingCompiler,
    NoKernels,
    NotCompiled,
    Situation,
    WrongResult,
    failure_of,
)
from tracetui_workloads.recording.load import LoadMeter
from tracetui_workloads.recording.preparation import RunContext, dtype_of, prepare_environment
from tracetui_workloads.recording.process_group import join, set_rank_environment
from tracetui_workloads.recording.reporter import CANCELLED, Reporter
from tracetui_workloads.recording.request import Request
from tracetui_workloads.recording.timing import ALONE, Ring, Timing, time_in_turns, time_step

if TYPE_CHECKING:
    from torch.profiler import profile


def main(argv: list[str]) -> NoReturn:
    """Record and exit at once: neither compile workers nor a stuck driver may delay the exit."""
    pipe, parent_pipe, token, request = int(argv[0]), int(argv[1]), argv[2], Request.from_json(argv[3])
    # Before the workload runs, which may change the current folder.
    out = Path(request.out).absolute()
    # Compile workers must not hold the pipe open.
    os.set_inheritable(pipe, False)
    if supervisor.IS_SUPPORTED:
        supervisor.supervise(parent_pipe, partial(rank_files.remove_files, request, out, token))
    faulthandler.enable(all_threads=False)
    reporter = Reporter(pipe)
    ring = Ring(int(argv[4]), int(argv[5])) if len(argv) > 5 else None
    recording = Recording(request, out, token, reporter, ring)
    code = 1
    try:
        reporter.interrupts.install()
        reporter.send(Hello(os.getpid(), platform.python_version()))
        reporter.start_heartbeat()
        reporter.collect_warnings()
        reporter.send(recording.run())
        code = 0
    except BaseException as error:
        # The process ends here: every error, also sys.exit in a user's function, is reported and not raised.
        reporter.require_own_process()
        reporter.interrupts.ignore()
        failure = failure_of(error, recording.situation)
        code = CANCELLED if failure.kind == "cancelled" or reporter.interrupts.stop_requested else 1
        reporter.send(Failed(failure))
    finally:
        reporter.require_own_process()
        rank_files.remove_files(request, out, token)
        _flush()
        os._exit(code)


def _flush() -> None:
    """Flush standard output and error; the workload may have replaced the streams."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(BaseException):
            stream.flush()


def _fill_standard_files() -> None:
    """Reopen standard files that the workload closed: otherwise output of a library would go into the trace file."""
    while (file := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(file)


class Recording:
    """One recording, stage by stage."""

    def __init__(self, request: Request, out: Path, token: str, reporter: Reporter, ring: Ring | None = None) -> None:
        self._ring = ring
        self.out = out
        """The absolute path of the trace."""
        self._request = request
        self._options = request.options
        self._reporter = reporter
        self._raw, self._part = trace_file.part_paths(out, token)
        self._table, self._kept_table = trace_file.table_paths(out, token)
        self._workload: Workload | None = None
        self._target: devices.Target | None = None
        self._token = token
        self._meter: LoadMeter | None = None
        self._ranks = ALONE

    @property
    def situation(self) -> Situation:
        """The state of the recording that messages about a failure need."""
        return Situation(
            stage=self._reporter.stage,
            python=sys.executable,
            workload=self._workload.name if self._workload else self._request.workload,
            growing=self._workload.growing if self._workload else (),
            on_gpu=self._target is not None and self._target.is_gpu,
            is_rank=self._request.ranks > 0,
            free_memory=devices.free_memory(self._target),
        )

    def run(self) -> Result:
        """Run every stage in order; returns when the trace is at its destination."""
        during = self._reporter.during
        with during("importing torch"):
            prepare_environment()
            if self._request.ranks:
                set_rank_environment()
            import torch

            torch.set_num_threads(self._threads())
        with during("preparing device"):
            target = self._prepare_device()
        if self._request.ranks:
            with during("connecting ranks"):
                self._ranks = join(self._request, target)
        with during("building"):
            workload, params, prepared = self._build(target)
            # Before the first call, because a training step changes its weights.
            operands = digests(prepared.operands)
        self._warm_up(prepared, target)
        if self._request.bench:
            return self._only_time(prepared, target)
        timing = None if self._options.cold else self._time(prepared, target)
        with during("loading profiler"):
            profiling.load_profiler()
        shapes = {"on": True, "off": False, "auto": workload.studies == "throughput"}[self._options.shapes]
        resolved = {"dtype": self._options.dtype or workload.dtype, "shapes": shapes}
        metadata = profiling.recording_metadata(self._request, workload, params, prepared, target, resolved, operands)
        with during("recording", self._options.steps), self._reporter.without_heartbeat():
            profiler = profiling.new_profiler(target, self._options, shapes)
            placeholder = encode({"recording": self._token})
            profiling.record_steps(profiler, prepared, self._options, placeholder, self._reporter)
            target.synchronize()
        metadata["load"] = self._load()
        if self._options.cold:
            self._check(prepared, target)
            timing = self._time(prepared, target)
        metadata["unprofiled"] = timing.as_metadata() if timing else None
        with during("writing trace"):
            self._write(profiler, target, placeholder, metadata)
        if prepared.close:
            prepared.close()
        return self._move_to_destination(metadata)

    def _threads(self) -> int:
        """CPU threads for torch: those asked for, those of the environment, or the physical cores, shared by ranks."""
        if self._options.threads:
            return self._options.threads
        asked = os.environ.get("OMP_NUM_THREADS", "")
        if asked.isdecimal() and int(asked):
            return int(asked)
        return max(machine.physical_cores() // max(self._request.ranks, 1), 1)

    def _prepare_device(self) -> devices.Target:
        """Choose the device, create a context on it, and report it."""
        import torch

        ranks, rank, device = self._request.ranks, self._request.rank, self._options.device
        self._target = target = devices.choose_for_rank(device, rank, ranks) if ranks else devices.choose(device)
        activities = [activity.name for activity in target.activities]
        self._reporter.send(
            DeviceChosen(target.device, target.name, torch.__version__, activities, torch.get_num_threads()),
        )
        if target.note:
            self._reporter.note(target.note)
        return target

    def _build(self, target: devices.Target) -> tuple[Workload, dict[str, Value], Prepared]:
        """Find the workload and call its `prepare`."""
        import torch

        from tracetui_workloads.recording.preparation import resolve

        # Also before a user's file is imported, which may create its tensors.
        torch.manual_seed(self._options.seed)
        resolved = resolve(self._request)
        self._workload = workload = resolved.workload
        if workload.ranks and not self._request.ranks:
            raise BadRequest(f"{workload.name} runs on several ranks: register it as a workload (tracetui.workloads).")
        devices.require_needs(workload, target)
        about = {"device": target.device, "options": asdict(self._options), "params": resolved.params}
        if reason := workload.refusal(about):
            raise Unavailable(reason)
        if self._options.compile:
            self._require_compiler(target)
        context = RunContext(
            target.device,
            dtype_of(self._options.dtype or workload.dtype),
            self._options,
            self._reporter.note,
            self._ranks.rank,
            self._ranks.count,
        )
        torch.manual_seed(self._options.seed)
        prepared = resolved.prepare(context)
        if self._options.compile and not context.has_compiled:
            raise BadRequest(f"{workload.name} has nothing to compile; run it without --compile.")
        return workload, resolved.params, prepared

    def _require_compiler(self, target: devices.Target) -> None:
        """Look for the C++ compiler now: torch.compile would miss it only after about 15 seconds.

        Raises: MissingCompiler.
        """
        if target.kind == "cpu" and self._options.backend == "inductor" and machine.compiler() is None:
            raise MissingCompiler

    def _warm_up(self, prepared: Prepared, target: devices.Target) -> None:
        """Call the step until first-call costs are over, and check its result."""
        if self._options.cold and not self._request.bench:
            self._meter = None if self._options.compile else LoadMeter()
            return
        with self._reporter.during("compiling" if self._options.compile else "first call"):
            profiling.annotated_step(prepared)
            target.synchronize()
        # Only now: compilers work in processes of their own, which would count as other programs.
        self._meter = LoadMeter()
        calls, until = self._options.warm_calls, time.monotonic() + self._options.warm_seconds
        with self._reporter.during("warming up", calls):
            done = 0
            while self._ranks.any(done < calls or time.monotonic() < until):
                profiling.annotated_step(prepared)
                done += 1
                self._reporter.progress(min(done, calls), calls)
            target.synchronize()
        self._check(prepared, target)

    def _check(self, prepared: Prepared, target: devices.Target) -> None:
        """Compare the result with eager mode's.

        Raises: WrongResult where they differ.
        """
        if prepared.check is None:
            return
        with self._reporter.during("checking the result"):
            try:
                prepared.check()
                target.synchronize()
            except AssertionError as error:
                raise WrongResult(str(error)) from error

    def _only_time(self, prepared: Prepared, target: devices.Target) -> Result:
        """Time the step, alone or in turns with other processes; nothing is written."""
        limit, tick = self._options.time_seconds, self._reporter.interrupts.check
        with self._reporter.during("timing"), self._reporter.without_heartbeat():
            if self._request.session:
                # The others in the ring would count as other programs.
                self._meter = None
                timing = time_in_turns(prepared.step, target, limit, tick, self._ring, self._ranks)
            else:
                timing = time_step(prepared.step, target, limit, tick, self._ranks)
        if timing is None:
            raise Incomplete("The step was not timed: another variant ended early.")
        found = {**timing.as_metadata(), "session": self._request.session}
        return Result("", 0, {"unprofiled": found, "load": self._load()})

    def _time(self, prepared: Prepared, target: devices.Target) -> Timing | None:
        """Time the step without the profiler; None where that is not wanted."""
        if not self._options.time_seconds:
            return None
        tick = self._reporter.interrupts.check
        with self._reporter.during("timing"), self._reporter.without_heartbeat():
            return time_step(prepared.step, target, self._options.time_seconds, tick, self._ranks)

    def _load(self) -> dict[str, Any] | None:
        """What other programs used since the first call, with a warning where that is much."""
        load = self._meter.load(self._ranks.total) if self._meter else None
        if load and load.is_high and self._ranks.rank == 0:
            self._reporter.note(load.sentence, "warning")
        return load.as_metadata() if load else None

    def _write(self, profiler: profile, target: devices.Target, placeholder: str, metadata: dict[str, Any]) -> None:
        """Export the trace, check its contents and compress it, still under the name of a partial file.

        Raises: NotWritten, Incomplete, NotCompiled, NoKernels.
        """
        _fill_standard_files()
        trace_file.create_empty(self._raw)
        profiling.export(profiler, self._raw)
        contents = trace_file.read_contents(self._raw)
        if contents.steps < self._options.active:
            raise Incomplete(f"The trace holds {contents.steps} of {self._options.active} steps.")
        if self._options.compile and not contents.compiled_regions:
            raise NotCompiled(f"torch.compile compiled nothing of {self.situation.workload}.")
        if target.is_gpu and not contents.gpu_activities:
            raise NoKernels(f"{self.situation.workload} ran on {target.name}, but the profiler saw no kernel.")
        if metadata["unprofiled"] and not target.is_gpu and contents.step_us:
            # On a GPU the steps on the CPU are over before their work is.
            metadata["unprofiled"]["profiled_us"] = median(contents.step_us)
        trace_file.pack(self._raw, self._part, self.out, placeholder.encode(), encode(metadata).encode())
        if self._request.table:
            self._table.write_text(profiling.table(profiler, target.is_gpu))

    def _move_to_destination(self, metadata: dict[str, Any]) -> Result:
        """Move the trace to its destination; it can no longer be cancelled.

        Raises: NotWritten where the destination exists and is not a regular file.
        """
        self._reporter.interrupts.check()
        self._reporter.interrupts.ignore()
        trace_file.require_writable(self.out)
        size, replace = self._part.stat().st_size, self._request.replace
        if self._request.table:
            trace_file.require_writable(self._kept_table)
        is_replaced = replace and self.out.exists()
        path = trace_file.move_to_destination(self._part, self.out, replace)
        if is_replaced:
            self._reporter.note(f"{path.name} existed and is replaced.")
        if self._request.table:
            trace_file.move_to_destination(self._table, trace_file.table_path(path), replace)
        return Result(str(Path(self._request.out).with_name(path.name)), size, metadata)


if __name__ == "__main__":
    main(sys.argv[1:])
