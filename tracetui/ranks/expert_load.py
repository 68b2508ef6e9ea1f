"""How evenly tokens are spread over the ranks of experts: what the fullest receives, and how long it takes (R5.14).

An all-to-all dispatches tokens to their experts where the next one of its group brings as much back: in proportion, for
the two may differ in type. Kernels of serving engines say by their names which they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tracetui.model.intervals import Int64
from tracetui.model.table import NULL
from tracetui.ranks.rank_summary import OPERATIONS

if TYPE_CHECKING:
    from tracetui.ranks.rank_set import RankSet

MIN_COST_SHARE = 0.01
"""Minimum time that an even load would save, as a share of the run."""
MIN_UNEVEN = 1.1
"""Minimum of the largest load as a multiple of the mean."""
_WHOLE_NUMBERS = re.compile(r"\b(?:long|int|int32|int64|short|byte)\b", re.IGNORECASE)
"""Types of which numbers of tokens are exchanged, not tokens."""
_DISPATCH = re.compile(r"dispatch", re.IGNORECASE)
_COMBINE = re.compile(r"combine", re.IGNORECASE)


@dataclass(frozen=True)
class ExpertLoad:
    """The load of the experts over a run."""

    dispatches: int
    """All-to-alls that brought tokens to experts, and of which a second one brought the results back."""
    received: float | None
    """Median of the most elements that a rank received as a multiple of the mean; None where they are not recorded."""
    time: float | None
    """The same of the time that kernels took from the dispatch to its combine; None where other collectives ran."""
    fullest: int
    """Number of the rank that most often had the largest load."""
    cost_ns: float
    """Time that the busiest rank took beyond the mean one, summed, in ns."""


@dataclass(frozen=True, eq=False)
class _Entries:
    """What is asked of the entries of the operations."""

    first: Int64
    """Index of the first entry of each operation, and the end."""
    rank: Int64
    start: Int64
    end: Int64
    received: Int64
    bytes: Int64
    stretch: Int64
    busy: Int64

    def of(self, column: Int64, instance: int) -> Int64:
        """A column of the ranks of one operation."""
        return column[self.first[instance] : self.first[instance + 1]]


def expert_load(ranks: RankSet) -> ExpertLoad | None:
    """The load of the experts, None where no all-to-all is known to be a dispatch of tokens."""
    entries = _entries(ranks)
    received, times, fullest = [], [], []
    cost = 0.0
    for dispatch, combine in _pairs(ranks, entries):
        tokens, busy = entries.of(entries.received, dispatch), _busy_between(entries, dispatch, combine)
        tells = bool((tokens != NULL).all() and tokens.sum() > 0)
        if tells:
            received.append(float(tokens.max() / tokens.mean()))
        if busy is not None:
            times.append(float(busy.max() / busy.mean()))
            cost += float(busy.max() - busy.mean())
        load = tokens if tells else busy
        if load is not None:
            fullest.append(int(entries.of(entries.rank, dispatch)[load.argmax()]))
    if not fullest:
        return None
    return ExpertLoad(
        dispatches=len(fullest),
        received=float(np.median(received)) if received else None,
        time=float(np.median(times)) if times else None,
        fullest=ranks.ranks[int(np.bincount(fullest).argmax())],
        cost_ns=cost,
    )


def _entries(ranks: RankSet) -> _Entries:
    entries = ranks.matches.entries
    columns = {name: ranks.of_entries(name) for name in ("received", "bytes", "stretch", "busy")}
    return _Entries(ranks.matches.first, entries.rank, entries.start, entries.end, **columns)


def _pairs(ranks: RankSet, entries: _Entries) -> Iterator[tuple[int, int]]:
    """Each dispatch of tokens with its combine, as numbers of operations."""
    instances = ranks.matches.instances
    is_tokens = np.array([not _WHOLE_NUMBERS.search(each) for each in ranks.matches.words], bool)
    rows = np.flatnonzero((instances.operation == OPERATIONS.index("all_to_all")) & (instances.ranks > 1))
    rows = rows[is_tokens[instances.token[rows]] & ~instances.is_partial[rows]]
    order = np.lexsort((entries.start[entries.first[rows]], instances.group[rows]))
    pending: int | None = None
    for row in rows[order].tolist():
        if pending is None or instances.group[pending] != instances.group[row]:
            pending = row
        elif _belongs(ranks, entries, pending, row):
            yield pending, row
            pending = None
        else:
            pending = row


def _belongs(ranks: RankSet, entries: _Entries, dispatch: int, combine: int) -> bool:
    """Whether every rank gives in the second what it received in the first, or their names say what they are."""
    if not np.array_equal(entries.of(entries.rank, dispatch), entries.of(entries.rank, combine)):
        return False
    names = [_name(ranks, entries, each) for each in (dispatch, combine)]
    if _DISPATCH.search(names[0]) and _COMBINE.search(names[1]):
        return True
    received, given = entries.of(entries.received, dispatch), entries.of(entries.bytes, combine)
    if (received == NULL).any() or (given == NULL).any() or received.sum() == 0 or given.sum() == 0:
        return False
    return bool(np.allclose(received / received.sum(), given / given.sum(), rtol=1e-6, atol=1e-9))


def _name(ranks: RankSet, entries: _Entries, instance: int) -> str:
    row = int(entries.first[instance])
    own = ranks.summaries[int(entries.rank[row])]
    return own.names[int(own.collectives.name[ranks.matches.entries.row[row]])]


def _busy_between(entries: _Entries, dispatch: int, combine: int) -> Int64 | None:
    """Time in ns that kernels took on each rank between two collectives.

    None where another collective ended between them, and where nothing ran.
    """
    begun = entries.of(entries.start, combine) - entries.of(entries.stretch, combine)
    busy = entries.of(entries.busy, combine)
    return busy if (begun == entries.of(entries.end, dispatch)).all() and busy.sum() > 0 else None
