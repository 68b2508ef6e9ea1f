"""Work whose launches were not recorded: nothing is said of launches, and why stands in their row."""

from __future__ import annotations

import numpy as np

from tests.support.build import Event, annotation, kernel, launch, make_trace
from tests.support.comparing.played import compiled, eager, played, said, trace_of, without_launches
from tests.support.comparing.recording import Call, Work
from tests.support.traces import loaded
from tracetui.comparing.change_rows import paired, totals
from tracetui.comparing.measures import launch_gap, measures, rests_on_launches
from tracetui.comparing.op_changes import op_changes
from tracetui.comparing.side import side
from tracetui.model.trace import Kind, Trace

PUZZLE = "puzzlers/fusion_mwe_trace.json.gz"
CALL = "cuLaunchKernel"
EAGER_TAIL = [Call("aten::relu", work=(Work("relu_kernel", 5_000),))]


def lost(*programs: list[Call]) -> Trace:
    """Runs in which the calls that the compiled kernels go through left no record."""
    return make_trace(without_launches(played(*programs, steps=False), CALL))


def partly() -> Trace:
    """A first run that is recorded whole, and a second that ends with a kernel whose launch is known."""
    return lost(eager(), [*compiled(), *EAGER_TAIL])


def test_such_work_is_counted_by_part():
    assert side(partly(), "f").unlaunched().tolist() == [0, 4]
    assert side(trace_of(eager(), compiled(), steps=False), "f").unlaunched().tolist() == [0, 0]
    # Steps hold what was launched in them, and of work without a launch nothing.
    stepped = make_trace(without_launches(played(eager(), [*compiled(), *EAGER_TAIL]), CALL))
    assert side(stepped).unlaunched().tolist() == [0, 0]


def test_what_was_launched_before_the_capture_is_no_loss():
    early = Event("k", 0, 500, Kind.KERNEL, ("0", "stream 7"))
    trace = make_trace([early, *played(eager(), steps=False)])
    assert side(trace, "all").unlaunched().tolist() == [0]
    assert measures(side(trace, "all"))["launches"].values.tolist() == [8]


def test_numbers_that_rest_on_launches_are_not_known_of_that_part():
    found = measures(side(partly(), "f"))
    assert np.isnan(found["launches"].values).tolist() == [False, True]
    assert found["launches"].values[0] == 8
    assert found["kernels"].values.tolist() == [8, 5]
    for name, measure in found.items():
        if rests_on_launches(name):
            assert np.isnan(measure.values[1]), name
            assert measure.gap == "the launches of 4 of 5 GPU activities were not recorded"
    assert launch_gap(side(partly(), "f[1]")) == ""


def test_one_in_a_hundred_does_not_matter():
    many = [*eager(100), *compiled(1)]
    assert launch_gap(side(lost(eager(), many), "f")) == ""
    assert "of 103 GPU activities" in launch_gap(side(lost(eager(), [*eager(50), *compiled(3)]), "f"))


def test_the_row_says_why():
    a, b = side(partly(), "f[1]"), side(partly(), "f[2]")
    rows = {str(row["measure"]): row for row in totals(a, b).rows()}
    row = rows["launches"]
    assert (row["a"], row["b"], row["change"]) == (8, None, "unknown")
    assert row["remark"] == "B: the launches of 4 of 5 GPU activities were not recorded"
    assert rows["kernels"]["remark"] is None
    idle = [total for name, total in paired(a, b).items() if name.startswith("idle_") and name.endswith("_us")]
    assert idle
    assert all(total.change.value == "unknown" for total in idle)
    ops = {str(row["name"]): row for row in op_changes(a, b).rows()}
    assert (ops["cudaLaunchKernel"]["mark"], ops["cudaLaunchKernel"]["remark"]) == ("cannot tell", row["remark"])
    assert ops["aten::gelu"]["remark"] is None


def marks_of_launches(durations: tuple[int, int]) -> tuple[object, object]:
    """Mark and remark of the launch calls of two runs, each with a recorded launch and an unrecorded one."""
    events = []
    for number, dur in enumerate(durations):
        at = 10_000 * number
        events += [annotation("f", at, 5_000), launch(at + 100, dur, 10 * number + 1)]
        events += [kernel("k", at + 1_000 + 500 * index, 100, correlation=10 * number + 1 + index) for index in (0, 1)]
    trace = make_trace(events)
    assert launch_gap(side(trace, "f[2]"))
    ops = {str(row["name"]): row for row in op_changes(side(trace, "f[2]"), side(trace, "f[1]")).rows()}
    return ops["cudaLaunchKernel"]["mark"], ops["cudaLaunchKernel"]["remark"]


def test_equal_rows_of_single_parts_are_the_same():
    mark, remark = marks_of_launches((50, 50))
    assert mark == "same"
    assert "were not recorded" in str(remark)
    assert marks_of_launches((50, 90))[0] == "cannot tell"


def test_no_sentence_is_about_launches():
    text = "\n".join(said(partly(), partly(), "f[1]", "f[2]"))
    assert "launch calls" not in text
    assert "attributed to" not in text
    assert "4 GPU activities of B without a launch record" in text
    whole = trace_of(eager(20), [*compiled(), *EAGER_TAIL], steps=False)
    assert "launch calls (40 → 5, " in "\n".join(said(whole, whole, "f[1]", "f[2]"))


def test_nor_where_only_some_parts_lack_them():
    def program(call: str) -> list[Call]:
        return [Call("aten::gelu", work=(Work("gelu_kernel", 20_000, call=call),))] * 20

    few = trace_of(*[[Call("aten::gelu", work=(Work("gelu_kernel", 300_000),))]] * 3, steps=False)
    known, other = program("cudaLaunchKernel"), program(CALL)
    whole = make_trace(played(known, known, other, steps=False))
    assert any("launch calls (20 → 1, " in line for line in said(whole, few, "f", "f"))
    assert not any("launch calls" in line for line in said(lost(known, known, other), few, "f", "f"))


def test_graphs_are_told_where_all_launches_are_known():
    replay = [Call("replay", work=(Work("k", 5_000, call="cudaGraphLaunch"),))]
    whole = make_trace(played(eager(), replay, steps=False))
    assert "B replays CUDA graphs: 8 → 1 launches per run." in said(whole, whole, "f[1]", "f[2]")
    mixed = lost(eager(), [*replay, *compiled()])
    assert not any("graphs" in line for line in said(mixed, mixed, "f[1]", "f[2]"))


def test_the_puzzle(shared_trace):
    trace = loaded(shared_trace(PUZZLE))
    a, b = side(trace, "unfused[1]"), side(trace, "unfused[2]")
    rows = {str(row["measure"]): row for row in totals(a, b).rows()}
    for name in ("launches", "launch_us", "graph_launches"):
        assert (rows[name]["b"], rows[name]["change"]) == (None, "unknown")
        assert rows[name]["remark"] == "B: the launches of 17 of 19 GPU activities were not recorded"
    assert "launch calls" not in "\n".join(said(trace, trace, "unfused[1]", "unfused[2]"))
    assert "launch calls (36 → 5" in "\n".join(said(trace, trace, "unfused[1]", "fused[1]"))
