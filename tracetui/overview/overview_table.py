"""The pane `overview`: its entries as rows, and the time in as many cells as a line has: the CPU by phase, the GPU by
family, idle time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np

from tracetui.frozen import frozen
from tracetui.kernel_names.slice_names import Family, families
from tracetui.model import columns as col
from tracetui.model.intervals import Int64, Part, covered_within
from tracetui.model.pane import Pane
from tracetui.model.results import KEPT, keep_guarded, kept
from tracetui.model.table import NULL, Table, micros, numbers, texts
from tracetui.model.trace import Float64, Trace
from tracetui.overview.facts import (
    FAMILY_WORDS,
    Overview,
    device_rows,
    family_spans,
    left_out_words,
    length_words,
    overview_of,
    phase_times,
)
from tracetui.panes import PANES

MIN_PHASE_SHARE = 0.08
"""Minimum share of a cell that a phase has to be drawn in it."""
MOVES = (Family.COPY, Family.COMMUNICATION)
"""Families that move data, and compute nothing."""


@frozen
class Strip:
    """Shares (0 to 1) of each cell of a line of time; means over the devices."""

    start: int
    """In ns."""
    end: int
    families: dict[Family, Float64]
    """The share of each family that ran at all."""
    idle: Float64
    runs: tuple[tuple[int, int, Family, int, float], ...]
    """Longer stretches in which one family has most of 8 cells: first cell, cells, the family, its activities, and
    the time in ns that they cover."""
    phase_runs: tuple[tuple[int, int, str, str, float], ...]
    """Stretches in which one of `cpu_phases` has most of each cell: first cell, cells, name, key and time in ns."""


def strip_of(trace: Trace, overview: Overview, cells: int) -> Strip:
    """The strip of the time from the beginning of a scope to its end."""
    start, end = overview.windows[0][0], overview.windows[-1][1]
    edges = np.linspace(start, end, cells + 1).astype(np.int64)
    low, high = edges[:-1], np.maximum(edges[1:], edges[:-1] + 1)
    spent = {family: np.zeros(cells) for family in FAMILY_WORDS}
    starts: dict[Family, list[Int64]] = {family: [] for family in FAMILY_WORDS}
    devices, slices = 0, trace.slices
    for rows in device_rows(trace):
        devices += 1
        mine = rows[(slices.end[rows] > start) & (slices.start[rows] < end)]
        of_row = families(trace, mine)
        for family, _, begin, stop in family_spans(trace, mine):
            spent[family] += covered_within(begin, stop, low, high) / (high - low)
            # Activities that follow at once, or run beside others, are not one in number.
            starts[family].append(slices.start[mine[of_row == family]])
    shares = {family: values / devices for family, values in spent.items() if values.any()}
    busy = sum(shares.values()) if shares else np.zeros(cells)
    phases = _phase_runs(phase_times(trace, low, high), high - low)
    runs = _family_runs(shares, (end - start) / cells, starts, edges)
    return Strip(start, end, shares, np.clip(1 - busy, 0, 1), runs, phases)


def _stretches(values: Int64) -> list[tuple[int, int]]:
    """First and one behind the last index of each stretch of equal values."""
    edges = np.flatnonzero(np.diff(values)) + 1
    bounds = [0, *edges.tolist(), len(values)]
    return list(pairwise(bounds)) if len(values) else []


def _phase_runs(times: list[tuple[str, str, Int64]], cells: Int64) -> tuple[tuple[int, int, str, str, float], ...]:
    """Stretches of cells of which one phase has most, with its time from halfway behind the stretch before, where it
    has most too, to halfway before the one after: together all of its time.
    """
    share = np.array([spent / cells for _, _, spent in times])
    best = np.where(share.max(axis=0) < MIN_PHASE_SHARE, -1, np.argmax(share, axis=0))
    runs = []
    for index, (name, key, spent) in enumerate(times):
        mine = [(first, last) for first, last in _stretches(best) if best[first] == index]
        halfway = [(last + first) // 2 for (_, last), (first, _) in pairwise(mine)]
        for (first, last), (low, high) in zip(mine, pairwise([0, *halfway, len(best)]), strict=False):
            runs.append((first, last - first, name, key, float(spent[low:high].sum())))
    return tuple(sorted(runs))


def _family_runs(
    shares: dict[Family, Float64], cell_ns: float, starts: dict[Family, list[Int64]], edges: Int64
) -> tuple[tuple[int, int, Family, int, float], ...]:
    """Stretches in which one computing family has most of the eight cells around each."""
    computing = [family for family in shares if family not in MOVES]
    if not computing:
        return ()
    kernel = np.ones(8)
    smooth = np.array([np.convolve(shares[family], kernel, "same") for family in computing])
    best = np.where(smooth.max(axis=0) > 0.4, np.argmax(smooth, axis=0), -1)
    begins = {family: np.sort(np.concatenate(starts[family])) for family in computing if starts[family]}
    runs = []
    for first, last in _stretches(best):
        if best[first] < 0 or last - first < 4:
            continue
        family = computing[int(best[first])]
        ns = float(shares[family][first:last].sum() * cell_ns)
        began = begins[family]
        number = int(np.searchsorted(began, edges[last]) - np.searchsorted(began, edges[first]))
        runs.append((first, last - first, family, number, ns))
    return tuple(runs)


def kept_overview(trace: Trace, part: Part | None, told: Callable[[Overview], None] = lambda _: None) -> Overview:
    """The overview of a part, made once; `told` is called with what is known of it so far."""
    key = KEPT[overview.__name__].key(part)
    return keep_guarded(trace, key, "The overview", lambda: overview_of(trace, part, told))


@kept(on_disk=True)
def overview(trace: Trace, part: Part | None = None) -> Overview:
    """The whole overview of a part: what `kept_overview` keeps under this name, and in the cache."""
    return overview_of(trace, part)


def overview_table(trace: Trace, part: Part | None = None, by: str | None = None) -> Table:
    """One row per entry of the overview."""
    overview = kept_overview(trace, part)
    return replace(table_of(overview), headline=PANES["findings"].build(trace, part).headline)


def table_of(overview: Overview) -> Table:
    """The entries of an overview as rows."""
    entries = overview.entries
    unknown = np.array([entry.ns is None for entry in entries], bool)
    times = np.array([entry.ns or 0.0 for entry in entries], np.float64)
    return Table(
        (
            texts(col.WHAT, [entry.section for entry in entries]),
            texts(
                col.NAME.but(help="Of what: a family, a cause, a phase, a finding, a step."), [e.name for e in entries]
            ),
            numbers(col.COUNT, [NULL if entry.count is None else entry.count for entry in entries]),
            micros(
                col.TOTAL_US.but(
                    heading="time",
                    help="In the scope, the mean over the devices; of a finding what it could save at most.",
                ),
                times,
                null=unknown,
            ),
            numbers(
                col.PCT.but(help="Of the scope; of an operator of a trace without a GPU, of the time of all of them."),
                np.array([np.nan if entry.share is None else 100 * entry.share for entry in entries], np.float64),
            ),
            texts(col.NOTE, [e.note or None for e in entries]),
            texts(col.JUMP, [entry.jump or None for entry in entries]),
        ),
        np.array([entry.row for entry in entries], np.int64),
        " ".join(filter(None, (f"Of {length_words(overview)}.", left_out_words(overview)))),
    ).lacking(overview.failures)


PANE = Pane(
    "overview",
    "Overview",
    key="1",
    help="What a step is spent on, what to do first, which steps are odd, what is heaviest.",
    table=overview_table,
    columns="what name total_us pct count note",
    is_in_time_order=False,
)
