"""The child process that builds recorded operators again: `python -m tracetui_workloads.verifying.verifier ...`.

The launcher starts it as it starts a recording, and it reports by the same events. Its answer is the metadata of the
result: a dictionary for each operator of the task.

Of an operator and of its alternatives every block calls each once, in changing order, with caches cleared before the
call. The operator is there twice: no other may differ from it by less than it does from itself. Fixed work in each
block watches the clock.
"""

from __future__ import annotations

import json
import os
import random
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from tracetui_workloads.recording.devices import Target, choose
from tracetui_workloads.recording.exceptions import Cancel, RecordingError, first_line
from tracetui_workloads.recording.profiling import timing_of
from tracetui_workloads.recording.protocol import Result, plain
from tracetui_workloads.recording.recorder import Recording, main
from tracetui_workloads.verifying.task import SCRIPT, TIME, RecordedOp, Task

if TYPE_CHECKING:
    import torch

    from tracetui_workloads.verifying.building import Plan

MIN_BLOCKS, MAX_BLOCKS, SECONDS = 11, 61, 10.0
"""Blocks, and the time after which no more than the first of these begin."""
FEWEST_BLOCKS = 3
"""Blocks that are timed however long they take."""
WATCHED_LOOPS = 20_000
"""Turns of the loop that watches the clock."""
MIN_NOISE = 0.02
"""Share below which no difference is believed."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A function to be timed."""

    name: str
    prepare: Callable[[], Callable[[], object]]
    """Makes the call, with inputs that no call before has changed."""
    is_warm: bool = False
    """True where it is called once before, in place of clearing caches."""


def measure(
    contenders: Sequence[Contender], target: Target, tick: Callable[[int, int], None], longest: float
) -> tuple[list[list[float]], list[float]]:
    """Microseconds of each function by block, and of fixed work in each; after `longest` s no block begins.

    `tick` hears how many blocks are done and at most to come, and may raise to stop.
    """
    import torch

    from tracetui_workloads.verifying.building import AHEAD_CYCLES, CLEARED_BYTES

    times: list[list[float]] = [[] for _ in contenders]
    watched: list[float] = []
    cleared = torch.empty(CLEARED_BYTES["cpu" if target.kind == "cpu" else "cuda"], dtype=torch.uint8)
    cuda: Any = torch.cuda
    cleared = cleared.to(target.device)

    def microseconds(call: Callable[[], object]) -> float:
        """The time of a call; on a GPU by its own clock, while the CPU is ahead."""
        if target.kind == "cpu":
            began = perf_counter()
            call()
            return 1e6 * (perf_counter() - began)
        begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        cuda._sleep(AHEAD_CYCLES)
        begin.record()
        call()
        end.record()
        end.synchronize()
        return float(1e3 * begin.elapsed_time(end))

    began, order = perf_counter(), random.Random(0)

    def goes_on(done: int, seconds: float) -> bool:
        limit = MAX_BLOCKS if seconds < min(SECONDS, longest) else MIN_BLOCKS if seconds < longest else FEWEST_BLOCKS
        return done < limit

    while goes_on(len(watched), perf_counter() - began):
        for index in order.sample(range(len(contenders)), len(contenders)):
            contender = contenders[index]
            if contender.is_warm:
                contender.prepare()()
            call = contender.prepare()
            if not contender.is_warm:
                cleared.fill_(len(watched) % 2)
            times[index].append(microseconds(call))
            tick(len(watched), MAX_BLOCKS)
        watched.append(microseconds(_loop if target.kind == "cpu" else lambda: cuda._sleep(AHEAD_CYCLES)))
    return times, watched


def _loop() -> None:
    for _ in range(WATCHED_LOOPS):
        pass


# What may be said: where a thing differs from itself, no two do.


def interval(times: Sequence[float]) -> tuple[float, float, float]:
    """The median of times and its interval; the least and the longest where they are too few for one."""
    timing = timing_of(times, 1, "")
    if timing.low_us is None or timing.high_us is None:
        return timing.median_us, min(times), max(times)
    return timing.median_us, timing.low_us, timing.high_us


def ratio(times: Sequence[float], base: Sequence[float]) -> tuple[float, float, float]:
    """The median of the ratios of two functions by block, and its interval."""
    return interval([mine / max(other, 1e-9) for mine, other in zip(times, base, strict=True)])


def noise_of(first: Sequence[float], again: Sequence[float]) -> float:
    """The share by which a function differs from itself, as its interval has it."""
    _, low, high = ratio(again, first)
    return max(high - 1, 1 - low, MIN_NOISE)


def refusal(noise: float, watched: Sequence[float], limit: float) -> str:
    """The reason why no time may be believed, as a sentence; empty where the machine is quiet."""
    ordered = sorted(watched)
    quarter, middle, three_quarters = (ordered[len(ordered) * n // 4] for n in (1, 2, 3))
    clock = (three_quarters - quarter) / middle
    words = [f"the operator differs from itself by {100 * noise:.0f} %"] * (noise > limit)
    words += [f"the clock changed by {100 * clock:.0f} %"] * (clock > 2 * limit)
    return f"This machine is too noisy: {', '.join(words)}." if words else ""


def verdict(times: Sequence[float], base: Sequence[float], noise: float) -> str:
    """The word for a function beside another: by the ratios beyond the noise, and medians whose intervals are apart."""
    (_, low, high), (_, least, most), (_, base_least, base_most) = ratio(times, base), interval(times), interval(base)
    if high < 1 - noise and most < base_least:
        return "faster"
    return "slower" if low > 1 + noise and least > base_most else "cannot tell"


# Alternatives: other ways to compute the same.


class NotApplicable(Exception):
    """An operator has no such alternative; the message is the reason, without a full stop."""


def alternative(name: str, plan: Plan, device: str) -> Callable[[], Callable[[], object]]:
    """Makes calls of an alternative of an operator, each with new arguments.

    Raises: NotApplicable.
    """
    import torch

    if name == "compile":
        # A function of its own: an operator is none.
        compiled: Callable[..., object] = torch.compile(lambda **args: plan.operator(**args), dynamic=False)
        return lambda: partial(compiled, **plan.call(device).keywords)
    if name == "sdpa":
        operator = plan.operator._schema.name
        if not operator.startswith("aten::_scaled_dot_product_") or "backward" in operator:
            raise NotApplicable("it is none of the operators that sdpa chooses from")
        return lambda: partial(_attention, **plan.call(device).keywords)
    is_last = name == "channels_last"
    if is_last and not any(len(each.dims) == 4 for each in plan.tensors):
        raise NotApplicable("no input has four dimensions")
    if not is_last and not any(each.dtype in (torch.float16, torch.float32, torch.float64) for each in plan.tensors):
        raise NotApplicable("no input is of another floating type")

    def changed(value: Any) -> Any:
        if isinstance(value, list):
            return [changed(each) for each in value]
        if not torch.is_tensor(value) or (value.dim() != 4 if is_last else not value.is_floating_point()):
            return value
        return value.contiguous(memory_format=torch.channels_last) if is_last else value.bfloat16()

    return lambda: partial(plan.operator, **{key: changed(each) for key, each in plan.call(device).keywords.items()})


def _attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, is_causal: bool = False, **more: Any
) -> object:
    import torch

    mask = more.get("attn_mask", more.get("attn_bias"))
    return torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, is_causal=is_causal and mask is None, scale=more.get("scale")
    )


class Verification(Recording):
    """Operators that are built again, in place of a workload that is recorded."""

    def run(self) -> Result:
        """Answer for each operator of the task; a variant that cannot be built is an answer too."""
        during = self._reporter.during
        with during("importing torch"):
            os.environ.setdefault("KINETO_LOG_LEVEL", "99")
            # What torch thinks of the arguments of others helps nobody.
            warnings.simplefilter("ignore")
            import torch

            torch.set_num_threads(self._threads())
            torch.manual_seed(0)
        fields = json.loads(Path(self._request.operators).read_text())
        task = Task(**fields | {"operators": [RecordedOp(**each) for each in fields["operators"]]})
        with during("preparing device"):
            target = self._target = choose(self._options.device)
            if task.kind == TIME:
                _require_same_device(task, target)
        answers = []
        with torch.no_grad():
            for op in task.operators:
                # Without kernels it is the CPU that took the time.
                place = target if op.kernels else replace(target, device="cpu")
                with during(f"building {plain(op.name)[:80]}"):
                    answer, plan = _built(op, task, place)
                if plan is not None and task.kind == TIME:
                    answer |= self._timed(op, plan, task, place, answer["notes"])
                answers.append(answer)
        about = {"name": target.name, "torch": torch.__version__, "threads": torch.get_num_threads()}
        return Result("", 0, {"operators": answers, "machine": about})

    def _timed(self, op: RecordedOp, plan: Plan, task: Task, target: Target, notes: list[str]) -> dict[str, Any]:
        """The times of an operator beside its alternatives, or why there are none; `notes` gets what is odd."""
        kept = None if plan.operator._schema.is_mutable else plan.call(target.device)

        def recorded() -> Callable[[], object]:
            return kept or plan.call(target.device)

        contenders = [Contender("here", recorded), Contender("here again", recorded), Contender("warm", recorded, True)]
        absent = []
        for name in task.alternatives:
            stage = "compiling" if name == "compile" else "warming up"
            with self._reporter.during(f"{stage} {plain(op.name)[:80]}, {name}"):
                try:
                    prepare = alternative(name, plan, target.device)
                    prepare()()
                    contenders.append(Contender(name, prepare))
                except Cancel:
                    raise
                except NotApplicable as why:
                    absent.append({"name": name, "why": str(why)})
                except Exception as error:
                    # An alternative may fail in any way that torch has.
                    absent.append({"name": name, "why": f"{type(error).__name__}: {plain(first_line(error))[:160]}"})
        with self._reporter.during(f"timing {plain(op.name)[:80]}"), self._reporter.without_heartbeat():
            longest = task.seconds * len(contenders)
            times, watched = measure(contenders, target, self._reporter.progress, longest)
        if len(watched) < MIN_BLOCKS:
            few = f"{len(watched)} rounds instead of at least {MIN_BLOCKS} were timed in {longest:g} s"
            notes.append(f"{few}, so that the intervals are wide: --seconds allows more")
        noise = noise_of(*times[:2])
        answer: dict[str, Any] = {"noise": noise, "refused": refusal(noise, watched, task.max_noise) or None}
        if answer["refused"] is not None:
            return answer | {"times": absent}
        rows = []
        for contender, own in zip(contenders, times, strict=True):
            row: dict[str, Any] = {"name": contender.name, "why": None, "interval_us": interval(own)}
            if contender.name not in ("here", "warm"):
                row |= {"ratio": ratio(own, times[0]), "verdict": verdict(own, times[0], noise)}
            rows.append(row)
        return answer | {"times": [*rows, *absent]}


def _built(op: RecordedOp, task: Task, target: Target) -> tuple[dict[str, Any], Plan | None]:
    """The answer about an operator without times, and its plan; None where it cannot be built."""
    import torch

    from tracetui_workloads.verifying.building import CannotBuild, build

    try:
        plan = build(op, task.list_types, target.device, task.kind == TIME)
    except CannotBuild as why:
        return {"why": plain(str(why)), "notes": []}, None
    answer: dict[str, Any] = {"why": None, "notes": list(dict.fromkeys(plan.notes))}
    if task.kind == SCRIPT:
        answer["script"] = plan.program(op, task.label, torch.get_num_threads())
    elif plan.is_run(op, task.kind == TIME):
        children, kernels = recorded_again(plan.call(target.device), target)
        answer["children"] = _difference(op.children, children)
        # Where no kernels were and are, there is nothing that could be the same.
        if task.kind == TIME and (op.kernels or kernels):
            answer["kernels"] = _difference(op.kernels, kernels)
    return answer, plan


def recorded_again(call: Callable[[], object], target: Target) -> tuple[list[str], list[str]]:
    """The names of the operators that an operator calls, and of the kernels that are launched, in order."""
    from torch.profiler import profile

    with profile(activities=target.activities) as profiler:
        call()
        target.synchronize()
    results: Any = profiler.profiler
    tree = results.kineto_results.experimental_event_tree()
    top = next((each.children for each in tree if each.name.startswith("aten::")), ())
    on_device = [each for each in profiler.events() or () if each.device_type.name != "CPU"]
    on_device.sort(key=lambda each: float(each.time_range.start))
    return [each.name for each in top if each.name.startswith("aten::")], [each.name for each in on_device]


def _difference(recorded: Sequence[str], here: Sequence[str]) -> str:
    """`same`, or how two lists of names differ."""
    if list(recorded) == list(here):
        return "same"
    recorded, here = (", ".join(plain(each)[:80] for each in names[:8]) or "none" for names in (recorded, here))
    return f"recorded {recorded}; here {here}"


def _require_same_device(task: Task, target: Target) -> None:
    """Check that operators of a trace with GPUs run beside one of these.

    Raises: RecordingError.
    """
    if target.name in task.gpus or not (task.gpus or any(each.kernels for each in task.operators)):
        return
    there = " and ".join(plain(each)[:80] for each in task.gpus) or "a GPU that the trace does not name"
    here = target.name if target.is_gpu else "the CPU alone"
    message = f"The device is another: recorded with {there}, here is {here}. Times could not be compared."
    raise RecordingError("device", message, "`tracetui verify TRACE OP --script FILE` writes a program to take there.")


if __name__ == "__main__":
    main(sys.argv[1:], Verification)
