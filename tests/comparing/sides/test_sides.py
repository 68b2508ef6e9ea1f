"""What a scope names, and what belongs to a part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.build import annotation, kernel, launch, make_trace, op, python, step
from tests.support.comparing import tutorial
from tests.support.traces import loaded
from tracetui.comparing.measures import calls, measures
from tracetui.comparing.side import side
from tracetui.errors import UsageError
from tracetui.linking.links import links
from tracetui.linking.placement import step_index
from tracetui.model.intervals import read_time_range
from tracetui.model.trace import Trace
from tracetui.tables.range_table import range_table

PUZZLE = "puzzlers/fusion_mwe_trace.json.gz"
OTHER = ("2", "1")
"""A thread of another process."""


def names(trace: Trace, scope: str) -> list[list[str]]:
    """What each part holds."""
    found = side(trace, scope)
    part = found.part_of(np.arange(len(trace.slices)))
    return [[trace.name_of(row) for row in np.flatnonzero(part == number).tolist()] for number in range(len(found))]


def gpu_of(trace: Trace, scope: str) -> list[int]:
    """The GPU activities of a side."""
    rows: list[int] = side(trace, scope).activities()[0].tolist()
    return rows


def assert_like_the_pane(trace: Trace, text: str) -> None:
    """A side that is a range of time has the numbers of the pane of that range."""
    pane: dict[str, Any] = {}
    for row in range_table(trace, read_time_range(text)).rows():
        pane.setdefault(str(row["what"]), row)
    values = {name: measure.values.tolist() for name, measure in measures(side(trace, f"@{text}")).items()}
    assert values["gpu_busy_us"] == pytest.approx([pane["GPU busy"]["total_us"]])
    for name, what in (("kernels", "kernels"), ("launches", "launch calls"), ("cpu_ops", "operators")):
        assert values[name] == [pane[what]["count"]]
    assert values["launch_us"] == pytest.approx([pane["launch calls"]["total_us"]])


def loop() -> Trace:
    """Three steps, the last cut short; a function that calls itself; another process beside it."""
    return make_trace(
        [
            *(step(number, 100 * number, 90) for number in (1, 2, 3)),
            *(op("aten::mm", 100 * number + 10, 20) for number in (1, 2)),
            *(launch(100 * number + 15, 5, number) for number in (1, 2)),
            *(kernel("k", 1000 + 100 * number, 20, correlation=number) for number in (1, 2)),
            annotation("forward", 105, 60),
            annotation("forward", 205, 60),
            python("train.py(12): loss", 240, 30),
            python("train.py(12): loss", 245, 10),
            op("aten::add", 250, 5),
            op("elsewhere", 215, 5, lane=OTHER),
            op("aten::mm", 305, 5),
        ]
    )


def test_without_a_scope_the_steps_that_are_whole():
    found = side(tutorial.mlp(steps=4))
    assert (found.part_kind, found.number.tolist(), found.remark) == ("step", [2, 3, 4, 5], "")


def test_a_step_that_was_cut_is_left_out_and_said_so():
    events = [step(number, 1000 * number, 900) for number in (2, 3, 4, 5)]
    for number in (2, 3, 4, 5):
        for place in range(1 if number == 2 else 4):
            begin, correlation = 1000 * number + 100 * place, 10 * number + place
            events += [launch(begin, 20, correlation), kernel("k", begin + 50, 20, correlation=correlation)]
    trace = make_trace(events)
    found = side(trace)
    assert found.number.tolist() == [3, 4, 5]
    assert found.remark == "Step 2 of made.json was cut by the profiler and is left out."
    assert side(trace, "2:5").number.tolist() == [2, 3, 4, 5]


def test_a_capture_without_steps_is_one_part():
    trace = make_trace([op("aten::mm", 10, 20), op("aten::add", 40, 20)])
    found = side(trace)
    assert (found.part_kind, len(found)) == ("capture", 1)
    assert found.part_of(np.arange(2)).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("scope", "sort", "numbers"),
    [
        ("2", "step", [2]),
        ("1:2", "step", [1, 2]),
        ("2:9", "step", [2, 3]),
        ("forward", "run", [1, 2]),
        ("forward[2]", "run", [2]),
        ("loss", "run", [1]),
        ("aten::mm", "run", [1, 2, 3]),
        ("all", "capture", [1]),
        ("@0us+1ms", "range", [1]),
    ],
)
def test_scopes(scope, sort, numbers):
    found = side(loop(), scope)
    assert (found.part_kind, found.number.tolist(), found.scope) == (sort, numbers, scope)
    assert found.name == f"made.json#{scope}"


def test_an_event_is_a_run():
    trace = loop()
    row = next(row for row in range(len(trace.slices)) if trace.name_of(row) == "forward")
    found = side(trace, f"e{trace.slices.event[row]}")
    assert (found.row.tolist(), found.part_kind) == ([row], "run")


@pytest.mark.parametrize(
    "scope", ["7", "7:9", "e999", "backward", "forward[3]", "forward[0]", "@", "@5us", "@5us+0us", "@5us+-2us"]
)
def test_a_scope_that_names_nothing_says_what_there_is(scope):
    with pytest.raises(UsageError) as error:
        side(loop(), scope)
    assert len(str(error.value)) > 30


def test_the_work_of_a_run_is_what_was_launched_in_it():
    found = side(loop(), "forward")
    rows, part = found.activities()
    assert [found.trace.name_of(row) for row in rows] == ["k", "k"]
    assert part.tolist() == [0, 1]
    assert found.inferred() == 0


def test_a_run_holds_what_begins_in_it_on_threads_of_its_process():
    first, second = names(loop(), "forward")
    assert first == ["forward", "aten::mm", "cudaLaunchKernel", "k"]
    assert "elsewhere" not in second
    assert set(second) == {"forward", "aten::mm", "cudaLaunchKernel", "k", "train.py(12): loss", "aten::add"}


def test_a_function_within_itself_is_one_run():
    assert len(side(loop(), "loss")) == 1


def test_steps_are_the_same_as_a_range_of_them():
    trace = tutorial.split_stack()
    every = np.arange(len(trace.slices))
    assert side(trace).part_of(every).tolist() == side(trace, "2:4").part_of(every).tolist()


def test_work_without_a_launch_goes_by_its_own_start(shared_trace):
    trace = loaded(shared_trace(PUZZLE))
    held = {scope: side(trace, scope) for scope in ("unfused[1]", "fused[1]", "unfused[2]", "fused[2]")}
    assert [len(each.activities()[0]) for each in held.values()] == [36, 5, 19, 4]
    assert [each.inferred() for each in held.values()] == [0, 0, 17, 2]
    assert len(side(trace, "unfused")) == 2


@pytest.mark.parametrize("name", ["d01_v100_torch1.9_6steps_mem_occ.json.gz", "d04_a100_8rank_6steps_occ_nccl.json.gz"])
def test_parts_are_those_of_the_steps(name, shared_trace):
    trace = loaded(shared_trace(name))
    gpu = links(trace).gpu
    every = side(trace, f"0:{10**9}")
    assert every.part_of(gpu).tolist() == step_index(trace, gpu).tolist()


def test_a_range_holds_what_ran_in_it_on_any_thread():
    events = [launch(100, 5, 1), launch(200, 5, 2, lane=("1", "2")), launch(300, 5, 3)]
    events += [kernel(f"k{number}", 1_000 * number, 10, correlation=number) for number in (1, 2, 3)]
    events += [kernel("lone", 250, 10, correlation=9), op("aten::mm", 150, 100), op("aten::add", 260, 200)]
    found = side(make_trace(events), "@0.15us+0.15us")
    assert [found.trace.name_of(row) for row in found.activities()[0]] == ["lone"]
    assert found.inferred() == 0
    assert [found.trace.name_of(row) for row in gpu_of(found.trace, "@1.99us+15ns")] == ["k2"]
    assert gpu_of(found.trace, "@2.01us+15ns") == []
    ops = [row for row in range(len(found.trace.slices)) if found.trace.name_of(row).startswith("aten")]
    assert found.part_of(np.array(ops)).tolist() == [0, 0]
    assert (found.start.tolist(), found.end.tolist()) == ([150], [300])


def test_two_ranges_can_be_compared(shared_trace):
    trace = loaded(shared_trace(PUZZLE))
    for text in ("2100us+1600us", "4000us+400us", "2500us+77us"):
        assert_like_the_pane(trace, text)


def test_a_range_counts_times_as_far_as_they_lie_within():
    """One kernel was launched before the range and runs over its start; one launched in it runs over its end."""
    events = [launch(10, 5, 1), launch(120, 5, 2), kernel("early", 60, 80, correlation=1)]
    events += [kernel("late", 190, 50, correlation=2), op("aten::mm", 90, 40), op("aten::add", 180, 100)]
    trace = make_trace(events)
    found = side(trace, "@0.1us+0.1us")
    values = {name: measure.values.tolist() for name, measure in measures(found).items()}
    assert (values["gpu_busy_us"], values["gpu_span_us"], values["kernels"]) == ([0.05], [0.1], [2.0])
    held = calls(found)
    own = {held.keys[key].name: time for key, time in zip(held.key.tolist(), held.self_cpu.tolist(), strict=True)}
    assert (own["aten::mm"], own["aten::add"]) == (25, 20)
    assert_like_the_pane(trace, "0.1us+0.1us")
