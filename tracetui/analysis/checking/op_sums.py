"""Operators by name, and what each costs in each part of a side: calls and times as the ops pane counts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tracetui.analysis.comparing.sides.side import Side
from tracetui.analysis.linking.links import links
from tracetui.analysis.operators.costs import costs
from tracetui.analysis.operators.key_averages import KIND_WORDS, averages, grouped
from tracetui.model.intervals import Int64
from tracetui.model.table import Table, coded, numbers
from tracetui.model.trace import Float64

ON_GPU = ("self_device_us", "device_total_us", "kernels")
"""Columns of which a trace without a GPU says nothing."""


@dataclass(frozen=True, eq=False)
class OpSums:
    """Sums by operator and part; an op and an annotation of one name are two rows."""

    name: Int64
    """Id in `texts`."""
    texts: Sequence[str]
    kind: Int64
    """Id in `KIND_WORDS`."""
    sums: dict[str, Float64]
    """For each column of the ops pane an array of operators and parts; times are microseconds."""


OP_HELP = {
    "calls": ("", "Calls in a step."),
    "self_cpu_us": ("us", "CPU time in a step, outside of what it called."),
    "cpu_total_us": ("us", "CPU time in a step, with what it called."),
    "self_device_us": ("us", "Time of the GPU work that it launched itself."),
    "device_total_us": ("us", "Time of the GPU work that it and what it called launched."),
    "kernels": ("", "GPU activities that it and what it called launched."),
}
"""What is known of an operator: unit, and what it is."""


def op_sums(side: Side) -> OpSums:
    """The operators that occur in a side, in the order of their names' first use; made once."""
    return side.trace.remember(("op sums", side.scope), lambda: _made(side))


def op_list(side: Side) -> Table:
    """A row for each operator with the medians over the parts."""
    found = op_sums(side)
    return Table(
        (
            coded("name", found.name, found.texts, "Name; all steps are one."),
            *(
                numbers(name, np.median(found.sums[name], axis=1) if len(side) else [], unit, help)
                for name, (unit, help) in OP_HELP.items()
            ),
            coded("kind", found.kind, KIND_WORDS, "Op, annotation, runtime call or overhead."),
        )
    )


def _made(side: Side) -> OpSums:
    trace, every = side.trace, costs(side.trace)
    part = side.part_of(every.row)
    held = np.flatnonzero(part >= 0)
    cost, part = every.take(held), part[held]
    names = grouped(trace, cost)
    sums = averages(trace, cost, names)
    place, cells = names.member * len(side) + part, len(names) * len(side)

    def spread(values: Int64 | None) -> Float64:
        weights = None if values is None else values.astype(np.float64)
        return np.bincount(place, weights, cells).reshape(len(names), len(side)).astype(np.float64)

    table = {
        "calls": spread(None),
        "self_cpu_us": spread(cost.self_cpu) / 1000,
        "cpu_total_us": spread(cost.cpu) / 1000,
        "self_device_us": spread(cost.self_device) / 1000,
        "device_total_us": spread(cost.device) / 1000,
        "kernels": spread(cost.kernels),
    }
    if len(links(trace).gpu) == 0:
        table |= {name: np.full_like(table[name], np.nan) for name in ON_GPU}
    return OpSums(sums.name, cost.texts, sums.kind, table)
