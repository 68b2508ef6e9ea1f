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
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NoReturn, cast

from tracetui_workloads import machine, registry
from tracetui_workloads.api import BadRequest, Context, Prepared, Step, Unavailable, Value, Workload
from tracetui_workloads.programs import user_function
from tracetui_workloads.recording import devices, profiling, trace_file
from tracetui_workloads.recording.child import CANCELLED, HAS_SUPERVISOR, Reporter, supervise
from tracetui_workloads.recording.exceptions import (
    COMPILER_HINT,
    NO_COMPILER,
    RecordingError,
    Situation,
    failure_of,
    first_line,
)
from tracetui_workloads.recording.profiling import ALONE, LoadMeter, Ring, Timing, time_in_turns, time_step
from tracetui_workloads.recording.protocol import (
    DTYPES,
    WARM_CALLS,
    DeviceChosen,
    Failed,
    Hello,
    Options,
    Request,
    Result,
    encode,
)

if TYPE_CHECKING:
    import torch
    from torch.profiler import profile

    from tracetui_workloads.recording.lines import LineRecorder


# Preparing a workload in the child: finding what a request names, and the context that `prepare` receives.


@dataclass(frozen=True, slots=True)
class ResolvedWorkload:
    """A workload with its parameters, ready to be prepared."""

    workload: Workload
    params: dict[str, Value]
    prepare: Callable[[Context], Prepared]


def resolve(request: Request) -> ResolvedWorkload:
    """Find the workload or function that a request names.

    Raises: BadRequest where it does not exist or does not accept the parameters.
    """
    if not registry.is_function(request.workload):
        return _registered(registry.find(request.workload), request)
    target = user_function.load(request.workload)
    if isinstance(target, Workload):
        return _registered(target, request)
    if request.options.dtype and not user_function.is_factory(target):
        raise BadRequest(f"{request.workload} makes its own tensors, which --dtype cannot change.")
    workload = Workload(request.workload, "your own function", f"{user_function.__name__}:prepare", dtype="")
    if isinstance(target, Prepared):
        if request.params:
            raise BadRequest(f"{request.workload} is prepared already and takes no parameters.")
        return ResolvedWorkload(workload, {}, lambda _: target)
    params = user_function.arguments(target, request.params)
    label = user_function.label(request.workload)
    return ResolvedWorkload(workload, params, partial(user_function.prepare, target, label, params))


def _registered(workload: Workload, request: Request) -> ResolvedWorkload:
    params = workload.values(request.params)
    module, _, name = workload.prepare.partition(":")
    function: Any = getattr(import_module(module), name, None)
    if not callable(function):
        raise BadRequest(f"{workload.prepare}, which prepares {workload.name}, does not exist.")
    return ResolvedWorkload(workload, params, lambda context: function(context, **params))


def dtype_of(name: str) -> torch.dtype:
    """The data type with a name of `options.DTYPES`; torch's default for an empty name."""
    import torch

    dtype: torch.dtype = getattr(torch, DTYPES[name]) if name else torch.get_default_dtype()
    return dtype


@dataclass(slots=True)
class RunContext:
    """The `Context` of one recording, from its options."""

    device: str
    dtype: torch.dtype
    options: Options
    note: Callable[[str], None]
    rank: int = 0
    """The number of this process among the ranks of the recording."""
    ranks: int = 1
    """Number of processes that run the workload together."""
    has_compiled: bool = False
    """True once the workload called `compile` with `--compile` given."""

    @property
    def seed(self) -> int:
        """The seed, with which torch was seeded before `prepare`."""
        return self.options.seed

    @property
    def compiled(self) -> bool:
        """True with `--compile`."""
        return self.options.compile

    def compile(self, step: Step) -> Step:
        """The function compiled according to the options, or unchanged without `--compile`."""
        if not self.options.compile:
            return step
        import torch

        self.has_compiled = True
        settings: dict[str, Any] = {"backend": self.options.backend}
        if self.options.backend == "inductor":
            settings["mode"] = self.options.mode
        compiled: Any = torch.compile(step, **settings)
        return cast(Step, compiled)


def main(argv: list[str], work: type[Recording]) -> NoReturn:
    """Record and exit at once: neither compile workers nor a stuck driver may delay the exit."""
    pipe, parent_pipe, token, request = int(argv[0]), int(argv[1]), argv[2], Request.from_json(argv[3])
    # Before the workload runs, which may change the current folder.
    out = Path(request.out).absolute()
    # Compile workers must not hold the pipe open.
    os.set_inheritable(pipe, False)
    if HAS_SUPERVISOR:
        supervise(parent_pipe, partial(trace_file.remove_files, request, out, token))
    faulthandler.enable(all_threads=False)
    reporter = Reporter(pipe)
    ring = Ring(int(argv[4]), int(argv[5])) if len(argv) > 5 else None
    recording = work(request, out, token, reporter, ring)
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
        trace_file.remove_files(request, out, token)
        # The workload may have replaced the streams.
        for stream in (sys.stdout, sys.stderr):
            with suppress(BaseException):
                stream.flush()
        os._exit(code)


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
        self._table = out.with_name(f"{out.name}.{token}.table.part")
        self._workload: Workload | None = None
        self._target: devices.Target | None = None
        self._token = token
        self._meter: LoadMeter | None = None
        self._ranks = ALONE
        self._lines: LineRecorder | None = None

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
            # At lower levels the profiler's library logs its start and stop to standard error.
            os.environ.setdefault("KINETO_LOG_LEVEL", "99")
            # Without it a trace does not name the kernels that torch.compile generates for the CPU.
            os.environ.setdefault("TORCHINDUCTOR_CPP_ENABLE_KERNEL_PROFILE", "1")
            if self._request.ranks:
                # Otherwise the name of the machine is looked up, which may have no address.
                os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo" if sys.platform == "linux" else "lo0")
            import torch

            torch.set_num_threads(self._threads())
        with during("preparing device"):
            target = self._prepare_device()
        if self._request.ranks:
            with during("connecting ranks"):
                self._ranks = devices.join(self._request, target)
        with during("building"):
            workload, params, prepared = self._build(target)
            # Before the first call, because a training step changes its weights.
            operands = profiling.digests(prepared.operands)
            if self._options.lines and not self._request.bench:
                # Imports torch. Before the first call, which may compile functions.
                from tracetui_workloads.recording.lines import LineRecorder

                self._lines = LineRecorder(self._program_folder(workload))
                self._lines.install()
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
            if self._lines:
                # The first calls may have imported more.
                self._lines.install()
                self._lines.switch(True)
            profiling.record_steps(profiler, prepared, self._options, placeholder, self._reporter)
            target.synchronize()
            if self._lines:
                self._lines.switch(False)
        metadata["load"] = self._load()
        if self._options.cold:
            self._check(prepared, target)
            timing = self._time(prepared, target)
        metadata["unprofiled"] = asdict(timing) if timing else None
        with during("writing trace"):
            self._write(profiler, target, placeholder, metadata)
        if prepared.close:
            prepared.close()
        return self._move_to_destination(metadata)

    def _program_folder(self, workload: Workload) -> str:
        """The folder of the program, to which the names of its files are relative; empty for the current one."""
        if not registry.is_function(self._request.workload):
            return os.path.dirname(sys.modules[workload.prepare.partition(":")[0]].__file__ or "")
        program = self._request.workload.rpartition(":")[0]
        return os.path.dirname(os.path.abspath(program)) if user_function.is_path(program) else ""

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
        if target.remark:
            self._reporter.note(target.remark)
        return target

    def _build(self, target: devices.Target) -> tuple[Workload, dict[str, Value], Prepared]:
        """Find the workload and call its `prepare`."""
        import torch

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
        is_inductor_on_cpu = target.kind == "cpu" and self._options.backend == "inductor"
        if self._options.compile and is_inductor_on_cpu and machine.compiler() is None:
            # torch.compile would miss it only after about 15 seconds.
            raise RecordingError("missing:compiler", NO_COMPILER, COMPILER_HINT)
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
        calls, until = 0 if self._options.cold else WARM_CALLS, time.monotonic() + self._options.warm_seconds
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

        Raises: RecordingError where they differ.
        """
        if prepared.check is None:
            return
        with self._reporter.during("checking the result"):
            try:
                prepared.check()
                target.synchronize()
            except AssertionError as error:
                message = f"The result of {self.situation.workload} differs from eager mode's: {first_line(error)}"
                hint = "No trace was written, because its times would be meaningless."
                raise RecordingError("wrong-result", message, hint) from error

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
            raise RecordingError("incomplete", "The step was not timed: another variant ended early.")
        times = {**asdict(timing), "session": self._request.session}
        return Result("", 0, {"unprofiled": times, "load": self._load()})

    def _time(self, prepared: Prepared, target: devices.Target) -> Timing | None:
        """Time the step without the profiler; None where that is not wanted."""
        if not self._options.time_seconds:
            return None
        tick = self._reporter.interrupts.check
        with self._reporter.during("timing"), self._reporter.without_heartbeat():
            return time_step(prepared.step, target, self._options.time_seconds, tick, self._ranks)

    def _load(self) -> dict[str, Any] | None:
        """The CPUs that other programs kept busy since the first call, with a warning where they were many."""
        load = self._meter.load(self._ranks.total) if self._meter else None
        if load and load.is_high and self._ranks.rank == 0:
            self._reporter.note(load.sentence, "warning")
        return {"others_cpus": round(load.others_cpus, 2), "cpus": load.cpus} if load else None

    def _write(self, profiler: profile, target: devices.Target, placeholder: str, metadata: dict[str, Any]) -> None:
        """Export the trace, check its contents and compress it, still under the name of a partial file.

        Raises: RecordingError.
        """
        # The workload may have closed standard files: output of a library would go into the trace file.
        while (file := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass
        os.close(file)
        trace_file.create_empty(self._raw)
        # The profiler reports no error: the file is checked below.
        profiler.export_chrome_trace(str(self._raw))
        contents = trace_file.read_contents(self._raw)
        if contents.steps < self._options.active:
            message = f"The trace holds {contents.steps} of {self._options.active} steps."
            raise RecordingError("incomplete", message)
        if self._options.compile and not contents.compiled_regions:
            message = f"torch.compile compiled nothing of {self.situation.workload}."
            raise RecordingError("compile", message, "TORCH_LOGS=dynamo in the environment shows why.")
        if target.is_gpu and not contents.gpu_activities:
            message = f"{self.situation.workload} ran on {target.name}, but the profiler saw no kernel."
            hint = (
                "Close other profilers (nsys, ncu, DCGM), allow counters in a container, or check that libcupti is "
                "there; your own function must put its tensors on the GPU, or be recorded with --device cpu."
            )
            raise RecordingError("no-kernels", message, hint)
        if metadata["unprofiled"] and not target.is_gpu and contents.step_us:
            # On a GPU the steps on the CPU are over before their work is.
            metadata["unprofiled"]["profiled_us"] = median(contents.step_us)
        if self._lines:
            from tracetui_workloads.recording import lines

            metadata["lines"] = lines.metadata(self._lines, contents.lines, contents.step_us)
            self._reporter.note(*lines.sentence(metadata["lines"], contents.steps))
        trace_file.pack(self._raw, self._part, self.out, placeholder.encode(), encode(metadata).encode())
        if self._request.table:
            self._table.write_text(profiling.table(profiler, target.is_gpu))

    def _move_to_destination(self, metadata: dict[str, Any]) -> Result:
        """Move the trace to its destination; it can no longer be cancelled.

        Raises: RecordingError where the destination exists and is not a regular file.
        """
        self._reporter.interrupts.check()
        self._reporter.interrupts.ignore()
        trace_file.require_writable(self.out)
        size, replace = self._part.stat().st_size, self._request.replace
        if self._request.table:
            trace_file.require_writable(trace_file.table_path(self.out))
        is_replaced = replace and self.out.exists()
        path = trace_file.move_to_destination(self._part, self.out, replace)
        if is_replaced:
            self._reporter.note(f"{path.name} existed and is replaced.")
        if self._request.table:
            trace_file.move_to_destination(self._table, trace_file.table_path(path), replace)
        return Result(str(Path(self._request.out).with_name(path.name)), size, metadata)


if __name__ == "__main__":
    main(sys.argv[1:], Recording)
