"""Holders of the memory of a device at a moment, by line, stack, module and more; the sum of the rows is the curve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from tracetui.linking.groups import combinations, group
from tracetui.model import columns as col
from tracetui.model.intervals import Int64
from tracetui.model.quantities import size
from tracetui.model.table import NULL, Table, micros, numbers, texts
from tracetui.snapshots.frames import frames_of, innermost_annotation
from tracetui.snapshots.history import OLDER, DeviceHistory

OLDER_ROW = "(older than the history)"
PENDING_ROW = "(freed, not completed)"
ROUNDING_ROW = "(rounded up by the allocator)"
UNEXPLAINED_ROW = "(events that contradict each other)"
NO_VALUE = "(none)"

HOLDER = replace(col.HOLDER, help="What holds the memory.", width=36, grow=3, is_key=True)
_BYTES = replace(col.BYTES, help="Bytes that it holds then, as they were requested.", is_key=True, detail=0)
_OP = replace(col.OP, help="The operator of most of it.", width=16, grow=0, is_key=False, detail=1)

_AGES = ((1_000, "under 1 ms"), (10_000, "1 to 10 ms"), (100_000, "10 to 100 ms"), (1_000_000, "0.1 to 1 s"))


def _sizes(history: DeviceHistory, lives: Int64, moment: int) -> list[str]:
    power = np.ceil(np.log2(np.maximum(history.allocations.size[lives], 1))).astype(np.int64)
    words = {each: f"up to {size(2.0 ** float(each))}" for each in np.unique(power).tolist()}
    return [words[each] for each in power.tolist()]


def _ages(history: DeviceHistory, lives: Int64, moment: int) -> list[str]:
    age = ages(history, lives, moment)
    bounds = [bound for bound, _ in _AGES]
    words = [*(name for _, name in _AGES), "over 1 s"]
    index = np.searchsorted(bounds, age, side="right")
    return [NO_VALUE if unknown else words[each] for each, unknown in zip(index, age == NULL, strict=True)]


def _annotations(history: DeviceHistory, lives: Int64, moment: int) -> list[str]:
    """The user's metadata, or the innermost annotation around the allocation."""
    snapshot = history.snapshot
    start = history.allocations.start[lives]
    annotation = np.full(len(lives), -1, np.int64)
    known = start != OLDER
    annotation[known] = innermost_annotation(snapshot, history.time_us[start[known]])
    metadata = history.allocations.metadata[lives]
    numbers = np.where(metadata >= 0, metadata, annotation)
    return [snapshot.text(each) or NO_VALUE for each in numbers.tolist()]


def _contexts(history: DeviceHistory, lives: Int64, moment: int) -> list[str]:
    return [history.snapshot.text(each) or NO_VALUE for each in history.allocations.context[lives].tolist()]


def _streams(history: DeviceHistory, lives: Int64, moment: int) -> list[str]:
    return [f"stream {each:#x}" if each > 1 << 16 else f"stream {each}" for each in history.allocations.stream[lives]]


def _by_stack(words: str, history: DeviceHistory, lives: Int64, moment: int) -> list[str]:
    frames = frames_of(history.snapshot)
    stack = history.allocations.stack[lives]
    make = {"line": frames.line, "module": frames.module, "stack": frames.key}[words]
    texts_of = {each: make(each) for each in np.unique(stack).tolist()}
    return [texts_of[each] for each in stack.tolist()]


GROUPINGS: dict[str, Callable[[DeviceHistory, Int64, int], list[str]]] = {
    "line": partial(_by_stack, "line"),
    "stack": partial(_by_stack, "stack"),
    "module": partial(_by_stack, "module"),
    "size": _sizes,
    "age": _ages,
    "annotation": _annotations,
    "context": _contexts,
    "stream": _streams,
}
"""The groupings of what is live, and how each names allocations."""


def ages(history: DeviceHistory, lives: Int64, moment: int) -> Int64:
    """Microseconds for which allocations have existed at a moment; NULL where no clock or no start is known."""
    start, now = history.allocations.start[lives], history.at_us(moment)
    known = (start != OLDER) & (now is not None)
    age = np.full(len(lives), NULL, np.int64)
    age[known] = (now or 0) + history.start_us - history.time_us[start[known]]
    return age


def holders(history: DeviceHistory, moment: int, by: str = "line", of: Int64 | None = None) -> Table:
    """Holders at a moment, the largest first; of some allocations alone, or of all, whose sum is the curve.

    What was requested to be freed, what is older than the history without a stack, and what the allocator rounds up are
    rows of their own.
    """
    lives, frames = history.allocations, frames_of(history.snapshot)
    own = history.live(moment) if of is None else of
    names = GROUPINGS[by](history, own, moment)
    pending = lives.requested[own] < moment
    older = (lives.start[own] == OLDER) & ~pending
    is_unknown = older & (lives.stack[own] == 0)
    for row in np.flatnonzero(is_unknown).tolist():
        names[row] = OLDER_ROW
    for row in np.flatnonzero(pending).tolist():
        names[row] = PENDING_ROW
    unique = sorted(set(names))
    number = {name: index for index, name in enumerate(unique)}
    groups = group(np.array([number[name] for name in names], np.int64))
    sizes, age = lives.size[own], ages(history, own, moment)
    total, before = (groups.sum(each).astype(np.int64) for each in (sizes, np.where(older, sizes, 0)))
    largest, age = sizes[groups.largest(sizes)], age[groups.largest(age)]
    blocks = groups.calls
    # The stack of most bytes in each group.
    pairs = combinations(groups.member, lives.stack[own])
    pair_bytes = np.bincount(pairs.member, sizes, len(pairs))
    order = pairs.first[np.argsort(pair_bytes, kind="stable")]
    stack = np.zeros(len(unique), np.int64)
    stack[groups.member[order]] = lives.stack[own][order]
    rest = history.unexplained(moment) if of is None else 0
    if rest:
        unique.append(ROUNDING_ROW if rest == history.rounding and rest > 0 else UNEXPLAINED_ROW)
        total, before, largest = (np.append(each, value) for each, value in ((total, rest), (before, 0), (largest, 0)))
        age, blocks, stack = (np.append(each, value) for each, value in ((age, NULL), (blocks, 0), (stack, 0)))
    whole = max(int(history.active[moment]) if of is None else int(sizes.sum()), 1)
    table = Table(
        (
            texts(HOLDER, unique),
            numbers(_BYTES, total),
            numbers(col.SHARE_PCT.but(help="Their share of all that is active then."), 100 * total / whole),
            numbers(col.BLOCKS, np.where(blocks > 0, blocks, NULL)),
            numbers(col.LARGEST.but(help="The largest of them."), np.where(largest > 0, largest, NULL)),
            micros(col.OLDEST_US, age * 1000.0, null=age == NULL),
            numbers(col.OLDER, np.where(before > 0, before, NULL)),
            texts(_OP, [frames.operator(each) if each else None for each in stack.tolist()]),
            numbers(col.STACK, np.where(stack > 0, stack, NULL)),
        )
    )
    return table.take(table.order("bytes", descending=True))
