"""Sentences about a file: what of it could not be read, what is odd about it, and why nothing can be shown."""

from __future__ import annotations

from tracetui.model.trace import (
    DAMAGED_KEYS,
    EXAMPLES,
    NEGATIVE,
    REPEATED,
    REPLACED,
    UNREADABLE,
    UNTIMED,
    Quality,
)
from tracetui.reading.columns import Collector
from tracetui.reading.layout import FileLayout
from tracetui.reading.oddities import Oddity
from tracetui.reading.source import Source

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
        _damaged_keys(quality),
    ]
    if layout.repaired:
        are = "is" if layout.repaired == 1 else "are"
        was = "was" if layout.repaired == 1 else "were"
        notes.append(f"{counted(layout.repaired, 'event')} {are} not valid JSON and {was} mended.")
    notes += [_replaced(quality), _repeated(quality)]
    quality.notes += filter(None, notes)


def note_events(quality: Quality, collector: Collector) -> None:
    """Count and tell the events of a file that can be read and are not shown."""
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
    """Tell the times of a file that were changed, and the ends that were left out."""
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
    """Where the first offender of a kind stands, as the end of a sentence; empty where that is not known."""
    first = min((byte for byte, what in quality.examples if what.startswith(reason)), default=None)
    return "" if first is None else f", {'the first ' if count > 1 else ''}at byte {first:,}"


def _damaged_keys(quality: Quality) -> str:
    if not quality.damaged_keys:
        return ""
    at = _first(quality, DAMAGED_KEYS, 1)
    return f"The metadata around the events is damaged{at}: what it says of devices and the recording may be missing."


def _replaced(quality: Quality) -> str:
    if not (count := quality.replaced):
        return ""
    at = _first(quality, REPLACED, count)
    return f"{counted(count, 'byte')} of texts {'is' if count == 1 else 'are'} no UTF-8 and {_was(count)} replaced{at}."


def _repeated(quality: Quality) -> str:
    if not (count := quality.repeated):
        return ""
    have, at = "has" if count == 1 else "have", _first(quality, REPEATED, count)
    return f"{counted(count, 'object')} {have} a key twice, of which the last counts{at}."


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
    """Why a file has nothing to show, as a sentence."""
    if collector.quality.partial:
        return f"Loading {source.label} was stopped before anything could be shown."
    events = collector.events - collector.empty
    if collector.metadata_events and layout.truncated_at is None and not source.damage:
        held = counted(collector.metadata_events, "metadata event")
        return f"{source.label} holds {held} and none that is timed: nothing to show."
    if layout.truncated_at is not None or source.damage:
        where = source.damage or f"it is cut off at byte {layout.truncated_at:,}"
        return f"{source.label} holds no complete event: {where}."
    if events == 0:
        return f"{source.label} holds no event: nothing to show."
    return f"{source.label} holds no timed event ({counted(events, 'event')} in all): nothing to show."
