"""A set of ranks as text: what it is and who is late above one of its tables, or all of it as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypedDict

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from tracetui.drawing.format import shorten
from tracetui.drawing.hues import Hue
from tracetui.drawing.stacked_bars import BarPart, Line, Look, Piece, rich_line, single, stacked, text_of
from tracetui.drawing.text import export
from tracetui.drawing.text.envelope import json_text
from tracetui.drawing.text.export import ColumnFacts, lines, sentence
from tracetui.drawing.text.readable_table import DECIMALS, remarks, telling
from tracetui.model.quantities import duration
from tracetui.model.table import DOUBTFUL, Column, Table, texts
from tracetui.ranks.causes import PASSED_ON
from tracetui.ranks.rank_set import RankSet
from tracetui.ranks.sentences import headline, spending, title
from tracetui.ranks.sentences import remarks as set_remarks
from tracetui.text import clean

MAX_TEXT_BARS = 16
"""Maximum ranks drawn as bars in text."""
TEXT_CELLS = 120
"""Maximum width of the bars in text."""


def pane_name(name: str) -> str:
    """Under which name the columns of a table of ranks are ordered."""
    return "ranks" if name == "ranks" else f"ranks by {name}"


class LeftOut(TypedDict):
    file: str
    why: str


class HostClock(TypedDict):
    """The clock of a host beside that of the reference, null where no collective tells."""

    host: str | None
    ranks: list[int]
    shift_us: float | None
    error_us: float | None
    drift_ppm: float | None
    is_guess: bool


class Clocks(TypedDict):
    reference: str | None
    hosts: list[HostClock]


class RanksDocument(TypedDict):
    """A set of ranks and one of its tables; rows of ranks have lists as `causes` and `late_steps`."""

    show: str
    title: str
    headline: str
    world_size: int
    missing: list[int]
    left_out: list[LeftOut]
    clock: Clocks
    columns: list[ColumnFacts]
    rows: list[dict[str, Any]]
    note: str


def as_json(ranks: RankSet, table: Table, name: str) -> str:
    """The rows with what is missing and left out, the clocks, and what is said of the set."""
    clocks = ranks.clocks
    document: RanksDocument = {
        "show": name,
        "title": clean(title(ranks)),
        "headline": clean(headline(ranks)),
        "world_size": ranks.run.world_size,
        "missing": list(ranks.run.missing),
        "left_out": [{"file": clean(ranks.shown_path(each.path)), "why": clean(each.why)} for each in ranks.left_out],
        "clock": {
            "reference": None if not clocks.names or clocks.names[0] is None else clean(clocks.names[0]),
            "hosts": [_host(ranks, index) for index in range(len(clocks.names))],
        },
        "columns": [export.column_facts(column.spec) for column in table.columns],
        "rows": [_exact(ranks, row) if name == "ranks" and "rank" in row else row for row in export.row_values(table)],
        "note": clean(table.note),
    }
    return json_text("ranks", document, (column.spec for column in table.columns))


def _host(ranks: RankSet, index: int) -> HostClock:
    clocks, name = ranks.clocks, ranks.clocks.names[index]
    known = bool(clocks.is_known[index])
    drift = float(clocks.drift[index])
    return {
        "host": None if name is None else clean(name),
        "ranks": [rank for rank, host in zip(ranks.ranks, clocks.host.tolist(), strict=True) if host == index],
        "shift_us": round(int(clocks.shift[index]) / 1000, DECIMALS) if known else None,
        "error_us": round(float(clocks.error[index]) / 1000, DECIMALS) if known else None,
        "drift_ppm": round(drift * 1e6, DECIMALS) if drift else None,
        "is_guess": bool(clocks.is_guess[index]),
    }


def _exact(ranks: RankSet, row: dict[str, Any]) -> dict[str, Any]:
    """A row of the ranks with lists where text has words."""
    late = next((each for each in ranks.late if ranks.ranks[each.index] == row["rank"]), None)
    causes = [] if late is None else late.causes
    return {
        **row,
        "causes": [{"cause": cause, "us": round(excess / 1000, DECIMALS)} for cause, excess in causes],
        "late_steps": [] if late is None else list(late.steps),
    }


def as_plain(ranks: RankSet, table: Table, name: str, width: int | None = None, is_chosen: bool = False) -> str:
    """The table in aligned columns below headline and remarks, within a width unless its columns were chosen."""
    drawn = [] if is_chosen else _text_bars(ranks, table, name, min(width or TEXT_CELLS, TEXT_CELLS))
    bars = "".join(f"{text_of(line).rstrip()}\n" for line in drawn)
    shown = _with_headline(ranks, table)
    if bars:
        # The sentences stand above the bars, and the table below them.
        bars = "\n".join([*filter(None, [clean(shown.headline), clean(spending(ranks))]), "", bars, ""])
        shown = replace(shown, headline="")
    return f"{clean(title(ranks))}\n{bars}" + export.plain_rows(shown, pane_name(name), width, is_chosen)


def as_markdown(ranks: RankSet, table: Table, is_chosen: bool = False) -> str:
    """The same as Markdown; of chosen columns all."""
    parts = [f"**{sentence(clean(title(ranks)))}**", sentence(clean(headline(ranks)))]
    columns = list(table.columns) if is_chosen else telling(table)
    parts += ["\n".join(lines(table, columns)) if len(table) else "No rows."]
    parts += [sentence(clean(text)) for text in remarks(table, columns)]
    return "\n\n".join(filter(None, parts)) + "\n"


def as_rich(ranks: RankSet, table: Table, name: str, width: int) -> RenderableType:
    """The same for a terminal of `width` columns."""
    shown, parts = _with_headline(ranks, table), [Text(clean(title(ranks)), style="dim")]
    if drawn := _text_bars(ranks, table, name, width):
        parts += [Text(clean(shown.headline), style="bold"), Text(clean(spending(ranks))), Text()]
        parts += [*map(rich_line, drawn), Text()]
        shown = replace(shown, headline="")
    return Group(*parts, export.rich_rows(shown, pane_name(name), width))


def as_csv(table: Table) -> str:
    """The rows alone."""
    return export.csv_rows(table)


def said(ranks: RankSet) -> str:
    """The headline and what is missing, left out or not certain, for standard error."""
    return clean(" ".join([headline(ranks), *set_remarks(ranks)]))


def _with_headline(ranks: RankSet, table: Table) -> Table:
    return Table(table.columns, table.slices, table.note, table.doubts, headline(ranks))


# The time of the run of each rank as a bar of four parts, and for how long others waited for it as another.

MAX_BAR_NAME = 14
"""Maximum cells of the name of a host."""
CAUSED_CELLS = 12
"""Cells of the bar of the rank that others waited for most."""
CAUSED = "made others wait"


def rank_bars(
    table: Table, run_ns: int, most: int, width: int, textured: bool = False, labelled: bool = True
) -> list[Line]:
    """A title and a line for each of the first ranks of the table, with what they spend the run on.

    Empty where the table could not be made, or knows no times.
    """
    names = ("rank", "busy_us", "exposed_comm_us", "exposed_wait_us", "idle_us", "wait_caused_us")
    if most < 1 or not len(table) or any(name not in table for name in names):
        return []
    every, longest = bar_parts(table)
    if not longest > 0:
        return []
    rows = list(table.rows())[:most]
    hosts = [shorten(clean(str(row.get("host") or "")), MAX_BAR_NAME) for row in rows]
    numbers = [str(row["rank"]) for row in rows]
    caused = [float(row["wait_caused_us"] or 0.0) for row in rows]
    waited = [duration(1000 * each) if each else "" for each in caused]
    causes = [clean(str(row.get("cause") or "")) for row in rows]
    causes = [f" {each}" if each.startswith(PASSED_ON) else f" ▲ {each}" if each else "" for each in causes]
    name_cells, host_cells, time_cells = (max(map(len, each)) for each in (numbers, hosts, waited))
    before = name_cells + 1 + (host_cells + 1 if host_cells else 0)
    behind = 2 + max(time_cells + 1 + CAUSED_CELLS + max(map(len, causes)), len(CAUSED))
    cells = max(width - before - behind, 8)
    title = f"{'rank':<{before}}{duration(run_ns)} in common"
    lines: list[Line] = [(Piece(title.ljust(before + cells + 2), Look.DIM), Piece(CAUSED, Look.DIM))]
    for index, (busy, transfer, wait) in enumerate(every[: len(rows)]):
        parts = [
            BarPart(Hue.GEMM, "compute", "comp", 1000 * busy, COMPUTE),
            BarPart(Hue.COMMUNICATION, "sends", "send", 1000 * transfer, TRANSFER),
            # Yellow, which nothing else of a rank is.
            BarPart(Hue.OPTIMIZER, "waits", "wait", 1000 * wait, WAIT),
            BarPart(Hue.IDLE, "idle", "idle", 1000 * max(longest - busy - transfer - wait, 0.0)),
        ]
        late = "▲" in causes[index]
        lines.append(
            (
                Piece(f"{numbers[index]:>{name_cells}} ", Look.STRONG if late else Look.PLAIN),
                Piece(f"{hosts[index]:<{host_cells}} " if host_cells else ""),
                *stacked(parts, cells, 1000 * longest, textured, labelled),
                Piece(f"  {waited[index]:>{time_cells}} "),
                single(caused[index] / (max(caused) or 1.0), CAUSED_CELLS, Hue.OPTIMIZER),
                Piece(causes[index], Look.INK if late else Look.PLAIN, Hue.MINOR if late else None),
            )
        )
    if len(table) > len(rows):
        lines.append((Piece(f"and {len(table) - len(rows):,} more ranks", Look.DIM),))
    return lines


def _text_bars(ranks: RankSet, table: Table, name: str, width: int) -> list[Line]:
    """The bars in textures, with their legend; of the table of ranks alone."""
    drawn = rank_bars(table, ranks.run_ns, MAX_TEXT_BARS, width, True, False) if name == "ranks" else []
    legend = f"{COMPUTE} compute  {TRANSFER} sends  {WAIT} waits for others  {Hue.IDLE.value.texture} idle"
    return [*drawn, (Piece(legend, Look.DIM),)] if drawn else []


# Rows of the ranks as the screen shows them: the time of the run as a bar, the clock with its error.

COMPUTE, TRANSFER, WAIT, IDLE = "█", "▒", "░", " "
"""Glyphs of the bar, which tell the parts apart without any colour."""
BAR_LEGEND = f"{COMPUTE} busy  {TRANSFER} exposed transfer  {WAIT} exposed waiting"
"""Meaning of the glyphs."""
BAR_CELLS = ((170, 28), (110, 16), (0, 8))
"""Cells of the bar by the width of the screen from which it has them."""


def bar_cells(width: int) -> int:
    """Cells of the bar on a screen of a width."""
    return next(cells for least, cells in BAR_CELLS if width >= least)


def bar(parts: Sequence[float], whole: float, cells: int) -> str:
    """Parts of a whole as glyphs: busy, exposed transfer, exposed waiting, and blank for the rest."""
    if not whole > 0:
        return " " * cells
    edges = [round(cells * min(sum(parts[: index + 1]) / whole, 1.0)) for index in range(len(parts))]
    drawn = "".join(
        glyph * (edge - before)
        for glyph, before, edge in zip((COMPUTE, TRANSFER, WAIT), [0, *edges], edges, strict=False)
    )
    return drawn.ljust(cells)


def readable_ranks(table: Table, cells: int) -> Table:
    """The table of ranks with a bar beside the busy time, clocks with their error, and `last` of how many."""
    if "clock_shift_us" not in table:
        return table
    shift, error = table["clock_shift_us"], table["clock_error_us"]
    spec = replace(shift.spec, unit="", width=24, is_number_text=True)
    last, of = table["came_last"], table["collectives"]
    last_spec = replace(last.spec, width=12, is_number_text=True)
    shown = {
        "busy_us": _busy(table, cells),
        "clock_shift_us": texts(spec, [_clock_words(shift.cell(row), error.cell(row)) for row in range(len(table))]),
        "came_last": texts(last_spec, [f"{last.cell(row)}/{of.cell(row)}" for row in range(len(table))]),
    }
    columns = (shown.get(column.name, column) for column in table.columns if column.name != "clock_error_us")
    return replace(table, columns=tuple(_marked(table, column) for column in columns))


def bar_parts(table: Table) -> tuple[list[tuple[float, float, float]], float]:
    """Busy, exposed transfer and exposed waiting of each rank, and the longest run, in microseconds."""
    busy, exposed, waiting, idle = (
        np.nan_to_num(table[name].values.astype(np.float64))
        for name in ("busy_us", "exposed_comm_us", "exposed_wait_us", "idle_us")
    )
    whole = float((busy + exposed + idle).max(initial=0))
    return list(zip(busy.tolist(), (exposed - waiting).tolist(), waiting.tolist(), strict=True)), whole


def _busy(table: Table, cells: int) -> Column:
    if not cells:
        return table["busy_us"]
    parts, whole = bar_parts(table)
    words = [duration(1000 * busy) for busy, _, _ in parts]
    width = max(map(len, words), default=0)
    spec = replace(table["busy_us"].spec, width=width + 1 + cells, unit="")
    return texts(
        spec,
        [f"{word:>{width}} {bar(each, whole, cells)}" for word, each in zip(words, parts, strict=True)],
    )


def _clock_words(shift: object, error: object) -> str | None:
    if not isinstance(shift, float):
        return None
    if not shift and not error:
        return "0"
    sign = "+" if shift > 0 else ""
    spread = f" ±{duration(1000 * error)}" if isinstance(error, float) and error else ""
    return f"{sign}{duration(1000 * shift)}{spread}"


def _marked(table: Table, column: Column) -> Column:
    """The rank with `~` where its clock is a guess, also when the clock does not fit on the screen."""
    doubtful = table["clock_shift_us"].doubtful
    if column.name != "rank" or doubtful is None or not doubtful.any():
        return column
    spec = replace(column.spec, is_number_text=True)
    marks = [
        f"{DOUBTFUL}{rank}" if doubt else str(rank)
        for rank, doubt in zip(column.values.tolist(), doubtful, strict=True)
    ]
    return texts(spec, marks)
