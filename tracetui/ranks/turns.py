"""Ranks that are late in turn, one in each step, so that none stands out over the run (R5.9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tracetui.model.table import NULL
from tracetui.ranks.causes import MIN_RUN_SHARE

if TYPE_CHECKING:
    from tracetui.ranks.rank_set import RankSet

MIN_STEP_SHARE = 0.6
"""Minimum share of the waiting in a step that is for one rank."""
MAX_TURNS = 16
"""Maximum steps after which the same rank is late again."""


def caused_by_step(ranks: RankSet) -> tuple[list[int], NDArray[np.float64]]:
    """Numbers of the steps, and the time in ns that others waited for each rank (column) in each step (row)."""
    charged, count = ranks.waiting.charged, len(ranks)
    steps = sorted({number for each in ranks.summaries for number in each.steps.number.tolist()})
    number = ranks.step_of_instances[charged.instance]
    row = np.searchsorted(steps, number) if steps else np.zeros(0, np.int64)
    held = number != NULL if steps else np.zeros(len(number), bool)
    where = row[held] * count + charged.late[held] if steps else row
    sums = np.bincount(where, charged.time[held], len(steps) * count)
    return steps, sums.astype(np.float64).reshape(len(steps), count)


def in_turn(ranks: RankSet) -> list[int]:
    """Ranks of which one after another is late in a step, in their order, at least twice; none where this is not so."""
    _, caused = caused_by_step(ranks)
    if len(caused) < 4 or len(ranks) < 2:
        return []
    worst, total = caused.argmax(axis=1), caused.sum(axis=1)
    least = MIN_RUN_SHARE * ranks.run_ns / len(caused) * (len(ranks) - 1)
    most = caused[np.arange(len(caused)), worst]
    if not ((most >= MIN_STEP_SHARE * total) & (most >= least)).all():
        return []
    for period in range(2, min(MAX_TURNS, len(worst) // 2) + 1):
        if (worst[period:] == worst[:-period]).all() and len(set(worst[:period].tolist())) == period:
            return [ranks.ranks[index] for index in worst[:period].tolist()]
    return []
