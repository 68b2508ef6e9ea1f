"""What the details say about a row of a comparison, as lines: names in full, how matched, times per part. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tracetui.analysis.comparing.changes.part_times import part_times
from tracetui.analysis.comparing.comparison import Comparison
from tracetui.analysis.comparing.sides.measures import measures
from tracetui.analysis.comparing.sides.side import CAPTURE, Side
from tracetui.drawing.text.summary_words import words
from tracetui.model.quantities import ABSENT, count, duration, percent, quantity, size
from tracetui.model.table import Cell, Table
from tracetui.safe_text import clean
from tracetui.ui.compare.change_tables import signed
from tracetui.ui.compare.compare_list import KERNELS, OPS
from tracetui.ui.compare.compare_words import MARKS, NO_PARTNER, ROW_PARTNERS, place_words
from tracetui.ui.compare.shown_part import ShownPart
from tracetui.ui.description.chain_lines import short_name
from tracetui.ui.description.styled_lines import Fact, Line, fact_lines, folded

PARTS = 40
"""So many parts are told one by one."""


def change_lines(told: Comparison, tab: str, row: int, said: Sequence[str], width: int) -> list[Line]:
    """The lines for a row of the whole table of a tab, and below them what the comparison says in all."""
    lines: list[Line] = []
    if row >= 0:
        table = {KERNELS: lambda: told.kernels, OPS: lambda: told.ops}.get(tab, lambda: told.totals)()
        title, facts = _of_row(told, tab, table, row)
        lines = [Line(piece, "title") for piece in folded(clean(title), width)]
        for fact in facts:
            lines += fact_lines(fact, width)
        lines += _names(table.row(row), width)
    return [*lines, *_statement(said, width, bool(lines))]


def slice_lines(side: int, shown: ShownPart, row: int, partners: str, width: int) -> list[Line]:
    """The same as lines above the details of its change."""
    slices, other = shown.side.trace.slices, MARKS[1 - side]
    lines = [Line(piece, "title") for piece in folded(clean(short_name(shown.side.trace, row)), width)]
    facts = [
        Fact(f"in {MARKS[side]}", place_words(shown, row)),
        Fact("starts at", duration(int(slices.start[row]) - shown.start)),
        Fact("lasts", duration(int(slices.dur[row]))),
    ]
    if partners == NO_PARTNER:
        facts.append(Fact(f"in {other}", "nothing goes with it"))
    elif partners == ROW_PARTNERS:
        facts.append(Fact(f"in {other}", "no partner of its own: what its whole row became is lit"))
    return [*lines, *(line for fact in facts for line in fact_lines(fact, width))]


def _of_row(told: Comparison, tab: str, table: Table, row: int) -> tuple[str, Iterator[Fact]]:
    cells = table.row(row)
    if tab == KERNELS:
        return str(cells["short_name"] or cells["name_a"] or cells["name_b"]), _kernel_facts(told, cells, row)
    if tab == OPS:
        return str(cells["name"]), _op_facts(told, cells)
    return words(str(cells["measure"])), _total_facts(told, cells)


def _kernel_facts(told: Comparison, cells: Mapping[str, Cell], row: int) -> Iterator[Fact]:
    yield from _change_facts(cells, ("a_us", "b_us"), told)
    for label, name in (("matched by", "how"), ("operator", "op"), ("family", "family")):
        if cells.get(name):
            yield Fact(label, clean(str(cells[name])))
    yield from _byte_facts(cells)
    changes = told.kernel_changes
    for letter, side, instances in (("A", told.a, changes.rows_a), ("B", told.b, changes.rows_b)):
        if len(side) > 1 and len(instances[row]):
            times = part_times(side, instances[row], np.zeros(len(instances[row]), np.int64), 1)
            told_us = [ABSENT if value != value else duration(value) for value in times[:PARTS, 0].tolist()]
            yield _numbered(letter, side, told_us)


def _op_facts(told: Comparison, cells: Mapping[str, Cell]) -> Iterator[Fact]:
    yield from _change_facts(cells, ("self_cpu_a_us", "self_cpu_b_us"), told)
    whole = [_us(cells[f"cpu_{side}_us"]) if cells[f"calls_{side}"] else ABSENT for side in "ab"]
    yield Fact("with what it calls", f"{whole[0]} in A, {whole[1]} in B")
    for label, name in (("kind", "kind"), ("fused into", "fused_into"), ("within it", "folded_change"),
                        ("folded into it", "folded"), ("remark", "remark")):  # fmt: skip
        if cells.get(name):
            yield Fact(label, clean(str(cells[name])))


def _total_facts(told: Comparison, cells: Mapping[str, Cell]) -> Iterator[Fact]:
    name, unit = str(cells["measure"]), str(cells["unit"] or "")
    yield Fact("what", clean(str(cells.get("about") or "")))
    for label, column in (("A", "a"), ("B", "b"), ("B less A", "difference")):
        value = cells[column]
        if isinstance(value, int | float):
            yield Fact(label, quantity(value, unit))
    yield Fact("change", clean(str(cells["change"])))
    if cells.get("remark"):
        yield Fact("remark", clean(str(cells["remark"])))
    for letter, side in (("A", told.a), ("B", told.b)):
        found = measures(side).get(name)
        if found is not None and len(side) > 1:
            values = [quantity(value, unit) if value == value else ABSENT for value in found.values[:PARTS].tolist()]
            yield _numbered(letter, side, values)


def _change_facts(cells: Mapping[str, Cell], times: tuple[str, str], told: Comparison) -> Iterator[Fact]:
    """What became of it, what that saves, and what it took before and after."""
    saves, noise, change = cells["saves_us"], cells.get("noise_us"), cells.get("change_pct")
    text = signed(str(cells["mark"]), saves)
    if isinstance(saves, float) and saves:
        text += f": {'saves' if saves > 0 else 'costs'} {_us(abs(saves))}"
    if isinstance(change, float):
        text += f", {'+' if change > 0 else ''}{percent(change)}"
    yield Fact("change", text)
    if isinstance(noise, float):
        yield Fact("noise", f"{_us(noise)}: by so much {told.a.part_kind}s of one side differ")
    for letter, column, calls in (("A", times[0], "calls_a"), ("B", times[1], "calls_b")):
        value, number = cells[column], cells[calls]
        if isinstance(value, float) and isinstance(number, int | float) and number:
            plural = "" if number == 1 else "s"
            yield Fact(letter, f"{_us(value)} in {_often(number)} call{plural}")
        else:
            yield Fact(letter, "not there")


def _byte_facts(cells: Mapping[str, Cell]) -> Iterator[Fact]:
    before, after = cells.get("a_bytes"), cells.get("b_bytes")
    saved = cells.get("saved_bytes")
    if isinstance(before, int | float) or isinstance(after, int | float):
        told = [size(value) if isinstance(value, int | float) else ABSENT for value in (before, after)]
        more = f", {size(saved)} saved" if isinstance(saved, int | float) and saved > 0 else ""
        yield Fact("least bytes moved", f"{told[0]} in A, {told[1]} in B{more}")


def _numbered(letter: str, side: Side, values: Sequence[str]) -> Fact:
    """Values with the numbers of their steps or runs."""
    told = " · ".join(f"{number}: {value}" for number, value in zip(side.number.tolist(), values, strict=False))
    more = f" and {count(len(side) - len(values))} more" if len(side) > len(values) else ""
    what = "" if side.part_kind == CAPTURE else f" by {side.part_kind}"
    return Fact(f"{letter}{what}", f"{told}{more}")


def _names(cells: Mapping[str, Cell], width: int) -> list[Line]:
    """Both names in full, once where they are the same."""
    before, after = cells.get("name_a"), cells.get("name_b")
    named = [("name in A and B", before)] if before == after else [("name in A", before), ("name in B", after)]
    lines: list[Line] = []
    for label, name in named:
        if name:
            lines += [Line(""), Line(label, "label"), *map(Line, folded(clean(str(name)), width))]
    return lines


def _statement(said: Sequence[str], width: int, below: bool) -> list[Line]:
    if not said:
        return []
    lines = [Line(""), Line("in all", "label")] if below else []
    for sentence in said:
        lines += [*map(Line, folded(clean(sentence), width)), Line("")]
    return lines[:-1]


def _us(value: Cell) -> str:
    return duration(1000 * value) if isinstance(value, int | float) else ABSENT


def _often(number: float) -> str:
    return count(number) if float(number).is_integer() else f"{np.round(number, 1):g}"
