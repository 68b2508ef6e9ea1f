"""What is kept of a rank: parts that sum, names, and bytes that come back."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from tests.support.build import annotation, kernel, launch, make_trace, op
from tests.support.ranks import BASE, MS, RankPlan, args_of, metadata, run_together, set_of
from tracetui.model.table import NULL
from tracetui.panes import PANES
from tracetui.ranks.rank_summary import OPERATIONS, PHASES, Flag, RankSummary
from tracetui.ranks.rank_tables import TABLES
from tracetui.ranks.stretches import summarise_trace


def plan() -> RankPlan:
    made = RankPlan(0)
    for number in range(5):
        begin = 20 * MS * number
        made.compute(begin + MS, 3 * MS, "gemm")
        made.compute(begin + 5 * MS, MS, "norm")
        made.collective(begin + 8 * MS, begin + 12 * MS, **args_of(number, (0, 1)))
        made.step(number, begin, 20 * MS)
    return made


def test_the_parts_of_a_stretch_sum_to_it() -> None:
    own = plan().summary(2).collectives
    assert (own.input + own.host + own.busy + own.comm == own.stretch).all()
    assert own.stretch.tolist() == [8 * MS] + [16 * MS] * 4 and own.busy.tolist() == [4 * MS] * 5


def test_names_belong_to_the_stretch_in_which_they_begin() -> None:
    summary = plan().summary(2)
    entries = summary.stretch_names
    held = {
        (int(collective), summary.names[name]): (int(calls), int(time))
        for collective, name, calls, time in zip(
            entries.collective, entries.name, entries.calls, entries.time, strict=True
        )
    }
    assert held == {(row, name): (1, dur) for row in range(5) for name, dur in (("gemm", 3 * MS), ("norm", MS))}


def test_times_are_exact_integers_of_nanoseconds() -> None:
    summary = plan().summary(2)
    assert summary.collectives.start.tolist() == [BASE + 20 * MS * number + 8 * MS for number in range(5)]


def test_a_summary_comes_back_from_its_bytes() -> None:
    summary = plan().summary(2)
    back = RankSummary.from_bytes(summary.to_bytes())
    for part in ("steps", "collectives", "stretch_names", "curve"):
        for column in fields(getattr(summary, part)):
            assert np.array_equal(
                getattr(getattr(back, part), column.name), getattr(getattr(summary, part), column.name)
            )
    assert (back.header, back.names, back.groups, back.window) == (
        summary.header,
        summary.names,
        summary.groups,
        summary.window,
    )


def test_steps_have_the_periods_and_the_idle_time_of_the_steps_pane() -> None:
    made = RankPlan(0)
    for number in range(4):
        begin = 20 * MS * number
        made.step(number, begin, 20 * MS)
        launched = [
            launch(begin + MS, 500_000, 2 * number + 1),
            kernel("gemm", begin + 2 * MS, 12 * MS, correlation=2 * number + 1),
            launch(begin + 3 * MS, 500_000, 2 * number + 2),
            kernel("norm", begin + 15 * MS, 7 * MS, correlation=2 * number + 2),
        ]
        made.events += launched
    trace = make_trace(made.events, metadata=metadata(0, 1, "node0"))
    own, steps = summarise_trace(trace).steps, PANES["steps"].build(trace)
    assert (own.end - own.start).tolist() == (1000 * steps["period_us"].values).tolist()
    assert own.idle.tolist() == (1000 * steps["gpu_idle_us"].values).tolist()
    row = TABLES["ranks"](set_of([made])).row(0)
    assert (row["step_us"], row["step_idle_us"]) == (own.median / 1000, own.idle.sum() / 1000)


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"no summary"])
def test_other_bytes_are_no_summary(data: bytes) -> None:
    with pytest.raises(ValueError):
        RankSummary.from_bytes(data)


def test_a_summary_of_three_thousand_collectives_is_small() -> None:
    made = RankPlan(0)
    run_together([made], [[2 * MS * number + number % 7] for number in range(3000)])
    assert len(made.summary(1).to_bytes()) < 100_000


def test_gloo_is_read_from_annotations_and_its_own_operators_are_no_work() -> None:
    events = [
        op("aten::mm", 0, 2 * MS),
        op("c10d::allreduce_", 2 * MS, MS),
        annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 5 * MS, 4 * MS),
        annotation("forward", 9 * MS, 8 * MS),
        op("aten::mm", 10 * MS, 2 * MS),
    ]
    for start in (3 * MS, 14 * MS):
        args = {"Input Dims": [[64]], "Input type": ["float"]}
        events.append(annotation("gloo:all_reduce", start, MS, lane=("1", "7"), args=args))
    own = summarise_trace(make_trace(events, metadata=metadata(0, 2, "a"), origin_ns=BASE)).collectives
    assert [OPERATIONS[each] for each in own.operation.tolist()] == ["all_reduce"] * 2
    assert own.bytes.tolist() == [256] * 2 and own.seq.tolist() == [NULL] * 2
    assert (own.stretch[1], own.input[1], own.busy[1], own.host[1]) == (10 * MS, 4 * MS, 2 * MS, 4 * MS)
    assert [PHASES[each] for each in own.phase.tolist()] == ["", "forward"]


def test_a_collective_beside_another_is_told() -> None:
    made = RankPlan(0)
    made.collective(0, 4 * MS, **args_of(0, (0, 1)))
    made.collective(8 * MS, 9 * MS, **args_of(1, (0, 1)))
    beside = make_trace(
        [
            *made.events,
            type(made.events[0])(
                "ncclDevKernel_AllGather_RING_LL(x)", 3 * MS, 2 * MS, made.events[0].kind, ("0", "stream 30")
            ),
        ]
    )
    flags = np.asarray((summarise_trace(beside).collectives.flags & int(Flag.CONTENDED)) != 0).tolist()
    assert flags == [True, True, False]
