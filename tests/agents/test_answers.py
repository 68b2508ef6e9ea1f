"""No answer is larger than its limit, whatever a trace holds, and what is missing from it is counted."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tracetui.agents.tools import MAX_BYTES, TEXTS, answer, refusal
from tracetui.model import columns as col

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)
ROWS = st.lists(st.dictionaries(st.text(max_size=12), VALUES, max_size=8), max_size=12)


@settings(max_examples=20)
@given(ROWS, st.integers(0, 5), st.integers(1, 5_000))
@example([{"name": "\u0001\u202e" * 90_000, "view": "e1"}] * 3, 0, 1)
@example([{f"column {number}": "–" * 5000 for number in range(60)}], 0, 1)
@pytest.mark.full
def test_every_answer_has_room_and_its_rows_add_up(rows, offset, repeats):
    rows = rows * min(repeats, 40)
    text = answer("pane", {"note": "x" * repeats, "list": ["y" * 50] * repeats}, rows, offset=offset)
    assert len(text.encode()) <= MAX_BYTES
    read = json.loads(text)
    assert len(read["rows"]) + (read.get("left_out") or {"rows": 0})["rows"] == len(rows)
    assert read["texts"] == TEXTS


def test_rows_are_dropped_from_the_end_and_the_offset_goes_on():
    rows = [{"index": number, "name": "k" * 200} for number in range(200)]
    seen: list[int] = []
    while len(seen) < len(rows):
        read = json.loads(answer("pane", {}, rows[len(seen) :], offset=len(seen), total=len(rows)))
        assert read["rows"]
        seen += [row["index"] for row in read["rows"]]
    assert seen == list(range(200))


def test_a_row_alone_has_its_name_in_full_and_many_have_it_cut():
    name = "void " + "x" * 2000
    alone, many = answer("pane", {}, [{"name": name}]), answer("pane", {}, [{"name": name}] * 90)
    assert json.loads(alone)["rows"][0]["name"] == name
    assert "more letters)" in json.loads(many)["rows"][0]["name"]


def test_a_view_string_is_never_cut():
    view = f"s1/kernels/e1/{'a' * 200}"
    cut = json.loads(answer("pane", {}, [{"view": view, "name": "k" * 300}] * 199))
    assert {row["view"] for row in cut["rows"]} == {view}


@pytest.mark.parametrize("value", [1 << 70, -(1 << 63) - 1])
def test_a_number_that_json_has_not_is_a_text(value):
    assert json.loads(answer("sql", {}, [{"sum": value}]))["rows"] == [{"sum": str(value)}]


def test_units_stand_beside_the_rows():
    assert json.loads(answer("pane", {}, [], columns=[col.DUR_US]))["units"] == {"dur_us": "us"}


def test_a_refusal_is_bounded_and_clean():
    text = refusal("\x1b[2J" + "no " * 50_000)
    assert len(text.encode()) <= MAX_BYTES
    assert "\x1b" not in json.loads(text)["error"]
