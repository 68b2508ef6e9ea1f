"""A tmux for every test that asks for one."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import pytest

from tests.support.paths import ROOT
from tests.support.terminal.tmux import Tmux


@pytest.fixture
def start() -> Iterator[Callable[[int, int], Tmux]]:
    """A function from columns and rows to a tmux with a shell in the checkout."""
    if shutil.which("tmux") is None:
        pytest.skip("needs tmux")
    opened: list[Tmux] = []

    def make(columns: int, rows: int) -> Tmux:
        opened.append(Tmux(columns, rows, ROOT))
        return opened[-1]

    yield make
    for tmux in opened:
        tmux.close()
