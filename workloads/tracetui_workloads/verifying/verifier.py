"""The child process that builds recorded operators again: `python -m tracetui_workloads.verifying.verifier ...`.

The launcher starts it as it starts a recording, and it reports by the same events. Its answer is the metadata of the
result: a dictionary for each operator of the task.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from tracetui_workloads.recording.devices import Target
from tracetui_workloads.recording.exceptions import Cancel, RecordingError, first_line
from tracetui_workloads.recording.profiling import timing_of
from tracetui_workloads.recording.protocol import Result, plain
from tracetui_workloads.recording.recorder import Recording, main
from tracetui_workloads.verifying.noise import noise_of, ratio_of, refusal, verdict
from tracetui_workloads.verifying.task import SCRIPT, TIME, RecordedOp, Task, read_task

if TYPE_CHECKING:
    from tracetui_workloads.verifying.building import Plan

HERE, AGAIN, WARM = "here", "here again", "here, warm"
"""Names of the contenders beside alternatives: as recorded, the same, and with caches that are not cleared."""
MAX_RUN = 1 << 20
"""Maximum elements of all inputs of an operator that is run where it is only checked."""
ANOTHER = "--script FILE writes a program to take there."


class Verification(Recording):
    """Operators that are built again, in place of a workload that is recorded."""

    def run(self) -> Result:
        """Answer for each operator of the task; a variant that cannot be built is an answer too."""
        during = self._reporter.during
        with during("importing torch"):
            os.environ.setdefault("KINETO_LOG_LEVEL", "99")
            import torch

            torch.set_num_threads(self._threads())
            torch.manual_seed(0)
        task = read_task(self._request.operators)
        with during("preparing device"):
            target = self._prepare_device()
            if task.kind == TIME:
                _require_same_device(task, target)
        answers = []
        with torch.no_grad():
            for op in task.operators:
                with during(f"building {plain(op.name)[:80]}"):
                    answer, plan = self._built(op, task, target)
                if plan is not None and task.kind == TIME:
                    self._compare(op, plan, task, target, answer)
                answers.append(answer)
        about = {"name": target.name, "torch": torch.__version__, "threads": torch.get_num_threads()}
        return Result("", 0, {"operators": answers, "machine": about})

    def _built(self, op: RecordedOp, task: Task, target: Target) -> tuple[dict[str, Any], Plan | None]:
        """The answer about an operator without times, and its plan; None where it cannot be built."""
        import torch

        from tracetui_workloads.verifying.building import CannotBuild, build, elements

        device = target.device if op.kernels and task.kind == TIME else "cpu"
        # On a CPU an operator of a GPU calls others, if it is there at all.
        is_run = task.kind == TIME or (elements(op.dims) <= MAX_RUN and not op.kernels)
        try:
            plan = build(op, task.list_types, device, is_run)
        except CannotBuild as why:
            return {"why": plain(str(why)), "notes": []}, None
        answer: dict[str, Any] = {"why": None, "notes": list(dict.fromkeys(plan.notes)), "overload": str(plan.operator)}
        if task.kind == SCRIPT:
            answer["script"] = plan.script(op, task.label, torch.get_num_threads())
        elif is_run:
            children, kernels = recorded_again(bound(plan, device), target)
            answer["children"] = _difference(op.children, children)
            if task.kind == TIME:
                answer["kernels"] = _difference(op.kernels, kernels)
        return answer, plan

    def _compare(self, op: RecordedOp, plan: Plan, task: Task, target: Target, answer: dict[str, Any]) -> None:
        """Time an operator beside its alternatives, and put the result into its answer."""
        from tracetui_workloads.verifying import measuring

        device = target.device if op.kernels else "cpu"
        if not op.kernels:
            target = Target("cpu", target.name, target.activities, lambda: None)
        recorded = partial(bound, plan, device)
        if not plan.operator._schema.is_mutable:
            call = recorded()
            recorded = partial(_given, call)
        contenders = [
            measuring.Contender(HERE, recorded),
            measuring.Contender(AGAIN, recorded),
            measuring.Contender(WARM, recorded, is_warm=True),
        ]
        absent = []
        for name in task.alternatives:
            with self._reporter.during("compiling" if name == "compile" else "warming up"):
                try:
                    prepare = measuring.alternative(name, plan, device)
                    prepare()()
                    contenders.append(measuring.Contender(name, prepare))
                except Cancel:
                    raise
                except measuring.NotApplicable as why:
                    absent.append({"name": name, "why": str(why)})
                except Exception as error:
                    absent.append({"name": name, "why": f"{type(error).__name__}: {plain(first_line(error))[:160]}"})
        with self._reporter.during("timing"), self._reporter.without_heartbeat():
            samples = measuring.measure(contenders, target, task.seconds, self._reporter.interrupts.check)
        noise = noise_of(samples)
        answer |= {"noise": round(noise, 4), "refused": refusal(samples, task.max_noise) or None}
        answer["times"] = absent
        if answer["refused"] is not None:
            return
        rows, times = [], {}
        for contender, own in zip(contenders, samples.times, strict=True):
            timing = times[contender.name] = timing_of(own, 1, "")
            row = {key: value for key, value in asdict(timing).items() if key in ("median_us", "low_us", "high_us")}
            if contender.name != HERE:
                ratio, low, high = ratio_of(own, samples.times[0])
                row |= {"ratio": ratio, "ratio_low": low, "ratio_high": high}
                row["verdict"] = verdict(low, high, noise)
            rows.append({"name": contender.name, "why": None, **row})
        answer["times"] = [*rows, *absent]
        if op.times_us:
            here = [times[HERE].median_us, times[WARM].median_us]
            mine = timing_of(op.times_us, 1, "")
            low, high = (mine.median_us if each is None else each for each in (mine.low_us, mine.high_us))
            word = verdict(min(here) / max(high, 1e-9), max(here) / max(low, 1e-9), noise)
            answer["against_recorded"] = {"faster": "faster here", "slower": "slower here"}.get(word, word)


def _given(call: Callable[[], object]) -> Callable[[], object]:
    return call


def bound(plan: Plan, device: str) -> Callable[[], object]:
    """A call of the operator with new arguments."""
    args, named = plan.new(device)
    return partial(plan.operator, *args, **named)


def recorded_again(call: Callable[[], object], target: Target) -> tuple[list[str], list[str]]:
    """The names of the operators that an operator calls, and of the kernels that are launched, in order."""
    from torch.profiler import profile

    with profile(activities=target.activities) as profiler:
        call()
        target.synchronize()
    results: Any = profiler.profiler
    top = next((each for each in results.kineto_results.experimental_event_tree() if _is_aten(each)), None)
    on_device = sorted((each for each in profiler.events() or () if each.device_type.name != "CPU"), key=_start)
    return [each.name for each in (top.children if top else ()) if _is_aten(each)], [each.name for each in on_device]


def _is_aten(event: Any) -> bool:
    return bool(event.name.startswith("aten::"))


def _start(event: Any) -> float:
    return float(event.time_range.start)


def _difference(recorded: Sequence[str], here: Sequence[str]) -> str:
    """Empty where two lists of names are the same; else how they differ."""
    if list(recorded) == list(here):
        return ""
    recorded, here = (", ".join(plain(each)[:80] for each in names[:8]) or "none" for names in (recorded, here))
    return f"recorded {recorded}; here {here}"


def _require_same_device(task: Task, target: Target) -> None:
    """Check that operators with kernels run on a GPU of the trace.

    Raises: RecordingError.
    """
    if not any(each.kernels for each in task.operators) or target.name in task.gpus:
        return
    there = " and ".join(plain(each)[:80] for each in task.gpus) or "a GPU that the trace does not name"
    here = target.name if target.is_gpu else "the CPU alone"
    message = f"The operator was recorded on {there}, and here is {here}: its times could not be compared."
    raise RecordingError("device", message, ANOTHER)


if __name__ == "__main__":
    main(sys.argv[1:], Verification)
