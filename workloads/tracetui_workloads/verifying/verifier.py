"""The child process that builds recorded operators again: `python -m tracetui_workloads.verifying.verifier ...`.

The launcher starts it as it starts a recording, and it reports by the same events. Its answer is the metadata of the
result: a dictionary for each operator of the task.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracetui_workloads.recording.devices import Target, choose
from tracetui_workloads.recording.exceptions import Cancel, RecordingError, first_line
from tracetui_workloads.recording.protocol import Result, plain
from tracetui_workloads.recording.recorder import Recording, main
from tracetui_workloads.verifying import measuring
from tracetui_workloads.verifying.measuring import Contender
from tracetui_workloads.verifying.task import SCRIPT, TIME, RecordedOp, Task

if TYPE_CHECKING:
    from tracetui_workloads.verifying.building import Plan


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
                    prepare = measuring.alternative(name, plan, target.device)
                    prepare()()
                    contenders.append(Contender(name, prepare))
                except Cancel:
                    raise
                except measuring.NotApplicable as why:
                    absent.append({"name": name, "why": str(why)})
                except Exception as error:
                    # An alternative may fail in any way that torch has.
                    absent.append({"name": name, "why": f"{type(error).__name__}: {plain(first_line(error))[:160]}"})
        with self._reporter.during(f"timing {plain(op.name)[:80]}"), self._reporter.without_heartbeat():
            longest = task.seconds * len(contenders)
            times, watched = measuring.measure(contenders, target, self._reporter.progress, longest)
        if len(watched) < measuring.MIN_BLOCKS:
            few = f"{len(watched)} rounds instead of at least {measuring.MIN_BLOCKS} were timed in {longest:g} s"
            notes.append(f"{few}, so that the intervals are wide: --seconds allows more")
        noise = measuring.noise_of(*times[:2])
        answer: dict[str, Any] = {"noise": noise, "refused": measuring.refusal(noise, watched, task.max_noise) or None}
        if answer["refused"] is not None:
            return answer | {"times": absent}
        rows = []
        for contender, own in zip(contenders, times, strict=True):
            row: dict[str, Any] = {"name": contender.name, "why": None, "interval_us": measuring.interval(own)}
            if contender.name not in ("here", "warm"):
                row |= {"ratio": measuring.ratio(own, times[0]), "verdict": measuring.verdict(own, times[0], noise)}
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
