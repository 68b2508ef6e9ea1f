"""A set of ranks as text: what it is and who is late above one of its tables, or all of it as JSON."""

from __future__ import annotations

from typing import Any

import orjson
from rich.console import Group, RenderableType
from rich.text import Text

from tracetui.drawing.text import export
from tracetui.drawing.text.markdown import lines, sentence
from tracetui.drawing.text.origin import DECIMALS
from tracetui.drawing.text.readable_table import remarks, telling
from tracetui.model.table import Table
from tracetui.ranks.rank_set import RankSet
from tracetui.ranks.sentences import headline, title
from tracetui.ranks.sentences import remarks as set_remarks
from tracetui.safe_text import clean


def pane_name(name: str) -> str:
    """Under which name the columns of a table of ranks are ordered."""
    return "ranks" if name == "ranks" else f"ranks by {name}"


def as_json(ranks: RankSet, table: Table, name: str) -> str:
    """The rows with what is missing and left out, the clocks, and what is said of the set."""
    clocks = ranks.clocks
    document = {
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
    return orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE).decode()


def _host(ranks: RankSet, index: int) -> dict[str, Any]:
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
    """The table in aligned columns below what is said of the set, within a width unless its columns were chosen."""
    return f"{clean(title(ranks))}\n" + export.plain_rows(
        _with_headline(ranks, table), pane_name(name), width, is_chosen
    )


def as_markdown(ranks: RankSet, table: Table, is_chosen: bool = False) -> str:
    """The same as Markdown; of chosen columns all."""
    parts = [f"**{sentence(clean(title(ranks)))}**", sentence(clean(headline(ranks)))]
    columns = list(table.columns) if is_chosen else telling(table)
    parts += ["\n".join(lines(table, columns)) if len(table) else "No rows."]
    parts += [sentence(clean(text)) for text in remarks(table, columns)]
    return "\n\n".join(filter(None, parts)) + "\n"


def as_rich(ranks: RankSet, table: Table, name: str, width: int) -> RenderableType:
    """The same for a terminal of `width` columns."""
    return Group(
        Text(clean(title(ranks)), style="dim"),
        export.rich_rows(_with_headline(ranks, table), pane_name(name), width),
    )


def as_csv(table: Table) -> str:
    """The rows alone."""
    return export.csv_rows(table)


def said(ranks: RankSet) -> str:
    """The headline and what is missing, left out or not certain, for standard error."""
    return clean(" ".join([headline(ranks), *set_remarks(ranks)]))


def _with_headline(ranks: RankSet, table: Table) -> Table:
    return Table(table.columns, table.slices, table.note, table.doubts, headline(ranks))
