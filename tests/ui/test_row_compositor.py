"""Painting changed lines alone shows what painting whole widgets shows."""

from __future__ import annotations

import random
from typing import Any

import pytest
from rich.console import RenderableType
from rich.segment import Segment
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from tracetui.ui.base.textual_internals import RowCompositor

WIDTH, HEIGHT = 40, 16


class Lines(Widget):
    """Lines that say how often they changed, and which of them were asked for."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.changes: dict[int, int] = {}
        self.asked: list[int] = []

    def render_line(self, y: int) -> Strip:
        self.asked.append(y)
        width = self.size.width
        return Strip([Segment(f"{self.id}{y}.{self.changes.get(y, 0)}".ljust(width, "-")[:width])], width)

    def change(self, first: int, count: int) -> None:
        """Have some lines of the content changed."""
        for y in range(first, first + count):
            self.changes[y] = self.changes.get(y, 0) + 1
        top, width = self.gutter.top, self.outer_size.width
        self.refresh(Region(0, first + top, width, count))


class Watched(RowCompositor):
    """Keeps what a terminal would show."""

    def __init__(self) -> None:
        super().__init__()
        self.shown = [[""] * WIDTH for _ in range(HEIGHT)]
        self.partial = 0

    def render_update(self, *args: Any, **options: Any) -> RenderableType | None:
        update = super().render_update(*args, **options)
        if isinstance(update, LayoutUpdate):
            self.shown = [list("".join(strip.text for strip in line)) for line in update.strips]
        elif isinstance(update, ChopsUpdate):
            self.partial += 1
            for y, left, right in update.spans:
                for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=True):
                    if strip is not None and x < right and end > left:
                        self.shown[y][x:end] = strip.text
        return update


class Overlapping(Screen[None]):
    """Parts beside, behind and in front of each other."""

    CSS = """
    Overlapping { layers: behind before; }
    #left { width: 15; height: 10; }
    #right { dock: right; width: 20; height: 12; border: solid red; padding: 0 1; }
    #over { layer: before; offset: 8 5; width: 14; height: 4; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._compositor = self.watched = Watched()

    def compose(self) -> ComposeResult:
        for name in ("left", "right", "over"):
            yield Lines(id=name)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.full
async def test_a_screen_painted_by_lines_is_the_screen_painted_whole(seed):
    source, app = random.Random(seed), App[None]()
    async with app.run_test(size=(WIDTH, HEIGHT)) as pilot:
        screen = Overlapping()
        await app.push_screen(screen)
        await pilot.pause()
        for _ in range(40):
            for part in source.sample(list(screen.query(Lines)), source.randint(1, 3)):
                part.change(source.randrange(part.size.height - 1), source.randint(1, 3))
            if source.random() < 0.05:
                screen.query_one("#over").styles.offset = source.randint(0, 20), source.randint(0, 10)
            await pilot.pause()
            assert screen.watched.shown == [list(strip.text) for strip in screen.watched.render_strips()]
        assert screen.watched.partial > 20


async def test_only_what_changed_and_is_seen_is_asked_for():
    app = App[None]()
    async with app.run_test(size=(WIDTH, HEIGHT)) as pilot:
        screen = Overlapping()
        await app.push_screen(screen)
        await pilot.pause()
        left, right, over = (screen.query_one(f"#{name}", Lines) for name in ("left", "right", "over"))
        for part in (left, right, over):
            part.asked.clear()
            part._styles_cache.clear()
        # The cells of the seventh line of `left` from the eighth on lie behind `over`.
        screen.watched._dirty_regions.update({Region(0, 1, 5, 1), Region(9, 6, 3, 1)})
        screen.watched.render_update()
        assert (left.asked, right.asked, over.asked) == ([1], [], [1])


async def test_nothing_is_painted_where_nothing_changed():
    app = App[None]()
    async with app.run_test(size=(WIDTH, HEIGHT)) as pilot:
        screen = Overlapping()
        await app.push_screen(screen)
        await pilot.pause()
        assert screen.watched.render_update() is None
        screen.watched._dirty_regions.add(Region(0, HEIGHT + 3, 5, 1))
        assert screen.watched.render_update() is None
