"""Time 0 and the window of all work against a slow script."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from tracetui.model.trace import GPU_WORK, Kind, Quality
from tracetui.reading.chrome import settle_times
from tracetui.reading.spans import SPAN_COLUMNS

DAY = 86_400 * 10**9
KINDS = st.sampled_from([Kind.KERNEL, Kind.CPU_OP, Kind.BOOKKEEPING])
DURATIONS = st.one_of(st.integers(0, 30), st.sampled_from([2000, 30_000, 2 * DAY]))
SLICES = st.lists(st.tuples(KINDS, st.integers(-50, 50), DURATIONS), min_size=1, max_size=30)


def slow_window(slices: list[tuple[Kind, int, int]]) -> tuple[int, int, list[int]]:
    """Origin, last end and durations: GPU work and what lasts for days is cut where it ends ten times too late."""
    work = [each for each in slices if each[0] != Kind.BOOKKEEPING]
    if not work:
        return 0, 0, [dur for _, _, dur in slices]
    origin = min(start for _, start, _ in work)
    ends = sorted(start + dur - origin for _, start, dur in work)
    latest = 10 * max(ends[int(len(ends) * 0.999)], 1)

    def is_absurd(kind: Kind, start: int, dur: int) -> bool:
        return start + dur - origin > latest and (kind in GPU_WORK or dur > DAY)

    last = max(start + dur - origin for kind, start, dur in work if not is_absurd(kind, start, dur))
    cut = [
        max(last + origin - start, 0) if kind != Kind.BOOKKEEPING and is_absurd(kind, start, dur) else dur
        for kind, start, dur in slices
    ]
    return origin, last, cut


@given(SLICES, st.sampled_from([1, 1001, 3000]))
@example([(Kind.KERNEL, 0, 0)], 1)
@example([(Kind.BOOKKEEPING, -9, 4), (Kind.KERNEL, 3, 2000), (Kind.CPU_OP, 0, 3)], 1001)
def test_window_and_clipped_durations(slices, plain):
    """Behind the slices stand as many plain ones, so that a single late one is one of a thousand."""
    slices = slices + [(Kind.CPU_OP, number % 40, 5) for number in range(plain)]
    columns = {name: np.zeros(len(slices), np.int64) for name in SPAN_COLUMNS}
    for name, values in zip(("kind", "start", "dur"), zip(*slices, strict=True), strict=True):
        columns[name] = np.array(values, np.int64)
    origin, last, durations = slow_window(slices)
    quality = Quality()
    assert settle_times(columns, [], quality) == (origin, (0, last))
    assert columns["dur"].tolist() == durations
    assert columns["start"].tolist() == [start for _, start, _ in slices]


def test_without_work_moments_decide():
    columns = {name: np.zeros(1, np.int64) for name in SPAN_COLUMNS} | {"kind": np.array([Kind.BOOKKEEPING])}
    assert settle_times(columns, [7, 3, 9], Quality()) == (3, (0, 6))
