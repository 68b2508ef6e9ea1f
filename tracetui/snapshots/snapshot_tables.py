"""The panes of a snapshot as tables: who holds the peak, a moment or the end, segments, what was not freed, OOM."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tracetui.errors import UsageError
from tracetui.frozen import frozen
from tracetui.model import columns as col
from tracetui.model.memory_snapshot import Action, MemorySnapshot
from tracetui.model.quantities import count, counted, duration, size
from tracetui.model.table import Table, numbers, texts
from tracetui.snapshots.history import (
    OLDER,
    DeviceHistory,
    SegmentMap,
    cheapest_hole,
    fullest_device,
    history_of,
    segment_map,
)
from tracetui.snapshots.holders import GROUPINGS, OLDER_ROW, frames_of, holders

MAX_NAMED = 3
"""Holders that a sentence names."""
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
