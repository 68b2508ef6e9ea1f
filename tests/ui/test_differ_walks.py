"""Random walks through the app: every frame of the cell differ shows the cells that Textual's own way shows."""

from __future__ import annotations

import random

import pytest
from textual._compositor import ChopsUpdate, LayoutUpdate

from tests.support.app import Shown, burst, settle, training
from tests.support.build import kernel, launch, make_trace, op, step
from tests.support.paths import SAMPLES, SHARED
from tests.support.terminal.cells import Terminal, differing
from tracetui.reading.load import load
from tracetui.ui.base.cell_differ import CellDiffer

KEYS = (
    "full_stop", "comma", "j", "k", "down", "up", "right_square_bracket", "left_square_bracket", "a", "d", "w", "s",
    "plus", "minus", "f", "0", "tab", "shift+tab", "1", "2", "3", "4", "5", "6", "H", "S", "o", "O", "b", "g", "G",
    "backspace", "z", "p", "x", "m", "v", "Z", "i", "A", "pagedown", "pageup", "home", "end", "ctrl+t", "question_mark",
    "escape", "escape", "ctrl+p", "slash", "l", "i", "n", "enter", "ctrl+down", "ctrl+left", "ctrl+l",
)  # fmt: skip
SIZES = [(120, 40), (80, 24), (200, 50), (60, 12), (30, 5), (100, 30)]


class Compared(Shown):
    """The app on two terminals: one is written to as Textual does, one by the differ, which misses some frames."""

    def __init__(self, trace, seed):
        super().__init__(trace)
        self.random = random.Random(seed)
        self.theirs = self.ours = Terminal(1, 1)
        self.differ = CellDiffer(self.console, True)
        self.bytes = [0, 0]
        self.frames = 0

    def _display(self, screen, renderable):
        super()._display(screen, renderable)
        # A frame that was laid out for the size before the present one is followed by a whole one.
        is_laid_out = screen._compositor.size == self.size
        if isinstance(renderable, LayoutUpdate | ChopsUpdate) and not self._batch_count and is_laid_out:
            self.compare(renderable)

    def compare(self, update):
        if (self.ours.screen.columns, self.ours.screen.lines) != tuple(self.size):
            # A terminal may do with its cells what it wants when it gets another size.
            self.theirs, self.ours = Terminal(*self.size), Terminal(*self.size)
        written = update.render_segments(self.console)
        self.theirs.write(written)
        self.differ.apply(update, *self.size)
        self.bytes[0] += len(written.encode())
        if self.random.random() < 0.2:
            return
        written = self.differ.difference()
        self.ours.write(written)
        self.bytes[1] += len(written.encode())
        self.frames += 1
        self.check()

    def check(self):
        """See that both terminals show the same, or ours what Textual shows when it writes every cell.

        At the edges of the parts that Textual writes, behind the palette for one, it cuts wide and combined characters.
        """
        wrong = differing(self.theirs, self.ours)
        if not wrong:
            return
        whole = self.screen._compositor.render_full_update()
        self.theirs = Terminal(*self.size)
        self.theirs.write(whole.render_segments(self.console))
        cells = self.theirs.cells()
        assert all(cells[row][column] == ours for row, column, _, ours in wrong), wrong[:5]
        self.differ.apply(whole, *self.size)
        self.ours.write(self.differ.difference())


def wide():
    """A trace whose names are written in many scripts, some of them wider than they are long."""
    names = ["矩阵乘法", "e\u0301le\u0301ment", "🙂 kernel", "ядро", "שלום", "a\u00a0b", "行列_gemm_漢字"]
    events = [step(1, 0, 900_000)]
    for place, name in enumerate(names):
        at = place * 100_000
        events += [op(f"aten::{name}", at + 1_000, 90_000), launch(at + 2_000, 5_000, place + 1)]
        events.append(kernel(name, at + 20_000, 60_000, correlation=place + 1))
    return make_trace(events)


async def walk(trace, seed, keys):
    """Press keys at random, resize now and then, and compare every frame; returns the app."""
    app = Compared(trace, seed)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        for _ in range(keys):
            if app.random.random() < 0.06:
                await pilot.resize_terminal(*app.random.choice(SIZES))
            burst(app, app.random.choice(KEYS))
            await pilot.pause(0)
        await settle(pilot)
        app.ours.write(app.differ.difference())
        app.check()
    return app


@pytest.mark.parametrize(("make", "seed"), [(training, 1), (wide, 2)])
@pytest.mark.full
async def test_short_walks(make, seed):
    app = await walk(make(), seed, 25)
    assert app.frames > 10
    assert app.bytes[1] < app.bytes[0] / 2


@pytest.mark.nightly
@pytest.mark.parametrize("colours", ["truecolor", "256", "standard", "none"])
@pytest.mark.parametrize("seed", [pytest.param(0, marks=pytest.mark.nightly), 1])
async def test_long_walks(seed, colours, monkeypatch):
    environment = {"truecolor": {"COLORTERM": "truecolor"}, "standard": {"TERM": "xterm"}, "none": {"NO_COLOR": "1"}}
    monkeypatch.setenv("TERM", "xterm-256color")
    for name, value in environment.get(colours, {}).items():
        monkeypatch.setenv(name, value)
    await walk(load(str(SAMPLES / "mlp_eager_cpu.json.gz")), seed, 120)
    await walk(wide(), seed, 60)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["d01", "d06", "d16"])
async def test_walks_over_real_traces(name):
    found = sorted(SHARED.glob(f"{name}*"))
    if not found:
        pytest.skip("needs the shared traces")
    await walk(load(str(found[0])), 7, 120)
