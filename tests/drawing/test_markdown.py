"""Markdown that can be pasted: read back by a parser of Markdown, it says what the table says, and nothing else."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.support.build import kernel, launch, make_trace, op, step
from tests.support.paths import SAMPLES
from tests.support.traces import loaded
from tracetui.cli.main import main
from tracetui.drawing.text.export import COMMENT_LIMIT, NARROW, code, prose, render
from tracetui.drawing.text.readable_table import WHOLE, Extent, shown_texts, telling
from tracetui.model.table import Table, numbers, texts
from tracetui.model.trace import Device, Trace
from tracetui.panes import PANES
from tracetui.text import clean

NASTY = [
    "a|b",
    "a\\|b",
    "`x`",
    "a``b`c",
    "<script>alert(1)</script>",
    "**bold** _it_ ~~gone~~ [x](http://y.example) ![i](z)",
    "line\nbreak\tand\x1b[31m",
    "&lt;&amp;",
    "\\",
    " lead and trail ",
    "@someone #12",
    "‮right to left",
    "ends in backslash\\",
]
PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def said(token: Any) -> str:
    """The words of an inline token as a reader sees them."""
    return "".join(child.content for child in token.children or [] if child.type in ("text", "code_inline"))


def parsed(text: str) -> tuple[list[list[str]], list[str], list[str]]:
    """Rows of the only table (the header first), the paragraphs around it, and the alignment of the columns."""
    rows: list[list[str]] = []
    paragraphs: list[str] = []
    aligned: list[str] = []
    inside = False
    for token in PARSER.parse(text):
        if token.type in ("table_open", "table_close"):
            inside = token.type == "table_open"
        elif token.type == "tr_open":
            rows.append([])
        elif token.type == "th_open":
            aligned.append(str(token.attrs.get("style", "")))
        elif token.type == "inline":
            rows[-1].append(said(token)) if inside else paragraphs.append(said(token))
        else:
            assert token.type.removesuffix("_open").removesuffix("_close") in (
                ["thead", "tbody", "th", "td", "tr", "paragraph"]
            ), f"{token.type} in {text!r}"
    return rows, paragraphs, aligned


def varying(table: Table) -> list[Any]:
    """The columns that a table of several rows shows side by side."""
    columns = telling(table)
    if len(columns) <= NARROW or len(table) < 2:
        return columns
    first, *others = columns
    return [first, *(c for c in others if c.spec.is_key or not (c.values == c.values[0]).all())]


def check(table: Table, trace: Trace, pane: str, extent: Extent = WHOLE) -> None:
    """The Markdown of a table, read back, has its cells, and every column is there or named."""
    text = render(table, trace, pane, "md", extent)
    rows, paragraphs, aligned = parsed(text)
    assert clean(trace.label) in paragraphs[0]
    if len(table) == 0:
        assert rows == [] and paragraphs[1] == "No rows."
        return
    columns = telling(table)
    if len(table) == 1 and len(columns) > NARROW:
        assert rows == [
            ["column", "value"],
            *([table.heading(c.name), shown_texts(c)[0].strip()] for c in columns),
        ]
        return
    shown = varying(table)
    assert rows[0] == [table.heading(column.name) for column in shown]
    wanted = zip(*(shown_texts(column) for column in shown), strict=True)
    assert rows[1:] == [[cell.strip() for cell in row] for row in wanted]
    assert ["right" in style for style in aligned] == [column.is_number for column in shown]
    for column in columns:
        if column not in shown:
            assert any(words.startswith("In every row") and column.spec.heading in words for words in paragraphs)


@pytest.fixture
def trace() -> Trace:
    return make_trace(
        [step(1, 0, 2000), op("aten::mm", 0, 1_000), launch(5, 5, 1), kernel("gemm", 2000, 500, correlation=1)],
        devices=[Device(0, "NVIDIA <H100> *fast*")],
        metadata={"cuda_runtime_version": 13000},
    )


@pytest.mark.parametrize("name", NASTY)
def test_a_name_reads_as_it_is(trace: Trace, name: str) -> None:
    table = Table((texts("name", [name, "plain"]), texts("verdict", [name, "plain"]), numbers("calls", [1, 2])))
    rows, _, _ = parsed(render(table, trace, "ops", "md"))
    assert rows[1] == [clean(name).strip(), clean(name).strip(), "1"]
    assert rows[2] == ["plain", "plain", "2"]


@given(st.text(max_size=40), st.text(max_size=40))
@example("", "__0__")
@example("", "a__b__c _d_e __f")
def test_no_text_breaks_the_table(first: str, second: str) -> None:
    first, second = clean(first), clean(second)
    text = f"| {code(first)} | {prose(second)} | x |\n| --- | --- | --- |\n| a | b | c |\n"
    rows, paragraphs, _ = parsed(text)
    assert paragraphs == []
    assert [cell.strip() for cell in rows[0]] == [first.strip(), second.strip(), "x"]


def test_a_note_is_a_paragraph_whatever_it_begins_with(trace: Trace) -> None:
    for note in ("# no heading", "- no item", "1. no item", "> no quote", "12) no item", "a <b> | c"):
        table = Table((texts("name", ["x", "y"]),), note=note)
        assert note in parsed(render(table, trace, "ops", "md"))[1]


def test_mentions_do_not_call_anybody() -> None:
    assert "@someone" not in prose("ask @someone")


def test_the_title_says_which_part_it_is(trace: Trace) -> None:
    table = PANES["kernels"].build(trace, 1)
    title = parsed(render(table, trace, "kernels", "md", Extent(1, "name", "gemm|x", 7)))[1][0]
    assert title.startswith("kernels by name, step 1, rows with 'gemm|x', of made.json · NVIDIA <H100> *fast* · CUDA")


def test_what_is_left_out_is_counted(trace: Trace) -> None:
    table = Table((texts("name", ["a", "b"]),))
    paragraphs = parsed(render(table, trace, "ops", "md", Extent(rows=12_345)))[1]
    assert "2 of 12,345 rows; the other 12,343 are left out." in paragraphs
    assert not any("left out" in words for words in parsed(render(table, trace, "ops", "md"))[1])


def test_one_row_of_many_columns_stands_upright(trace: Trace) -> None:
    table = PANES["kernels"].build(trace)
    rows, _, _ = parsed(render(table, trace, "kernels", "md"))
    assert len(table) == 1 and ["kernel", "gemm"] in rows
    check(table, trace, "kernels")


def test_what_is_the_same_in_every_row_is_said_once() -> None:
    trace = make_trace([kernel(f"k{i}", i * 100, 50, args={"grid": [4, 1, 1], "block": [64, 1, 1]}) for i in range(3)])
    table = PANES["kernels"].build(trace)
    rows, paragraphs, _ = parsed(render(table, trace, "kernels", "md"))
    assert "grid" not in rows[0] and "duration" in rows[0] and "kernel" in rows[0]
    assert any(words.startswith("In every row: ") and "grid 4x1x1" in words for words in paragraphs)


@pytest.mark.parametrize("pane", PANES)
def test_every_pane_of_a_sample_reads_back(pane: str) -> None:
    trace = loaded(SAMPLES / "mlp_train_cpu.json.gz")
    if pane == "summary":
        text = render(PANES[pane].build(trace), trace, pane, "md")
        assert ["file", trace.label] in parsed(text)[0]
        return
    for by in (None, *PANES[pane].offered(trace)):
        check(PANES[pane].build(trace, by=by), trace, pane)


@pytest.mark.parametrize(
    "name",
    [
        "d08_b200_cuda13_ep_moe.json",
        "d10_cudagraph_stack.json",
        pytest.param("d03_v100_2rank_5steps_mem_occ_nccl.json.gz", marks=pytest.mark.full),
        pytest.param("d06_h100_stack_mem.json.gz", marks=pytest.mark.full),
    ],
)
def test_every_pane_of_a_real_trace_reads_back(name: str, shared_trace) -> None:
    trace = loaded(shared_trace(name))
    for pane in PANES.values():
        for by in (None, *pane.offered(trace)):
            table = pane.build(trace, by=by)
            if pane.name != "summary":
                check(table.take(np.arange(min(len(table), 50))), trace, pane.name, Extent(by=by, rows=len(table)))


def test_the_command_says_step_and_cut(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(SAMPLES / "mlp_train_cpu.json.gz")
    assert main(["show", "ops", path, "--step", "4", "--limit", "2", "--format", "md"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("**ops**, step 4, of `mlp_train_cpu.json.gz` · ")
    assert re.search(r"^2 of \d+ rows; the other \d+ are left out\.$", out, re.MULTILINE)


def test_more_than_a_comment_holds_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(SAMPLES / "mlp_train_cpu.json.gz")
    assert main(["show", "ops", path, "--by", "event", "--format", "md"]) == 0
    captured = capsys.readouterr()
    assert (len(captured.out) > COMMENT_LIMIT) == ("a comment on GitHub holds 65,536" in captured.err)
    assert main(["show", "ops", path, "--format", "md", "--limit", "3"]) == 0
    assert "GitHub" not in capsys.readouterr().err
