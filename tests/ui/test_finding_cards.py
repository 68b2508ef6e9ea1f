"""The findings on the screen: cards with everything in full, and the sentence about all of them at the top."""

from __future__ import annotations

import re

import numpy as np
import pytest
from textual.app import App, ComposeResult

from tests.support.app import keys, shown
from tests.support.build import kernel, launch, make_trace, op, step
from tracetui.model import columns as col
from tracetui.model.table import Table, micros, texts
from tracetui.model.trace import Trace
from tracetui.ui.widgets.bar import SentenceBar
from tracetui.ui.widgets.table_view import TableView

SENTENCES = ("title", "evidence", "advice")


def idle() -> Trace:
    """Three steps in which the GPU waits for the CPU nearly always."""
    events = []
    for number in range(3):
        at = number * 1_000_000
        events.append(step(number + 1, at, 900_000))
        for i in range(8):
            start, correlation = at + 20_000 + i * 100_000, number * 10 + i + 1
            events += [op("aten::add", start, 30_000), launch(start + 20_000, 5_000, correlation)]
            events.append(kernel("add", start + 30_000, 3_000, correlation=correlation))
    return make_trace(events)


def squeezed(text: str) -> str:
    return re.sub(r"[\s▏▎▍▌▋▊▉█▸▹→·]+", "", text)


def lines_of(view: TableView) -> list[str]:
    return [strip.text for strip in view.render_lines(view.size.region)]


@pytest.mark.parametrize("size", [(200, 50), (80, 24)])
async def test_every_finding_is_read_in_full_and_the_verdict_is_on_the_first_screen(size: tuple[int, int]) -> None:
    async with shown(idle(), size) as (app, pilot):
        headline = app.view.query_one("#headline", SentenceBar)
        assert app.view.panes.headline.startswith("Launch overhead")
        drawn = "".join(strip.text for strip in headline.render_lines(headline.outer_size.region))
        assert squeezed(drawn) == squeezed(app.view.panes.headline)
        await keys(pilot, "7")
        table = app.list.table
        assert table is not None
        for index, row in enumerate(app.list.order.tolist()):
            seen = lines_of(app.list)[1:]
            for _ in range(40):
                if app.list.cursor > index or (app.list.cursor == index and index == len(app.list.order) - 1):
                    break
                await keys(pilot, "j")
                seen += lines_of(app.list)[1:]
            said = squeezed("".join(dict.fromkeys(line.rstrip() for line in seen)))
            severity = table["severity"].cell(row)
            assert str(severity) in said
            for name in SENTENCES:
                words = str(table[name].cell(row) or "").split()
                assert all(squeezed(word) in said for word in words), (size, name)
        await keys(pilot, "home")
        assert app.list.cursor == 0


def findings(count: int) -> Table:
    return Table(
        (
            texts(col.SEVERITY, ["major", "minor", "note"] * (count // 3)),
            texts(col.TITLE, [f"Finding {number} of something that takes time" for number in range(count)]),
            texts(col.EVIDENCE, ["evidence " * (5 + 9 * (number % 3)) for number in range(count)]),
            micros(col.COST_US, np.arange(count, 0, -1) * 1_000_000),
            texts(col.ADVICE, ["Do less."] * count),
        ),
        np.arange(count),
    )


class Cards(App[None]):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.table = findings(count)

    def compose(self) -> ComposeResult:
        yield TableView()

    def on_mount(self) -> None:
        view = self.query_one(TableView)
        view.show("findings", self.table, np.arange(len(self.table)))
        view.focus()

    @property
    def view(self) -> TableView:
        return self.query_one(TableView)


async def test_the_cursor_moves_by_cards_and_its_card_is_on_screen() -> None:
    app = Cards(9)
    async with app.run_test(size=(60, 14)) as pilot:
        for index in range(1, 9):
            await pilot.press("j")
            assert app.view.cursor == index
            text = "\n".join(lines_of(app.view))
            assert f"▸▌{app.table['severity'].cell(index):<7}Finding {index} " in text
            assert text.split(f"Finding {index} ", 1)[1].count("→ Do less.") >= 1
        await pilot.press("end", "home")
        assert (app.view.cursor, app.view.scroll_offset.y) == (0, 0)
        await pilot.press("ctrl+d")
        assert 1 <= app.view.cursor < 8
        await pilot.press("ctrl+u")
        assert app.view.cursor == 0


async def test_a_card_taller_than_the_list_is_scrolled_through() -> None:
    app = Cards(3)
    async with app.run_test(size=(40, 6)) as pilot:
        await pilot.press("end")
        assert app.view.cursor == 2
        assert lines_of(app.view)[1].startswith("▸▌note   Finding 2 of")
        tops = [app.view.scroll_offset.y]
        while "→ Do less." not in lines_of(app.view)[-1]:
            await pilot.press("j")
            tops.append(app.view.scroll_offset.y)
            assert (app.view.cursor, tops[-1]) == (2, tops[-2] + 1)
        await pilot.press("k", "k")
        assert app.view.cursor == 2
        for _ in range(20):
            await pilot.press("k")
        assert app.view.cursor < 2


async def test_a_click_selects_the_card_it_hits() -> None:
    app = Cards(3)
    async with app.run_test(size=(60, 30)) as pilot:
        rows = lines_of(app.view)
        second = next(y for y, line in enumerate(rows) if "Finding 1 " in line)
        await pilot.click(TableView, offset=(10, second + 1))
        assert app.view.cursor == 1
