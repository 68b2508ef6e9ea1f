"""The pane `overview`: its entries as rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tracetui.model import columns as col
from tracetui.model.intervals import Part
from tracetui.model.pane import Pane
from tracetui.model.results import KEPT, keep_guarded, kept
from tracetui.model.table import NULL, Table, micros, numbers, texts
from tracetui.model.trace import Trace
from tracetui.overview.facts import Overview, left_out_words, length_words, overview_of
from tracetui.panes import PANES


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
