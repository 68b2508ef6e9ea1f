"""Line, function and module of kernels, gaps, launches and operators; and rows grouped by them."""

from __future__ import annotations

import pytest

from tests.support.autograd import MAIN
from tests.support.build import Event, kernel, launch, make_trace, op
from tests.support.frames import frame, model
from tests.support.traces import loaded
from tracetui.errors import UsageError
from tracetui.linking.lines import known_sites
from tracetui.panes import PANES


def test_a_kernel_has_the_function_and_the_module_of_its_launch_and_no_line() -> None:
    forward, backward = PANES["kernels"].build(make_trace(model())).rows()
    assert (forward["line"], forward["function"]) == (None, "model.py(3): forward")
    assert forward["module"] == "GPT_0 / MLP_3"
    # In the backward pass they are those of the forward operator.
    assert (backward["function"], backward["module"]) == ("model.py(3): forward", "backward of GPT_0 / MLP_3")


def two_functions() -> list[Event]:
    events = [frame("a.py(1): main", 0, 2_000)]
    for number, (name, dur) in enumerate([("a.py(5): long", 100), ("a.py(9): short", 10), ("a.py(5): long", 50)]):
        at = 10 + 500 * number
        events += [
            frame(name, at, 300),
            op("aten::mm", at + 10, 100, lane=MAIN),
            launch(at + 20, 5, number + 1, lane=MAIN),
            kernel("gemm", at + 200, dur, correlation=number + 1),
        ]
    return events


def test_kernels_are_grouped_by_function() -> None:
    table = PANES["kernels"].build(make_trace(two_functions()), by="function")
    assert [row["function"] for row in table.rows()] == ["a.py(5): long", "a.py(9): short"]
    assert (table["calls"].values.tolist(), table["total_us"].values.tolist()) == ([2, 1], [0.15, 0.01])


def test_gaps_belong_to_where_the_kernel_behind_them_was_launched() -> None:
    trace = make_trace(two_functions())
    assert [row["function"] for row in PANES["gaps"].build(trace).rows()] == ["a.py(9): short", "a.py(5): long"]
    rows = list(PANES["gaps"].build(trace, by="function").rows())
    assert [(row["function"], row["gaps"], row["total_us"]) for row in rows] == [
        ("a.py(5): long", 1, 0.49),
        ("a.py(9): short", 1, 0.4),
    ]
    assert PANES["gaps"].build(trace, by="function")["pct"].values.sum() == pytest.approx(100)


def test_operators_are_grouped_by_name_and_call_site() -> None:
    rows = list(PANES["ops"].build(make_trace(two_functions()), by="function").rows())
    assert {(row["name"], row["function"], row["calls"]) for row in rows if row["kind"] == "op"} == {
        ("aten::mm", "a.py(5): long", 2),
        ("aten::mm", "a.py(9): short", 1),
    }
    assert [row["function"] for row in PANES["launches"].build(make_trace(two_functions())).rows()] == [
        "a.py(5): long",
        "a.py(9): short",
        "a.py(5): long",
    ]
    by_launch = PANES["launches"].build(make_trace(two_functions()), by="function")
    assert dict(zip([r["function"] for r in by_launch.rows()], by_launch["calls"].values.tolist(), strict=True)) == {
        "a.py(5): long": 2,
        "a.py(9): short": 1,
    }


def test_without_frames_nothing_is_known_and_nothing_is_offered() -> None:
    trace = make_trace([op("aten::mm", 0, 100), launch(10, 5, 1), kernel("gemm", 50, 10, correlation=1)])
    (row,) = PANES["kernels"].build(trace).rows()
    assert (row["line"], row["function"], row["module"]) == (None, None, None)
    assert known_sites(trace) == () and not {"line", "function", "module"} & set(PANES["kernels"].offered(trace))
    assert known_sites(make_trace(two_functions())) == ("function",)
    assert known_sites(make_trace(model())) == ("function", "module")
    (whole,) = PANES["kernels"].build(trace, by="function").rows()
    assert whole["function"] is None and whole["calls"] == 1
    for pane in PANES.values():
        if "module" in pane.groups:
            assert len(pane.build(make_trace([]), by="module")) == 0
    with pytest.raises(UsageError):
        PANES["memory"].build(trace, by="line")


@pytest.mark.full
def test_sums_by_call_site_are_those_of_all_kernels(shared_trace) -> None:
    trace = loaded(shared_trace("d06_h100_stack_mem.json.gz"))
    total = PANES["kernels"].build(trace)["dur_us"].values.sum()
    for by in ("function", "module"):
        table = PANES["kernels"].build(trace, by=by)
        assert table["total_us"].values.sum() == pytest.approx(total)
        assert table["calls"].values.sum() == 5_165
        gaps = PANES["gaps"].build(trace, by=by)
        assert gaps["total_us"].values.sum() == pytest.approx(PANES["gaps"].build(trace)["dur_us"].values.sum())
    (row,) = (
        row for row in PANES["kernels"].build(trace, by="function").rows() if str(row["function"]).endswith(": _shape")
    )
    assert row["calls"] == 540


def test_the_functions_of_the_puzzler(shared_trace) -> None:
    trace = loaded(shared_trace("puzzlers/fusion_mwe_trace.json.gz"))
    rows = {
        str(row["function"]).rpartition(": ")[2]: row["calls"]
        for row in PANES["kernels"].build(trace, by="function").rows()
    }
    assert (rows["unfused"], rows["fused"], rows["None"]) == (36, 5, 19)
