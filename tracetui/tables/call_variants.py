"""Variants of operators: calls of one name with the same inputs, with what building them again needs."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracetui.devices.kernel_work import kernel_work
from tracetui.devices.roofline import roofline
from tracetui.errors import Unanswerable, UsageError, nearest
from tracetui.idle.scope_times import median_step
from tracetui.linking.links import links, op_rows, region
from tracetui.linking.placement import activities_of_step_number, within
from tracetui.linking.trees import nearest_row
from tracetui.model.intervals import Int64
from tracetui.model.trace import Trace
from tracetui.model.viewpoint import read_view_string
from tracetui.operators.costs import self_times
from tracetui.operators.ops import gpu_union_times

ATEN = "aten::"
ALTERNATIVES = ("compile", "channels_last", "bf16", "sdpa")
"""Ways in which an operator can be run beside the recorded one."""
_INPUTS = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs", "Input dims")
"""The last one is how torch 1.8 and 1.9 write the first."""
MAX_CALLS = 100_000
"""Maximum calls whose inputs are read."""
MAX_TIMES = 1_000
"""Maximum recorded times that are passed on."""
MAX_INPUT_TEXT = 100_000
"""Maximum characters of the inputs of a call."""
MAX_DEPTH = 4
"""Maximum lists in each other; inputs have three."""
_PLACE = re.compile(r"(?:.*/)?[ek]\d{1,18}")


@dataclass(frozen=True, eq=False)
class CallVariant:
    """Calls of an operator with the same inputs."""

    name: str
    inputs: tuple[Any, Any, Any, Any]
    """Shapes, types, strides and values, as they stand in the file; None where they are missing or too long."""
    rows: Int64
    self_cpu_us: float
    """CPU time of all calls, less that of what they called."""
    gpu_us: float
    """Time of the activities that these calls launched themselves."""

    @property
    def shapes(self) -> str:
        """The sizes of the inputs as text."""
        return json.dumps(self.inputs[0]) if self.inputs[0] is not None else ""

    def typical(self, trace: Trace) -> int:
        """The call of median duration."""
        return int(self.rows[np.argsort(trace.slices.dur[self.rows], kind="stable")[len(self.rows) // 2]])

    def recorded(self, trace: Trace) -> dict[str, Any]:
        """The fields of what is to be built again; children and kernels are those of the typical call."""
        row = self.typical(trace)
        children = np.flatnonzero(_callers(trace) == row)
        activities = region(trace, row).rows
        took = gpu_union_times(trace) if len(activities) else trace.slices.dur
        some = self.rows[np.linspace(0, len(self.rows) - 1, min(len(self.rows), MAX_TIMES)).astype(np.int64)]
        dims, types, strides, values = self.inputs
        return {
            "name": self.name,
            "dims": dims,
            "types": types,
            "strides": strides,
            "values": values,
            "children": [name for name in map(trace.name_of, children.tolist()) if name.startswith(ATEN)],
            "kernels": list(map(trace.name_of, activities.tolist())),
            "times_us": (took[some] / 1000).tolist(),
        }

    def roofline_us(self, trace: Trace) -> float | None:
        """The least time of a typical call on the device of the trace; None where it is not known."""
        activities = region(trace, self.typical(trace)).rows
        least = roofline(trace).roofline_ns[kernel_work(trace).at(activities)]
        return None if np.isnan(least).all() else float(np.nansum(least)) / 1000


def _callers(trace: Trace) -> Int64:
    """The innermost operator around each operator, -1 for none and for all other slices."""

    def make() -> Int64:
        is_op = np.zeros(len(trace.slices), bool)
        is_op[op_rows(trace)] = True
        return np.where(is_op, nearest_row(trace.slices.parent, is_op), -1).astype(np.int64)

    return trace.keep("callers of operators", make)


def call_variants(trace: Trace, rows: Int64) -> list[CallVariant]:
    """The variants of some calls, those with most GPU time first, then by CPU time; of the longest `MAX_CALLS`."""
    slices = trace.slices
    own, joined = np.maximum(self_times(trace), 0), links(trace)
    owner = joined.owner[joined.gpu].astype(np.int64)
    gpu = np.bincount(owner[owner >= 0], slices.dur[joined.gpu][owner >= 0], len(slices))
    if len(rows) > MAX_CALLS:
        rows = np.sort(rows[np.argsort(-(gpu + own)[rows], kind="stable")[:MAX_CALLS]])
    members: dict[tuple[int, str], list[int]] = {}
    inputs: dict[tuple[int, str], tuple[Any, Any, Any, Any]] = {}
    for row, dims, types, strides, values, old in zip(rows.tolist(), *trace.args_of(rows, _INPUTS), strict=True):
        given = (dims if dims is not None else old, types, strides, values)
        text = json.dumps(given) if all(map(_is_bounded, given)) else ""
        key = int(slices.name[row]), text if len(text) <= MAX_INPUT_TEXT else ""
        members.setdefault(key, []).append(row)
        inputs[key] = given if key[1] else (None, None, None, None)
    variants = []
    for key, listed in members.items():
        calls = np.array(listed, np.int64)
        times = float(own[calls].sum()) / 1000, float(gpu[calls].sum()) / 1000
        variants.append(CallVariant(str(trace.names[key[0]]), inputs[key], calls, *times))
    return sorted(variants, key=lambda each: (-each.gpu_us, -each.self_cpu_us))


def _is_bounded(value: Any, depth: int = 0) -> bool:
    """True for lists, not deep, of what JSON has as one word."""
    if isinstance(value, list):
        return depth < MAX_DEPTH and all(_is_bounded(each, depth + 1) for each in value)
    return not isinstance(value, dict)


def chosen_variants(trace: Trace, wanted: str, step: int | None = None) -> list[CallVariant]:
    """The variants of the operator with a name, the longest first; or that of the kernel `k42` or the event `e120`.

    Raises: UsageError where there is none; Unanswerable for a kernel without an operator.
    """
    slices, rows = trace.slices, op_rows(trace)
    calls = within(trace, rows, step)
    if _PLACE.fullmatch(wanted):
        row = _operator_at(trace, wanted, step)
        alike = rows[slices.name[rows] == slices.name[row]]
        return [each for each in call_variants(trace, alike) if row in each.rows]
    name = next((trace.names.find(each) for each in (wanted, ATEN + wanted) if trace.names.find(each) >= 0), -1)
    calls = calls[slices.name[calls] == name]
    if len(calls) == 0:
        known = [str(trace.names[each]) for each in np.unique(slices.name[rows]).tolist()]
        part = "" if step is None else f" in step {step}"
        raise UsageError(f"There is no operator {wanted!r}{part}. {nearest(wanted, known)}".rstrip())
    took = gpu_union_times(trace) if gpu_union_times(trace)[calls].any() else slices.dur
    return sorted(call_variants(trace, calls), key=lambda each: -int(took[each.rows].sum()))


def _operator_at(trace: Trace, wanted: str, step: int | None) -> int:
    """The operator behind a view string that names a kernel of a step or an event."""
    point, joined = read_view_string(wanted), links(trace)
    if point.kernel > 0:
        number = point.step if point.step is not None else step if step is not None else median_step(trace)
        activities = joined.gpu if number is None else activities_of_step_number(trace, number)
        rows = activities[point.kernel - 1 : point.kernel]
        where = f"{len(activities):,} ran on the GPU" + ("" if number is None else f" in step {number}")
    else:
        rows, where = np.flatnonzero(trace.slices.event == point.event), "no slice is of this event"
    if len(rows) == 0:
        raise UsageError(f"There is no {wanted}: {where}.")
    row = int(rows[0])
    if row not in op_rows(trace):
        row = int(joined.owner[row])
    if row < 0:
        raise Unanswerable(f"{trace.name_of(int(rows[0]))} has no operator: nothing says what to build again.")
    return row


def read_alternatives(text: str) -> list[str]:
    """Alternatives with commas between them.

    Raises: UsageError for one that there is not.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    if odd := [word for word in words if word not in ALTERNATIVES]:
        raise UsageError(f"There is no alternative {odd[0]}. {nearest(odd[0], ALTERNATIVES)}")
    return words


def tensor_types(trace: Trace) -> Sequence[str]:
    """The types of inputs of operators, those with most inputs first."""
    given, counts = trace.op_args.texts.get("Input type"), Counter[str]()
    for index, times in enumerate(np.bincount(given[given >= 0]).tolist() if given is not None else ()):
        types = json.loads(trace.op_args.strings[index]) if times else ()
        for each in types if isinstance(types, list) else ():
            if isinstance(each, str):
                counts[each] += times
    return [each for each, _ in counts.most_common(20)]


def task_fields(trace: Trace, variants: Sequence[CallVariant], is_timed: bool) -> dict[str, Any]:
    """The fields of a task for the process that builds variants again; of `aten` alone.

    Raises: Unanswerable where there is none, and for times of a trace that was never recorded.
    """
    if is_timed and trace.is_simulated:
        raise Unanswerable("The trace is simulated: its times were never measured, and nothing here can verify them.")
    asked = [each for each in variants if each.name.startswith(ATEN)]
    if not asked:
        name = f"{variants[0].name} is none" if variants else "there are no operators in this trace"
        raise Unanswerable(f"Only operators of aten can be built again, and {name}.")
    about = trace.metadata.get("tracetui")
    threads = about.get("threads") if isinstance(about, Mapping) else None
    return {
        "operators": [each.recorded(trace) for each in asked],
        "list_types": tensor_types(trace),
        "gpus": sorted({device.name for device in trace.devices}),
        "label": trace.label,
        "threads": threads if type(threads) is int else 0,
    }
