"""The panes of a snapshot as tables: who holds the peak, a moment or the end, segments, what was not freed, OOM; two
snapshots side by side by their holders.

Holders of the memory of a device at a moment are by line, stack, module and more; the sum of the rows is the curve.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from tracetui.errors import UsageError
from tracetui.frozen import frozen
from tracetui.linking.groups import combinations, group
from tracetui.model import columns as col
from tracetui.model.intervals import Int64
from tracetui.model.memory_snapshot import Action, MemorySnapshot
from tracetui.model.quantities import count, counted, duration, size
from tracetui.model.table import NULL, Table, micros, numbers, texts
from tracetui.snapshots.history import (
    OLDER,
    DeviceHistory,
    SegmentMap,
    cheapest_hole,
    fullest_device,
    history_of,
    segment_map,
)

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


MAP_CELLS = col.MAP.width
"""Cells of the drawing of a segment."""


@frozen(eq=True)
class SnapshotPane:
    """One table of a snapshot."""

    name: str
    title: str
    help: str
    table: Callable[[DeviceHistory, int, str], Table]
    """Makes it at a moment, by a grouping."""
    moment: Callable[[DeviceHistory], int]
    """The moment that it is about where none is asked for."""
    is_grouped: bool = True
    takes_moment: bool = True


def active_words(history: DeviceHistory, moment: int) -> str:
    """The height of the curves at a moment: `6.5 GiB active of 6.7 GiB reserved`."""
    return f"{size(history.active[moment])} active of {size(history.reserved[moment])} reserved"


def top_holders(table: Table) -> str:
    """The first rows of a list of holders in words."""
    rows = [table.row(index) for index in range(min(len(table), MAX_NAMED))]
    return ", ".join(f"{row['holder']} {size(float(row['bytes'] or 0))}" for row in rows)


def _peak(history: DeviceHistory, moment: int, by: str) -> Table:
    table = holders(history, moment, by)
    when, at = "the peak" if moment == history.peak else "that moment", history.at_us(moment)
    time = f", {duration(at * 1000)} after the first" if at is not None else ""
    event = f"event {count(moment)} of {count(history.count)}{time}"
    lead = f"Device {history.device} holds {active_words(history, moment)} at {when} ({event})"
    return replace(table, headline=f"{lead}: {top_holders(table)}.", note=_history_note(history, moment))


def _history_note(history: DeviceHistory, moment: int) -> str:
    """The limits of what is known."""
    sentences = []
    if not (history.action == Action.ALLOC).any():
        sentences.append("The file holds no history: torch.cuda.memory._record_memory_history starts one.")
    lives = history.allocations
    own = history.live(moment)
    older = own[(lives.start[own] == OLDER) & (lives.stack[own] == 0)]
    if len(older) and len(own) != len(older):
        words = (
            f"{size(lives.size[older].sum())} is from before the history began; nothing in the file says who made it"
        )
        sentences.append(f"{words}: start recording earlier, or with a larger max_entries.")
    rest = history.unexplained(moment)
    if rest != history.rounding:
        sentences.append(f"{size(abs(rest - history.rounding))} is not explained: events contradict each other.")
    return " ".join(sentences)


def _unfreed(history: DeviceHistory, moment: int, by: str) -> Table:
    """Allocations of the history that were never freed."""
    lives = history.allocations
    own = np.flatnonzero((lives.start != OLDER) & (lives.end == history.count))
    table = holders(history, history.count, by, of=own)
    words = f"{counted(len(own), 'allocation')} of the history, {size(lives.size[own].sum())}, are not freed at its end"
    named = f": {top_holders(table)}" if len(own) else ""
    return replace(table, headline=f"{words}{named}.", note="" if len(own) else _history_note(history, moment))


def segments_table(history: DeviceHistory, moment: int, by: str = "") -> Table:
    """The segments that were reserved at a moment, those with most free memory first, and what fragments each."""
    mapped, lives = segment_map(history, moment), history.allocations
    free, largest = mapped.free, mapped.largest_gap
    in_the_way: list[str | None] = []
    first = np.searchsorted(mapped.region, np.arange(len(mapped) + 1))
    for region in range(len(mapped)):
        own = mapped.lives[first[region] : first[region + 1]]
        is_whole = not len(own) or free[region] == 0
        in_the_way.append(None if is_whole else _line_or_older(history, int(own[lives.size[own].argmin()])))
    pools = [
        f"{'large' if large else 'small'}{', expandable' if expands else ''}"
        for large, expands in zip(mapped.is_large, mapped.is_expandable, strict=True)
    ]
    table = Table(
        (
            texts(col.ADDRESS, [f"{each:#x}" for each in mapped.address.tolist()]),
            numbers(col.SIZE, mapped.size),
            numbers(col.USED, mapped.size - mapped.free),
            numbers(col.FREE, free),
            texts(col.MAP, _drawings(mapped)),
            numbers(col.LARGEST_FREE, largest),
            numbers(col.PIECES, np.bincount(mapped.gap_region, minlength=len(mapped))),
            numbers(col.BLOCKS, first[1:] - first[:-1]),
            texts(col.POOL, pools),
            numbers(col.STREAM.but(help="The stream whose blocks it holds."), mapped.stream),
            texts(col.IN_THE_WAY, in_the_way),
        )
    )
    table = table.take(table.order("free", descending=True))
    words = f"{counted(len(mapped), 'segment')}, {active_words(history, moment)}; {size(free.sum())} is free in them"
    piece = f", the largest piece {size(largest.max())}" if free.any() else ""
    unused = int(mapped.size[mapped.size - mapped.free == 0].sum())
    idle = (
        f" {size(unused)} of it are segments in which nothing is live: torch.cuda.empty_cache() gives those back."
        if unused
        else ""
    )
    guess = (
        "" if mapped.is_exact else "Free pieces before the end are as the allocator's rules make them, not as recorded."
    )
    return replace(table, headline=f"{words}{piece}.{idle}", note=guess)


def _drawings(mapped: SegmentMap) -> list[str]:
    """Each segment as cells: used, in part, free."""
    first, drawings = np.searchsorted(mapped.gap_region, np.arange(len(mapped) + 1)), []
    for row in range(len(mapped)):
        gaps = slice(first[row], first[row + 1])
        edges = mapped.address[row] + mapped.size[row] * np.arange(MAP_CELLS + 1) / MAP_CELLS
        low = np.maximum(edges[:-1, None], mapped.gap_address[None, gaps])
        high = np.minimum(edges[1:, None], (mapped.gap_address + mapped.gap_size)[None, gaps])
        share = np.maximum(high - low, 0).sum(axis=1) * MAP_CELLS / max(int(mapped.size[row]), 1)
        drawings.append("".join("█" if each < 0.01 else "·" if each > 0.99 else "▒" for each in share.tolist()))
    return drawings


def _line_or_older(history: DeviceHistory, life: int) -> str:
    lives = history.allocations
    stack = int(lives.stack[life])
    if stack == 0 and lives.start[life] == OLDER:
        return OLDER_ROW
    return frames_of(history.snapshot).line(stack)


# Out of memory: asked, there, in the way, to do.


def out_of_memory(history: DeviceHistory, moment: int) -> tuple[str, ...]:
    """Sentences about the OOM right before a moment and what to do, or about the state there if there is none."""
    is_oom = moment > 0 and history.action[moment - 1] == Action.OOM
    row = history.first_row + moment - 1
    asked = int(history.size[moment - 1]) if is_oom else None
    device_free = history.snapshot.events.device_free.get(row) if is_oom else None
    mapped = segment_map(history, moment)
    free, largest = int(mapped.gap_size.sum()), int(mapped.gap_size.max(initial=0))
    stack = int(history.snapshot.events.stack[row]) if is_oom else 0
    table = holders(history, moment)
    sentences: list[str] = []
    if asked is None:
        sentences.append("No allocation failed in this history; the list is what is held at its end.")
    else:
        by = f" in {frames_of(history.snapshot).line(stack)}" if stack else ""
        there = (
            f"the device had {size(device_free)} free"
            if device_free is not None
            else "how much the device had is not recorded"
        )
        sentences.append(
            f"{size(asked)} was asked for{by}; {there}, the largest free piece of the allocator was {size(largest)}."
        )
        sentences += _advice(history, mapped, table, asked, device_free)
    sentences.append(f"Held most by {top_holders(table)}.")
    sentences.append(f"Then {active_words(history, moment)}; {size(free)} was free in segments.")
    return tuple(sentences)


def _advice(history: DeviceHistory, mapped: SegmentMap, table: Table, asked: int, device_free: int | None) -> list[str]:
    """Advice about an allocation that failed; the table is of who holds what then."""
    free, largest = int(mapped.gap_size.sum()), int(mapped.gap_size.max(initial=0))
    sentences = []
    is_expandable = "expandable_segments:true" in history.snapshot.settings.lower() or mapped.is_expandable.any()
    if free >= asked > largest:
        remedy = "" if is_expandable else " PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True avoids that."
        sentences.append(
            f"It is fragmented: {size(free)} is free in the segments, but in no piece of {size(asked)}.{remedy}"
        )
    elif largest >= asked:
        sentences.append("A free piece was large enough, but is of another stream or pool than what was asked for.")
    else:
        missing = asked - free - (device_free or 0)
        first = next((row for row in table.rows() if not str(row["holder"]).startswith("(")), None)
        who = f", as {first['holder']} holds ({size(float(first['bytes'] or 0))})" if first is not None else ""
        sentences.append(f"It is full: {size(max(missing, 0))} more must be freed than there is{who}.")
    if device_free is not None and device_free >= asked:
        sentences.append(
            "The device had more free than was asked for: a limit of the process or another one came first."
        )
    hole = cheapest_hole(mapped, history, asked)
    if hole is not None and hole.bytes:
        own = mapped.lives[hole.first : hole.last + 1]
        lines = list(dict.fromkeys(_line_or_older(history, int(each)) for each in own[:50]))[:MAX_NAMED]
        blocks, verb = counted(len(own), "block"), "stands" if len(own) == 1 else "stand"
        there = f"{verb} in the way of one piece of {size(hole.size)}"
        sentences.append(f"{blocks} of {size(hole.bytes)} {there}: {', '.join(lines)}.")
    return sentences


def _oom(history: DeviceHistory, moment: int, by: str) -> Table:
    sentences = " ".join(out_of_memory(history, moment))
    more = f" {counted(len(history.ooms), 'allocation')} failed in all." if len(history.ooms) > 1 else ""
    return replace(holders(history, moment, by), headline=sentences + more, note=_history_note(history, moment))


def _end(history: DeviceHistory) -> int:
    return history.count


def _oom_moment(history: DeviceHistory) -> int:
    return history.ooms[0] if history.ooms else history.count


PANES = {
    pane.name: pane
    for pane in (
        SnapshotPane("peak", "Peak", "Who holds what when most is active.", _peak, lambda history: history.peak),
        SnapshotPane("live", "Live", "Who holds what at a moment; without one at the end.", _peak, _end),
        SnapshotPane(
            "segments", "Segments", "What is reserved, and what fragments it.", segments_table, _end, is_grouped=False
        ),
        SnapshotPane(
            "unfreed", "Unfreed", "What the history allocates and never frees.", _unfreed, _end, takes_moment=False
        ),
        SnapshotPane("oom", "OOM", "The allocation that failed, and who holds what then.", _oom, _oom_moment),
    )
}
"""The tables of a snapshot."""
_MOMENT = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s)")
_UNITS = {"us": 1, "ms": 1_000, "s": 1_000_000}


def read_moment(history: DeviceHistory, words: str) -> int:
    """A moment in words: `peak`, `start`, `end`, `oom`, the number of an event, or a time from the first as `12.5ms`.

    Raises: UsageError for anything else, and for what the history has not.
    """
    moments: dict[str, int] = {"peak": history.peak, "start": 0, "end": history.count}
    if words in moments:
        return moments[words]
    if words == "oom":
        if not history.ooms:
            raise UsageError("No allocation failed in this history: --at oom has no moment.")
        return int(history.ooms[0])
    if words.isdecimal() and len(words) < 19:
        if int(words) > history.count:
            raise UsageError(f"The history of device {history.device} has {count(history.count)} events, no {words}.")
        return int(words)
    match = _MOMENT.fullmatch(words)
    if match is None:
        raise UsageError(f"{words!r} is no moment: write peak, start, end, oom, the number of an event, or 12.5ms.")
    if not history.start_us:
        raise UsageError("The history has no times: name the number of an event.")
    at = history.start_us + float(match[1]) * _UNITS[match[2]]
    return int(np.searchsorted(history.time_us, at, side="right"))


def chosen_history(snapshot: MemorySnapshot, device: str | None) -> DeviceHistory:
    """The history of the device that is asked for, or of the fullest.

    Raises: UsageError for one that is not there.
    """
    if device is None:
        return history_of(snapshot, fullest_device(snapshot))
    if not device.isdecimal() or int(device) >= snapshot.device_count:
        raise UsageError(f"There is no device {device}: the snapshot has {snapshot.device_count}, from 0.")
    return history_of(snapshot, int(device))


def pane_table(history: DeviceHistory, name: str, moment: int | None = None, by: str | None = None) -> Table:
    """A pane at a moment, or at its own, by a grouping, or by line.

    Raises: UsageError for a grouping that there is not.
    """
    pane = PANES[name]
    if by is not None and (not pane.is_grouped or by not in GROUPINGS):
        groups = f"there are {', '.join(GROUPINGS)}" if pane.is_grouped else "it has none"
        raise UsageError(f"{name} of a snapshot cannot be grouped by {by}: {groups}.")
    return pane.table(history, pane.moment(history) if moment is None else moment, by or "line")


def summary_words(snapshot: MemorySnapshot) -> str:
    """The snapshot in a sentence: devices, events, peak."""
    histories = [history_of(snapshot, device) for device in range(snapshot.device_count)]
    devices = [
        f"device {each.device}: {counted(each.count, 'event')}, peak {size(each.active[each.peak])}, "
        f"end {size(each.active[-1])} of {size(each.reserved[-1])} reserved"
        + (f", {counted(len(each.ooms), 'failed allocation')}" if each.ooms else "")
        for each in histories
        if each.count or each.reserved[-1]
    ]
    return "; ".join(devices) or "nothing is reserved on any device"
