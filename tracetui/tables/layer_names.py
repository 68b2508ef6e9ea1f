"""What layers are called in the program: the modules around the launches, or around the capture, of their kernels.

A layer is found as a repeat of kernels (R3.80), which may begin in the middle of a module. Its module is the shortest
path that holds most of its time and that tells neighbouring layers apart; nothing where no path does (R3.80a).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from tracetui.linking.call_sites import site_of
from tracetui.linking.frames import PATH_SEPARATOR
from tracetui.linking.graph_nodes import op_names
from tracetui.model.intervals import Int64
from tracetui.model.trace import Trace

MIN_MODULE_SHARE = 0.5
"""Minimum share of a layer's time, of which the module is known, that its module holds."""
_WORD = re.compile(rf"{re.escape(PATH_SEPARATOR)}|\.")
"""Between the words of a path; names that a program gives to nodes have dots (`layers.0.attention`)."""
_NUMBER = re.compile(r"\d+")


def layer_modules(trace: Trace, layers: Sequence[Int64]) -> list[str | None]:
    """The module of each layer of a series, None where it is not known; `layers` are their kernels, of all steps."""
    found = [_time_of_paths(trace, rows) for rows in layers]
    deepest = max((len(_WORD.findall(path)) + 1 for paths in found for path in paths), default=0)
    for depth in range(1, deepest + 1):
        named = [_holding_most(paths, depth) for paths in found]
        pairs = [(one, other) for one, other in pairwise(named) if one is not None and other is not None]
        same = {one for one, other in pairs if one == other}
        if 2 * sum(one != other for one, other in pairs) > len(pairs):
            # A path that two neighbours share names neither.
            return [None if each in same else each for each in named]
    return [None] * len(layers)


def common_module(names: Iterable[str | None]) -> str | None:
    """The module of several layers with `#` for the numbers that differ, None where more differs."""
    alike = {_NUMBER.sub("#", name) if name is not None else None for name in names}
    return alike.pop() if len(alike) == 1 else None


def common_op(trace: Trace, rows: Int64) -> str | None:
    """The operator behind all of some kernels, None where it is not known or not the same."""
    ids, texts, _ = op_names(trace, rows)
    used = np.unique(ids).tolist()
    return str(texts[used[0]]) if len(used) == 1 and used[0] >= 0 else None


def _time_of_paths(trace: Trace, rows: Int64) -> dict[str, int]:
    """Time in ns of the kernels in each module path."""
    ids, paths = site_of(trace, rows, "module")
    known = ids >= 0
    used, index = np.unique(ids[known], return_inverse=True)
    time = np.bincount(index, trace.slices.dur[rows[known]], len(used))
    return {str(paths[number]): int(spent) for number, spent in zip(used.tolist(), time.tolist(), strict=True)}


def _beginning(path: str, depth: int) -> str | None:
    """The first words of a path, None where it has fewer."""
    ends = [match.start() for match in _WORD.finditer(path)] + [len(path)]
    return path[: ends[depth - 1]] if depth <= len(ends) else None


def _holding_most(paths: dict[str, int], depth: int) -> str | None:
    """The path of some words that holds most time, None where none holds half of it."""
    total, held = sum(paths.values()), dict[str, int]()
    for path, spent in paths.items():
        beginning = _beginning(path, depth)
        if beginning is not None:
            held[beginning] = held.get(beginning, 0) + spent
    best = max(held, key=lambda each: held[each], default=None)
    return best if best is not None and held[best] >= MIN_MODULE_SHARE * max(total, 1) else None
