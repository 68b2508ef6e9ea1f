"""Widgets that draw their own cells: the bars and clicks of the minimap, and kept styles, as Textual has them."""

from __future__ import annotations

import pytest
from textual import constants
from textual.app import App, ComposeResult
from textual.widget import Widget

from tests.support.app import settle, shown, training
from tests.support.build import kernel, make_trace, op
from tracetui.drawing.timeline.raster import TimelineIndex
from tracetui.drawing.timeline.window import Window
from tracetui.model.trace import Trace
from tracetui.ui.widgets.surface import CachedStyle, Minimap


class Demo(App[None]):
    """Nothing but a minimap."""

    def __init__(self, trace: Trace, height: int = 1) -> None:
        super().__init__()
        self.trace = trace
        self.height = height
        self.clicked: list[int] = []

    def compose(self) -> ComposeResult:
        yield Minimap()

    def on_mount(self) -> None:
        self.map.styles.height = self.height
        self.map.show(self.trace, TimelineIndex(self.trace))

    @property
    def map(self) -> Minimap:
        return self.query_one(Minimap)

    def on_minimap_clicked(self, message: Minimap.Clicked) -> None:
        self.clicked.append(message.ns)

    def lines(self) -> list[str]:
        return [strip.text for strip in self.map.render_lines(self.map.size.region)]


def half_busy() -> Trace:
    return make_trace([op("a", 0, 100_000), kernel("k", 0, 50_000)])


@pytest.mark.parametrize("width", [200, 80])
async def test_bars_show_where_the_device_is_busy(width: int) -> None:
    app = Demo(half_busy())
    async with app.run_test(size=(width, 5)) as pilot:
        await pilot.pause()
        (line,) = app.lines()
        assert len(line) == width
        bars = line[app.map.left :]
        middle = len(bars) // 2
        assert set(bars[2 : middle - 2]) == {"█"} and not bars[middle + 2 :].strip()
        assert "50.0 %" in line


async def test_the_window_is_in_brackets() -> None:
    app = Demo(half_busy())
    async with app.run_test(size=(200, 5)) as pilot:
        app.map.window = Window.fit(50_000, 75_000, 180, 0.0)
        await pilot.pause()
        (line,) = app.lines()
        left = app.map.left
        assert abs(line.index("[") - left - 90) <= 2 and abs(line.index("]") - left - 135) <= 2
        app.map.window = Window.fit(50_000, 50_010, 180, 0.0)
        await pilot.pause()
        assert "┃" in app.lines()[0] and "[" not in app.lines()[0]


async def test_two_lines_make_taller_bars() -> None:
    trace = make_trace([kernel("k", i * 100, 75) for i in range(1000)])
    app = Demo(trace, height=2)
    async with app.run_test(size=(120, 5)) as pilot:
        await pilot.pause()
        upper, lower = (line[app.map.left + 5 : 110] for line in app.lines())
        assert set(lower) == {"█"} and set(upper) <= set("▃▄▅")


async def test_a_click_names_a_moment() -> None:
    app = Demo(half_busy())
    async with app.run_test(size=(200, 5)) as pilot:
        await pilot.click(Minimap, offset=(app.map.left + 90, 0))
        await pilot.click(Minimap, offset=(2, 0))
        assert len(app.clicked) == 1
        assert abs(app.clicked[0] - 50_000) < 2000


async def test_a_map_without_a_trace_is_blank() -> None:
    class Empty(App[None]):
        def compose(self) -> ComposeResult:
            yield Minimap()

    async with Empty().run_test(size=(80, 5)) as pilot:
        await pilot.click(Minimap, offset=(40, 0))


@pytest.fixture
def colours(monkeypatch):
    """Themes have colours of their own, whatever the terminal in which the tests run."""
    monkeypatch.setattr(constants, "COLOR_SYSTEM", "truecolor")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)


async def test_kept_styles_follow_themes_and_what_is_set_above(colours):
    async with shown(training()) as (app, pilot):
        kept = [widget for widget in app.screen.query(Widget) if isinstance(widget, CachedStyle)]
        assert len(kept) > 5
        seen = set()
        for _ in range(3):
            seen.add(app.view.panes.view.rich_style)
            assert all(widget.rich_style == super(CachedStyle, widget).rich_style for widget in kept)
            app.action_switch_theme()
            await settle(pilot)
        assert len(seen) == 3
        app.view.styles.background = "#123456"
        assert all(widget.rich_style == super(CachedStyle, widget).rich_style for widget in kept)
        assert any(widget.rich_style.bgcolor.name == "#123456" for widget in kept if widget.rich_style.bgcolor)
