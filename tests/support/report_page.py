"""Reading a report back: its tables, its figures, its addresses."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "br", "img", "link", "hr", "input", "rect", "path"}


@dataclass
class Page:
    """What a reader finds in a page."""

    sections: dict[str, str] = field(default_factory=dict)
    """Title by id."""
    tables: dict[str, list[list[str]]] = field(default_factory=dict)
    """Rows of cells, the header first, by the id of the section."""
    scopes: list[str | None] = field(default_factory=list)
    """`scope` of every `th`."""
    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    slice_titles: list[str] = field(default_factory=list)
    """What slices say on hovering."""
    open_tags: list[str] = field(default_factory=list)
    """Elements that were never closed."""

    def named(self, tag: str) -> list[dict[str, str | None]]:
        """Attributes of every element of a name."""
        return [attributes for name, attributes in self.tags if name == tag]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page = Page()
        self._section = ""
        self._cell: list[str] | None = None
        self._title: list[str] | None = None
        self._inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.page.tags.append((tag, attributes))
        if tag not in VOID or tag in ("rect", "path"):
            self._inside.append(tag)
        if tag == "section":
            self._section = str(attributes["id"])
        elif tag == "table":
            self.page.tables[self._section] = []
        elif tag == "tr":
            self.page.tables[self._section].append([])
        elif tag in ("td", "th"):
            self._cell = []
            if tag == "th":
                self.page.scopes.append(attributes.get("scope"))
        elif tag == "title" and "rect" in self._inside:
            self._title = []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.page.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if self._inside and self._inside[-1] == tag:
            self._inside.pop()
        elif tag not in VOID:
            self.page.open_tags.append(tag)
        if tag in ("td", "th") and self._cell is not None:
            self.page.tables[self._section][-1].append("".join(self._cell))
            self._cell = None
        elif tag == "title" and self._title is not None:
            self.page.slice_titles.append("".join(self._title))
            self._title = None

    def handle_data(self, data: str) -> None:
        self.page.texts.append(data)
        if self._cell is not None:
            self._cell.append(data)
        if self._title is not None:
            self._title.append(data)
        if self._inside and self._inside[-1] == "h2":
            self.page.sections[self._section] = data


def read_page(html: str) -> Page:
    """The page behind some HTML."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    reader.page.open_tags += reader._inside
    return reader.page
