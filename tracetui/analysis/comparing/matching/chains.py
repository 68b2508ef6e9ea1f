"""Which operators a GPU activity runs for: the one that launched it and those around that one.

A kernel that the compiler wrote names the operators it stems from by their outer or their inner names: `relu`, and
not `clamp_min`, which launches the kernel of an eager `relu`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from tracetui.analysis.common.combinations import combinations
from tracetui.analysis.linking.links import calls_named, links, names_of
from tracetui.analysis.linking.replays import GRAPH_LAUNCH
from tracetui.model.intervals import Int64
from tracetui.model.trace import Kind, Trace

_RELU = "_relu"
_NO_WORK = frozenset({"view", "unsafe_view", "t", "transpose", "permute", "expand", "reshape", "slice", "select"})
_LEVELS = 4
"""So many operators, one within the other, are asked."""
_BEFORE = re.compile(r"^_*(?:native_|cudnn_|miopen_)?")
_AFTER = re.compile(r"(?:_legit)?(?:_no_training|_functional)?_?$")


def loose_op(name: str) -> str:
    """An operator's name without its namespace and without what tells variants apart: `add_` is `add`."""
    base = name.rsplit("::", 1)[-1]
    backward = "_backward" if base.endswith("_backward") else ""
    return _AFTER.sub("", _BEFORE.sub("", base.removesuffix("_backward"))) + backward


def fused_names(ops: Iterable[str]) -> frozenset[str]:
    """Loose names of the operators in a generated kernel's name; of those that make no kernel none.

    `add_relu` and the like are operators of quantised tensors by their letters, and two of others in truth.
    """
    apart = (part for op in ops for part in ((op.removesuffix(_RELU), "relu") if op.endswith(_RELU) else (op,)))
    return frozenset(map(loose_op, apart)) - _NO_WORK


def op_names(trace: Trace, rows: Int64) -> tuple[Int64, list[frozenset[str]]]:
    """For each GPU activity the number of a set of loose names, and the sets; one is empty where no operator is."""
    found = links(trace)
    replayed = np.isin(found.launch[rows], calls_named(trace, GRAPH_LAUNCH))
    at = np.where(replayed, -1, found.owner[rows]).astype(np.int64)
    levels = []
    for _ in range(_LEVELS):
        levels.append(names_of(trace, at))
        at = _op_above(trace, at)
    if len(rows) == 0:
        return np.empty(0, np.int64), []
    alike = combinations(*levels)
    sets = []
    for place in alike.first.tolist():
        names = [trace.names[level[place]] for level in levels if level[place] >= 0]
        sets.append(frozenset(loose_op(name) for name in names if "::" in name and "evaluate_function" not in name))
    return alike.member, sets


def _op_above(trace: Trace, rows: Int64) -> Int64:
    """The operator around each operator, -1 for none."""
    slices = trace.slices
    above = np.where(rows >= 0, slices.parent[rows], -1).astype(np.int64)
    while len(between := np.flatnonzero((above >= 0) & (slices.kind[above] != Kind.CPU_OP))):
        above[between] = slices.parent[above[between]]
    return above
