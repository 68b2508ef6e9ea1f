"""Holders of the memory of a device at a moment, by line, stack, module and more; the sum of the rows is the curve. Two
snapshots side by side by their holders.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from tracetui.linking.groups import combinations, group
from tracetui.model import columns as col
from tracetui.model.intervals import Int64
from tracetui.model.memory_snapshot import MemorySnapshot
from tracetui.model.quantities import size
from tracetui.model.table import NULL, Table, micros, numbers, texts
from tracetui.snapshots.history import OLDER, DeviceHistory

LIBRARIES = re.compile(r"/(?:site|dist)-packages/|/lib/python3|/torch/|^<|/runpy\.py$|/importlib/|^/usr/lib/python")
"""Files that are not the user's."""
UNKNOWN_LINE = "(no stack was recorded)"
NO_PYTHON = "(no Python frame)"
_NODE = re.compile(r"::(AccumulateGrad|\w+Backward\d*)::apply")
_PLUMBING = re.compile(r"torch::unwind|CapturedTraceback|gather_with_cpp|CachingAllocator|at::detail::empty")
_OPERATOR = re.compile(r"at::_ops::(\w+)::")
MODULE_CALLS = ("forward", "__call__")
"""Functions that stand for a module in a stack."""
MAX_MODULES = 6
"""Modules of a chain that are named, the innermost."""


class Frames:
    """The stacks of a snapshot in words, each made once."""

    def __init__(self, snapshot: MemorySnapshot) -> None:
        self._snapshot, self._stacks = snapshot, snapshot.stacks
        texts = snapshot.texts
        used = {int(each) for each in np.unique(self._stacks.file)}
        paths = {number: posixpath.normpath(texts[number].replace("\\", "/")) for number in used if texts[number]}
        self._python = {number for number in paths if texts[number].endswith(".py")}
        self._own = {number for number in self._python if not LIBRARIES.search(paths[number])}
        folders = [posixpath.dirname(paths[number]) for number in self._own if paths[number].startswith("/")]
        root = os.path.commonpath(folders) if folders else ""
        cut = len(root) + 1 if len(root) > 1 else 0
        # Of a library's file the end of its path: `torch/nn/modules/linear.py`.
        self._shown = {
            number: path[cut:]
            if number in self._own and path.startswith("/")
            else path.rpartition("-packages/")[2]
            if "-packages/" in path
            else "/".join(path.split("/")[-3:])
            for number, path in paths.items()
        }
        self._lines: dict[int, str] = {}

    def line(self, stack: int) -> str:
        """The innermost line of the program in a stack, `model.py:54 forward`; of the backward pass its node."""
        if stack not in self._lines:
            self._lines[stack] = self._line(stack)
        return self._lines[stack]

    def _line(self, stack: int) -> str:
        frames = self._stacks.of(stack)
        if not frames:
            return UNKNOWN_LINE
        for wanted in (self._own, self._python):
            for frame in frames:
                if int(self._stacks.file[frame]) in wanted:
                    return self.words(frame)
        node = next((match[1] for frame in frames if (match := _NODE.search(self._function(frame)))), None)
        return f"(backward pass: {node})" if node else NO_PYTHON

    def module(self, stack: int) -> str:
        """The chain of calls of modules around an allocation, the outermost first."""
        frames, texts = self._stacks.of(stack), self._snapshot.texts
        own = [
            self._place(frame).rpartition("/")[2]
            for frame in frames
            if int(self._stacks.file[frame]) in self._own and texts[self._stacks.function[frame]] in MODULE_CALLS
        ]
        return " ▸ ".join(reversed(own[:MAX_MODULES])) if own else "(in no module)"

    def operator(self, stack: int) -> str | None:
        """The innermost operator of PyTorch, where C++ frames were recorded."""
        names = (self._function(frame) for frame in self._stacks.of(stack))
        return next((f"aten::{match[1]}" for name in names if (match := _OPERATOR.search(name))), None)

    def key(self, stack: int) -> str:
        """A stack as its lines of the program, the innermost first."""
        own = [
            f"{self._place(frame).rpartition('/')[2]} {self._function(frame)}"
            for frame in self._stacks.of(stack)
            if int(self._stacks.file[frame]) in self._own
        ]
        return " ◂ ".join(own[:4]) if own else self.line(stack)

    def listing(self, stack: int) -> list[str]:
        """The frames in words, the innermost first; without those of C++ where there are others."""
        frames = self._stacks.of(stack)
        shown = [frame for frame in frames if int(self._stacks.file[frame]) in self._python]
        # Of C++ those below the allocator, which every stack has in common.
        plumbing = [index for index, frame in enumerate(frames) if _PLUMBING.search(self._function(frame))]
        return [self.words(frame) for frame in shown or frames[max(plumbing, default=-1) + 1 :]]

    def words(self, frame: int) -> str:
        """A frame: `model.py:54 forward`, of C++ its function."""
        function = self._function(frame)
        return f"{self._place(frame)} {function}" if int(self._stacks.file[frame]) in self._python else function

    def _place(self, frame: int) -> str:
        return f"{self._shown.get(int(self._stacks.file[frame]), '?')}:{int(self._stacks.line[frame])}"

    def _function(self, frame: int) -> str:
        return str(self._snapshot.texts[int(self._stacks.function[frame])])


def frames_of(snapshot: MemorySnapshot) -> Frames:
    """The stacks in words, made once for a snapshot."""
    if "frames" not in snapshot.kept:
        snapshot.kept["frames"] = Frames(snapshot)
    kept = snapshot.kept["frames"]
    assert isinstance(kept, Frames)
    return kept


def innermost_annotation(snapshot: MemorySnapshot, time_us: Int64) -> Int64:
    """The annotation (in `texts`) that was open last at each time, -1 for none."""
    marks = snapshot.annotations
    order = np.argsort(marks.time_us, kind="stable")
    open_names: list[int] = []
    current = np.full(len(order) + 1, -1, np.int64)
    for index, row in enumerate(order.tolist()):
        if marks.is_start[row]:
            open_names.append(int(marks.name[row]))
        elif int(marks.name[row]) in open_names:
            # Of two of one name the inner ends first.
            del open_names[len(open_names) - 1 - open_names[::-1].index(int(marks.name[row]))]
        current[index + 1] = open_names[-1] if open_names else -1
    innermost: Int64 = current[np.searchsorted(marks.time_us[order], time_us, side="right")]
    return innermost


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


_CHANGE = replace(col.CHANGE_BYTES, heading="change", help="Bytes of B less those of A.", is_key=True)
MAX_NAMED = 3


def difference(a: DeviceHistory, b: DeviceHistory, by: str = "line") -> Table:
    """The holders of both peaks, what changed most first; the changes add up to that of the peaks."""
    sides = [
        {
            str(row["holder"]): (int(row["bytes"] or 0), int(row["blocks"] or 0))
            for row in holders(each, each.peak, by).rows()
        }
        for each in (a, b)
    ]
    names = sorted({*sides[0], *sides[1]})
    columns = [np.array([side.get(name, (0, 0)) for name in names], np.int64).reshape(-1, 2) for side in sides]
    change = columns[1][:, 0] - columns[0][:, 0]
    order = np.argsort(-np.abs(change), kind="stable")
    most = [f"{names[row]} {_signed(int(change[row]))}" for row in order[:MAX_NAMED].tolist() if change[row]]
    peaks = int(a.active[a.peak]), int(b.active[b.peak])
    headline = f"The peak goes from {size(peaks[0])} (A) to {size(peaks[1])} (B), by {_signed(peaks[1] - peaks[0])}"
    table = Table(
        (
            texts(HOLDER, names),
            numbers(_CHANGE, change),
            numbers(col.BYTES_A, columns[0][:, 0]),
            numbers(col.BYTES_B, columns[1][:, 0]),
            numbers(col.BLOCKS_A, columns[0][:, 1]),
            numbers(col.BLOCKS_B, columns[1][:, 1]),
        ),
        headline=f"{headline}: {', '.join(most)}." if change.any() else f"{headline}: every holder has what it had.",
    )
    return table.take(order)


def _signed(change: int) -> str:
    return f"{'+' if change > 0 else ''}{size(change)}"
