"""What a report is made of: sections with a heading, sentences, a figure and a table, any of them absent."""

from __future__ import annotations

from dataclasses import dataclass

from tracetui.model.table import Table


@dataclass(frozen=True)
class Section:
    """One part of a report."""

    title: str
    sentences: tuple[str, ...] = ()
    """Plain text, escaped when it is written."""
    figure: str = ""
    """HTML or SVG that is escaped already."""
    table: Table | None = None
    pane: str = ""
    """The pane of the table, which decides which columns are shown; empty for all of them."""
    by: str | None = None
    """What the rows of the table are grouped by."""
    limit: int = 40
    """Rows to show."""
    more: str = ""
    """How to get the rows and columns that are not shown, for example a command."""


@dataclass(frozen=True)
class Tile:
    """A number to see first."""

    name: str
    value: str
    help: str = ""


@dataclass(frozen=True)
class Report:
    """Everything that a page says."""

    title: str
    subtitle: tuple[str, ...] = ()
    """Devices, versions and the like."""
    verdict: str = ""
    """The answer in a sentence."""
    tiles: tuple[Tile, ...] = ()
    sections: tuple[Section, ...] = ()
    made_by: str = "tracetui"
    failures: tuple[str, ...] = ()
    """Sentences about what is missing because an analysis failed; the sections say it too."""
