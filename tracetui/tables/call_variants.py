"""Variants of operators: calls of one name with the same inputs, with what building them again needs."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tracetui.devices.kernel_work import kernel_work
from tracetui.devices.roofline import roofline
from tracetui.errors import Unanswerable, UsageError, nearest
from tracetui.frozen import frozen
from tracetui.linking.links import links, op_rows, region
from tracetui.linking.placement import ops_within
from tracetui.linking.trees import nearest_row
from tracetui.model.intervals import Int64
from tracetui.model.results import kept
from tracetui.model.trace import Kind, Trace
from tracetui.operators.costs import self_times
from tracetui.operators.key_averages import has_shapes
from tracetui.operators.ops import gpu_union_times

ATEN = "aten::"
_INPUTS = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs", "Input dims")
"""The last one is how torch 1.8 and 1.9 write the first."""
_GENERATED = re.compile(r"triton_|(\w+_)?cpp_fused_|CompiledFunction|Torch-Compiled Region|## Call CompiledFxGraph")
GENERATED = "torch.compile generated it, and its code is not in the trace"
MAX_CALLS = 100_000
"""Maximum calls whose inputs are read, the longest."""
MAX_VARIANTS = 2_000
"""Maximum variants that are tried, the longest."""
MAX_TIMES = 1_000
"""Maximum recorded times that are passed on."""
MAX_INPUT_TEXT = 100_000
"""Maximum characters of the inputs of a call."""
MAX_DEPTH = 4
"""Maximum lists in each other; inputs have three."""


@frozen
class CallVariant:
    """Calls of an operator with the same inputs."""

    name: str
    rows: Int64
    self_cpu_us: float
    """CPU time of all calls, less that of what they called."""
    gpu_us: float
    """Time of the activities that these calls launched themselves."""
    inputs: tuple[Any, Any, Any, Any] = (None, None, None, None)
    """Shapes, types, strides and values, as they stand in the file; None where they are missing or too long."""
    why: str = ""
    """The reason why it cannot be built again, where the trace alone says so."""

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


@kept
def _callers(trace: Trace) -> Int64:
    """The innermost operator around each operator, -1 for none and for all other slices."""
    is_op = np.zeros(len(trace.slices), bool)
    is_op[op_rows(trace)] = True
    return np.where(is_op, nearest_row(trace.slices.parent, is_op), -1).astype(np.int64)


def call_variants(trace: Trace, rows: Int64) -> list[CallVariant]:
    """The variants of some calls, those with most GPU time first, then by CPU time."""
    slices, joined = trace.slices, links(trace)
    own = np.maximum(self_times(trace), 0)
    owner = joined.owner[joined.gpu].astype(np.int64)
    gpu = np.bincount(owner[owner >= 0], slices.dur[joined.gpu][owner >= 0], len(slices))
    rows = rows[np.argsort(-(gpu + own)[rows], kind="stable")]
    members: dict[tuple[int, str], list[int]] = {}
    inputs: dict[tuple[int, str], tuple[Any, Any, Any, Any]] = {}
    read = np.sort(rows[:MAX_CALLS])
    for row, dims, types, strides, values, old in zip(read.tolist(), *trace.args_of(read, _INPUTS), strict=True):
        given = (dims if dims is not None else old, types, strides, values)
        text = json.dumps(given) if all(map(_is_bounded, given)) else ""
        key = int(slices.name[row]), text if len(text) <= MAX_INPUT_TEXT else ""
        members.setdefault(key, []).append(row)
        inputs[key] = given if key[1] else (None, None, None, None)

    def variant(name: str, calls: Int64, given: tuple[Any, Any, Any, Any], why: str) -> CallVariant:
        return CallVariant(name, calls, float(own[calls].sum()) / 1000, float(gpu[calls].sum()) / 1000, given, why)

    variants = []
    for key, calls in members.items():
        name = str(trace.names[key[0]])
        why = GENERATED if _GENERATED.match(name) else "it is no operator of aten"
        variants.append(variant(name, np.array(calls, np.int64), inputs[key], "" if name.startswith(ATEN) else why))
    if len(rest := rows[MAX_CALLS:]):
        variants.append(variant("other calls", rest, (None,) * 4, f"only the {MAX_CALLS:,} longest calls are read"))
    return sorted(variants, key=lambda each: (-each.gpu_us, -each.self_cpu_us))


def _is_bounded(value: Any, depth: int = 0) -> bool:
    """True for lists, not deep, of what JSON has as one word."""
    if isinstance(value, list):
        return depth < MAX_DEPTH and all(_is_bounded(each, depth + 1) for each in value)
    return not isinstance(value, dict)


def all_variants(trace: Trace) -> list[CallVariant]:
    """The variants of all operators, and the GPU activities of none by name, the longest first."""
    gpu = links(trace).gpu
    alone = gpu[links(trace).owner[gpu] < 0]
    names = trace.slices.name[alone]
    variants = call_variants(trace, op_rows(trace))
    for each in np.unique(names).tolist():
        rows, name = alone[names == each], str(trace.names[each])
        why = GENERATED if _GENERATED.match(name) else "no operator is known that launched it"
        variants.append(CallVariant(name, rows, 0.0, float(trace.slices.dur[rows].sum()) / 1000, why=why))
    variants.sort(key=lambda each: (-each.gpu_us, -each.self_cpu_us))
    why = f"only the {MAX_VARIANTS:,} longest variants are tried"
    return [*variants[:MAX_VARIANTS], *(replace(each, why=each.why or why) for each in variants[MAX_VARIANTS:])]


def variant_at(trace: Trace, row: int) -> CallVariant:
    """The variant of the operator in a row, or of the operator that launched what is there.

    Raises: Unanswerable where there is none.
    """
    ops, name = op_rows(trace), trace.name_of(row)
    if row not in ops:
        if _GENERATED.match(name):
            raise Unanswerable(f"{name} cannot be built again: {GENERATED}.")
        row = int(links(trace).owner[row])
    if row < 0:
        raise Unanswerable(f"{name} cannot be built again: it is no operator, and none is known that launched it.")
    alike = ops[trace.slices.name[ops] == trace.slices.name[row]]
    return next(each for each in call_variants(trace, alike) if row in each.rows)


def variants_named(trace: Trace, wanted: str) -> list[CallVariant]:
    """The variants of the operator with a name, with or without `aten::`, those that took longest first.

    Raises: UsageError where there is none.
    """
    rows = op_rows(trace)
    names = trace.slices.name[rows]
    for name in (wanted, ATEN + wanted):
        if len(calls := rows[names == trace.names.find(name)]):
            took = gpu_union_times(trace) if gpu_union_times(trace)[calls].any() else trace.slices.dur
            return sorted(call_variants(trace, calls), key=lambda each: -int(took[each.rows].sum()))
    known = [str(trace.names[each]) for each in np.unique(names).tolist()]
    raise UsageError(f"There is no operator {wanted!r} in the trace. {nearest(wanted, known)}".rstrip())


def view_of(trace: Trace, variant: CallVariant) -> str:
    """The view string of the typical call of a variant, by which it is chosen."""
    return f"e{int(trace.slices.event[variant.typical(trace)])}"


def selected_variant(trace: Trace, row: int, step: int | None) -> CallVariant:
    """The variant that a selection means: of its operator, else the longest of a step, or of the trace.

    Raises: Unanswerable where there is none.
    """
    slices = trace.slices
    works = row >= 0 and slices.kind[row] not in (Kind.ANNOTATION, Kind.GPU_ANNOTATION, Kind.PYTHON, Kind.LINE)
    if works:
        return variant_at(trace, row)
    variants = [each for each in call_variants(trace, ops_within(trace, step)) if not each.why]
    if not variants:
        raise Unanswerable("There is no operator of aten here: select one, or a kernel that one launched.")
    return variants[0]


def require_buildable(trace: Trace, variant: CallVariant, is_timed: bool) -> None:
    """Raises: Unanswerable where the trace says that a variant cannot be built again, or there is no time to verify."""
    if not variant.why and variant.inputs[0] is None and not has_shapes(trace):
        way = trace.to_record("record with record_shapes=True (`tracetui run --shapes on`)")
        raise Unanswerable(f"{variant.name} cannot be built again: no shapes of inputs are in this trace; {way}.")
    if variant.why:
        raise Unanswerable(f"{variant.name} cannot be built again: {variant.why}.")
    if is_timed and trace.is_simulated:
        raise Unanswerable("The trace is simulated: its times were never measured, and nothing here can verify them.")


def frequent_types(trace: Trace) -> list[str]:
    """The types of inputs of operators, those with most inputs first."""
    given, counts = trace.op_args.texts.get("Input type"), Counter[str]()
    for index, times in enumerate(np.bincount(given[given >= 0]).tolist() if given is not None else ()):
        for each in re.findall(r'"([^"]+)"', trace.op_args.strings[index]) if times else ():
            counts[each] += times
    return [each for each, _ in counts.most_common(20)]


def read_alternatives(text: str, known: Sequence[str]) -> list[str]:
    """The alternatives, each once, of a list such as `compile,bf16`.

    Raises: UsageError for a word that names none.
    """
    words = list(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))
    if odd := next((word for word in words if word not in known), ""):
        raise UsageError(f"There is no alternative {odd!r}. {nearest(odd, known)}".rstrip())
    return words


def task_fields(trace: Trace, variants: Sequence[CallVariant]) -> dict[str, Any]:
    """The fields of a task for the process that builds variants again."""
    threads = trace.own_metadata.get("threads")
    return {
        "operators": [each.recorded(trace) for each in variants],
        "list_types": frequent_types(trace),
        "gpus": sorted({device.name for device in trace.devices if device.name.strip()}),
        "label": trace.label,
        "threads": threads if type(threads) is int else 0,
    }
