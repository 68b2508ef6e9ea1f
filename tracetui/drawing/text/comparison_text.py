"""A comparison as text: its statement, and the tables of totals, kernels and operators, each cut to what is read.

JSON and CSV carry every column of every row. What is read by eye has a few columns: what it is, how often, before and
after, and B less A; names and numbers are the same.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NotRequired, TypedDict, cast

import numpy as np
from numpy.typing import NDArray
from rich.console import Group, RenderableType
from rich.text import Text

from tracetui.comparing.change_rows import SAME
from tracetui.comparing.measures import RecordingConditions, recording_conditions
from tracetui.comparing.noise import Change
from tracetui.comparing.side import Side
from tracetui.comparing.statement import SIDE_NAMES, Comparison, Several
from tracetui.drawing.format import cell, notes
from tracetui.drawing.stacked_bars import Line, rich_line, text_of
from tracetui.drawing.text import export
from tracetui.drawing.text.envelope import json_text
from tracetui.drawing.text.export import TableDocument, code, lines, prose, sentence
from tracetui.drawing.text.headline_text import HeadlineDocument, headline_line, headline_lines, legend
from tracetui.drawing.text.headline_text import document as headline_document
from tracetui.drawing.text.readable_table import TraceFacts, facts, telling
from tracetui.errors import AnalysisFailed
from tracetui.frozen import frozen
from tracetui.model import columns as col
from tracetui.model.quantities import ABSENT, count, quantity
from tracetui.model.results import Failures
from tracetui.model.table import Cell, Column, ColumnSpec, Table, texts
from tracetui.text import clean

TABLES = ("totals", "kernels", "ops")
"""The tables of a comparison."""
TITLES = {"totals": "Per part", "kernels": "GPU work", "ops": "CPU work"}
KEY = (
    *("cpu_us", "period_us", "gpu_span_us", "gpu_busy_us", "kernels", "dur_us", "launches", "gpu_idle_pct", "copies"),
    *("moved_bytes", "mfu_pct"),
)
"""Measures that a short list has before any other, in this order."""
_REMARK = "The kernel that it went into, why nothing is known, or what of its views changed."
TOLD = ("less", "more")
"""Changes that are believed."""
FULL = 1000
"""Characters of a name where there is room."""
MIN_SHOWN_US = 0.0005
"""Minimum difference in µs that is printed as more than 0 ns."""
PLAIN_WIDTH = 120
"""Columns of the bars in a pipe."""
HEAD = 2
"""Columns by which the lines of a sentence after its first are set in."""


@frozen(eq=True)
class Shown:
    """A table of the comparison, sorted and filtered, and how many of its rows are listed."""

    name: str
    table: Table
    limit: int | None
    short: bool = False
    """True where what matters least may be left out from between the others."""

    @property
    def cut(self) -> Table:
        """The rows that are listed."""
        if self.limit is None:
            return self.table
        if self.short and self.name == "totals":
            return self.table.take(_weightiest(self.table, self.limit))
        return self.table.take(np.arange(min(self.limit, len(self.table))))

    @property
    def left_out(self) -> int:
        """The number left out."""
        return len(self.table) - len(self.cut)

    @property
    def read(self) -> Table:
        """The rows shown to a person: a short list leaves out those without a change, unless none has one."""
        if not self.short or self.name == "totals":
            return self.cut
        changed = np.flatnonzero(~is_unchanged(self.table)) if len(self.table) else np.empty(0, np.int64)
        kept = self.table.take(changed) if len(changed) else self.table
        return kept if self.limit is None else kept.take(np.arange(min(self.limit, len(kept))))

    @property
    def readable(self) -> Table:
        """The comparison for reading by eye; the statement has the notes of a short list."""
        readable = comparison_readable(self.name, self.read)
        return replace(readable, note="") if self.short and len(readable) else readable

    @property
    def unread(self) -> int:
        """The number of rows that are not printed for reading."""
        return len(self.table) - len(self.read)


def is_unchanged(table: Table) -> NDArray[np.bool_]:
    """Mask of the rows of kernels or operators that took the same time to the nanosecond."""
    change = table["change_us"].values.astype(np.float64)
    return np.asarray(table["mark"].equal(SAME) & (np.abs(change) < MIN_SHOWN_US))


class SideFacts(TraceFacts):
    """A side of a comparison: its trace, and what is compared of it; less where an analysis of it failed."""

    scope: str
    part: str
    parts: int
    mark: NotRequired[str]
    numbers: NotRequired[list[int]]
    verdict: NotRequired[str | None]
    compiled: NotRequired[bool]
    compiled_parts: NotRequired[int]
    cuda_graphs: NotRequired[bool]
    torch: NotRequired[str | None]
    workload: NotRequired[str | None]
    params: NotRequired[dict[str, str]]
    inferred: NotRequired[int]
    remark: NotRequired[str]


class ComparisonDocument(TypedDict):
    """Two sides, the statement about them, and the tables that were asked for."""

    a: SideFacts
    b: SideFacts
    headline: HeadlineDocument | None
    statement: list[str]
    totals: NotRequired[TableDocument]
    kernels: NotRequired[TableDocument]
    ops: NotRequired[TableDocument]


class PairStatement(TypedDict):
    """The first sentences about two of several sides, and the command that compares them in full."""

    a: str
    b: str
    statement: list[str]
    command: str


class SeveralDocument(TypedDict):
    """Three sides or more, each beside the first, and the table of their measures."""

    sides: list[SideFacts]
    statements: list[PairStatement]
    headline: HeadlineDocument | None
    totals: TableDocument


def as_json(comparison: Comparison, tables: Sequence[Shown]) -> str:
    """One object: the sides, the statement, and the tables with every column."""
    document: ComparisonDocument = {
        "a": facts_of(comparison.failures, comparison.a),
        "b": facts_of(comparison.failures, comparison.b),
        "headline": _headline_document(comparison),
        "statement": list(map(clean, comparison.sentences)),
    }
    shown_tables = {shown.name: export.table_document(replace(shown.cut, headline="")) for shown in tables}
    columns = (column.spec for shown in tables for column in shown.table.columns)
    return json_text("compare", {**document, **shown_tables}, columns)


def facts_of(failures: Failures, side: Side) -> SideFacts:
    """The identity of a side in JSON; where that fails, that of its file."""
    known = {**facts(side.trace), "scope": clean(side.scope), "part": side.part_kind, "parts": len(side)}
    found = failures.make_or(f"The description of {clean(side.name)}", lambda: side_facts(side), lambda _: known)
    return cast(SideFacts, found)


def side_facts(side: Side) -> dict[str, Any]:
    """The identity of a side in JSON."""
    conditions = recording_conditions(side)
    return {
        **facts(side.trace),
        "scope": clean(side.scope),
        "part": side.part_kind,
        "parts": len(side),
        "numbers": side.number.tolist(),
        "verdict": conditions.verdict,
        "compiled": conditions.compiled,
        "compiled_parts": conditions.compiled_parts,
        "cuda_graphs": conditions.graphs,
        "torch": conditions.torch and clean(conditions.torch),
        "workload": conditions.workload and clean(conditions.workload),
        "params": {clean(key): clean(value) for key, value in conditions.params.items()},
        "inferred": side.inferred(),
        "remark": clean(side.remark),
    }


def as_markdown(comparison: Comparison, tables: Sequence[Shown]) -> str:
    """The statement as a list and the tables below it, to be pasted into a pull request."""
    named = (("A", comparison.a), ("B", comparison.b))
    sides = [
        f"{mark}: {code(clean(side.name))}, {prose(side_words(comparison.failures, side))}" for mark, side in named
    ]
    parts = [" · ".join(["**Comparison**, from A to B", *sides])]
    parts += [f"**{prose(text_of(line))}**" for line in first_sight(comparison, None)[:1]]
    parts.append("\n".join(f"- {sentence(clean(line))}" for line in comparison.sentences))
    for shown in _worth_showing(tables):
        more = f" ({count(shown.unread)} more)" if shown.unread else ""
        parts.append("\n\n".join([f"**{TITLES[shown.name]}**{more}", *_markdown_table(shown)]))
    return "\n\n".join(parts) + "\n"


def _markdown_table(shown: Shown) -> list[str]:
    """The table and what must be known of it; names stand in full, since a page has room for them."""
    table = shown.readable
    if not len(table):
        return [prose(f"No rows. {clean(table.note)}".strip())]
    body = "\n".join(lines(table, telling(table), FULL))
    return [body, *map(prose, notes(table))]


def as_plain(comparison: Comparison, tables: Sequence[Shown]) -> str:
    """Everything as aligned text for a pipe."""
    parts = []
    if len(tables) > 1:
        seen = [text_of(line).rstrip() for line in first_sight(comparison, PLAIN_WIDTH)]
        about = [*seen, "", *head(comparison)] if seen else head(comparison)
        parts.append("\n".join([*about, "", *map(bullet, comparison.sentences)]))
    for shown in _worth_showing(tables):
        title = [_title(shown)] if len(tables) > 1 else []
        body = export.render(shown.readable, comparison.a.trace, shown.name, "table").rstrip("\n")
        parts.append("\n".join([*title, body]))
    return "\n\n".join(parts) + "\n"


def as_rich(comparison: Comparison, tables: Sequence[Shown], width: int) -> RenderableType:
    """Everything for a terminal of `width` columns."""
    parts: list[RenderableType] = []
    if len(tables) > 1:
        seen = [rich_line(line) for line in first_sight(comparison, width)]
        parts += [*seen, Text()] if seen else []
        parts += [Text(line, style="dim") for each in head(comparison) for line in wrapped(each, width, HEAD)]
        parts.append(Text())
        for place, line_text in enumerate(comparison.sentences):
            parts += [Text(line, style="" if place else "bold") for line in wrapped(bullet(line_text), width, HEAD)]
    for shown in _worth_showing(tables):
        body = export.rich_table(shown.readable, comparison.a.trace, shown.name, width)
        # The title of a pane names one file.
        inner = body.renderables[1:] if isinstance(body, Group) else [body]
        parts += [*([Text()] if parts else []), Text(_title(shown), style="dim"), *inner]
    return Group(*parts)


def first_sight(comparison: Comparison | Several, width: int | None) -> list[Line]:
    """The ratio and the bars in the textures of text, with what these mean; without a width the line of two sides.

    Empty where they could not be made, which is reported with the other failures.
    """
    try:
        headline = comparison.headline
    except AnalysisFailed:
        return []
    if width is None:
        return [] if headline.is_apart else [headline_line(headline)]
    seen = headline_lines(headline, width, textured=True, labelled=False)
    return [*seen, legend(headline.sides)]


def _headline_document(comparison: Comparison | Several) -> HeadlineDocument | None:
    try:
        return headline_document(comparison.headline)
    except AnalysisFailed:
        return None


def head(comparison: Comparison) -> list[str]:
    """A line for each of the two sides."""
    return [
        f"{mark}  {clean(side.name)}: {side_words(comparison.failures, side)}"
        for mark, side in (("A", comparison.a), ("B", comparison.b))
    ]


def side_words(failures: Failures, side: Side) -> str:
    """A side of a comparison in words, or the sentence that says why that failed."""
    return failures.make_or(
        f"The description of {clean(side.name)}", lambda: in_words(recording_conditions(side)), clean
    )


def comparison_readable(name: str, table: Table) -> Table:
    """The columns that are read by eye."""
    if not table.columns:
        # It could not be made: its note says so.
        return table
    candidates = {"totals": _totals, "kernels": _kernels, "ops": _ops}[name](table)
    kept = tuple(column for column in candidates if not len(column) or not column.nulls().all())
    return Table(kept, None, table.note, {})


def _worth_showing(tables: Sequence[Shown]) -> list[Shown]:
    """Of several tables those with rows, or with a reason for having none."""
    return [shown for shown in tables if len(shown.table) or shown.table.note or len(tables) == 1]


def in_words(conditions: RecordingConditions) -> str:
    """A side in words: `3 steps, compiled, overhead-bound, NVIDIA H100, PyTorch 2.13`."""
    words = (
        "whole capture"
        if conditions.part_kind == "capture"
        else f"{conditions.parts:,} {conditions.part_kind}{'s' if conditions.parts != 1 else ''}"
    )
    compiled = "compiled" if conditions.compiled else f"{conditions.compiled_parts:,} of them compiled"
    how = [*([compiled] if conditions.compiled_parts else []), *(["CUDA graphs"] if conditions.graphs else [])]
    devices = (
        [f"{conditions.devices[0]}{f' x{len(conditions.devices)}' if len(conditions.devices) > 1 else ''}"]
        if conditions.devices
        else []
    )
    version = [f"PyTorch {conditions.torch}"] if conditions.torch else []
    return clean(", ".join([words, *how, *([conditions.verdict] if conditions.verdict else []), *devices, *version]))


def bullet(line: str) -> str:
    """A sentence of a list."""
    return f"* {clean(line)}"


def wrapped(text: str, width: int, indent: int) -> list[str]:
    """The lines of a sentence within a width, those after the first set in."""
    return textwrap.wrap(text, max(width, 20), subsequent_indent=" " * indent, break_on_hyphens=False)


def _title(shown: Shown) -> str:
    more = f" · {count(shown.unread)} more: --show {shown.name}" if shown.unread else ""
    return f"{TITLES[shown.name]}{more}"


def _weightiest(table: Table, limit: int) -> np.ndarray:
    """The rows of a short list of totals, in their order: the key measures, then what changed most."""
    rows = list(table.rows())

    def weight(place: int) -> tuple[int, float]:
        row = rows[place]
        if row["measure"] in KEY:
            return -1, KEY.index(str(row["measure"]))
        rank = 0 if row["change"] in TOLD else 1
        ratio = row["ratio"] if isinstance(row["ratio"], float) and row["ratio"] > 0 else 1.0
        return rank, -abs(float(np.log(ratio)))

    held = [place for place, row in enumerate(rows) if row["a"] or row["b"]]
    return np.array(sorted(sorted(held, key=weight)[:limit]), np.int64)


def _totals(table: Table) -> tuple[Column, ...]:
    units = [str(row["unit"]) for row in table.rows()]
    columns = []
    for name in ("a", "b", "difference"):
        values = [table[name].cell(row) for row in range(len(table))]
        words = [amount(value, unit) for value, unit in zip(values, units, strict=True)]
        columns.append(_number_texts(table[name], words))
    ratios = [table["ratio"].cell(row) for row in range(len(table))]
    columns.append(_number_texts(table["ratio"], [f"{r:.2f}" if isinstance(r, float) else ABSENT for r in ratios]))
    # The statement names what stands in the way of all of them.
    remarks = table["remark"] if len({row["remark"] for row in table.rows()}) > 1 else None
    return (table["measure"], *columns, table["change"], *([remarks] if remarks else []))


def amount(value: Cell, unit: str) -> str:
    """A number with its unit."""
    return quantity(value, unit) if isinstance(value, int | float) else ABSENT


def _kernels(table: Table) -> tuple[Column, ...]:
    """Mark, what became what, how often, before and after."""
    names = [str(row["short_name"] or row["name_a"] or row["name_b"]) for row in table.rows()]
    return (
        table["mark"],
        texts(col.SHORT_NAME.but(help="The kernel, and what it became."), names),
        _calls(table),
        *_before_after(table, "a_us", "b_us"),
        table["how"],
    )


def _ops(table: Table) -> tuple[Column, ...]:
    names = ("fused_into", "remark", "folded_change")
    remarks_by_row = zip(*(map(table[name].cell, range(len(table))) for name in names), strict=True)
    remarks = [next((str(each) for each in row if each is not None), None) for row in remarks_by_row]
    return (
        table["mark"],
        table["name"],
        _calls(table),
        *_before_after(table, "self_cpu_a_us", "self_cpu_b_us"),
        texts(col.REMARK.but(help=_REMARK), remarks),
    )


def _before_after(table: Table, before: str, after: str) -> tuple[Column, ...]:
    change = [
        None
        if (value := table["change_pct"].cell(row)) is None
        else f"{round(float(value)) or 0:+,}".replace("+0", "0")
        for row in range(len(table))
    ]
    return (
        table[before],
        table[after],
        table["change_us"],
        _number_texts(table["change_pct"], [word or ABSENT for word in change]),
    )


def _calls(table: Table) -> Column:
    """Calls in a part: one number where they are as many, else two."""
    columns = table["calls_a"], table["calls_b"]
    words = []
    for row in range(len(table)):
        before, after = (cell(each, each.cell(row)) for each in columns)
        words.append(before if before == after else f"{before} → {after}")
    return texts(replace(col.CALLS, help="Calls in a part, before and after.", is_number_text=True), words)


def _number_texts(column: Column, words: Sequence[str]) -> Column:
    """A column of numbers as words that end at the right."""
    return texts(replace(column.spec, is_number_text=True), words)


def right(words: Sequence[str], name: str) -> list[str]:
    """Words that end in one column."""
    width = max(map(len, [*words, name]), default=0)
    return [word.rjust(width) for word in words]


# Several sides beside the first as text: their names, the opening sentences of each, and one table of all.

SEVERAL_KEY = ("gpu_span_us", "gpu_busy_us", "gpu_idle_pct", "kernels", "copies", "launches", "moved_bytes") + (
    "mfu_pct",
    "cpu_us",
    "dur_us",
    "cpu_ops",
)
"""Measures of a short table, in this order."""
SIGNS = "÷ and × are factors to A, = the same, ? cannot tell, – not known"
"""Meaning of the signs beside a value."""
LEGEND = f"{SIGNS}; --format json says why."


@frozen(eq=True)
class SeveralShown:
    """The part of several sides that is printed."""

    several: Several
    table: Table
    """Rows of the totals, in the order in which they are listed."""
    commands: Sequence[str]
    """For each side after the first what prints it beside the first in full."""
    alone: bool = False
    """True where the table is all that was asked for."""
    left_out: int = 0
    """Rows that are not listed."""

    @property
    def readable(self) -> Table:
        """The table for reading by eye: a column for each side, with the factor to the first."""
        return several_readable(self.table, self.several.others)


def key_rows(table: Table) -> Table:
    """The rows that a short table has, of those that any side holds."""
    names = [str(row["measure"]) for row in table.rows()]
    held = [names.index(name) for name in SEVERAL_KEY if name in names]
    sides = [column for column in table.columns if len(column.name) == 1]
    kept = [row for row in held if any(column.cell(row) for column in sides)]
    return table.take(np.array(kept, np.int64))


def several_readable(table: Table, others: Sequence[bool]) -> Table:
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
        spec = ColumnSpec(SIDE_NAMES[place], SIDE_NAMES[place], "The middle of its parts.", is_number_text=True)
        columns.append(texts(spec, words))
    return replace(table, columns=tuple(columns))


def several_as_json(shown: SeveralShown) -> str:
    """One object: the sides, the opening sentences of each beside the first, and the table with every column."""
    others = zip(SIDE_NAMES[1:], shown.several.openings, shown.commands, strict=False)
    document: SeveralDocument = {
        "sides": [
            {"mark": mark, **facts_of(shown.several.failures, side)}
            for mark, side in zip(SIDE_NAMES, shown.several.sides, strict=False)
        ],
        "statements": [
            {"a": SIDE_NAMES[0], "b": mark, "statement": list(map(clean, sentences)), "command": clean(command)}
            for mark, sentences, command in others
        ],
        "headline": _headline_document(shown.several),
        "totals": export.table_document(replace(shown.table, headline="", doubts={})),
    }
    return json_text("compare-several", document, (column.spec for column in shown.table.columns))


def several_as_markdown(shown: SeveralShown) -> str:
    """The sides and the sentences about each as lists, the table below them."""
    table = shown.readable
    body = "\n".join(lines(table, table.columns))
    if shown.alone:
        return f"{body}\n\n{prose(LEGEND)}\n"
    named = zip(SIDE_NAMES, shown.several.sides, strict=False)
    sides = [
        f"- {mark}: {code(clean(side.name))}, {prose(side_words(shown.several.failures, side))}" for mark, side in named
    ]
    openings = [f"- {sentence(line)}" for line in _openings(shown)]
    parts = ["**Comparison** of several, each with A", "\n".join(sides), "\n".join(openings), body, prose(LEGEND)]
    full = "\n".join(f"- {code(clean(command))}" for command in shown.commands)
    return "\n\n".join([*parts, f"In full:\n\n{full}"]) + "\n"


def several_as_plain(shown: SeveralShown) -> str:
    """Everything as aligned text for a pipe."""
    body = export.render(shown.readable, shown.several.sides[0].trace, "totals", "table").rstrip("\n")
    if shown.alone:
        return f"{body}\n\n{LEGEND}\n"
    openings = "\n".join(map(bullet, _openings(shown)))
    seen = "\n".join(text_of(line).rstrip() for line in first_sight(shown.several, PLAIN_WIDTH))
    table = f"{_several_title(shown)}\n{body}"
    parts = [seen, "\n".join(_head(shown)), openings, table, "\n".join(_foot(shown))]
    return "\n\n".join(filter(None, parts)) + "\n"


def several_as_rich(shown: SeveralShown, width: int) -> RenderableType:
    """Everything for a terminal of `width` columns."""
    body = export.rich_table(shown.readable, shown.several.sides[0].trace, "totals", width)
    inner = body.renderables[1:] if isinstance(body, Group) else [body]
    if shown.alone:
        return Group(*inner, Text(LEGEND, style="dim"))
    seen = [rich_line(line) for line in first_sight(shown.several, width)]
    parts = [*seen, *([Text()] if seen else [])]
    parts += [Text(line, style="dim") for each in _head(shown) for line in wrapped(each, width, HEAD)]
    parts.append(Text())
    parts += [Text(line) for each in _openings(shown) for line in wrapped(bullet(each), width, HEAD)]
    parts += [Text(), Text(_several_title(shown), style="dim")]
    foot = [Text(line, style="dim") for each in _foot(shown) for line in wrapped(each, width, HEAD)]
    return Group(*parts, *inner, *foot)


def _head(shown: SeveralShown) -> list[str]:
    """A line for each side."""
    named = zip(SIDE_NAMES, shown.several.sides, strict=False)
    return [f"{mark}  {clean(side.name)}: {side_words(shown.several.failures, side)}" for mark, side in named]


def _openings(shown: SeveralShown) -> list[str]:
    """A line for each side after the first."""
    return [
        f"{mark}: {clean(' '.join(sentences))}"
        for mark, sentences in zip(SIDE_NAMES[1:], shown.several.openings, strict=False)
    ]


def _several_title(shown: SeveralShown) -> str:
    more = f" · {shown.left_out} more: --show totals" if shown.left_out else ""
    return f"Per part, each with A{more}"


def _foot(shown: SeveralShown) -> list[str]:
    return [LEGEND, *(f"{'In full:' if not place else '        '} {each}" for place, each in enumerate(shown.commands))]


def _factor(row: dict[str, Any], name: str) -> str:
    """`÷2.54` where the side has less, `×1.20` where it has more; empty for shares."""
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
