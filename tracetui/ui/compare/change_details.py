"""The details of a row of a comparison, and of a slice that was walked to, as lines of text. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tracetui.comparing.change_rows import CANNOT_TELL
from tracetui.comparing.kernel_changes import part_times
from tracetui.comparing.measures import measures
from tracetui.comparing.noise import ASSUMED_NOISE
from tracetui.comparing.side import CAPTURE, Side
from tracetui.comparing.statement import Comparison
from tracetui.drawing.text.readable_table import words
from tracetui.model.quantities import ABSENT, count, duration, percent, quantity, size
from tracetui.model.table import Cell
from tracetui.text import clean
from tracetui.ui.compare.compare_list import KERNELS, OPS, signed, table_of
from tracetui.ui.compare.shown_part import MARKS, NO_PARTNER, ROW_PARTNERS, ShownPart, place_words
from tracetui.ui.trace.slice_description import short_name
from tracetui.ui.widgets.details import DetailFact, DetailLine, fact_lines, folded

MAX_LISTED_PARTS = 40
"""Maximum steps or runs listed one by one."""


def change_lines(comparison: Comparison, tab: str, row: int, sentences: Sequence[str], width: int) -> list[DetailLine]:
    """The lines for a row of the whole table of a tab, and below them the statement about the comparison."""
    lines: list[DetailLine] = []
    if row >= 0:
        cells = table_of(comparison, tab).row(row)
        if tab == KERNELS:
            title, facts = (
                cells["short_name"] or cells["name_a"] or cells["name_b"],
                _kernel_facts(comparison, cells, row),
            )
        elif tab == OPS:
            title, facts = cells["name"], _op_facts(comparison, cells)
        else:
            title, facts = words(str(cells["measure"])), _total_facts(comparison, cells)
        lines = [DetailLine(piece, "title") for piece in folded(clean(str(title)), width)]
        for fact in facts:
            lines += fact_lines(fact, width)
        lines += _names(cells, width)
    return [*lines, *_statement(sentences, width, bool(lines))]


def slice_lines(side: int, part: ShownPart, row: int, partners: str, width: int) -> list[DetailLine]:
    """The same as lines above the details of its change."""
    slices, other = part.side.trace.slices, MARKS[1 - side]
    lines = [DetailLine(piece, "title") for piece in folded(clean(short_name(part.side.trace, row)), width)]
    facts = [
        DetailFact(f"in {MARKS[side]}", place_words(part, row)),
        DetailFact("starts at", duration(int(slices.start[row]) - part.start)),
        DetailFact("lasts", duration(int(slices.dur[row]))),
    ]
    if partners == NO_PARTNER:
        facts.append(DetailFact(f"in {other}", "no match on the other side"))
    elif partners == ROW_PARTNERS:
        facts.append(DetailFact(f"in {other}", "no match of its own: what its whole row became is highlighted"))
    return [*lines, *(line for fact in facts for line in fact_lines(fact, width))]


def _kernel_facts(comparison: Comparison, cells: Mapping[str, Cell], row: int) -> Iterator[DetailFact]:
    yield from _change_facts(cells, ("a_us", "b_us"), comparison)
    for label, name in (("matched by", "how"), ("operator", "op"), ("family", "family")):
        if cells.get(name):
            yield DetailFact(label, clean(str(cells[name])))
    yield from _byte_facts(cells)
    changes = comparison.kernel_changes
    for letter, side, instances in (("A", comparison.a, changes.rows_a), ("B", comparison.b, changes.rows_b)):
        if len(side) > 1 and len(instances[row]):
            times = part_times(side, instances[row], np.zeros(len(instances[row]), np.int64), 1)
            durations = [
                ABSENT if value != value else duration(value) for value in times[:MAX_LISTED_PARTS, 0].tolist()
            ]
            yield _numbered(letter, side, durations)


def _op_facts(comparison: Comparison, cells: Mapping[str, Cell]) -> Iterator[DetailFact]:
    yield from _change_facts(cells, ("self_cpu_a_us", "self_cpu_b_us"), comparison)
    whole = [_us(cells[f"cpu_{side}_us"]) if cells[f"calls_{side}"] else ABSENT for side in "ab"]
    yield DetailFact("with its children", f"{whole[0]} in A, {whole[1]} in B")
    for label, name in (("kind", "kind"), ("fused into", "fused_into"), ("within it", "folded_change"),
                        ("folded into it", "folded"), ("remark", "remark")):  # fmt: skip
        if cells.get(name):
            yield DetailFact(label, clean(str(cells[name])))


def _total_facts(comparison: Comparison, cells: Mapping[str, Cell]) -> Iterator[DetailFact]:
    name, unit = str(cells["measure"]), str(cells["unit"] or "")
    yield DetailFact("meaning", clean(str(cells.get("about") or "")))
    for label, column in (("A", "a"), ("B", "b"), ("B - A", "difference")):
        value = cells[column]
        if isinstance(value, int | float):
            yield DetailFact(label, quantity(value, unit))
    yield DetailFact("change", clean(str(cells["change"])))
    if cells.get("remark"):
        yield DetailFact("remark", clean(str(cells["remark"])))
    for letter, side in (("A", comparison.a), ("B", comparison.b)):
        measured = measures(side).get(name)
        if measured is not None and len(side) > 1:
            values = [
                quantity(value, unit) if value == value else ABSENT
                for value in measured.values[:MAX_LISTED_PARTS].tolist()
            ]
            yield _numbered(letter, side, values)


def _change_facts(cells: Mapping[str, Cell], times: tuple[str, str], comparison: Comparison) -> Iterator[DetailFact]:
    """The change with its mark, B less A, and the times before and after."""
    difference, change = cells["change_us"], cells.get("change_pct")
    text = signed(str(cells["mark"]), difference)
    if isinstance(difference, float) and difference:
        text += f": {_plus(difference)}{_us(difference)}"
    if isinstance(change, float):
        text += f", {_plus(change)}{percent(change)}"
    yield DetailFact("B - A", text)
    yield DetailFact("noise", _noise_words(comparison, cells))
    for letter, column, calls in (("A", times[0], "calls_a"), ("B", times[1], "calls_b")):
        value, number = cells[column], cells[calls]
        if isinstance(value, float) and isinstance(number, int | float) and number:
            times_called = count(number) if float(number).is_integer() else f"{np.round(number, 1):g}"
            yield DetailFact(letter, f"{_us(value)} in {times_called} call{'' if number == 1 else 's'}")
        else:
            yield DetailFact(letter, "absent")


def _noise_words(comparison: Comparison, cells: Mapping[str, Cell]) -> str:
    """The noise of the time, and whether the change of this row is below it."""
    noise, change, part = cells.get("noise_us"), cells["change_us"], comparison.a.part_kind
    if not isinstance(noise, float):
        kinds = " and ".join(dict.fromkeys(f"one {side.part_kind}" for side in (comparison.a, comparison.b)))
        return f"unknown: each side is {kinds}; {100 * ASSUMED_NOISE:g} % is assumed"
    of_others = len(comparison.a) == len(comparison.b) == 1
    text = f"{_us(noise)}: so much {f'other {part}s of the file' if of_others else f'{part}s of one side'} differ"
    if cells["mark"] == CANNOT_TELL and isinstance(change, float) and abs(change) <= noise:
        return f"{text}, more than A and B do"
    return text


def _byte_facts(cells: Mapping[str, Cell]) -> Iterator[DetailFact]:
    before, after = cells.get("a_bytes"), cells.get("b_bytes")
    change = cells.get("change_bytes")
    if isinstance(before, int | float) or isinstance(after, int | float):
        sizes = [size(value) if isinstance(value, int | float) else ABSENT for value in (before, after)]
        more = f", {_plus(change)}{size(change)}" if isinstance(change, int | float) and change else ""
        yield DetailFact("minimum bytes moved", f"{sizes[0]} in A, {sizes[1]} in B{more}")


def _numbered(letter: str, side: Side, values: Sequence[str]) -> DetailFact:
    """Values with the numbers of their steps or runs."""
    numbered = " · ".join(f"{number}: {value}" for number, value in zip(side.number.tolist(), values, strict=False))
    more = f" and {count(len(side) - len(values))} more" if len(side) > len(values) else ""
    what = "" if side.part_kind == CAPTURE else f" by {side.part_kind}"
    return DetailFact(f"{letter}{what}", f"{numbered}{more}")


def _names(cells: Mapping[str, Cell], width: int) -> list[DetailLine]:
    """Both names in full, once where they are the same."""
    before, after = cells.get("name_a"), cells.get("name_b")
    named = [("name in A and B", before)] if before == after else [("name in A", before), ("name in B", after)]
    lines: list[DetailLine] = []
    for label, name in named:
        if name:
            lines += [DetailLine(""), DetailLine(label, "label"), *map(DetailLine, folded(clean(str(name)), width))]
    return lines


def _statement(sentences: Sequence[str], width: int, below: bool) -> list[DetailLine]:
    if not sentences:
        return []
    lines = [DetailLine(""), DetailLine("overall", "label")] if below else []
    for sentence in sentences:
        lines += [*map(DetailLine, folded(clean(sentence), width)), DetailLine("")]
    return lines[:-1]


def _plus(change: float) -> str:
    """A plus before what B has more of: a minus stands there by itself."""
    return "+" if change > 0 else ""


def _us(value: Cell) -> str:
    return duration(1000 * value) if isinstance(value, int | float) else ABSENT
