"""Measures of a set of ranks that an expectation can name, beside those of one trace in `expectation_metrics`."""

from __future__ import annotations

import re
from collections.abc import Callable

from tracetui.ranks.rank_set import RankSet
from tracetui.tables.expectation_metrics import NOTHING, Expectation, Observed


def _ranks(ranks: RankSet, _: Expectation) -> Observed:
    return Observed(len(ranks), len(ranks))


def _late_rank_named(ranks: RankSet, expected: Expectation) -> Observed:
    """The latest of the ranks whose number and causes match the pattern, such as `rank 1: input`."""
    pattern = re.compile(expected.of if expected.want == NOTHING else str(expected.want))
    names = [f"rank {ranks.ranks[late.index]}: {', '.join(late.named) or 'unknown'}" for late in ranks.late]
    return Observed(name=next(filter(pattern.search, names), ""))


RANK_METRICS: dict[str, Callable[[RankSet, Expectation], Observed]] = {
    "ranks": _ranks,
    "late_rank_named": _late_rank_named,
}
"""How each metric is looked up."""
