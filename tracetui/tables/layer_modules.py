"""Layers by the modules of the program: what a layer is called, and where modules tell layers that kernels do not.

A layer is found as a repeat of kernels (R3.80), which may begin in the middle of a module. Its module is the
shortest path that holds most of its time and that tells neighbouring layers apart; nothing where no path does
(R3.80a). Where no layer has one although modules are known, the modules that are numbered in a row are the layers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from tracetui.kernel_names.slice_names import Purpose, purposes
from tracetui.linking.call_sites import site_of
from tracetui.linking.frames import PATH_SEPARATOR
from tracetui.linking.graph_nodes import op_names
from tracetui.linking.groups import distinct
from tracetui.model.intervals import Bool, Int64
from tracetui.model.table import Strings
from tracetui.model.trace import Trace
from tracetui.tables.repeats import MIN_COVERED_SHARE, MIN_REPEATS, Repeat

MIN_MODULE_SHARE = 0.5
"""Minimum share of a layer's time, of which the module is known, that its module holds."""
_WORD = re.compile(rf"{re.escape(PATH_SEPARATOR)}|\.")
"""Between the words of a path; names that a program gives to nodes have dots (`layers.0.attention`)."""
_NUMBER = re.compile(rf"\d+(?={_WORD.pattern}|$)")
"""Number of an instance, at the end of a word: that of `Qwen2DecoderLayer_0` is 0."""


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
    """The module of several layers with `#` for the numbers of instances that differ, None where more differs."""
    known = sorted({name or "" for name in names})
    if len({_NUMBER.sub("#", name) for name in known}) != 1:
        return None
    numbers = (each[0] if len(set(each)) == 1 else "#" for each in zip(*map(_NUMBER.findall, known), strict=True))
    return _NUMBER.sub(lambda _: next(numbers), known[0]) or None


# What a kernel is for, by the innermost module around its launch where its own name says nothing more.

_MODULE_PURPOSES = (
    (Purpose.NORM, re.compile(r"[Nn]orm(?:\d+d?)?$")),
    (Purpose.ROPE, re.compile(r"(?:[Rr]otary|R[oO]PE|\brope)(?:\w*[Ee]mb(?:eddings?)?)?$")),
    (Purpose.EMBEDDING, re.compile(r"(?:Embeddings?|[Ee]mbed(?:_tokens)?)$")),
    (Purpose.ACTIVATION, re.compile(r"(?:Activation|LU6?)$")),
)
"""Names of classes of modules, or of modules in a list, and the purpose of what they launch; the first counts."""
_GENERAL = (Purpose.POINTWISE, Purpose.REDUCTION, Purpose.COPY, Purpose.OTHER)
"""Purposes of names that say how a kernel computes, not what for."""


def layer_purposes(trace: Trace, rows: Int64) -> tuple[Int64, Strings, Bool]:
    """The purpose of each kernel of a model as a number, their texts, and where a capture tells it (R3.81a)."""
    ids, texts = purposes(trace, rows, in_layers=True)
    modules, paths, inferred = site_of(trace, rows, "module")
    by_module = np.full(len(paths) + 1, -1, np.int64)
    for number in distinct(modules[modules >= 0]).tolist():
        name = _INSTANCE.sub("", _WORD.split(str(paths[number]))[-1])
        purpose = next((each for each, pattern in _MODULE_PURPOSES if pattern.search(name)), None)
        by_module[number] = texts.intern(purpose) if purpose else -1
    meant = by_module[modules]
    meant[~np.isin(ids, [texts.find(each) for each in _GENERAL])] = -1
    return np.where(meant >= 0, meant, ids), texts, (meant >= 0) & (False if inferred is None else inferred)


def common_op(trace: Trace, rows: Int64) -> str | None:
    """The operator behind all of some kernels, None where it is not known or not the same."""
    ids, texts, _ = op_names(trace, rows)
    used = np.unique(ids).tolist()
    return str(texts[used[0]]) if len(used) == 1 and used[0] >= 0 else None


def _time_of_paths(trace: Trace, rows: Int64) -> dict[str, int]:
    """Time in ns of the kernels in each module path."""
    ids, paths, _ = site_of(trace, rows, "module")
    known = ids >= 0
    used, index = np.unique(ids[known], return_inverse=True)
    time = np.bincount(index, trace.slices.dur[rows[known]], len(used))
    return {str(paths[number]): int(spent) for number, spent in zip(used.tolist(), time.tolist(), strict=True)}


def _holding_most(paths: dict[str, int], depth: int) -> str | None:
    """The path, cut after its first `depth` words, that holds most time; None where none holds half of it."""
    total, held = sum(paths.values()), dict[str, int]()
    for path, spent in paths.items():
        ends = [match.start() for match in _WORD.finditer(path)] + [len(path)]
        if depth <= len(ends):
            beginning = path[: ends[depth - 1]]
            held[beginning] = held.get(beginning, 0) + spent
    best = max(held, key=lambda each: held[each], default=None)
    return best if best is not None and held[best] >= MIN_MODULE_SHARE * max(total, 1) else None


# Layers by modules of one class that are numbered: `Model_0 / DecoderLayer_0`, `Model_0 / DecoderLayer_1`.

_INSTANCE = re.compile(r"[_.]?\d+$")
"""Number of an instance of a class, or of a module in a list."""
MAX_RUNS_OF_LAYER = 4
"""Maximum stretches of kernels per module: where launches of several threads mix, modules tell no layers."""


def layers_of_modules(trace: Trace, rows: Int64, sections: list[Repeat]) -> list[Repeat]:
    """The layers of a step by modules, where these name no layer of `sections`, which repeats of kernels make.

    Empty where they name layers, where too little time has a module, and where no modules are numbered in a row.
    `rows` are the kernels of the step by launch.
    """
    ids, paths, _ = site_of(trace, rows, "module")
    dur = trace.slices.dur[rows]
    if not sections or 2 * int(dur[ids >= 0].sum()) < max(int(dur.sum()), 1):
        return []
    bounds = [[rows[low:high] for low, high in pairwise(each.bounds.tolist())] for each in sections]
    named = [name for each in bounds for name in layer_modules(trace, each)]
    if 2 * sum(name is not None for name in named) > len(named):
        return []
    words = {number: str(paths[number]).split(PATH_SEPARATOR) for number in np.unique(ids[ids >= 0]).tolist()}
    for depth in range(max(map(len, words.values()))):
        label = _numbered(words, ids, depth)
        if int(dur[label[:, 1] >= 0].sum()) >= MIN_COVERED_SHARE * int(dur.sum()):
            return _in_series(label)
    return []


def _numbered(words: dict[int, list[str]], ids: Int64, depth: int) -> Int64:
    """The class and the instance at some depth of the path of each kernel, as numbers; -1 where there are too few."""
    instances: dict[tuple[str, ...], dict[str, int]] = {}
    classes: dict[int, tuple[str, ...]] = {}
    for number, path in words.items():
        if len(path) > depth and (match := _INSTANCE.search(path[depth])):
            classes[number] = (*path[:depth], path[depth][: match.start()])
            named = instances.setdefault(classes[number], {})
            named.setdefault(path[depth], len(named))
    kept = [each for each, named in instances.items() if len(named) >= MIN_REPEATS]
    table = np.full((max(words) + 2, 2), -1, np.int64)
    for number, name in classes.items():
        if name in kept:
            table[number] = kept.index(name), instances[name][words[number][depth]]
    return table[ids]


def _in_series(label: Int64) -> list[Repeat]:
    """The series of layers: each goes on while further instances of one class come, each of them once."""
    at = np.flatnonzero(label[:, 1] >= 0)
    fresh = np.append(True, (label[at][1:] != label[at][:-1]).any(axis=1))
    starts = at[fresh]
    ends = at[np.append(np.flatnonzero(fresh)[1:] - 1, len(at) - 1)] + 1
    runs = list(map(tuple, label[starts].tolist()))
    if len(runs) > MAX_RUNS_OF_LAYER * len(set(runs)):
        return []
    series: list[list[int]] = []
    for index, run in enumerate(runs):
        mine = series[-1] if series else []
        if mine and runs[mine[0]][0] == run[0] and run not in [runs[each] for each in mine]:
            mine.append(index)
        else:
            series.append([index])
    none = np.empty(0, np.int64)
    return [Repeat(np.append(starts[each], ends[each[-1]]), none, False) for each in series if len(each) >= MIN_REPEATS]
