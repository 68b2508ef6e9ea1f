"""GPU work of a region: by launch, or by own start where no launch was recorded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.support.build import Event, kernel, launch, make_trace
from tests.support.traces import loaded
from tracetui.linking.links import region
from tracetui.model.trace import Kind


def test_work_counts_where_it_was_launched_and_without_launch_where_it_ran() -> None:
    trace = make_trace(
        [
            Event("forward", 100, 100, Kind.ANNOTATION),
            launch(90, 20, 1),
            launch(150, 10, 2, lane=("1", "2")),
            launch(160, 10, 3, lane=("9", "9")),
            launch(200, 10, 4),
            kernel("before", 120, 10, correlation=1),
            kernel("mine", 300, 10, correlation=2),
            kernel("of another process", 320, 10, correlation=3),
            kernel("after", 340, 10, correlation=4),
            kernel("alone", 180, 10, "stream 9"),
            kernel("alone, later", 400, 10, "stream 9"),
        ]
    )
    found = region(trace, int((trace.slices.kind == Kind.ANNOTATION).argmax()))
    assert [trace.name_of(row) for row in found.rows.tolist()] == ["alone", "mine"]
    assert found.inferred.tolist() == [True, False]
    assert (found.start, found.end, found.span, found.busy) == (180, 310, 130, 20)


def test_a_region_without_work() -> None:
    found = region(make_trace([Event("forward", 100, 100, Kind.ANNOTATION)]), 0)
    assert (len(found.rows), found.span, found.busy) == (0, 0, 0)


def test_four_variants_of_the_fusion_puzzle(shared_trace: Callable[[str], Path]) -> None:
    trace = loaded(shared_trace("puzzlers/fusion_mwe_trace.json.gz"))
    tops = [trace.names.find(name) for name in ("fusion.py(201): unfused", "fusion.py(225): fused")]
    rows = np.flatnonzero(np.isin(trace.slices.name, tops))
    rows = rows[np.argsort(trace.slices.start[rows])]
    found = [region(trace, row) for row in rows.tolist()]
    assert [len(part.rows) for part in found] == [36, 5, 19, 4]
    assert [part.span // 1000 for part in found] == [1613, 191, 634, 157]
    assert [part.busy // 1000 for part in found] == [188, 66, 95, 26]
    assert [int(part.inferred.sum()) for part in found] == [0, 0, 17, 2]
