"""Self time below 0, of a slice whose callees overlap: it is marked, and never ranked or made a share."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from tests.support.build import Event, kernel, launch, make_trace, op, step
from tests.support.traces import loaded
from tracetui.checking.evaluate import Evaluator
from tracetui.checking.report import CheckOutcome, Status, assertion, checked
from tracetui.comparing.measures import calls, measures
from tracetui.comparing.op_changes import OVERLAP, op_changes
from tracetui.comparing.side import side
from tracetui.comparing.statement import statement
from tracetui.drawing.report.page import Section, table_html
from tracetui.drawing.text.readable_table import shown_texts
from tracetui.health.health_table import doubts, marked
from tracetui.idle.verdict import totals
from tracetui.model.table import Cell, Table
from tracetui.model.trace import Trace
from tracetui.operators.costs import costs
from tracetui.panes import PANES
from tracetui.ui.widgets.columns import cell_text, layout_of

US = 1_000


def work(overlap: int, number: int = 0) -> list[Event]:
    """A step with `aten::outer`, whose two callees overlap by so many us more than it lasts, and a plain operator."""
    begin = 1_000 * US * number
    return [
        step(number + 1, begin, 900 * US),
        op("aten::outer", begin + 10 * US, 100 * US),
        op("aten::first", begin + 10 * US, 60 * US),
        op("aten::second", begin + 10 * US + 60 * US - (20 + overlap) * US, (60 + overlap) * US)
        if overlap > 0
        else op("aten::second", begin + 80 * US, 20 * US),
        op("aten::plain", begin + 200 * US, 50 * US),
        op("aten::t", begin + 300 * US, 2 * US),
    ]


def overlapping(count: int = 1) -> Trace:
    """Steps in the last of which callees overlap: they take 120 us within 100."""
    made = [event for number in range(count) for event in work(0 if number < count - 1 else 20, number)]
    return make_trace(made)


def rows(table: Table) -> dict[str, dict[str, Cell]]:
    return {str(row["name"]): row for row in table.rows()}


def test_callees_that_overlap_leave_less_than_nothing() -> None:
    trace = overlapping()
    ops = PANES["ops"].build(trace)
    assert rows(ops)["aten::outer"]["self_cpu_us"] == -40
    assert int(costs(trace).self_cpu.min()) == -40 * US


def test_it_is_marked_and_sorts_last_in_either_direction() -> None:
    ops = PANES["ops"].build(overlapping())
    for descending in (False, True):
        names = [ops["name"].cell(row) for row in ops.order("self_cpu_us", descending)]
        assert names[-1] == "aten::outer"
    order = ops.order("self_cpu_us", descending=True)
    texts = shown_texts(ops.take(order)["self_cpu_us"])
    assert texts[-1] == "~-40.0 µs"
    assert not any("~" in text for text in texts[:-1])


def test_a_sum_that_contains_one_says_so() -> None:
    ops = PANES["ops"].build(overlapping(4))
    column = ops["self_cpu_us"]
    row = [ops["name"].cell(row) for row in range(len(ops))].index("aten::outer")
    assert column.cell(row) == 3 * 20 - 40
    assert shown_texts(column)[row] == "~20.0 µs"
    assert cell_text(column, row) == "~20.0 µs"
    assert next(shown.width for shown in layout_of("ops", ops) if shown.spec.name == "self_cpu_us") >= len("~20.0 µs")


def test_without_overlaps_nothing_is_marked() -> None:
    trace = make_trace(work(0))
    column = PANES["ops"].build(trace)["self_cpu_us"]
    assert not any("~" in text for text in shown_texts(column))
    assert doubts(trace)["self time below 0"].count == 0  # type: ignore[union-attr]
    assert totals(trace).overlapped is False


def test_what_rounding_takes_away_is_no_overlap() -> None:
    trace = make_trace([op("aten::a", 0, 10 * US), op("aten::b", 0, 6 * US), op("aten::c", 5 * US, 5 * US)])
    assert int(costs(trace).self_cpu.min()) == -1 * US
    assert doubts(trace)["self time below 0"].count == 0  # type: ignore[union-attr]


def test_health_names_it_and_the_columns() -> None:
    trace = overlapping()
    found = doubts(trace)["self time below 0"]
    assert found is not None
    assert (found.count, found.example) == (1, "40.0 µs more than aten::outer itself")
    assert trace.name_of(found.row) == "aten::outer"
    ops = marked(trace, "ops", PANES["ops"].build(trace))
    assert ops.heading("self_cpu_us").endswith("~")


def test_a_report_sorts_it_as_no_number() -> None:
    ops = PANES["ops"].build(overlapping())
    page = table_html(Section("Operators", table=ops, pane="ops"))
    cell = next(line for line in page.split("<td") if "~-40.0" in line)
    assert 'data-v=""' in cell


def outcome(trace: Trace, text: str) -> CheckOutcome:
    return checked([assertion(text)], Evaluator(side(trace)))[0]


def test_a_check_of_it_is_missing_and_says_why() -> None:
    trace = overlapping(4)
    for text in ('op("aten::outer").self_cpu_us < 1', 'op("aten::*").self_cpu_us < 1'):
        found = outcome(trace, text)
        assert (found.status, "overlaps" in found.why) == (Status.MISSING, True)
    assert outcome(trace, 'op("aten::plain").self_cpu_us == 50').status is Status.HOLDS
    assert outcome(trace, "min(ops.self_cpu_us) >= 0").status is Status.HOLDS
    assert outcome(trace, 'count(ops, name == "aten::outer" and self_cpu_us < 0) == 0').status is Status.HOLDS


def with_gpu(overlap: int) -> Trace:
    """The same beside an operator that launches something."""
    gpu = [op("aten::mm", 400 * US, 20 * US), launch(405 * US, US, 1), kernel("gemm", 410 * US, US, correlation=1)]
    return make_trace([*work(overlap), *gpu])


def test_the_self_time_of_idle_operators_is_unknown_then() -> None:
    one = measures(side(with_gpu(20)))["idle_op_us"]
    assert np.isnan(one.values).all()
    assert "overlaps" in one.gap
    assert measures(side(with_gpu(0)))["idle_op_us"].values.tolist() == [152]
    assert outcome(with_gpu(20), "idle_op_us < 1").why.endswith("their self time is not known.")


def test_a_comparison_counts_it_as_nothing_and_cannot_tell() -> None:
    a, b = side(overlapping()), side(make_trace(work(0)))
    assert calls(a).self_cpu.min() == 0
    found = rows(op_changes(a, b))
    assert (found["aten::outer"]["mark"], found["aten::outer"]["self_cpu_a_us"]) == ("cannot tell", 0)
    assert found["aten::outer"]["remark"] == f"A: {OVERLAP}"
    assert found["aten::outer"]["change_pct"] is None
    assert found["aten::plain"]["remark"] is None
    text = "\n".join(statement(a, b))
    assert "-" not in text.replace("self-", "")
    assert "self time below 0" in text


def test_the_reading_of_the_tutorial_is_withheld() -> None:
    events = [*work(20), launch(860 * US, US, 1), kernel("gemm", 870 * US, US, correlation=1)]
    sums = totals(make_trace(events))
    assert (sums.overlapped, sums.reading) == (True, None)
    plain = totals(make_trace([*work(0), *events[-2:]]))
    assert (plain.overlapped, plain.reading) == (False, "overhead-bound")


def test_views_are_ranked_and_given_a_share_without_it() -> None:
    inner = [op("aten::select", 500 * US, 60 * US), op("aten::as_strided", 520 * US, 60 * US)]
    trace = make_trace([*work(0), op("aten::narrow", 500 * US, 80 * US), *inner])
    views = PANES["views"].build(trace)
    names = [views["name"].cell(row) for row in range(len(views))]
    assert names[-1] == "aten::narrow"
    assert rows(views)["aten::narrow"]["self_cpu_us"] == -40
    assert rows(views)["aten::narrow"]["pct_of_step_cpu"] is None
    assert all(
        row["pct_of_step_cpu"] is not None and float(str(row["pct_of_step_cpu"])) >= 0
        for name, row in rows(views).items()
        if name != "aten::narrow"
    )


@pytest.mark.parametrize("trace", ["inference/i04_mtia_serving_stages.json.gz"])
def test_a_real_trace_with_overlapping_calls(trace, shared_trace) -> None:
    ops = PANES["ops"].build(loaded(shared_trace(trace)))
    values = np.asarray(ops["self_cpu_us"].values, np.float64)[ops.order("self_cpu_us", descending=True)]
    below = int((values < 0).sum())
    assert below > 0
    assert (values[-below:] < 0).all()
    ranked = values[:-below].tolist()
    assert ranked == sorted(ranked, reverse=True)
    assert not any(math.isnan(value) for value in json.loads(json.dumps(ranked)))
