"""What the screen of two traces asks: which slices stand where, what goes with what, and words for it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.support.build import kernel, launch, make_trace, op, step
from tests.support.comparing import tutorial
from tracetui.cli.open import _sides
from tracetui.comparing.match import match
from tracetui.comparing.side import side
from tracetui.comparing.statement import Comparison
from tracetui.drawing.timeline.layout import Layout
from tracetui.drawing.timeline.raster import TimelineIndex
from tracetui.drawing.timeline.window import Window
from tracetui.errors import UsageError
from tracetui.model.table import Table, numbers, texts
from tracetui.model.trace import Trace
from tracetui.opening.trace_opening import SideName
from tracetui.reading.load import load
from tracetui.ui.compare.compare_list import (
    change_lines,
    grouped,
    readable_changes,
    readable_totals,
    rows_without_change,
)
from tracetui.ui.compare.highlighted_slices import change_of, instances_of
from tracetui.ui.compare.shown_part import ShownPart, lanes_worth_showing, next_scope
from tracetui.ui.compare.timelines import PartnerLookup
from tracetui.ui.trace.marks import OTHER_TRACE, comparable_scopes
from tracetui.ui.widgets.details import folded


def uneven() -> Trace:
    """Three steps; the second runs its kernels in another order, the third lacks one, and a thread does little."""
    events, number = [], 0
    for place, names in enumerate((["a", "b", "a"], ["b", "a", "a"], ["a", "b"])):
        at = place * 100_000
        events.append(step(place + 1, at, 90_000))
        for i, name in enumerate(names):
            number += 1
            events += [op(f"aten::{name}", at + 10_000 * (i + 1), 5_000)]
            events += [op("aten::view", at + 10_000 * (i + 1) + 100 * k, 50) for k in range(1, 30)]
            events += [launch(at + 10_000 * (i + 1) + 3_500, 1_000, number)]
            events += [kernel(name, at + 10_000 * (i + 1) + 20_000, 4_000 + i, correlation=number)]
    events.append(op("aten::rare", 20_000, 1_000, lane=("1", "9")))
    return make_trace(events)


def test_the_same_kernel_of_another_step_is_the_one_with_as_many_of_its_name_before() -> None:
    found = side(uneven())
    first, second, third = (ShownPart(found, place) for place in range(3))
    dur, name = found.trace.slices.dur, found.trace.name_of
    assert [name(row) for row in first.activities.tolist()] == ["a", "b", "a"]
    moved = second.from_part(0, first.activities[2:])
    assert [(name(row), int(dur[row])) for row in moved.tolist()] == [("a", 4_002)]
    assert second.from_part(0, first.activities[:1]).tolist() == second.activities[1:2].tolist()
    # The third step has one `a` only.
    assert third.from_part(0, first.activities[2:]).tolist() == []
    assert first.from_part(0, first.activities[1:]).tolist() == first.activities[1:].tolist()


def test_a_part_lasts_until_its_gpu_work_ends() -> None:
    trace = make_trace([step(1, 1_000, 500), launch(1_100, 10, 1), kernel("late", 5_000, 700, correlation=1)])
    part = ShownPart(side(trace), 0)
    assert (part.start, part.length, part.number, part.step) == (1_000, 4_700, 1, 1)


def test_threads_that_do_next_to_nothing_get_no_line() -> None:
    found = side(uneven())
    shown = lanes_worth_showing(found)
    assert shown is not None
    names = [found.trace.lanes[lane].name for lane in shown]
    assert names == ["1", "stream 7"]
    layout = Layout(TimelineIndex(found.trace), shown)
    assert {found.trace.lanes[lane].name for lane in (line.lane for line in layout_lines(layout))} == {"1", "stream 7"}


def layout_lines(layout: Layout) -> list:
    layout.resize(30)
    return [line for line in layout.lines if line.lane >= 0]


def test_neighbours_of_a_step_and_of_a_run() -> None:
    trace = tutorial.mlp()
    assert next_scope(side(trace, "3"), 1) == "4"
    assert next_scope(side(trace, "2"), -1) is None
    assert next_scope(side(trace, "mlp_fwd[1]"), 1) == "mlp_fwd[2]"
    assert next_scope(side(trace, "mlp_fwd[3]"), 1) is None
    assert next_scope(side(trace, "all"), 1) is None


def test_partners_on_threads_are_the_calls_of_the_same_name_in_turn() -> None:
    a, b = ShownPart(side(tutorial.mlp()), 0), ShownPart(side(tutorial.mlp(tutorial.COMPILED)), 2)
    partners = PartnerLookup((a, b), match(a.side, a.part, b.side, b.part))
    mine, theirs = a.calls_named("op", "aten::mm"), b.calls_named("op", "aten::mm")
    assert len(mine) == len(theirs) == 3
    for one, other in zip(mine.tolist(), theirs.tolist(), strict=True):
        assert partners.of(0, one).tolist() == [other]
        assert partners.of(1, other).tolist() == [one]
    assert partners.of(0, int(a.side.row[0])).tolist() == [int(b.side.row[2])]
    assert partners.of(0, int(a.calls_named("op", "aten::linear")[0])).tolist() == []
    gelu, mul = a.activities[2:4].tolist()
    assert partners.of(0, gelu).tolist() == partners.of(0, mul).tolist() == b.activities[2:3].tolist()
    assert sorted([mul, *partners.siblings(0, mul).tolist()]) == [gelu, mul]
    assert PartnerLookup((a, b)).of(0, gelu).tolist() == []


def test_every_kernel_finds_the_row_it_is_an_instance_of() -> None:
    told = Comparison(side(tutorial.mlp()), side(tutorial.mlp(tutorial.COMPILED)))
    for place in range(3):
        parts = ShownPart(told.a, place), ShownPart(told.b, place)
        seen: tuple[list[int], list[int]] = ([], [])
        for change in range(len(told.kernels)):
            for number, rows in enumerate(instances_of(told, "kernels", change, parts)):
                seen[number].extend(rows.tolist())
                assert all(change_of(told, "kernels", number, row, parts) == change for row in rows.tolist())
        assert [sorted(rows) for rows in seen] == [sorted(part.activities.tolist()) for part in parts]


def test_a_view_op_belongs_to_the_row_it_is_folded_into() -> None:
    told = Comparison(side(tutorial.mlp()), side(tutorial.mlp(tutorial.COMPILED)))
    parts = ShownPart(told.a, 0), ShownPart(told.b, 0)
    trace = told.a.trace
    view = int(np.flatnonzero(trace.slices.name == trace.names.find("aten::t"))[0])
    assert told.ops["name"].cell(change_of(told, "ops", 0, view, parts)) == "aten::linear"
    assert told.ops["name"].cell(change_of(told, "ops", 0, int(parts[0].activities[2]), parts)) == "aten::gelu"
    step_row = int(told.a.row[0])
    assert change_of(told, "ops", 0, step_row, parts) == -1


@pytest.mark.parametrize(
    ("mark", "change", "told"),
    [
        ("faster", -5.0, "- faster"),
        ("slower", 5.0, "+ slower"),
        ("gone", -5.0, "- gone"),
        ("new", 5.0, "+ new"),
        ("same", 0.1, "= same"),
        ("cannot tell", 3.0, "? noise"),
        ("fused into", -60.0, "- fused"),
        ("fused into", 60.0, "+ fused"),
        ("split into", None, "= split"),
    ],
)
def test_marks_carry_a_sign(mark: str, change: float | None, told: str) -> None:
    table = Table((texts("mark", [mark]), numbers("change_us", [np.nan if change is None else change])))
    assert readable_changes(table)["mark"].cell(0) == told


def test_groups_add_up() -> None:
    table = Comparison(side(tutorial.mlp()), side(tutorial.mlp(tutorial.COMPILED))).kernels
    made = grouped(table, "family")
    for name in ("calls_a", "calls_b", "a_us", "b_us", "change_us"):
        whole, sums = np.asarray(table[name].values, float), np.asarray(made[name].values, float)
        assert sums.sum() == pytest.approx(whole.sum())
    rows = {row["family"]: row for row in made.rows()}
    assert rows["gemm"]["calls_a"] == 3
    assert made["family"].cell(0) == "pointwise"
    assert rows["pointwise"]["change_pct"] == pytest.approx(-40, abs=1)


def test_totals_have_the_unit_of_their_row() -> None:
    told = Comparison(side(tutorial.mlp()), side(tutorial.mlp(tutorial.COMPILED)))
    rows = {row["measure"]: row for row in readable_totals(told.totals).rows()}
    assert rows["GPU busy"]["a"] == "701.2 µs"
    assert rows["kernels"]["a"] == "5" and rows["kernels"]["b"] == "4"
    assert str(rows["moved"]["b"]).endswith("MiB")
    assert str(rows["flops"]["a"]).endswith("GFLOP")


@pytest.mark.parametrize("width", [34, 60])
@pytest.mark.parametrize("tab", ["kernels", "ops", "totals"])
def test_details_fit_their_width(tab: str, width: int) -> None:
    told = Comparison(side(tutorial.mlp()), side(tutorial.mlp(tutorial.COMPILED)))
    table = {"kernels": told.kernels, "ops": told.ops, "totals": told.totals}[tab]
    for row in range(len(table)):
        lines = change_lines(told, tab, row, told.statement, width)
        assert max(len(line.text) for line in lines) <= width
    assert change_lines(told, tab, -1, (), width) == []


def test_details_tell_what_stands_in_the_way(shared_trace: Callable[[str], Path]) -> None:
    trace = load(str(shared_trace("puzzlers/fusion_mwe_trace.json.gz")))
    told = Comparison(side(trace, "unfused[1]"), side(trace, "unfused[2]"))
    remarks = {str(row["measure"]): row["remark"] for row in told.totals.rows()}
    assert remarks["moved_bytes"] == "known of 93 % and 13 % of the GPU time"
    for row, remark in enumerate(remarks.values()):
        text = " ".join(line.text for line in change_lines(told, "totals", row, (), 200))
        assert ("remark" in text) == bool(remark)
        assert str(remark or "") in text


def test_a_number_is_not_cut_at_its_commas() -> None:
    text = "took 1,234,567.8 µs of f<float,int>(int,float)"
    for width in range(8, 40):
        pieces = folded(text, width)
        assert "".join(pieces).replace(" ", "") == text.replace(" ", "")
        assert max(map(len, pieces)) <= width
        if width > 12:
            assert any("1,234,567.8" in piece for piece in pieces), pieces


def test_what_can_be_compared_begins_with_the_step_before() -> None:
    trace = tutorial.mlp()
    choices = comparable_scopes(trace, 3, -1)
    assert choices[0].scopes == ("2", "3")
    assert OTHER_TRACE in [scopes.scopes for scopes in choices]
    assert ("3", "4") in [scopes.scopes for scopes in choices]
    runs = side(trace, "mlp_fwd").row
    named = comparable_scopes(trace, None, int(runs[2]))
    assert named[0].scopes == ("3", "4")
    assert ("mlp_fwd[2]", "mlp_fwd[3]") in [scopes.scopes for scopes in named]
    alone = make_trace([op("aten::mm", 0, 10)])
    assert [scopes.scopes for scopes in comparable_scopes(alone, None, 0)] == [OTHER_TRACE]


def test_windows_with_other_origins_show_the_same_cells_of_their_grids() -> None:
    window = Window.fit(0, 1_000, 50)
    moved = window.moved_to(123_457)
    assert (moved.edges(50) - window.edges(50)).tolist() == [123_457] * 51
    assert moved.cell_of(123_457 + 500) == window.cell_of(500)
    assert moved.zoom(2, 10) == window.zoom(2, 10).moved_to(123_457)
    assert moved.pan(3) == window.pan(3).moved_to(123_457)
    assert moved.stretched(50, 80) == window.stretched(50, 80).moved_to(123_457)
    assert moved.within(123_457, 124_457, 50) == window.within(0, 1_000, 50).moved_to(123_457)
    assert moved.showing(128_457, 128_557, 50) == window.showing(5_000, 5_100, 50).moved_to(123_457)
    assert moved.position(moved.moment_at(7)) == pytest.approx(7.5)
    assert Window.fit(123_457, 124_457, 50, origin=123_457) == moved


class Options:
    step: int | None = None
    at: str | None = None
    range: str | None = None


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["a.json", "b.json"], (("a.json", ""), ("b.json", ""))),
        (["a.json#3", "b.json#mlp[2]"], (("a.json", "3"), ("b.json", "mlp[2]"))),
        (["a.json#3", "#4"], (("a.json", "3"), ("a.json", "4"))),
        (["a.json", "#3", "#4"], (("a.json", "3"), ("a.json", "4"))),
        (["a.json"], None),
        ([], None),
        (["a.json", "b.json", "c.json"], None),
        ([".", "a.json"], None),
    ],
)
def test_which_words_are_compared(words: list[str], told: object) -> None:
    made = _sides(words, Options())  # type: ignore[arg-type]
    assert made == (None if told is None else tuple(SideName(*each) for each in told))  # type: ignore[attr-defined]


@pytest.mark.parametrize("words", [["a.json#3"], ["#3", "#4"], ["a.json", "b.json", "#3"]])
def test_a_part_alone_is_refused(words: list[str]) -> None:
    with pytest.raises(UsageError):
        _sides(words, Options())  # type: ignore[arg-type]


def test_a_step_for_two_traces_is_refused() -> None:
    options = Options()
    options.step = 3
    with pytest.raises(UsageError, match=r"A\.json#3"):
        _sides(["a.json", "b.json"], options)  # type: ignore[arg-type]


def test_rows_without_a_change_are_those_of_0_ns() -> None:
    changes = Table((texts("mark", ["same", "same", "faster"]), numbers("change_us", [0.0, 0.2, 0.0])))
    assert rows_without_change(changes).tolist() == [True, False, False]
    measures = Table((numbers("a", [0.0, 5.0, np.nan]), numbers("b", [0.0, 5.0, 0.0])))
    assert rows_without_change(measures).tolist() == [True, False, False]
