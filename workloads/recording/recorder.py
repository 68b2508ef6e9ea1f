"""The recording child: `python -m workloads.recording.recorder PIPE LEASH TOKEN REQUEST`, one trace per process.

It is started by the launcher, runs a workload under torch.profiler, reports JSON lines on the inherited pipe, and puts
the trace in its place only when it is complete and the result was right. A fresh process makes a cold run cold, and
takes whatever crashes with it.
"""

from __future__ import annotations

import faulthandler
import os
import platform
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from workloads import machine
from workloads.api import BadRequest, Prepared, Value, Workload
from workloads.recording import devices, guard, profiling, trace_file
from workloads.recording.digests import digests
from workloads.recording.events import Device, Failed, Hello, Result
from workloads.recording.exceptions import (
    Incomplete,
    MissingCompiler,
    NoKernels,
    NotCompiled,
    Situation,
    WrongResult,
    failure_of,
)
from workloads.recording.preparation import RunContext, dtype_of, prepare_environment
from workloads.recording.profiling import about
from workloads.recording.reporter import CANCELLED, Reporter
from workloads.recording.request import Request

if TYPE_CHECKING:
    from torch.profiler import profile


def main(argv: list[str]) -> NoReturn:
    """Record and leave at once: no pool of compile workers and no wedged driver may delay the end."""
    pipe, leash, token, request = int(argv[0]), int(argv[1]), argv[2], Request.from_json(argv[3])
    # Now, as the workload may go elsewhere.
    out = Path(request.out).absolute()
    # Compile workers must not hold the pipe open.
    os.set_inheritable(pipe, False)
    if guard.IS_POSSIBLE:
        guard.stand_guard(leash, partial(trace_file.remove_parts, out, token))
    faulthandler.enable(all_threads=False)
    reporter = Reporter(pipe)
    recording = Recording(request, out, token, reporter)
    code = 1
    try:
        reporter.interrupts.install()
        reporter.say(Hello(os.getpid(), platform.python_version()))
        reporter.start_heartbeat()
        reporter.collect_warnings()
        reporter.say(recording.run())
        code = 0
    except BaseException as error:
        # The end of the process: whatever it was, also sys.exit in a user's function, is told and not raised.
        reporter.require_own_process()
        reporter.interrupts.ignore()
        failure = failure_of(error, recording.situation)
        code = CANCELLED if failure.kind == "cancelled" or reporter.interrupts.asked else 1
        reporter.say(Failed(failure))
    finally:
        reporter.require_own_process()
        trace_file.remove_parts(out, token)
        _flush()
        os._exit(code)


def _flush() -> None:
    """Let go what was printed, whatever the workload has put in the place of the streams."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(BaseException):
            stream.flush()


def _fill_standard_files() -> None:
    """Open what the workload has closed of them: words of a library would go into the trace otherwise."""
    while (file := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(file)


class Recording:
    """One trace being made, stage by stage."""

    def __init__(self, request: Request, out: Path, token: str, reporter: Reporter) -> None:
        self.out = out
        """The place of the trace, wherever the workload goes."""
        self._request = request
        self._options = request.options
        self._reporter = reporter
        self._raw, self._part = trace_file.part_paths(out, token)
        self._table, self._kept_table = trace_file.table_paths(out, token)
        self._workload: Workload | None = None
        self._target: devices.Target | None = None

    @property
    def situation(self) -> Situation:
        """What a message about a failure needs to know."""
        return Situation(
            stage=self._reporter.stage,
            python=sys.executable,
            workload=self._workload.name if self._workload else self._request.workload,
            growing=self._workload.growing if self._workload else (),
            on_gpu=self._target is not None and self._target.is_gpu,
            free_memory=devices.free_memory(self._target),
        )

    def run(self) -> Result:
        """Every stage in its order; returns once the trace is in its place."""
        during = self._reporter.during
        with during("importing torch"):
            prepare_environment()
            import torch  # noqa: F401
        with during("preparing device"):
            target = self._prepare_device()
        with during("building"):
            workload, params, prepared = self._build(target)
            # Now, as the first call of a training step changes its weights.
            operands = digests(prepared.operands)
        self._warm_up(prepared, target)
        with during("loading profiler"):
            profiling.load_profiler()
        shapes = {"on": True, "off": False, "auto": workload.studies == "throughput"}[self._options.shapes]
        settled = {"dtype": self._options.dtype or workload.dtype, "shapes": shapes}
        words = about(self._request, workload, params, prepared, target, settled, operands)
        with during("recording", self._options.steps), self._reporter.without_heartbeat():
            profiler = profiling.new_profiler(target, self._options, shapes)
            profiling.record_steps(profiler, prepared, self._options, words, self._reporter)
            target.synchronize()
        if self._options.cold:
            self._check(prepared, target)
        with during("writing trace"):
            self._write(profiler, target)
        if prepared.close:
            prepared.close()
        return self._put_in_place(words)

    def _prepare_device(self) -> devices.Target:
        """Choose the device, create a context on it, and say which it is."""
        import torch

        self._target = target = devices.choose(self._options.device)
        activities = [activity.name for activity in target.activities]
        self._reporter.say(
            Device(target.device, target.name, torch.__version__, activities, torch.get_num_threads()),
        )
        if target.remark:
            self._reporter.note(target.remark)
        return target

    def _build(self, target: devices.Target) -> tuple[Workload, dict[str, Value], Prepared]:
        """Find the workload and let it prepare itself."""
        import torch

        from workloads.recording.preparation import resolve

        # Also before a file of the user's is loaded, which may make its tensors then.
        torch.manual_seed(self._options.seed)
        found = resolve(self._request)
        self._workload = workload = found.workload
        devices.require(workload, target)
        if self._options.compile:
            self._require_compiler(target)
        context = RunContext(
            target.device, dtype_of(self._options.dtype or workload.dtype), self._options, self._reporter.note
        )
        torch.manual_seed(self._options.seed)
        prepared = found.prepare(context)
        if self._options.compile and not context.has_compiled:
            raise BadRequest(f"{workload.name} has nothing to compile; run it without --compile.")
        return workload, found.params, prepared

    def _require_compiler(self, target: devices.Target) -> None:
        """Notice now what torch.compile would notice after a quarter of a minute.

        Raises: MissingCompiler.
        """
        if target.kind == "cpu" and self._options.backend == "inductor" and machine.compiler() is None:
            raise MissingCompiler

    def _warm_up(self, prepared: Prepared, target: devices.Target) -> None:
        """Call it until nothing is done for the first time any more, and check what it computes."""
        if self._options.cold:
            return
        with self._reporter.during("compiling" if self._options.compile else "first call"):
            profiling.annotated_step(prepared)
            target.synchronize()
        calls, until = self._options.warm_calls, time.monotonic() + self._options.warm_seconds
        with self._reporter.during("warming up", calls):
            done = 0
            while done < calls or time.monotonic() < until:
                profiling.annotated_step(prepared)
                done += 1
                self._reporter.progress(min(done, calls), calls)
            target.synchronize()
        self._check(prepared, target)

    def _check(self, prepared: Prepared, target: devices.Target) -> None:
        """Compare the result with eager's.

        Raises: WrongResult when it differs.
        """
        if prepared.check is None:
            return
        with self._reporter.during("checking the result"):
            try:
                prepared.check()
                target.synchronize()
            except AssertionError as error:
                raise WrongResult(str(error)) from error

    def _write(self, profiler: profile, target: devices.Target) -> None:
        """Export, look through, compress; still as a part.

        Raises: NotWritten, Incomplete, NotCompiled, NoKernels.
        """
        _fill_standard_files()
        trace_file.claim(self._raw)
        profiling.export(profiler, self._raw)
        contents = trace_file.look_through(self._raw)
        if contents.steps < self._options.active:
            raise Incomplete(f"The trace holds {contents.steps} of {self._options.active} steps.")
        if self._options.compile and not contents.compiled_regions:
            raise NotCompiled(f"torch.compile compiled nothing of {self.situation.workload}.")
        if target.is_gpu and not contents.gpu_work:
            raise NoKernels(f"{self.situation.workload} ran on {target.name}, but the profiler saw no kernel.")
        trace_file.keep(self._raw, self._part, self.out)
        if self._request.table:
            self._table.write_text(profiling.table(profiler, target.is_gpu))

    def _put_in_place(self, words: dict[str, Any]) -> Result:
        """Give the trace its name; from here on it is too late to cancel.

        Raises: NotWritten where it would take the place of something that is no file.
        """
        self._reporter.interrupts.check()
        self._reporter.interrupts.ignore()
        trace_file.require_writable(self.out)
        size, replace = self._part.stat().st_size, self._request.replace
        if self._request.table:
            trace_file.require_writable(self._kept_table)
        path = trace_file.put_in_place(self._part, self.out, replace)
        if self._request.table:
            trace_file.put_in_place(self._table, trace_file.table_path(path), replace)
        return Result(str(Path(self._request.out).with_name(path.name)), size, words)


if __name__ == "__main__":
    main(sys.argv[1:])
