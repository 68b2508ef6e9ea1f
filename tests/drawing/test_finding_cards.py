"""Findings as cards: everything is said in full at any width, and nothing is wider than the terminal."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from tests.support.app import training
from tests.support.paths import SAMPLES
from tests.support.traces import loaded
from tracetui.drawing.format import EVIDENCE, MIN_CELLS, TITLE, finding_cards, is_list_of_findings, wrapped
from tracetui.drawing.text.export import render, rich_table
from tracetui.model import columns as col
from tracetui.model.table import NULL, Table, micros, numbers, texts
from tracetui.panes import PANES

TITLE_TEXT = "Matrix products of misaligned operands in 内核 softmax: 229.74 ms, 19 % of the steps"
EVIDENCE_TEXT = "365 kernels, 229.74 ms; the longest, GEMM bf16 256x128 TN align1, " + "x" * 150
ADVICE_TEXT = "A size that is no multiple of 8 makes the library load single elements. Pad it to a multiple of 8."


def findings() -> Table:
    return Table(
        (
            texts(col.ID, ["misaligned-gemm", "note"]),
            texts(col.SEVERITY, ["major", "note"]),
            numbers(col.STEP, [6, NULL]),
            texts(col.TITLE, [TITLE_TEXT, "Short"]),
            texts(col.EVIDENCE, [EVIDENCE_TEXT, ""]),
            micros(col.COST_US, np.array([229_740_000, 0]), null=np.array([False, True])),
            texts(col.ADVICE, [ADVICE_TEXT, "Do it."]),
        )
    )


def words(text: str) -> str:
    return re.sub(r"\s+", "", text)


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_a_card_says_everything_and_fits(width):
    card, short = finding_cards(findings(), [0, 1], width)
    assert all(cell_len(line.text) <= width for line in (*card, *short))
    said = words("".join(line.text for line in card).replace("→", ""))
    assert said.startswith("major")
    for text in (TITLE_TEXT, "229.74 ms · step 6"):
        assert all(word in said for word in text.split())
    assert words(EVIDENCE_TEXT) in said and words(ADVICE_TEXT) in said
    assert card[0].text.rstrip().endswith("229.74 ms · step 6")
    assert cell_len(card[0].text) == width
    assert [line.text for line in short] == ["note   Short", "       → Do it."]
    assert {line.part for line in card} >= {TITLE, EVIDENCE}


@given(st.text(max_size=300), st.integers(1, 60))
def test_wrapping_loses_nothing_and_keeps_to_the_width(text, cells):
    lines = wrapped(text, cells)
    assert words("".join(lines)) == words(text)
    assert all(cell_len(line) <= max(cells, MIN_CELLS) for line in lines)
    assert lines


def test_words_and_amounts_are_not_broken():
    lines = wrapped("the GPU waited for 12.5 ms, 41 % of the time, at 3.2 GB/s and 5 steps", 18)
    assert [line for line in lines if re.match(r"(?:%|ms|GB/s)", line)] == []
    assert " ".join(lines) == "the GPU waited for 12.5 ms, 41 % of the time, at 3.2 GB/s and 5 steps"
    assert wrapped("one twothree four", 9) == ["one", "twothree", "four"]


def printed(table: Table, trace, pane: str, width: int) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(rich_table(table, trace, pane, width))
    return capture.get()


@pytest.mark.parametrize("width", [80, 120])
def test_findings_and_steps_on_a_terminal_lose_neither_title_nor_verdict(width):
    trace = loaded(SAMPLES / "mlp_eager_cpu.json.gz")
    table = findings()
    text = printed(table, trace, "findings", width)
    assert words(TITLE_TEXT)[:60] in words(text.replace("229.74 ms · step 6", ""))
    assert words(ADVICE_TEXT) in words(text)
    assert "…" not in text and "Not shown" not in text
    assert words(ADVICE_TEXT) in words(render(table, trace, "findings", "table"))
    long = ["host-stall-bound (memory management)"] * 3
    steps = PANES["steps"].build(training())
    judged = Table(tuple(texts(c.spec, long) if c.name == "verdict" else c for c in steps.columns))
    text = printed(judged, trace, "steps", width)
    assert text.count(long[0]) == 3
    assert "Not shown for want of width" in text


def test_only_the_list_of_findings_is_cards():
    assert is_list_of_findings(findings())
    assert not is_list_of_findings(PANES["kernels"].build(training()))
