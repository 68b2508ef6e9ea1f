"""Which lists have a drawing above them, on a terminal and in the details of the screen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tracetui.drawing.text.batch_plot import batch_lines
from tracetui.drawing.text.roofline_plot import roofline_lines
from tracetui.model.table import Table

Picture = Callable[[Table, int, int], list[str]]
"""The lines of a drawing of a table, given width and height in cells; empty where there is nothing to draw."""
PICTURES: dict[tuple[str, str | None], Picture] = {
    ("roofline", None): roofline_lines,
    ("serving", "batch"): batch_lines,
}
"""The drawing of a pane and grouping."""


@dataclass(frozen=True)
class ListPicture:
    """The drawing of a list; that of the same table, which is compared by identity, is the same."""

    pane: str
    by: str | None
    table: Table

    def lines(self, width: int, height: int) -> list[str]:
        """Its lines; none where the table has nothing to draw."""
        return picture_lines(self.pane, self.by, self.table, width, height)


def list_picture(pane: str, by: str | None, table: Table | None) -> ListPicture | None:
    """The drawing of a list, None where its pane and grouping have none."""
    return None if table is None or (pane, by) not in PICTURES else ListPicture(pane, by, table)


def picture_lines(pane: str, by: str | None, table: Table, width: int, height: int) -> list[str]:
    """The drawing of a table of a pane; empty where it has none."""
    draw = PICTURES.get((pane, by))
    return draw(table, width, height) if draw else []
