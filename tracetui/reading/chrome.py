"""Collected columns to the parts of a Trace: pairs begins and ends, finds lanes, sorts, nests and packs.

This is the reading of the Chrome trace event format for any producer; what is PyTorch's is in `torch`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracetui.model import intervals
from tracetui.model.intervals import Bool, Int64, count_passed
from tracetui.model.table import Strings
from tracetui.model.trace import (
    DAMAGED_KEYS,
    EXAMPLES,
    GPU_WORK,
    NEGATIVE,
    NO_ID,
    REPEATED,
    REPLACED,
    UNREADABLE,
    UNTIMED,
    Counter,
    EventStore,
    Flows,
    Instants,
    Kind,
    Lane,
    LaneKind,
    Quality,
    Slices,
    Trace,
)
from tracetui.reading import torch
from tracetui.reading.columns import Collector
from tracetui.reading.decode import NO_NAME
from tracetui.reading.file_layout import FileLayout
from tracetui.reading.json_repair import Oddity
from tracetui.reading.lanes import Naming
from tracetui.reading.other_files import LOG
from tracetui.reading.source import Source
from tracetui.reading.spans import SPAN_COLUMNS, Columns, Keys, Spans

# Chooses time 0 and puts impossible times right (R0.1, R1.5).

_ABSURD = 10
"""GPU activity that ends this many times later than nearly all other slices cannot be true."""
_NEARLY_ALL = 0.999
"""Share of all slices that is nearly all of them."""
_DAY = 86_400 * 10**9
"""Any other slice must last longer than this: a frame around a whole program may outlast all that was recorded."""
_FAR_FROM_ZERO = 10**15
"""Half of all slices start later than this many ns: what starts at 0 was not recorded there."""
_FAR_APART = 10
"""Slices this many times farther away than nearly all other slices reach, and a day, were not recorded there."""
MAX_OUTLIERS = 100
"""Slices that may stand together far from all others and be taken for errors; more are a recording of their own."""


FEW_OUTLIERS = 3
"""Slices that may be errors also where they are more than a tenth of all."""
_FEW_OVERLONG = 100
"""Of so many GPU activities one may run past others by an error."""


def settle_times(columns: Columns, moments: list[int], quality: Quality) -> tuple[int, tuple[int, int]]:
    """Give time 0 and the window of all work in ns from it; clip and drop what cannot be true.

    `moments` are the times of what is not a slice; they count when there is no slice.
    """
    _drop_unplaced(columns, quality)
    _cut_overlong(columns, quality)
    origin, last = _first_and_last(columns)
    if origin is None:
        origin = min(moments, default=0)
        return origin, (0, max(moments, default=0) - origin)
    if last is None:
        last = _clip_absurd(columns, origin, quality)
    return origin, (0, last)


def _first_and_last(columns: Columns) -> tuple[int | None, int | None]:
    """The first start of all work, None where there is none, and the last end from there.

    The end is None where it has to be asked whether it can be true: fewer than a thousandth of all end that late.
    """
    aside = np.flatnonzero(columns["kind"] == Kind.BOOKKEEPING)
    work = len(columns["kind"]) - len(aside)
    if work == 0:
        return None, None
    start = columns["start"]
    if len(aside):
        # Without a copy of all columns: the few rows that do not count stand where they change nothing.
        start = start.copy()
        start[aside] = start[int(np.argmax(columns["kind"] != Kind.BOOKKEEPING))]
    origin = int(start.min())
    end = start + columns["dur"]
    end -= origin
    end[aside] = 0
    last = int(end.max())
    # Then the end behind which a thousandth of all lie is late enough for the last one.
    late = int(np.count_nonzero(end >= -(-last // _ABSURD))) - (len(aside) if last <= 0 else 0)
    return origin, last if late >= work - int(work * _NEARLY_ALL) else None


def _clip_absurd(columns: Columns, origin: int, quality: Quality) -> int:
    """Cut what ends so late that it cannot be true; the last end of what is left, in ns from the origin."""
    work = np.flatnonzero(columns["kind"] != Kind.BOOKKEEPING)
    end = columns["start"][work] + columns["dur"][work] - origin
    nearly_all = int(len(end) * _NEARLY_ALL)
    absurd = end > _ABSURD * max(int(np.partition(end, nearly_all)[nearly_all]), 1)
    absurd &= np.isin(columns["kind"][work], GPU_WORK) | (columns["dur"][work] > _DAY)
    if absurd.any():
        quality.clipped += int(np.count_nonzero(absurd))
        limit = origin + int(end[~absurd].max())
        rows = work[absurd]
        columns["dur"][rows] = np.maximum(limit - columns["start"][rows], 0)
    return int(end[~absurd].max())


def _cut_overlong(columns: Columns, quality: Quality) -> None:
    """Cut the few GPU activities that run past later ones of their stream where the next one starts (R1.5).

    What shares a correlation is of a graph, whose branches may do that; where many do, several programs share the lane.
    """
    rows = np.flatnonzero(np.isin(columns["kind"], GPU_WORK))
    rows = rows[np.lexsort((columns["start"][rows], columns["lane"][rows]))]
    lane, start, dur = (columns[name][rows] for name in ("lane", "start", "dur"))
    inside = count_passed(lane, start, start + dur)
    bad = np.flatnonzero(inside)
    if len(bad) == 0 or len(bad) > max(FEW_OUTLIERS, len(rows) // _FEW_OVERLONG):
        return
    correlation = columns["correlation"][rows]
    ids, counts = np.unique(correlation[correlation != NO_ID], return_counts=True)
    bad = bad[~np.isin(correlation[bad], ids[counts > 1])]
    if len(bad) == 0:
        return
    bad = bad[np.argsort(-dur[bad], kind="stable")]
    quality.overlong = tuple(columns["event"][rows[bad]].tolist())
    quality.longest_overlong = int(dur[bad[0]]), int(inside[bad[0]])
    columns["dur"][rows[bad]] = start[bad + 1] - start[bad]


def _drop_unplaced(columns: Columns, quality: Quality) -> None:
    """Drop slices whose time cannot be true: at 0 of a clock far from it (kineto#109), or far from all others."""
    everything = columns["start"]
    if len(everything) == 0 or int(everything.max()) - int(everything.min()) < _DAY:
        return
    own = np.flatnonzero(columns["kind"] != Kind.BOOKKEEPING)
    start = columns["start"][own]
    if len(start) == 0 or int(start.max()) - int(start.min()) < _DAY:
        return
    outliers = _are_outliers(start)
    if np.median(start) >= _FAR_FROM_ZERO:
        outliers |= start <= 0
    if not outliers.any():
        return
    count = int(np.count_nonzero(outliers))
    quality.dropped += count
    slices, lie, were = ("slice", "lies", "was") if count == 1 else ("slices", "lie", "were")
    quality.notes.append(f"{count:,} {slices} {lie} days away from all the others and {were} left out.")
    kept = np.ones(len(columns["kind"]), bool)
    kept[own[outliers]] = False
    for name in (*SPAN_COLUMNS, "kind"):
        columns[name] = columns[name][kept]


def _are_outliers(start: Int64) -> Bool:
    """Mask of the few moments that lie far away from all the others.

    Moments stand in groups between which nothing happens for days. The largest group is the recording; the others
    are outliers if they are small, and few altogether: a timeline of weeks has groups as well.
    """
    order = np.argsort(start, kind="stable")
    ascending = start[order]
    low, high = ascending[len(start) // 100], ascending[-1 - len(start) // 100]
    away = max(_DAY, _FAR_APART * min(int(high) - int(low), _DAY))
    first = np.flatnonzero(np.diff(ascending, prepend=ascending[0] - away - 1) > away)
    size = np.diff(np.append(first, len(start)))
    small = (size <= MAX_OUTLIERS) & (2 * size < size.max())
    if int(size[small].sum()) > max(len(start) // 10, FEW_OUTLIERS):
        small[:] = False
    outliers = np.empty(len(start), bool)
    outliers[order] = np.repeat(small, size)
    return outliers


_PACKED = (LaneKind.GPU, LaneKind.GPU_ANNOTATION, LaneKind.SYNC, LaneKind.ASYNC)
_MAX_TABLE = 1 << 20
"""Maximum entries of a table that is longer than the columns that it is used on."""
LONGEST_NAME = 50_000
"""Maximum characters of a name; the longest of real kernels have a few thousand."""


@dataclass
class TraceParts:
    """The pieces of a Trace that come from events."""

    names: Strings
    categories: Strings
    slices: Slices
    lanes: tuple[Lane, ...]
    instants: Instants
    flows: Flows
    counters: tuple[Counter, ...]
    origin: int
    """The file's own time at time 0, in ns."""
    window: tuple[int, int]
    is_torch: bool
    ends: tuple[Int64, Int64]
    """Event numbers of begins, ascending, and of the ends that close them."""


def assemble(
    collector: Collector, quality: Quality, metadata: Mapping[str, Any], stage: Callable[[str], None]
) -> TraceParts:
    """Build the parts of a trace; `stage` hears what is being done. The collector's columns are given up."""
    naming = collector.naming
    stage("pairing")
    keys = Keys(collector)
    spans = Spans(collector, keys, quality)
    columns = spans.columns()
    columns["kind"] = keys.kind_of(columns["key"])
    flows, instants = _flow_columns(collector, keys), _instant_columns(collector, keys, spans.moments)
    moments = instants["time"].tolist() if len(columns["start"]) == 0 else []
    moments += collector.counters.times
    origin, window = settle_times(columns, moments, quality)
    for part, time in ((columns, "start"), (flows, "time"), (instants, "time")):
        part[time] -= origin
    order = sorted(range(len(keys.lanes.keys)), key=lambda lane: naming.sort_key(keys.lanes.keys[lane]))
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order))
    for part in (columns, flows, instants):
        part["lane"] = rank[part["lane"]]
    columns["category"] = keys.category_of(columns.pop("key"))
    slices = _slices(columns, keys, order, quality, stage)
    return TraceParts(
        names=_texts(collector.names, quality),
        categories=keys.categories,
        lanes=_lanes(order, keys, naming, slices),
        slices=slices,
        instants=_instants(instants, keys),
        flows=_flows(flows, keys),
        counters=collector.counters.counters(naming, origin, quality),
        origin=origin,
        window=window,
        is_torch=torch.is_torch([Kind(kind) for kind in np.unique(slices.kind)], metadata),
        ends=spans.ends(),
    )


def trace_of(source: Source, collector: Collector, parts: TraceParts, store: EventStore, form: str) -> Trace:
    """The trace of a file; `form` says what wrote it and how. Its origin is the file's own, its metadata are empty."""
    return Trace(
        label=source.label,
        path=source.path,
        format=form if source.wrapping == "plain" else f"{form}, {source.wrapping}",
        size_bytes=source.consumed if source.size is None else source.size,
        events=collector.events,
        is_torch=parts.is_torch,
        names=parts.names,
        categories=parts.categories,
        slices=parts.slices,
        lanes=parts.lanes,
        instants=parts.instants,
        flows=parts.flows,
        counters=parts.counters,
        devices=(),
        metadata={},
        origin_us=parts.origin / 1000,
        origin_ns=parts.origin,
        window=parts.window,
        quality=collector.quality,
        op_args=collector.arguments.ops.arguments(),
        work_args=collector.arguments.work.arguments(),
        memory_args=collector.arguments.memory.arguments(),
        store=store,
    )


def _flow_columns(collector: Collector, keys: Keys) -> Columns:
    gathered = collector.flows
    key = gathered.take("key", "i4")
    return {
        "time": gathered.take("time", "i8"),
        "name": gathered.take("name", "i4"),
        "id": gathered.take("id", "i8"),
        "key": key,
        "lane": keys.nearest_lane(key),
        "event": gathered.take("event", "i4"),
    }


def _instant_columns(collector: Collector, keys: Keys, moments: Columns) -> Columns:
    """Instants, and the moments of asynchronous spans."""
    gathered = collector.instants
    key = gathered.take("key", "i4")
    columns = {
        "time": gathered.take("time", "i8"),
        "name": gathered.take("name", "i4"),
        "key": key,
        "lane": keys.nearest_lane(key),
        "event": gathered.take("event", "i4"),
    }
    columns["scope"] = gathered.take("scope", "u1")
    if len(moments["time"]):
        moments = moments | {"scope": np.zeros(len(moments["time"]), np.uint8)}
        for name in columns:
            columns[name] = np.concatenate([columns[name], moments[name].astype(columns[name].dtype)])
    return columns


def _slices(columns: Columns, keys: Keys, order: list[int], quality: Quality, stage: Callable[[str], None]) -> Slices:
    """Sort the columns by lane and time, and find parents and rows."""
    stage("sorting")
    order_in_lanes = intervals.sorted_order(columns["lane"], columns["start"], columns["dur"])
    for name in columns:
        columns[name] = columns[name][order_in_lanes]
    del order_in_lanes
    stage("nesting")
    lane, start, dur = columns["lane"], columns["start"], columns["dur"]
    is_packed = [keys.lanes.keys[number][2] in _PACKED and number not in keys.nesting for number in order]
    nested = _arrange(lane, start, dur, np.array(is_packed, bool), quality)
    return Slices(
        start=start,
        dur=dur,
        name=columns["name"],
        category=columns["category"],
        kind=columns["kind"],
        lane=lane,
        parent=nested.parent,
        depth=nested.depth,
        row=nested.row,
        self_time=nested.self_time,
        correlation=columns["correlation"],
        external=columns["external"],
        event=columns["event"],
    )


def _arrange(
    lane: NDArray[Any], start: Int64, dur: Int64, packed: NDArray[np.bool_], quality: Quality
) -> intervals.NestedSlices:
    """Parent, depth, row and self time: threads nest, streams are packed. `packed` has an entry per lane."""
    bounds = np.searchsorted(lane, np.arange(len(packed) + 1, dtype=lane.dtype)).astype(np.int64)
    nested = intervals.nest_slices(bounds[:-1][~packed], bounds[1:][~packed], start, dur)
    quality.overlaps += nested.overlaps
    # Lanes in a row that are all packed are packed at once: there may be thousands with a few slices each.
    edges = np.flatnonzero(np.diff(packed, prepend=False, append=False))
    for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        rows = slice(bounds[first], bounds[last])
        packing = intervals.pack(lane[rows], start[rows], start[rows] + dur[rows])
        nested.row[rows] = np.minimum(packing, intervals.MAX_DEPTH)
    return nested


def _lanes(order: list[int], keys: Keys, naming: Naming, slices: Slices) -> tuple[Lane, ...]:
    bounds = np.searchsorted(slices.lane, np.arange(len(order) + 1, dtype=np.int32)).tolist()
    lanes = []
    for number, first, last in zip(order, bounds, bounds[1:], strict=False):
        key = keys.lanes.keys[number]
        height = int(slices.row[first:last].max()) + 1 if last > first else 0
        lanes.append(Lane(*key, naming.lane_name(key), naming.process_name(key), first, last, height))
    return tuple(lanes)


def _instants(columns: Columns, keys: Keys) -> Instants:
    order = np.lexsort((columns["time"], columns["lane"]))
    return Instants(
        time=columns["time"][order],
        name=columns["name"][order],
        category=keys.category_of(columns["key"][order]),
        lane=columns["lane"][order],
        scope=columns["scope"][order],
        event=columns["event"][order],
    )


def _flows(columns: Columns, keys: Keys) -> Flows:
    key = columns.pop("key")
    phase = keys.phase_is(key, "f").astype(np.uint8)
    phase *= 2
    phase += keys.phase_is(key, "t")
    return Flows(
        time=columns["time"],
        lane=columns["lane"],
        phase=phase,
        key=numbered_pairs(keys.category_of(key), columns["name"]),
        id=columns["id"],
        event=columns["event"],
    )


def numbered_pairs(first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.int32]:
    """The rank of each pair among the distinct pairs of two columns of small numbers from 0."""
    width = int(second.max(initial=0)) + 1
    size = (int(first.max(initial=0)) + 1) * width
    code = first.astype(np.int64) * width + second
    if size > max(len(code), _MAX_TABLE):
        return np.unique(code, return_inverse=True)[1].astype(np.int32)
    used = np.zeros(size, bool)
    used[code] = True
    rank = np.cumsum(used, dtype=np.int32) - np.int32(1)
    return np.asarray(rank[code])


def _texts(names: Iterable[str | None], quality: Quality) -> Strings:
    """The names under the numbers that they were given; one that is too long to be a name is clipped."""
    texts = Strings()
    clipped = 0
    for name in names:
        text = NO_NAME if name is None else name
        if len(text) > LONGEST_NAME:
            clipped += 1
            text = f"{text[:LONGEST_NAME]}… ({len(text):,} characters)"
        while text in texts:
            # Each has a number of its own, also where two come to read alike.
            text += " "
        texts.intern(text)
    if clipped:
        names, were = ("name", "was") if clipped == 1 else ("names", "were")
        quality.notes.append(f"{clipped:,} {names} of more than {LONGEST_NAME:,} characters {were} clipped.")
    return texts


# Sentences about a file: what of it could not be read, what is odd about it, and why nothing can be shown.

_ARRAYS = (Oddity.NEXT_TRACE, Oddity.SECOND_KEY, Oddity.INNER_ARRAY)
"""Oddities with which another array of events begins."""


def counted(count: int, noun: str) -> str:
    """`1 event`, `2 events`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def note_layout(quality: Quality, layout: FileLayout, source: Source) -> None:
    """Put counts and sentences about the file into the quality of its trace."""
    quality.dropped += layout.dropped
    quality.unreadable = layout.dropped
    quality.repaired += layout.repaired
    quality.replaced += layout.replaced
    quality.repeated += layout.repeated
    quality.examples = sorted(layout.examples + quality.examples)[:EXAMPLES]
    quality.stray_brackets = layout.odd_counts.get(Oddity.BRACKET, 0)
    quality.further_arrays = sum(layout.odd_counts.get(kind, 0) for kind in _ARRAYS)
    if quality.partial:
        quality.notes.append("Loading was stopped: this is the part that had been read.")
        return
    quality.truncated_at = layout.truncated_at
    quality.damage = source.damage or ""
    notes = [
        _damaged(layout, source.damage),
        _further_arrays(layout, quality.further_arrays),
        _brackets(layout, quality.stray_brackets),
        source.remark,
        _unreadable(layout),
    ]
    if quality.damaged_keys:
        at = _first(quality, DAMAGED_KEYS, 1)
        notes.append(
            f"The metadata around the events is damaged{at}: what it says of devices and the recording may be missing."
        )
    if layout.repaired:
        are = "is" if layout.repaired == 1 else "are"
        was = "was" if layout.repaired == 1 else "were"
        notes.append(f"{counted(layout.repaired, 'event')} {are} not valid JSON and {was} mended.")
    if count := quality.replaced:
        are = "is" if count == 1 else "are"
        at = _first(quality, REPLACED, count)
        notes.append(f"{counted(count, 'byte')} of texts {are} no UTF-8 and {_was(count)} replaced{at}.")
    if count := quality.repeated:
        have, at = "has" if count == 1 else "have", _first(quality, REPEATED, count)
        notes.append(f"{counted(count, 'object')} {have} a key twice, of which the last counts{at}.")
    quality.notes += filter(None, notes)


def note_events(quality: Quality, collector: Collector) -> None:
    """Count and report the events of a file that can be read and are not shown."""
    quality.dropped += collector.untimed
    quality.empty = collector.empty
    if count := collector.untimed:
        have, were = ("has", "was") if count == 1 else ("have", "were")
        at = _first(quality, UNTIMED, count)
        quality.notes.append(f"{counted(count, 'event')} {have} no time that can be true and {were} left out{at}.")
    if count := sum(quality.skipped_phases.values()):
        letters = sorted(letter for letter in quality.skipped_phases if letter)
        phases = f"of phase {', '.join(letters)}" if letters else ""
        what = " or ".join(filter(None, (phases, "without a phase" if "" in quality.skipped_phases else "")))
        quality.notes.append(f"{counted(count, 'event')} {what} {'is' if count == 1 else 'are'} not shown.")


def note_times(quality: Quality) -> None:
    """Report the times of a file that were changed, and the ends that were left out."""
    if count := quality.negative:
        counts = "counts" if count == 1 else "count"
        at = _first(quality, NEGATIVE, count)
        quality.notes.append(f"{counted(count, 'duration')} below zero {counts} as 0{at}.")
    if count := quality.clipped:
        ends = "ends" if count == 1 else "end"
        quality.notes.append(f"{counted(count, 'slice')} {ends} long after all others and {_was(count)} cut there.")
    if count := len(quality.overlong):
        activities, run = ("GPU activity", "runs") if count == 1 else ("GPU activities", "run")
        quality.notes.append(
            f"{count:,} {activities} {run} past later ones of the same stream, which cannot be: "
            f"{'it was' if count == 1 else 'they were'} cut where the next one starts."
        )
    if count := quality.unmatched_ends:
        ends = "ends" if count == 1 else "end"
        quality.notes.append(f"{counted(count, 'event')} {ends} a slice that never began and {_was(count)} left out.")


def _was(count: int) -> str:
    return "was" if count == 1 else "were"


def _first(quality: Quality, reason: str, count: int) -> str:
    """The position of the first offender of a kind, as the end of a sentence; empty where that is not known."""
    first = min((byte for byte, what in quality.examples if what.startswith(reason)), default=None)
    return "" if first is None else f", {'the first ' if count > 1 else ''}at byte {first:,}"


def _damaged(layout: FileLayout, damage: str | None) -> str:
    if damage:
        is_cut = damage.endswith("stops before its end")
        return f"The file is {'cut off' if is_cut else 'damaged'}: {damage}; everything before that is shown."
    if layout.truncated_at is None:
        return ""
    at = f"The file is cut off at byte {layout.truncated_at:,}"
    if layout.is_within_event:
        return f"{at}: its last event is incomplete and was left out."
    return f"{at}, behind its last event: what should follow is missing."


def _further_arrays(layout: FileLayout, count: int) -> str:
    if count == 0:
        return ""
    first = next(each for each in layout.oddities if each.kind in _ARRAYS)
    at = f"byte {first.offset:,}"
    if first.kind is Oddity.SECOND_KEY and count == 1:
        return f"The key traceEvents stands twice in the file, again at {at}: the events of both are shown."
    if first.kind is Oddity.INNER_ARRAY:
        arrays = counted(count, "array")
        return f"The events stand in {arrays} within the array, the first at {at}: the events of all are shown."
    arrays = f"{count + 1:,} arrays of events"
    return f"Several writers put {arrays} into one file, the second at {at}: the events of all are shown together."


def _brackets(layout: FileLayout, count: int) -> str:
    if count == 0:
        return ""
    first = next(each for each in layout.oddities if each.kind is Oddity.BRACKET)
    more = f", and in {counted(count - 1, 'more place')}" if count > 1 else ""
    return f"A closing bracket stands between events at byte {first.offset:,}{more}: what follows it was read too."


def _unreadable(layout: FileLayout) -> str:
    if layout.dropped == 0:
        return ""
    first = min((byte for byte, what in layout.examples if what.startswith(UNREADABLE)), default=None)
    before = ", the first at" if layout.dropped > 1 else ", at"
    at = "" if first is None else f"{before} byte {first:,}"
    return f"{counted(layout.dropped, 'piece')} of the file could not be read{at}."


def no_events(source: Source, collector: Collector, layout: FileLayout) -> str:
    """A sentence that says why a file has nothing to show."""
    if collector.quality.partial:
        return f"Loading {source.label} was stopped before anything could be shown."
    events = collector.events - collector.empty
    if source.wrapping == LOG and events == 0:
        cut = f"; {source.damage}" if source.damage else ""
        return f"{source.label} is a log of torch.compile that has no compilation{cut}. {source.remark}".rstrip()
    if collector.metadata_events and layout.truncated_at is None and not source.damage:
        metadata_events = counted(collector.metadata_events, "metadata event")
        return f"{source.label} holds {metadata_events} and none that is timed: nothing to show."
    if layout.truncated_at is not None or source.damage:
        where = source.damage or f"it is cut off at byte {layout.truncated_at:,}"
        return f"{source.label} holds no complete event: {where}."
    if events == 0:
        return f"{source.label} holds no event: nothing to show."
    return f"{source.label} holds no timed event ({counted(events, 'event')} in all): nothing to show."
