"""The rows of a list that are cards of several lines: which line belongs to which row, and what stands in it. Pure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracetui.drawing.finding_cards import CardLine, finding_cards
from tracetui.model.table import Table


class CardRows:
    """The cards of the listed rows, one below the other."""

    def __init__(self, table: Table, order: NDArray[np.int64], width: int) -> None:
        self._cards = finding_cards(table, order.tolist(), width)
        self._tops = np.cumsum([0, *map(len, self._cards)])

    def __len__(self) -> int:
        """Lines of all cards."""
        return int(self._tops[-1])

    def top(self, index: int) -> int:
        """The first line of a card."""
        return int(self._tops[min(index, len(self._cards))])

    def height(self, index: int) -> int:
        """Lines of a card, 0 behind the last."""
        return len(self._cards[index]) if index < len(self._cards) else 0

    def index_at(self, line: int) -> int:
        """The card to which a line belongs; as many as there are cards behind the last line."""
        return int(np.searchsorted(self._tops, line, side="right")) - 1 if line < len(self) else len(self._cards)

    def line(self, line: int) -> CardLine:
        """What stands in a line."""
        index = self.index_at(line)
        return self._cards[index][line - self.top(index)]
