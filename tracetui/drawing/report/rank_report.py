"""What a report on a set of ranks says: who is late and why, the time of each rank, and the tables of the set."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tracetui.drawing.report.section import Report, Section, Tile
from tracetui.drawing.report.words import text
from tracetui.drawing.text.rank_rows import bar_parts
from tracetui.drawing.text.rank_text import pane_name
from tracetui.model.quantities import count, duration
from tracetui.model.table import Table
from tracetui.ranks.rank_set import RankSet
from tracetui.ranks.rank_tables import TABLES
from tracetui.ranks.sentences import headline, late_words, remarks, title
from tracetui.safe_text import clean

WIDTH, ROW, NAMES, ENDS = 1140, 18, 92, 96
"""Of the drawing: its width, the height of a rank, and the room for what stands left and right of the bars."""
MAX_BARS = 64
"""Maximum ranks that are drawn, those first that others waited for most."""
_PARTS = (("busy", "busy"), ("exposed transfer", "transfer"), ("exposed waiting", "waiting"))
"""Parts of a bar, from the left: what it is, and its style."""
_SECTIONS = (
    ("ranks", "Ranks", 100),
    ("collectives", "Collectives, those first in which ranks came furthest apart", 40),
    ("matrix", "Who waited for whom", 40),
    ("groups", "Process groups", 40),
    ("steps", "Steps", 40),
)


def rank_report(ranks: RankSet, version: str = "") -> Report:
    """The report on a set of ranks."""

    def made(heading: str, make: Callable[[], Section | None]) -> Section | None:
        """A section of its own, or one that says that it failed."""
        return ranks.failures.made_or(heading, make, lambda sentence: Section(heading, (clean(sentence),)))

    sections = [
        made("Remarks", lambda: _remarks(ranks)),
        made("Time of each rank", lambda: _time(ranks)),
        *(made(heading, partial(_table, ranks, name, heading, limit)) for name, heading, limit in _SECTIONS),
    ]
    if ranks.run.missing or ranks.left_out:
        heading = "Files that are missing or left out"
        sections.append(made(heading, partial(_table, ranks, "files", heading)))
    return Report(
        clean(ranks.run.title),
        (clean(title(ranks)),),
        clean(headline(ranks)),
        ranks.failures.made_or("The numbers at the top", lambda: _tiles(ranks), lambda _: ()),
        tuple(section for section in sections if section is not None),
        f"tracetui {version}".strip(),
        ranks.failures.sentences,
    )


def _table(ranks: RankSet, name: str, heading: str, limit: int = 40) -> Section | None:
    """A table of the set; nothing where it has no rows, unless it is that of files, which is asked for then."""
    table = TABLES[name](ranks)
    if name == "collectives":
        table = table.take(table.order("skew_us", descending=True))
    if not len(table) and name != "files":
        return None
    more = f"All of it: tracetui ranks FOLDER --show {name}" if name != "files" else ""
    return Section(heading, table=_alone(table), pane=pane_name(name), limit=limit, more=more)


def _alone(table: Table) -> Table:
    """A table without what is said of the whole set, which stands at the top of the page."""
    return Table(table.columns, table.slices, "", table.doubts)


def _tiles(ranks: RankSet) -> tuple[Tile, ...]:
    charged = ranks.waiting.charged
    tiles = [Tile(f"of {count(ranks.run.world_size)} ranks are here", count(len(ranks)))]
    if len(ranks) > 1:
        tiles += [
            Tile("collectives", count(len(ranks.matches.instances))),
            Tile("in common", duration(ranks.run_ns)),
            Tile("waiting for each other, of all ranks", duration(float(charged.time.sum()))),
            Tile("late rank" if len(ranks.late) == 1 else "late ranks", count(len(ranks.late))),
        ]
    return tuple(tiles)


def _remarks(ranks: RankSet) -> Section | None:
    """Late ranks that the headline has no room for, and what is missing, doubtful or odd."""
    top = headline(ranks)
    late = [words for each in ranks.late if (words := late_words(ranks, each)) not in top]
    said = late + remarks(ranks)
    return Section("Remarks", tuple(map(clean, said))) if said else None


def _time(ranks: RankSet) -> Section | None:
    """The time of the run of each rank as a bar."""
    table = TABLES["ranks"](ranks)
    parts, whole = bar_parts(table)
    if len(ranks) < 2 or whole <= 0:
        return None
    shown = min(len(table), MAX_BARS)
    rows = [_bar(index, str(table["rank"].cell(index)), parts[index], whole) for index in range(shown)]
    figure = (
        f'<figure class="ranks"><svg viewBox="0 0 {WIDTH} {ROW * shown}" role="img" '
        f'aria-label="Time of the run of each rank">{"".join(rows)}</svg>{_legend()}</figure>'
    )
    more = f" The {count(shown)} ranks that others waited for most; the table has all." if shown < len(table) else ""
    said = f"Each bar is the run of a rank, {duration(1000 * whole)}; the rest of it the device did nothing.{more}"
    return Section("Time of each rank", (said,), figure)


def _bar(index: int, rank: str, parts: tuple[float, float, float], whole: float) -> str:
    """A rank's line: its number, its bar, and how long it was busy."""
    room, left, drawn = WIDTH - NAMES - ENDS, float(NAMES), ""
    for value, (name, style) in zip(parts, _PARTS, strict=True):
        width = room * max(value, 0.0) / whole
        drawn += (
            f'<rect class="{style}" x="{left:.1f}" y="{ROW * index + 2}" width="{width:.1f}" height="{ROW - 4}">'
            f"<title>rank {text(rank)}: {name} {duration(1000 * value)}</title></rect>"
        )
        left += width
    middle = ROW * index + ROW - 5
    return (
        f'<text x="0" y="{middle}">rank {text(rank)}</text>{drawn}'
        f'<text class="quiet" x="{WIDTH}" y="{middle}" text-anchor="end">{duration(1000 * parts[0])}</text>'
    )


def _legend() -> str:
    squares = "".join(
        f'<li><svg width="12" height="12" aria-hidden="true"><rect class="{style}" width="12" height="12"/></svg>'
        f"{name}</li>"
        for name, style in _PARTS
    )
    return f'<ul class="legend">{squares}<li>right: busy</li></ul>'
