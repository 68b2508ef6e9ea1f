"""A flame tree as cells and as text that other programs read."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.support.build import kernel, launch, make_trace, op, python
from tests.support.paths import SAMPLES
from tests.support.traces import loaded
from tracetui.drawing.flame import SCHEMA, Icicle, Look, flame_text
from tracetui.drawing.timeline.palette import palette
from tracetui.model.trace import Trace
from tracetui.panes import PANES


def three() -> Trace:
    """Kernels of 60, 30 and 10 ns, of which the first two share an operator; all in a module."""
    events = [python("nn.Module: Net_0", 0, 900), op("aten::mm", 10, 300), op("aten::add", 400, 100)]
    for number, (at, dur, name) in enumerate([(20, 60, "big"), (40, 30, "small"), (410, 10, "add")], start=1):
        events += [launch(at, 5, number), kernel(name, 1_000 * number, dur, correlation=number)]
    return make_trace(events)


def icicle(trace: Trace, by: str | None = None) -> Icicle:
    return Icicle(PANES["flame"].build(trace, None, by)).prepared()


def rows(made: Icicle) -> dict[str, int]:
    return {made.bare_name(row): row for row in range(len(made.depth))}


def test_cells_are_as_wide_as_their_time_and_stand_below_their_caller() -> None:
    made = icicle(three())
    placed = {made.bare_name(cell.row): (cell.line, cell.left, cell.width) for cell in made.cells(0, 100, 9)}
    assert placed == {
        "whole trace": (0, 0, 100),
        "Net": (1, 0, 100),
        "aten::mm": (2, 0, 90),
        "aten::add": (2, 90, 10),
        "big": (3, 0, 60),
        "small": (3, 60, 30),
        "add": (3, 90, 10),
    }
    assert [made.bare_name(cell.row) for cell in made.cells(rows(made)["aten::mm"], 9, 2)] == [
        "aten::mm",
        "big",
        "small",
    ]


def test_time_of_its_own_takes_room_at_the_right() -> None:
    made = icicle(three(), "cpu")
    for row in range(len(made.depth)):
        below = sum(int(made.total[each]) for each in made.children(row))
        assert made.total[row] == below + made.own[row]
    widths = {made.bare_name(cell.row): cell.width for cell in made.cells(0, 900, 2)}
    assert widths == {"whole trace": 900, "Net": 900}


@pytest.mark.parametrize("colours", [256, 16, 0])
@pytest.mark.parametrize("plain", [False, True])
def test_a_name_is_read_on_its_row_in_any_terminal(colours: int, plain: bool) -> None:
    made = icicle(three())
    frame = made.draw(Look(plain=plain), 60, 20, palette(colours))
    lines = [frame.text(line) for line in range(20)]
    assert ["whole trace" in lines[0], "Net" in lines[1], "mm" in lines[2], "big" in lines[3]] == [True] * 4
    marks = set("".join(lines)) - set("µ×…")
    assert not plain or "".join(marks).isascii()


def test_only_lines_that_are_seen_are_drawn_and_the_cursor_differs() -> None:
    made = icicle(three())
    scrolled = made.draw(Look(first=2), 60, 2, palette())
    assert "mm" in scrolled.text(0) and "big" in scrolled.text(1)
    here, there = (made.draw(Look(cursor=row), 60, 4, palette()) for row in (0, 1))
    assert np.flatnonzero(here.differing(there).any(axis=1)).tolist() == [0, 1]


def test_the_list_has_the_names_with_most_time_below_the_cursor() -> None:
    made = icicle(three())
    found = [(made.bare_name(row), ns) for row, ns in made.largest_names(rows(made)["aten::mm"], 9)]
    assert found == [("big", 60), ("small", 30)]
    text = [made.draw(Look(), 80, 20, palette()).text(line) for line in range(20)]
    assert "most time of their own in whole trace" in text[16] and "big" in text[17]


def test_the_share_of_a_search_counts_what_is_below_another_match_once() -> None:
    events = [op("aten::mm", 0, 100), op("aten::mm_out", 10, 80), launch(20, 5, 1), launch(200, 5, 2)]
    made = icicle(make_trace([*events, kernel("mm", 500, 30, correlation=1), kernel("x", 600, 10, correlation=2)]))
    hits = made.matches("MM")
    assert (len(hits), made.share(hits)) == (3, 0.75)


def test_folded_text_adds_up_to_the_tree() -> None:
    lines = flame_text(PANES["flame"].build(three()), "folded", "").splitlines()
    assert lines == [
        "whole trace;Net;aten::mm;big 60",
        "whole trace;Net;aten::mm;small 30",
        "whole trace;Net;aten::add;add 10",
    ]


def test_speedscope_holds_a_sample_per_path_whose_weights_are_the_total() -> None:
    table = PANES["flame"].build(loaded(SAMPLES / "mlp_train_cpu.json.gz"), None, "op-cpu")
    read = json.loads(flame_text(table, "speedscope", "a\x1bb"))
    (profile,) = read["profiles"]
    frames = [frame["name"] for frame in read["shared"]["frames"]]
    assert (read["$schema"], profile["type"], profile["unit"]) == (SCHEMA, "sampled", "microseconds")
    assert "\x1b" not in profile["name"]
    assert len(profile["samples"]) == len(profile["weights"]) and min(profile["weights"]) > 0
    assert profile["endValue"] == pytest.approx(float(table["cpu_us"].values[0]))
    paths = {";".join(frames[number] for number in sample) for sample in profile["samples"]}
    assert paths <= {str(row["path"]) for row in table.rows()}
