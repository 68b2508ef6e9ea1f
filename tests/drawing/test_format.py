"""Cells of tables as people read them; a column is declared once, and what is read by eye derives from that."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.paths import SAMPLES
from tests.support.traces import loaded
from tracetui.checking.row_filter import column_meant
from tracetui.comparing import change_rows
from tracetui.comparing.side import side
from tracetui.comparing.statement import Comparison
from tracetui.drawing.format import COLUMN_FILES, cell, column_names, ordered, shorten
from tracetui.drawing.text.export import render
from tracetui.model.columns import COLUMNS
from tracetui.model.quantities import ABSENT
from tracetui.model.table import NULL, Table, TextKind, numbers, texts
from tracetui.model.trace import Trace
from tracetui.panes import PANES
from tracetui.ranks import rank_tables
from tracetui.reading.load import load
from tracetui.text import clean
from tracetui.ui.widgets.columns import layout_of


def test_clean_takes_the_power_from_escape_sequences():
    assert clean("\x1b[31mred\x1b]0;title\x07") == "�[31mred�]0;title�"
    assert clean("a\u202eb\u2066c") == "a�b�c"
    assert clean("C1 \x9b31m") == "C1 �31m"
    assert clean("two\nlines\tand a tab") == "two lines and a tab"
    assert clean("lone \ud800 surrogate").encode() == "lone � surrogate".encode()


def test_clean_leaves_ordinary_text_alone():
    for text in ("aten::mm", "µs – 12", "日本語", "void at::native::f<float>(int)"):
        assert clean(text) == text


@given(st.text())
def test_clean_text_has_no_control_characters(text):
    assert all(letter.isprintable() or letter.isspace() for letter in clean(text))
    assert "\n" not in clean(text)


def test_shorten():
    assert shorten("kernel", 6) == "kernel"
    assert shorten("kernels", 6) == "kerne…"
    assert shorten("kernels", 0) == ""


def test_cells():
    times = numbers("dur_us", [48.9, np.nan], "us")
    assert [cell(times, times.cell(row)) for row in range(2)] == ["48.9 µs", ABSENT]
    identifier = numbers("correlation", np.array([123456, NULL]))
    assert [cell(identifier, identifier.cell(row)) for row in range(2)] == ["123456", ABSENT]
    assert cell(numbers("calls", [12345]), 12345) == "12,345"
    assert cell(numbers("share_pct", [63.14], "%"), 63.14) == "63.1"
    assert cell(numbers("bytes", [1024], "bytes"), 1024) == "1.0 KiB"
    assert cell(texts("name", ["a\nb"]), "a\nb") == "a b"
    assert cell(numbers("metadata_only", np.array([True])), True) == "yes"


PACKAGE = Path(load.__code__.co_filename).parents[1]
LARGE = ("d03_v100_2rank_5steps_mem_occ_nccl.json.gz", "d06_h100_stack_mem.json.gz")
REAL = ("d08_b200_cuda13_ep_moe.json", "d10_cudagraph_stack.json", *LARGE)
CALLS = re.compile(r"\b(ColumnSpec|numbers|micros|texts|coded)\(")
UNITS_IN_CELLS = ("us", "bytes", "flop")


def tables(trace: Trace) -> Iterator[tuple[str, str | None, Table]]:
    """Every pane of a trace in every grouping, and its comparison with itself."""
    for pane in PANES.values():
        for by in (None, *pane.groups):
            yield pane.name, by, pane.build(trace, by=by)
    compared = Comparison(side(trace), side(trace))
    for name in ("kernels", "ops", "totals"):
        yield f"changed {name}" if name != "totals" else name, None, getattr(compared, name)


@pytest.fixture(
    scope="module",
    params=["mlp_train_cpu.json.gz", *REAL[:2], *(pytest.param(name, marks=pytest.mark.full) for name in LARGE)],
)
def every_table(request: pytest.FixtureRequest) -> list[tuple[str, str | None, Table]]:
    name = request.param
    path = SAMPLES / name if name not in REAL else SAMPLES.parents[1] / "shared" / "traces" / name
    if not path.exists():
        pytest.skip("the real traces are not here")
    return list(tables(load(str(path))))


def test_every_column_of_every_pane_is_declared(every_table) -> None:
    for pane, by, table in every_table:
        for column in table.columns:
            known = COLUMNS[column.name]
            # A pane may say more particularly what it means, and no more than that.
            assert replace(column.spec, help="", heading="", text=known.text) == replace(known, help="", heading=""), (
                pane,
                by,
            )
            assert column.spec.help, (pane, by, column.name)


def test_headings_tell_the_columns_of_a_table_apart(every_table) -> None:
    for pane, by, table in every_table:
        headings = Counter(column.spec.heading.casefold() for column in table.columns)
        assert all(headings) and set(headings.values()) <= {1}, (pane, by, headings.most_common(1))
        for column in table.columns:
            assert column_meant(table, column.spec.heading).name == column_meant(table, column.name).name == column.name


def test_screen_and_text_have_the_same_headings(every_table) -> None:
    for pane, by, table in every_table:
        if len(table) == 0 or pane in ("summary", "totals", "findings"):
            continue
        few = table.take(np.arange(min(len(table), 3)))
        lines = render(few, loaded(SAMPLES / "mlp_eager_cpu.json.gz"), pane, "table").splitlines()
        # A sentence about all rows and an empty line stand above the headings.
        headings = lines[2 if few.headline else 0]
        for shown in layout_of(pane, few, by):
            column = few[shown.spec.name]
            if not column.nulls().all() and not (shown.spec.name == "name" and "short_name" in few):
                assert shown.title in headings, (pane, by)


def test_the_unit_stands_in_the_cell_or_in_the_heading() -> None:
    for spec in COLUMNS.values():
        if spec.unit == "%":
            assert "%" in spec.heading, spec.name
        elif spec.is_moment:
            assert spec.heading.endswith("µs"), spec.name
        elif spec.unit and spec.unit not in UNITS_IN_CELLS:
            assert spec.unit in spec.heading, spec.name


def test_what_is_listed_is_declared() -> None:
    orders = {f"{pane.name} by {by}": pane.columns_by(by) for pane in PANES.values() for by in (None, *pane.groups)}
    others = change_rows.COLUMN_ORDERS | rank_tables.COLUMN_ORDERS
    assert {table.partition(" by ")[0] for table in others} == COLUMN_FILES.keys()
    assert [column_names(table) for table in others] == [tuple(names.split()) for names in others.values()]
    assert column_names("ranks", "host") == column_names("ranks by host")
    orders |= {table: column_names(table) for table in others}
    for table, names in orders.items():
        assert set(names) <= COLUMNS.keys(), table
        assert len(names) == len(set(names)) > 0, table


@pytest.mark.full
def test_no_column_is_declared_twice() -> None:
    declared: Counter[str] = Counter()
    for path in PACKAGE.rglob("*.py"):
        if path.relative_to(PACKAGE).parts[0] in ("ui", "cli"):
            continue
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if CALLS.search(text) else ():
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "ColumnSpec":
                name = node.args[0]
                if isinstance(name, ast.Constant):
                    declared[str(name.value)] += 1
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in (
                "numbers",
                "micros",
                "texts",
                "coded",
            ):
                assert not isinstance(node.args[0], ast.Constant), f"{path.name} makes a column without a declaration"
    assert set(declared.values()) == {1} and declared.keys() == COLUMNS.keys()


def test_a_pane_without_an_order_shows_all_its_columns() -> None:
    table = PANES["steps"].build(loaded(SAMPLES / "mlp_train_cpu.json.gz"))
    assert [column.name for column in ordered(table, "no such pane")][:2] == table.column_names[:2]
    assert COLUMNS["short_name"].text is TextKind.DECODED
