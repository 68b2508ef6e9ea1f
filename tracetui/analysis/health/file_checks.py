"""Checks of the file: what could not be read, was mended, or is unknown here."""

from __future__ import annotations

import numpy as np

from tracetui.analysis.health.checks import Check, Doubt, Severity
from tracetui.model.trace import ENDLESS, MENDED, NEGATIVE, UNREADABLE, UNTIMED, Kind, LaneKind, Trace

_EVERYTHING = ("summary", "steps", "kernels", "ops", "views", "launches", "gaps", "memory")


def cut_off(trace: Trace) -> Doubt:
    """Whether the file ends in the middle of something."""
    at = trace.quality.truncated_at
    return Doubt(0) if at is None else Doubt(1, 0, f"byte {at:,}")


def damaged(trace: Trace) -> Doubt:
    """Whether the gzip, zstd or zip around the events is damaged."""
    damage = trace.quality.damage
    return Doubt(int(bool(damage)), 0, damage)


def further_arrays(trace: Trace) -> Doubt:
    """Arrays of events behind the first one."""
    return Doubt(trace.quality.further_arrays)


def stray_brackets(trace: Trace) -> Doubt:
    """Closing brackets between events."""
    return Doubt(trace.quality.stray_brackets)


def empty(trace: Trace) -> Doubt:
    """Elements of the array of events that are no events."""
    return Doubt(trace.quality.empty, trace.events)


def stopped(trace: Trace) -> Doubt:
    """Whether the user stopped the loading."""
    return Doubt(int(trace.quality.partial))


def dropped(trace: Trace) -> Doubt:
    """Events that could not be read or placed in time."""
    return Doubt(trace.quality.dropped, trace.events, _offender(trace, UNREADABLE, UNTIMED))


def mended(trace: Trace) -> Doubt:
    """Events that are not valid JSON and were read leniently."""
    return Doubt(trace.quality.repaired, trace.events, _offender(trace, MENDED))


def unfinished(trace: Trace) -> Doubt:
    """Slices without an end."""
    return Doubt(trace.quality.unfinished, len(trace.slices), _offender(trace, ENDLESS))


def stray_ends(trace: Trace) -> Doubt:
    """Ends of slices that never began."""
    return Doubt(trace.quality.unmatched_ends)


def negative(trace: Trace) -> Doubt:
    """Durations below zero."""
    return Doubt(trace.quality.negative, len(trace.slices), _offender(trace, NEGATIVE))


def clipped(trace: Trace) -> Doubt:
    """Durations far beyond the rest of the trace (R1.5)."""
    count, slices = trace.quality.clipped, trace.slices
    if count == 0:
        return Doubt(0)
    work = np.flatnonzero(slices.kind != Kind.BOOKKEEPING)
    row = int(work[np.argmax(slices.dur[work])])
    return Doubt(count, len(slices), trace.name_of(row), row)


def overlaps(trace: Trace) -> Doubt | None:
    """Slices of a thread that start inside another one and outlast it (R1.10)."""
    threads = [lane.kind == LaneKind.CPU for lane in trace.lanes]
    if not any(threads):
        return None
    slices = trace.slices
    spilled = np.flatnonzero((slices.row != slices.depth) & np.array(threads)[slices.lane])
    row = int(spilled[0]) if len(spilled) and trace.quality.overlaps else -1
    return Doubt(trace.quality.overlaps, len(slices), trace.name_of(row) if row >= 0 else "", row)


def skipped_phases(trace: Trace) -> Doubt:
    """Events of a phase that has no picture here."""
    skipped = trace.quality.skipped_phases
    most = sorted(skipped.items(), key=lambda item: -item[1])[:3]
    words = ", ".join(f"{f'ph {letter!r}' if letter else 'no ph'} {number:,} times" for letter, number in most)
    return Doubt(sum(skipped.values()), trace.events, words)


def unknown_categories(trace: Trace) -> Doubt | None:
    """Slices of a profile whose category has no meaning here (R2.5)."""
    if not trace.is_torch:
        return None
    rows = trace.slices.of_kind(Kind.OTHER)
    # The profiler's own marks come under several processes.
    own = [number for number, text in enumerate(trace.categories) if text.casefold() == "trace"]
    rows = rows[~np.isin(trace.slices.category[rows], own)]
    if len(rows) == 0:
        return Doubt(0)
    category = int(np.bincount(trace.slices.category[rows]).argmax())
    row = int(rows[trace.slices.category[rows] == category][0])
    words = f"category {trace.categories[category]!r}, for example {trace.name_of(row)}"
    return Doubt(len(rows), len(trace.slices), words, row)


def _offender(trace: Trace, *reasons: str) -> str:
    """The first event that is known to be wrong in one of these ways, and where the others are listed."""
    given = trace.quality.examples
    mine = [(byte, what) for byte, what in given if what.startswith(reasons)]
    if not mine:
        return ""
    more = "; more: --by offender" if len(given) > 1 else ""
    return f"byte {mine[0][0]:,}: {mine[0][1]}{more}"


FILE_CHECKS = (
    Check(
        "file cut off",
        Severity.WRONG,
        cut_off,
        "The rest of the recording is missing: counts and sums are those of a part.",
        _EVERYTHING,
    ),
    Check(
        "damaged packing",
        Severity.WRONG,
        damaged,
        "What is behind the damage is missing: counts and sums may be those of a part.",
        _EVERYTHING,
    ),
    Check(
        "several writers",
        Severity.DOUBT,
        further_arrays,
        "The file has more than one array of events: all are shown together, and ids may be those of several programs.",
        ("kernels.op", "kernels.launch_delay_us", "steps.kernels"),
    ),
    Check("stray brackets", Severity.NOTE, stray_brackets, "A closing bracket stands between events; all are read."),
    Check(
        "loading stopped",
        Severity.WRONG,
        stopped,
        "The rest of the file was not read: counts and sums are those of a part.",
        _EVERYTHING,
    ),
    Check(
        "dropped events",
        Severity.WRONG,
        dropped,
        "They are in no list and no sum: they cannot be read, or have no time, or one that cannot be true.",
        ("summary",),
    ),
    Check("mended events", Severity.DOUBT, mended, "They are not valid JSON; names may have lost a character."),
    Check(
        "unfinished slices",
        Severity.DOUBT,
        unfinished,
        "They have no duration, or end where their lane ends: times in them are too short or too long.",
        ("ops.cpu_total_us", "ops.self_cpu_us"),
    ),
    Check("unmatched ends", Severity.NOTE, stray_ends, "They close nothing and are left out."),
    Check("negative durations", Severity.DOUBT, negative, "They count as 0.", ("kernels.dur_us", "ops.cpu_total_us")),
    Check(
        "impossible ends",
        Severity.WRONG,
        clipped,
        "They end far behind everything else and were cut at the end of the trace; their time is not true.",
        ("kernels.dur_us", "summary.value", "steps.gpu_busy_us"),
    ),
    Check(
        "overlapping slices",
        Severity.NOTE,
        overlaps,
        "On a thread slices must nest; these are drawn a row lower, and their time counts in no parent.",
    ),
    Check("empty elements", Severity.NOTE, empty, "They stand among the events, such as {}, and say nothing."),
    Check("skipped phases", Severity.NOTE, skipped_phases, "They have no picture here."),
    Check("unknown categories", Severity.NOTE, unknown_categories, "They are drawn, and are in no list."),
)
"""In the order in which they are asked."""
