"""A report as one HTML file: no script, style, font or picture from elsewhere, and a policy that allows none.

It is complete with scripts off; the one script in it sorts tables.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from html import escape
from pathlib import Path
from string import Template

import numpy as np

from tracetui.drawing.format import notes, ordered
from tracetui.drawing.text.readable_table import Extent, shown_texts, telling
from tracetui.drawing.timeline.palette import FAMILIES, palette, rgb
from tracetui.frozen import frozen
from tracetui.model.quantities import count
from tracetui.model.table import NULL, Column, Table, TextKind
from tracetui.text import clean

# What a report is made of: sections with a heading, sentences, a figure and a table, any of them absent.


@frozen(eq=True)
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
    """Name of the grouping of the rows."""
    limit: int = 40
    """Rows to show."""
    more: str = ""
    """A way to get the rows and columns that are not shown, for example a command."""


@frozen(eq=True)
class Tile:
    """A number to see first."""

    name: str
    value: str
    help: str = ""


@frozen(eq=True)
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


# Text of a trace as HTML: cleaned of what steers a screen, and escaped, so that it is read and never obeyed.


def text(words: str) -> str:
    """Words as they stand between tags or in a quoted attribute."""
    return escape(clean(words), quote=True)


def anchor(words: str) -> str:
    """A heading as the name of its place in the page."""
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-") or "section"


# The colours of slices in a report, as styles: those of the screen's palette, by family.

LETTERS = "garpcnxoutyv"
"""What stands for each `Family` where there is no room for a name."""


def slice_class(family: int, odd: int) -> str:
    """The class of a slice: neighbours of a family differ in shade."""
    return f"f{family}{'b' if odd else 'a'}"


def _slice_styles(dark: bool) -> list[str]:
    colours = palette(256, dark)
    lines = [f".idle{{color:{hexadecimal(colours.idle)}}}"]
    for family in range(FAMILIES):
        for odd in (0, 1):
            colour = int(colours.shades[family, odd])
            name = slice_class(family, odd)
            lines.append(f".{name}{{fill:{hexadecimal(colour)}}}")
            lines.append(f".i{name}{{fill:{'#000' if colours.ink[colour] == 16 else '#fff'}}}")
    return lines


def hexadecimal(colour: int) -> str:
    """One of the 256 colours as `#rrggbb`."""
    return "#{:02x}{:02x}{:02x}".format(*rgb(colour))


# A table as HTML: headings with units and explanations, numbers to the right, names as code, and what was cut.

NAME_WIDTH = 72
"""Characters of a name in a report."""
_NAMES = (TextKind.NAME, TextKind.DECODED, TextKind.KERNEL)


def shown_columns(section: Section) -> list[Column]:
    """The columns of a section's table that go on the page, in order."""
    if section.table is None:
        return []
    columns = telling(section.table)
    wanted = [column.name for column in ordered(section.table, section.pane, section.by)]
    known = {column.name: column for column in columns}
    return [known[name] for name in wanted if name in known]


def table_html(section: Section) -> str:
    """The table of a section with its notes; without rows only the notes."""
    table = section.table
    if table is None:
        return ""
    columns = shown_columns(section)
    if len(table) == 0 or not columns:
        return "".join(f'<p class="note">{text(note)}</p>' for note in ["No rows.", *notes(table)])
    shown = table.take(np.arange(min(len(table), section.limit)))
    kept = [shown[column.name] for column in columns]
    head = "".join(_heading(table, column) for column in kept)
    cells = [_cells(column, first=number == 0) for number, column in enumerate(kept)]
    rows = "\n".join(f"<tr>{''.join(row)}</tr>" for row in zip(*cells, strict=True))
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{text(section.title)}">'
        f"<table><thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>"
        f"{_below(section, table, columns)}"
    )


def _heading(table: Table, column: Column) -> str:
    said = f"{column.name}: {column.help}" if column.help else column.name
    number = ' class="n"' if column.is_number else ""
    return f'<th scope="col"{number} title="{text(said)}">{text(table.heading(column.name))}</th>'


def _cells(column: Column, first: bool) -> list[str]:
    """The cells of a column as HTML."""
    texts = shown_texts(column, NAME_WIDTH)
    opened, closed = ('<th scope="row"', "</th>") if first else ("<td", "</td>")
    if column.is_text:
        # A tooltip with the whole text, for cells that show less.
        whole = [column.cell(row) for row in range(len(column))]
        is_name = column.spec.text in _NAMES
        full = [
            f' title="{text(str(full)[:1000])}"' if full is not None and full != shown else ""
            for full, shown in zip(whole, texts, strict=True)
        ]
        cells = [f"<code>{text(each)}</code>" if is_name and each != "–" else text(each) for each in texts]
        return [f"{opened}{tip}>{cell}{closed}" for cell, tip in zip(cells, full, strict=True)]
    # A doubtful number below 0 sorts as none.
    plain = column.doubtful is None
    values = (column.values if plain else np.where(column.unranked(), np.nan, column.values)).tolist()
    return [
        f'{opened} class="n"{_exact(written, value)}>{text(written)}{closed}'
        for written, value in zip(texts, values, strict=True)
    ]


def _exact(written: str, value: float | int | bool) -> str:
    """The number behind a cell, for sorting, where its text is rounded or has a unit; nothing for null."""
    if value != value or value == NULL:
        return ' data-v=""'
    try:
        same = float(written.replace(",", "")) == value
    except ValueError:
        same = False
    return "" if same else f' data-v="{float(value):.6g}"'


def _below(section: Section, table: Table, columns: Sequence[Column]) -> str:
    """The rows left out, the notes, and the meanings of the columns."""
    said = [Extent(rows=len(table)).left_out(min(len(table), section.limit))]
    hidden = len(telling(table)) - len(columns)
    if hidden:
        said.append(f"{count(hidden)} more column{'' if hidden == 1 else 's'} not shown.")
    if section.more and any(said):
        said.append(section.more)
    first = " ".join(part for part in said if part)
    remarks = "".join(f'<p class="note">{text(part)}</p>' for part in [first, *notes(table)] if part)
    explained = [column for column in columns if column.help]
    if not explained:
        return remarks
    terms = "".join(f"<dt>{text(c.spec.heading)}</dt><dd>{text(c.help)}</dd>" for c in explained)
    return f'{remarks}<details class="columns"><summary>What the columns mean</summary><dl>{terms}</dl></details>'


_HERE = Path(__file__).parent

_PAGE = Template("""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="$policy">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta name="generator" content="$made_by">
<title>$title</title>
<style>$style</style>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<header>
<h1>$title</h1>
$subtitle
$verdict
$tiles
</header>
<nav aria-label="Sections"><ul>$contents</ul></nav>
<main id="content">
$sections
</main>
<footer><p>Made by $made_by. – is what the trace does not hold,
~ marks numbers that are doubtful.</p></footer>
<script>$script</script>
</body>
</html>
""")


def page(report: Report) -> str:
    """The whole file."""
    style, script = _style(), _script()
    return _PAGE.substitute(
        policy=f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'",
        style=style,
        script=script,
        made_by=text(report.made_by),
        title=text(report.title),
        subtitle=f'<p class="origin">{text(" · ".join(report.subtitle))}</p>' if report.subtitle else "",
        verdict=f'<p class="verdict">{text(report.verdict)}</p>' if report.verdict else "",
        tiles=_tiles(report.tiles),
        contents="".join(
            f'<li><a href="#{anchor(section.title)}">{text(section.title)}</a></li>' for section in report.sections
        ),
        sections="\n".join(map(_section, report.sections)),
    )


def _digest(content: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"


@cache
def _style() -> str:
    dark = "".join(_slice_styles(True))
    return (
        "\n"
        + (_HERE / "page.css").read_text(encoding="utf-8")
        + ("\n".join(_slice_styles(False)) + f"\n@media screen and (prefers-color-scheme: dark){{{dark}}}\n")
    )


@cache
def _script() -> str:
    return "\n" + (_HERE / "sort.js").read_text(encoding="utf-8")


def _tiles(tiles: tuple[Tile, ...]) -> str:
    if not tiles:
        return ""
    made = "".join(
        f'<div title="{text(tile.help)}"><dt>{text(tile.name)}</dt><dd>{text(tile.value)}</dd></div>' for tile in tiles
    )
    return f'<dl class="tiles">{made}</dl>'


def _section(section: Section) -> str:
    name = anchor(section.title)
    said = "".join(f"<p>{text(sentence)}</p>" for sentence in section.sentences if sentence)
    return (
        f'<section id="{name}" aria-labelledby="{name}-title">\n<h2 id="{name}-title">{text(section.title)}</h2>\n'
        f"{said}{section.figure}{table_html(section)}\n</section>"
    )
