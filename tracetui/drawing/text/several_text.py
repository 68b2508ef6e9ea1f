"""Several sides beside the first as text: what they are, what is said first of each, and one table of them all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import orjson
from rich.console import Group, RenderableType
from rich.text import Text

from tracetui.comparing.noise import Change
from tracetui.comparing.several import SIDE_NAMES, Several
from tracetui.drawing.text import export
from tracetui.drawing.text.comparison_text import HEAD, amount, bullet, facts_of, right, side_words, wrapped
from tracetui.drawing.text.markdown import code, lines, prose, sentence
from tracetui.model.table import Column, ColumnSpec, Table, texts
from tracetui.safe_text import clean

KEY = ("gpu_span_us", "gpu_busy_us", "gpu_idle_pct", "kernels", "copies", "launches", "moved_bytes") + (
    "cpu_us",
    "dur_us",
    "cpu_ops",
)
"""Measures of a short table, in this order."""
SIGNS = "÷ and × are factors to A, = the same, ? cannot tell, – not known"
"""What the signs beside a value mean."""
LEGEND = f"{SIGNS}; --format json says why."


@dataclass(frozen=True)
class SeveralShown:
    """What of several sides is printed."""

    told: Several
    table: Table
    """Rows of the totals, in the order in which they are told."""
    commands: Sequence[str]
    """For each side after the first what prints it beside the first in full."""
    alone: bool = False
    """Whether the table is all that was asked for."""
    left_out: int = 0
    """Rows that are not told."""

    @property
    def readable(self) -> Table:
        """The table for reading by eye: a column for each side, with the factor to the first."""
        return readable(self.table, self.told.others)


def key_rows(table: Table) -> Table:
    """The rows that a short table has, of those that any side holds."""
    names = [str(row["measure"]) for row in table.rows()]
    held = [names.index(name) for name in KEY if name in names]
    sides = [column for column in table.columns if len(column.name) == 1]
    kept = [row for row in held if any(column.cell(row) for column in sides)]
    return table.take(np.array(kept, np.int64))


def readable(table: Table, others: Sequence[bool]) -> Table:
    """A column of words for each side, numbers at its right end; those after the first with their factors.

    `others` says which sides are another program, of which a factor says nothing.
    """
    if not table.columns:
        # It could not be made: its note says so.
        return table
    columns = [table["measure"]]
    for place, is_other in enumerate(others):
        name = SIDE_NAMES[place].lower()
        rows = list(table.rows())
        words = right([amount(row[name], str(row["unit"])) for row in rows], "")
        if place and not is_other:
            factors = [_factor(row, name) for row in rows]
            width = max(map(len, factors), default=0)
            words = [f"{word} {factor.ljust(width)}" for word, factor in zip(words, factors, strict=True)]
        columns.append(_column(SIDE_NAMES[place], words))
    return replace(table, columns=tuple(columns))


def as_json(shown: SeveralShown) -> str:
    """One object: the sides, what is said first of each beside the first, and the table with every column."""
    made = orjson.loads(export.render(shown.table, shown.told.sides[0].trace, "totals", "json"))
    others = zip(SIDE_NAMES[1:], shown.told.openings, shown.commands, strict=False)
    document: dict[str, Any] = {
        "sides": [
            {"mark": mark, **facts_of(shown.told.failures, side)}
            for mark, side in zip(SIDE_NAMES, shown.told.sides, strict=False)
        ],
        "statements": [
            {"a": SIDE_NAMES[0], "b": mark, "statement": list(map(clean, said)), "command": clean(command)}
            for mark, said, command in others
        ],
        "totals": {key: made[key] for key in ("columns", "rows", "note") if key in made},
    }
    return orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE).decode()


def as_markdown(shown: SeveralShown) -> str:
    """The sides and what is said of each as lists, the table below them."""
    table = shown.readable
    body = "\n".join(lines(table, table.columns))
    if shown.alone:
        return f"{body}\n\n{prose(LEGEND)}\n"
    named = zip(SIDE_NAMES, shown.told.sides, strict=False)
    sides = [
        f"- {mark}: {code(clean(side.name))}, {prose(side_words(shown.told.failures, side))}" for mark, side in named
    ]
    said = [f"- {sentence(line)}" for line in _said(shown)]
    parts = ["**Comparison** of several, each with A", "\n".join(sides), "\n".join(said), body, prose(LEGEND)]
    full = "\n".join(f"- {code(clean(command))}" for command in shown.commands)
    return "\n\n".join([*parts, f"In full:\n\n{full}"]) + "\n"


def as_plain(shown: SeveralShown) -> str:
    """Everything as aligned text for a pipe."""
    body = export.render(shown.readable, shown.told.sides[0].trace, "totals", "table").rstrip("\n")
    if shown.alone:
        return f"{body}\n\n{LEGEND}\n"
    said = "\n".join(map(bullet, _said(shown)))
    return "\n\n".join(["\n".join(_head(shown)), said, f"{_title(shown)}\n{body}", "\n".join(_foot(shown))]) + "\n"


def as_rich(shown: SeveralShown, width: int) -> RenderableType:
    """Everything for a terminal of `width` columns."""
    body = export.rich_table(shown.readable, shown.told.sides[0].trace, "totals", width)
    inner = body.renderables[1:] if isinstance(body, Group) else [body]
    if shown.alone:
        return Group(*inner, Text(LEGEND, style="dim"))
    parts = [Text(line, style="dim") for each in _head(shown) for line in wrapped(each, width, HEAD)]
    parts.append(Text())
    parts += [Text(line) for each in _said(shown) for line in wrapped(bullet(each), width, HEAD)]
    parts += [Text(), Text(_title(shown), style="dim")]
    foot = [Text(line, style="dim") for each in _foot(shown) for line in wrapped(each, width, HEAD)]
    return Group(*parts, *inner, *foot)


def _head(shown: SeveralShown) -> list[str]:
    """What the sides are, a line each."""
    named = zip(SIDE_NAMES, shown.told.sides, strict=False)
    return [f"{mark}  {clean(side.name)}: {side_words(shown.told.failures, side)}" for mark, side in named]


def _said(shown: SeveralShown) -> list[str]:
    """A line for each side after the first."""
    return [f"{mark}: {clean(' '.join(said))}" for mark, said in zip(SIDE_NAMES[1:], shown.told.openings, strict=False)]


def _title(shown: SeveralShown) -> str:
    more = f" · {shown.left_out} more: --show totals" if shown.left_out else ""
    return f"Per part, each with A{more}"


def _foot(shown: SeveralShown) -> list[str]:
    return [LEGEND, *(f"{'In full:' if not place else '        '} {each}" for place, each in enumerate(shown.commands))]


def _factor(row: dict[str, Any], name: str) -> str:
    """`÷2.54` of what is less by that factor, `×1.20` of what is more; of a share none."""
    match row[f"{name}_change"]:
        case Change.SAME.value:
            return "="
        case Change.WITHIN_NOISE.value:
            return "?"
        case Change.LESS.value | Change.MORE.value if row["unit"] != "%" and row[f"{name}_ratio"]:
            ratio = float(row[f"{name}_ratio"])
            return f"÷{1 / ratio:,.2f}" if ratio < 1 else f"×{ratio:,.2f}"
        case _:
            return ""


def _column(name: str, words: Sequence[str]) -> Column:
    return texts(ColumnSpec(name, name, "The middle of its parts.", is_number_text=True), list(words))
