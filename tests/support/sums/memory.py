"""Sums over the memory pane: events of allocators, and copies."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tests.support.sums.rows import held, lasting, rows_of, total
from tests.support.sums.slices import SlowTrace, number_of
from tracetui.model.trace import Kind


@dataclass(eq=False)
class Event:
    """One event of an allocator."""

    time: int
    number: int
    """Which event of the file it is."""
    step: int | None
    failed: bool
    device: Any
    """Type and number, None where it does not say."""
    address: Any
    bytes: int
    """What changed hands: above 0 for an allocation, below for a free, 0 where it failed."""
    asked: int
    """The same as it stands in the file."""
    total: int | None


def events_of(slow: SlowTrace) -> list[Event]:
    """What the allocators did, in order of time."""
    return sorted(_events(slow), key=lambda event: (event.time, event.number))


def _events(slow: SlowTrace) -> Iterator[Event]:
    instants = slow.trace.instants
    for place, name in enumerate(slow.trace.names[name] for name in instants.name.tolist()):
        if name not in ("[memory]", "[OutOfMemory]"):
            continue
        number, time = int(instants.event[place]), int(instants.time[place])
        args = slow.trace.store.event(number)["args"]
        step = slow.step_at(time, slow.home(int(instants.lane[place])))
        yield Event(
            time,
            number,
            number_of(step) if step else None,
            name == "[OutOfMemory]",
            (args["Device Type"], args["Device Id"]) if "Device Type" in args else None,
            args["Addr"],
            args["Bytes"] if name == "[memory]" else 0,
            args["Bytes"],
            args.get("Total Allocated"),
        )


def check_memory(slow: SlowTrace, step: int | None) -> None:
    """However events are grouped, they allocate and free the same bytes.

    A device on which every allocation failed has no peak, and no row.
    """
    events = [event for event in events_of(slow) if step in (None, event.step)]
    listed = {event.device for event in events if not event.failed} - {None}
    on_devices = [event for event in events if event.device in listed]
    table = rows_of(slow, "memory", step)
    sorts = Counter(row["event"] for row in table)
    assert (len(table), total(table, "bytes")) == (len(events), sum(event.asked for event in events))
    assert (sorts["free"], sorts["out of memory"]) == (len(freed(events)), sum(event.failed for event in events))
    by_op, by_device = (rows_of(slow, "memory", step, by) for by in ("op", "device"))
    for grouped, mine in ((by_op, events), (by_device, on_devices)):
        assert (total(grouped, "allocs"), total(grouped, "allocated")) == (len(given(mine)), sum(given(mine)))
        assert total(grouped, "freed") == -sum(freed(mine))
    assert (len(by_device), total(by_device, "frees")) == (len(listed), len(freed(on_devices)))
    assert total(by_device, "failed") == sum(event.failed for event in on_devices)


def given(events: list[Event]) -> list[int]:
    """The bytes of each allocation."""
    return [event.bytes for event in events if event.bytes > 0]


def freed(events: list[Event]) -> list[int]:
    """The bytes of each free, below 0."""
    return [event.bytes for event in events if event.bytes < 0]


def check_peaks(slow: SlowTrace, step: int | None) -> None:
    """What ops hold at a device's peak, and what is older, is all that is in use; lifetimes end where bytes go back."""
    events = events_of(slow)
    mine = [event for event in events if step in (None, event.step)]
    frees = partners(events)
    lives = [frees[event].time - event.time for event in mine if event in frees]
    assert total(rows_of(slow, "memory", step), "lifetime_us") == sum(lives)
    assert total(rows_of(slow, "memory", step), "since_start") == sum(rises(events)[event] for event in mine)
    expected = 0
    for device in {event.device for event in mine} - {None}:
        every = [event for event in events if event.device == device]
        peak = fullest(every, mine)
        if peak is None or peak.total is None or not any(event in frees for event in every):
            continue
        by_then = every[: every.index(peak) + 1]
        alive = [event for event in by_then if event.bytes > 0 and frees.get(event) not in by_then]
        expected += max(sum(event.bytes for event in alive), peak.total, 1)
    assert total(rows_of(slow, "memory", step, "op"), "at_peak") == expected


def fullest(every: list[Event], mine: list[Event]) -> Event | None:
    """The first of the step's events at which a device was fullest, None where all of them failed.

    Totals decide where all events of the device have one, else what was given out less what was taken back.
    """
    known = all(event.total is not None for event in every)
    levels = {event: event.total or 0 for event in every} if known else rises(every)
    return max((event for event in mine if event in levels and not event.failed), key=levels.__getitem__, default=None)


def rises(events: list[Event]) -> dict[Event, int]:
    """What was given out less what was taken back on the device of each event, up to the event."""
    so_far: Counter[Any] = Counter()
    found = {}
    for event in events:
        so_far[event.device] += event.bytes
        found[event] = so_far[event.device]
    return found


def partners(events: list[Event]) -> dict[Event, Event]:
    """For each allocation the free of its bytes that is the next event at its address."""
    places = defaultdict(list)
    for event in events:
        places[event.device, event.address].append(event)
    return {
        one: two
        for place in places.values()
        for one, two in pairwise(place)
        if one.bytes > 0 and one.bytes == -two.bytes
    }


def check_copies(slow: SlowTrace, step: int | None) -> None:
    """By kind of copy the calls, times and bytes are those of all copies and fills."""
    copied = [each for each in held(slow.work, step) if each.kind != Kind.KERNEL]
    table = rows_of(slow, "memory", step, "copy")
    assert (total(table, "calls"), total(table, "total_us")) == (len(copied), lasting(copied))
    assert total(table, "bytes") == sum(slow.trace.event_of(each.row)["args"]["bytes"] for each in copied)
