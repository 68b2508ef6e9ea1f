"""A host of which all ranks are late: its clock, its input, its neighbours (R5.9).

None of its ranks need stand out alone, since they share the blame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tracetui.model.intervals import Int64
from tracetui.ranks.causes import MIN_RUN_SHARE, MIN_TIMES_MEDIAN, SECOND_WITHIN, StretchExcess, cause_note, causes_of
from tracetui.ranks.matching import Matches
from tracetui.ranks.name_excess import name_excess
from tracetui.ranks.rank_summary import RankSummary
from tracetui.ranks.waiting import Waiting

MIN_RANK_SHARE = 0.25
"""Share of an equal part of the blame that every rank of the host must have; with less it is not all of them."""


@dataclass(frozen=True)
class LateHost:
    """Why the ranks of one host are late together."""

    host: int
    """Index of the host."""
    ranks: tuple[int, ...]
    """Indices of its ranks."""
    caused: float
    """Time in ns that ranks of other hosts waited for them."""
    causes: tuple[tuple[str, float], ...]
    """What they are late by with the excess in ns, the largest first."""
    note: str

    @property
    def named(self) -> tuple[str, ...]:
        """The causes to be named: the largest, and those that are nearly as large."""
        least = self.causes[0][1] / SECOND_WITHIN if self.causes else 0.0
        return tuple(cause for cause, excess in self.causes if excess >= least)


def find_late_host(
    summaries: Sequence[RankSummary], matches: Matches, waiting: Waiting, host: Int64, run_ns: int
) -> LateHost | None:
    """The host whose ranks all make those of other hosts wait, where one stands out; else None."""
    hosts, ranks = int(host.max(initial=-1)) + 1, len(summaries)
    if hosts < 2:
        return None
    charged = waiting.root
    between = host[charged.waiting] != host[charged.late]
    caused = np.bincount(host[charged.late[between]], charged.time[between], hosts)
    error = np.bincount(host[charged.late[between]], np.minimum(charged.error, charged.time)[between], hosts)
    worst = int(caused.argmax())
    members = np.flatnonzero(host == worst)
    others = np.delete(caused, worst)
    least = MIN_RUN_SHARE * run_ns * (ranks - len(members))
    if len(members) < 2 or caused[worst] < max(least, 1, error[worst]):
        return None
    if caused[worst] < MIN_TIMES_MEDIAN * float(np.median(others)):
        return None
    each = np.bincount(charged.late[between], charged.time[between], ranks)[members]
    if each.min() < MIN_RANK_SHARE * caused[worst] / len(members):
        return None
    blamed = (
        np.bincount(charged.instance[between & (host[charged.late] == worst)], minlength=len(matches.instances)) > 0
    )
    entries = matches.entries
    rows = np.flatnonzero((host[entries.rank] == worst) & blamed[entries.instance])
    excess = StretchExcess.of(summaries, matches, waiting, host[entries.rank] == worst)
    names = name_excess(summaries, matches, rows, excess.median[rows])
    causes = causes_of(excess, rows, names)
    return LateHost(worst, tuple(members.tolist()), float(caused[worst]), causes, cause_note(causes, names))
