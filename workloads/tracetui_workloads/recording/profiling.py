"""The profiled loop, the metadata of a recording, and the time of a step without the profiler; in the child.

The metadata is written into the trace, so that the trace can be understood later and comparisons can be labelled: how
it was recorded, on which machine, digests of weights and inputs, the time of a step and the load of the machine.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import os
import platform
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from math import ceil, comb
from pathlib import Path

# Imported by name: a workload may replace `time.perf_counter` and `time.monotonic`.
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any

from tracetui_workloads.api import Prepared, Value, Workload
from tracetui_workloads.recording.devices import Ranks, Target, describe, driver_version
from tracetui_workloads.recording.protocol import Options, Request

if TYPE_CHECKING:
    import torch
    from torch.profiler import profile

    from tracetui_workloads.recording.child import Reporter

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
                # The profiler accepts it only while it records; and after the step, because the call takes time that
                # would otherwise count as the start of the step.
                profiler.add_metadata_json(METADATA_KEY, text)
            profiler.step()
            reporter.progress(number + 1, options.steps)


def table(profiler: profile, is_gpu: bool) -> str:
    """Torch's table of sums per name, longest self time first, with full names; call it after `export`."""
    sums: str = profiler.key_averages().table(
        sort_by="self_device_time_total" if is_gpu else "self_cpu_time_total",
        row_limit=-1,
        max_name_column_width=None,
    )
    return sums


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
        "git": working_tree(request.workload),
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


GIT_SECONDS = 5.0
"""Seconds after which a question to git is given up."""
# What the repository configures for git is not run, but filters of files that differ.
_GIT = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")


def working_tree(program: str) -> dict[str, Any] | None:
    """The commit of the working tree around a program, a file or else the current folder, and whether files differ.

    None without git, a repository or a commit.
    """
    path = Path(program.rpartition(":")[0])
    words = ("status", "--porcelain=v2", "--branch", "--untracked-files=no", "--ignore-submodules=all")
    try:
        done = subprocess.run(
            [*_GIT, *words],
            cwd=path.parent if path.suffix == ".py" else None,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=GIT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError, TypeError):
        # The program may have replaced what a slow answer is waited for with, such as time.sleep.
        return None
    lines = done.stdout.splitlines()
    commit = next((line.split()[-1] for line in lines if line.startswith("# branch.oid ")), "(initial)")
    is_dirty = any(not line.startswith("#") for line in lines)
    return None if commit == "(initial)" else {"commit": commit, "dirty": is_dirty}


# Digests of weights and inputs, which show whether two recordings compute on the same numbers.

MAX_HASHED_BYTES = 1 << 28
"""Maximum bytes hashed per recording, which takes 0.3 s; of larger tensors every second, third ... number is hashed."""
DIGEST_LENGTH = 16
"""Characters of a digest: enough to tell tensors apart, it protects no secret."""


def digests(operands: Mapping[str, Any], max_bytes: int = MAX_HASHED_BYTES) -> dict[str, str]:
    """A digest of data types, shapes and numbers by name; values that hold no plain tensor are left out."""
    plain = {name: [tensor for tensor in _tensors(value) if is_plain(tensor)] for name, value in operands.items()}
    size = sum(tensor.nbytes for tensors in plain.values() for tensor in tensors)
    stride = max(-(-size // max_bytes), 1)
    return {name: _digest(tensors, stride) for name, tensors in sorted(plain.items()) if tensors}


def is_plain(tensor: torch.Tensor) -> bool:
    """True where the numbers are stored densely in memory: not sparse, quantized, nested or on `meta`."""
    import torch

    is_dense = tensor.layout == torch.strided and not tensor.is_quantized and not tensor.is_nested
    return is_dense and type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.device.type != "meta"


def _digest(tensors: list[torch.Tensor], stride: int) -> str:
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        numbers = tensor.detach().resolve_conj().resolve_neg().flatten()[::stride].cpu().contiguous()
        if numbers.nbytes:
            # The bytes in memory; torch's `numpy()` would need numpy.
            digest.update((ctypes.c_char * numbers.nbytes).from_address(numbers.data_ptr()))
    return digest.hexdigest()[:DIGEST_LENGTH]


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    """The tensor itself, or the parameters and buffers of a module."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, torch.nn.Module):
        yield from value.parameters()
        yield from value.buffers()


# The time of a step without the profiler, which itself costs time: medians, and how sure they are.
#
# A sample is the mean of as many calls as take a millisecond or more, so that neither the clock nor its calls count. On
# a GPU the clock is that of CUDA events around these calls, elsewhere `time.perf_counter`.

ALONE = Ranks()
"""A process that has no rank."""
SAMPLE_S = 1e-3
"""Least duration of a sample."""
MIN_SAMPLES = 6
"""Samples below which no interval of the median can be given: 95 % needs six."""
MAX_SAMPLES = 10_000
"""Maximum number of samples."""
SETTLED_WIDTH = 0.02
"""Width of the interval, as a share of the median, at which timing ends."""
CONFIDENCE = 0.95
"""Probability with which the interval holds the median."""
ROUNDS = 8
"""Turns of each process that times its step beside others."""
MAX_OVERTIME = 4
"""Timing may take this many times its limit until there are enough samples for an interval."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The time of a step without the profiler."""

    median_us: float
    low_us: float | None
    """Lower end of the interval of the median; None for fewer than six samples."""
    high_us: float | None
    samples: int
    calls_per_sample: int
    clock: str
    """`cuda events` or `perf_counter`."""

    @property
    def is_settled(self) -> bool:
        """True where the interval is narrow enough."""
        if self.low_us is None or self.high_us is None:
            return False
        return self.high_us - self.low_us <= SETTLED_WIDTH * self.median_us


class StepTimer:
    """Collects samples of a step that is warm."""

    def __init__(
        self, step: Callable[[], object], target: Target, tick: Callable[[], None], ranks: Ranks = ALONE
    ) -> None:
        """`tick` is called between samples, and may raise to stop; all `ranks` take the same samples."""
        self._step, self._tick, self._ranks = step, tick, ranks
        self._clock = "cuda events" if target.kind == "cuda" else "perf_counter"
        self._measure = _cuda_clock() if target.kind == "cuda" else _host_clock(target)
        self._calls = int(ranks.largest(max(1, ceil(SAMPLE_S / max(self._measure(step, 1), 1e-7)))))
        self.samples: list[float] = []
        """Microseconds per call, in the order in which they were measured."""

    @property
    def timing(self) -> Timing | None:
        """The result so far; None without a sample."""
        return timing_of(self.samples, self._calls, self._clock) if self.samples else None

    def sample(self, seconds: float) -> None:
        """Take samples for some time, at least one."""
        until = perf_counter() + seconds
        with _no_garbage_collection():
            while len(self.samples) < MAX_SAMPLES:
                self.samples.append(1e6 * self._measure(self._step, self._calls) / self._calls)
                self._tick()
                if not self._ranks.any(perf_counter() <= until and not self._is_settled):
                    return

    @property
    def _is_settled(self) -> bool:
        # Few samples can lie close together by chance.
        timing = self.timing if len(self.samples) >= 4 * MIN_SAMPLES else None
        return timing is not None and timing.is_settled


def time_step(
    step: Callable[[], object], target: Target, limit_s: float, tick: Callable[[], None], ranks: Ranks = ALONE
) -> Timing | None:
    """Time a step that is warm until the interval of its median is narrow, or the time limit is over.

    Args:
        limit_s: seconds after which no sample begins, unless there are too few for an interval.
        tick: called between samples; may raise to stop.
        ranks: those that call the step together, as often.
    """
    timer, until = StepTimer(step, target, tick, ranks), perf_counter() + MAX_OVERTIME * limit_s
    timer.sample(limit_s)
    while ranks.any(len(timer.samples) < MIN_SAMPLES and perf_counter() < until):
        timer.sample(0)
    return timer.timing


def time_in_turns(
    step: Callable[[], object],
    target: Target,
    limit_s: float,
    tick: Callable[[], None],
    ring: Ring | None,
    ranks: Ranks = ALONE,
) -> Timing | None:
    """Time a step while other processes time theirs, one at a time, so that all of them meet the same machine.

    Each of `ROUNDS` turns takes its share of `limit_s`; the first begins once every process is ready. Where another
    process ends early, so does this. Of several `ranks` the first has the ring, and the others follow it.
    """

    def has_turn() -> bool:
        return ranks.any(ring is not None and ring.wait())

    timer = StepTimer(step, target, tick, ranks)
    if not has_turn():
        return None
    if ring:
        ring.pass_on()
    for _ in range(ROUNDS):
        if not has_turn():
            break
        # The caches hold the data of the process before.
        step()
        target.synchronize()
        timer.sample(limit_s / ROUNDS)
        if ring:
            ring.pass_on()
    return timer.timing


class Ring:
    """Pipes in a circle: who reads a byte has the turn, and writes it on to the next."""

    def __init__(self, source: int, sink: int) -> None:
        self._source, self._sink = source, sink
        for end in (source, sink):
            os.set_inheritable(end, False)

    def wait(self) -> bool:
        """Wait for the turn; False where the process before has ended."""
        return bool(os.read(self._source, 1))

    def pass_on(self) -> None:
        """Give the turn to the next process, unless it has ended."""
        with suppress(BrokenPipeError):
            os.write(self._sink, b".")


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_collecting:
            gc.enable()


def timing_of(samples: Sequence[float], calls: int, clock: str) -> Timing:
    """The median of samples in microseconds, with its interval by order statistics."""
    ordered = sorted(samples)
    middle = len(ordered) // 2
    median = ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    cut = rank_of_interval(len(ordered))
    low, high = (round(ordered[cut], 3), round(ordered[-1 - cut], 3)) if cut is not None else (None, None)
    return Timing(round(median, 3), low, high, len(ordered), calls, clock)


def rank_of_interval(count: int) -> int | None:
    """Index of the lower end of the median's interval among sorted samples; None where there are too few."""
    if count > 1000:
        # The normal approximation; exact binomials of so many overflow.
        return int((count - 1.96 * count**0.5) / 2)
    tail, index = 0.0, None
    for rank in range(count // 2):
        tail += comb(count, rank) / 2**count
        if tail > (1 - CONFIDENCE) / 2:
            break
        index = rank
    return index


Measure = Callable[[Callable[[], object], int], float]


def _host_clock(target: Target) -> Measure:
    def measure(step: Callable[[], object], calls: int) -> float:
        target.synchronize()
        began = perf_counter()
        for _ in range(calls):
            step()
        target.synchronize()
        return perf_counter() - began

    return measure


def _cuda_clock() -> Measure:
    import torch

    event: Any = torch.cuda.Event

    def measure(step: Callable[[], object], calls: int) -> float:
        begin, end = (event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(calls):
            step()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1000

    return measure


# The CPUs that other programs kept busy for a while, from `/proc`; unknown elsewhere.

MIN_SECONDS = 0.2
"""Seconds below which the clock of `/proc/stat`, which ticks every 10 ms, says too little."""
BUSY_CPUS, BUSY_SHARE = 0.25, 0.1
"""CPUs, and share of all CPUs, that other programs must use for a warning."""


@dataclass(frozen=True, slots=True)
class Load:
    """The CPUs that other programs kept busy."""

    others_cpus: float
    """CPUs that they kept busy on average."""
    cpus: int
    """CPUs of the machine."""

    @property
    def is_high(self) -> bool:
        """True where times may be too long because of it."""
        return self.others_cpus > max(BUSY_CPUS, BUSY_SHARE * self.cpus)

    @property
    def sentence(self) -> str:
        """A warning in words."""
        return f"Other programs kept {self.others_cpus:.1f} of {self.cpus} CPUs busy meanwhile: times may be too long."


class LoadMeter:
    """Measures from its creation on."""

    def __init__(self, stat: Path = Path("/proc/stat")) -> None:
        self._stat = stat
        self._began = self._read()

    def load(self, total: Callable[[float], float] = float) -> Load | None:
        """The load since the meter was created; None where the system does not tell, or after too short a time.

        `total` adds up what all processes of the recording used, where these are several.
        """
        now = self._read()
        if self._began is None or now is None:
            return None
        seconds, busy, own = (after - before for after, before in zip(now, self._began, strict=True))
        own = total(own)
        if seconds < MIN_SECONDS:
            return None
        return Load(max(busy - own, 0.0) / seconds, os.cpu_count() or 1)

    def _read(self) -> tuple[float, float, float] | None:
        """Seconds on a clock, busy CPU seconds of the machine, and those of this process and its ended children."""
        try:
            fields = self._stat.read_text().split("\n", 1)[0].split()[1:]
            # user, nice, system, idle, iowait, irq, softirq, steal; guests are counted in user.
            ticks = [int(field) for field in fields[:8]]
        except (OSError, ValueError):
            return None
        if len(ticks) < 8:
            return None
        busy = (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")
        return monotonic(), busy, sum(os.times()[:4])
