"""The cause of every gap, its shares, and the sums of the steps: all from the partition of idle time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracetui.idle.cause_words import WORDS, Cause
from tracetui.idle.idle_parts import after_sync, idle_contents, idle_parts, main_causes, sums_by_cause
from tracetui.idle.idleness import idleness
from tracetui.linking.placement import step_index
from tracetui.linking.steps import steps
from tracetui.model.intervals import Bool, Int64
from tracetui.model.strings import Strings
from tracetui.model.trace import Trace

_GAPS_AT_ONCE = 1 << 13
"""Gaps whose shares are looked at together."""
MAX_NAMED_CAUSES = 4
"""Maximum causes listed per gap with their shares, the largest first."""


@dataclass(frozen=True, eq=False)
class GapCauses:
    """Causes of the gaps of `idleness(trace)`."""

    cause: NDArray[np.int8]
    """The `Cause` of each gap: that which covers most of it."""
    after_sync: Bool
    """Whether the gap began while the launching thread waited for the GPU, so that nothing was queued."""
    shares: NDArray[np.int32]
    """Ids in `texts`: what each gap consists of, the largest causes with their shares; -1 where none is known."""
    texts: Strings
    by_step: Int64
    """Sum in ns of each cause in the gaps of each step of `steps(trace)`; the last row is for gaps in no step."""
    spent: dict[Cause, Int64]
    """Time in ns of every gap that each cause has; without causes that do not occur. Adds up to the gap."""


def gap_causes(trace: Trace) -> GapCauses:
    """The cause of every gap."""

    def make() -> GapCauses:
        idle, spent = idleness(trace), sums_by_cause(trace, idle_parts(trace))
        shares, texts = _share_texts(sums_by_cause(trace, idle_contents(trace)), idle.dur)
        return GapCauses(main_causes(trace), after_sync(trace), shares, texts, _by_step(trace, spent), spent)

    return trace.remember("gap causes", make)


def _by_step(trace: Trace, spent: dict[Cause, Int64]) -> Int64:
    count = len(steps(trace)) + 1
    step = step_index(trace, idleness(trace).after) % count
    sums = np.zeros((count, len(Cause)), np.int64)
    for cause, times in spent.items():
        held = np.flatnonzero(times)
        sums[:, cause] = np.bincount(step[held], times[held], count)
    return sums


def _share_texts(spent: dict[Cause, Int64], dur: Int64) -> tuple[NDArray[np.int32], Strings]:
    """`operators 63 %, launch call 30 %` for every gap; shares below half a percent are left out."""
    key = np.empty(len(dur), np.int64)
    # A few gaps at a time: what is looked at again and again stays in the processor's cache.
    for first in range(0, len(dur), _GAPS_AT_ONCE):
        part = slice(first, first + _GAPS_AT_ONCE)
        key[part] = _share_keys({cause: spent[cause][part] for cause in sorted(spent)}, dur[part])
    keys, member = np.unique(key, return_inverse=True)
    texts = Strings()
    ids = [texts.intern(_share_text(number)) if number else -1 for number in keys.tolist()]
    return np.array(ids, np.int32)[member], texts


def _share_keys(spent: dict[Cause, Int64], dur: Int64) -> Int64:
    """The causes with the largest shares of each gap and these shares, in 12 bits each."""
    used = np.array(list(spent), np.int64)
    left, index = np.array(list(spent.values())), np.arange(len(dur))
    key = np.zeros(len(dur), np.int64)
    for position in range(MAX_NAMED_CAUSES):
        largest = np.argmax(left, axis=0)
        share = np.rint(100 * left[largest, index] / dur).astype(np.int64)
        left[largest, index] = 0
        key |= np.where(share > 0, used[largest] * 101 + share, 0) << (12 * position)
    return key


def _share_text(key: int) -> str:
    parts = []
    while key:
        cause, share = divmod(key & 0xFFF, 101)
        parts.append(f"{WORDS[cause]} {share} %")
        key >>= 12
    return ", ".join(parts)
