"""The dispatch chain as lines: every level with its time, its own time, and its share of the outermost op. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tracetui.drawing.name_cutting import cut_name
from tracetui.kernel_names.slice_names import short_kernel
from tracetui.linking.chains import outermost_op
from tracetui.model.quantities import duration, short_percent
from tracetui.model.trace import GPU_WORK, Kind, Trace
from tracetui.safe_text import clean
from tracetui.ui.description.styled_lines import DetailLine

MIN_SELF_CELLS = 50
"""From this width on there is room for the self time."""
MIN_SHARE_CELLS = 34
"""Below this width there is room for the total alone."""
_GAPS, _MIN_CELLS = (0, 1, 2), (9, 10, 9)
"""Cells before the total, the self time and the share, and the least width of each with these."""

_WORD = {
    Kind.CPU_OP: "op",
    Kind.ANNOTATION: "annotation",
    Kind.RUNTIME: "call",
    Kind.KERNEL: "kernel",
    Kind.MEMCPY: "copy",
    Kind.MEMSET: "memset",
    Kind.PYTHON: "python",
}


def kind_word(kind: int) -> str:
    """What a slice of a kind is called."""
    return _WORD.get(Kind(kind), "slice")


def short_name(trace: Trace, row: int) -> str:
    """A slice's name on one line, that of a kernel without namespaces and parameters."""
    name = clean(trace.name_of(row))
    return short_kernel(name) if trace.slices.kind[row] == Kind.KERNEL else name


def chain_lines(trace: Trace, chain: Sequence[int], row: int, width: int) -> list[DetailLine]:
    """A title and a line for each slice of a dispatch chain, outermost first; `row` is marked, all can be jumped to."""
    op = outermost_op(trace, chain)
    title = "dispatch chain"
    below = False
    rows = [("total", "self", "% of op" if op >= 0 else "")]
    for each in chain:
        below |= each == op
        rows.append(_numbers(trace, each, op if below else -1))
    titles, *numbers = _columns(rows, width)
    lines = [DetailLine((title + titles.rjust(width - len(title)))[:width], "label")]
    for level, (each, texts) in enumerate(zip(chain, numbers, strict=True)):
        lines.append(_line(trace, each, level, each == row, texts, width))
    return lines


def _numbers(trace: Trace, row: int, op: int) -> tuple[str, str, str]:
    """Total, self time and share of the outermost op; empty where a slice has none."""
    slices = trace.slices
    total = duration(int(slices.dur[row]))
    if Kind(int(slices.kind[row])) in GPU_WORK:
        return total, "", ""
    whole = int(slices.dur[op]) if op >= 0 else 0
    share = short_percent(100 * int(slices.dur[row]) / whole) if whole else ""
    return total, duration(int(slices.self_time[row])), share


def _columns(rows: Sequence[tuple[str, str, str]], width: int) -> list[str]:
    """The texts of each row in columns, of which none touches the next; those for which there is room."""
    if width < MIN_SHARE_CELLS:
        return [total for total, _, _ in rows]
    shown = [0, 1, 2] if width >= MIN_SELF_CELLS else [0, 2]
    cells = [max(_MIN_CELLS[column], _GAPS[column] + max(len(row[column]) for row in rows)) for column in shown]
    return ["".join(row[column].rjust(room) for column, room in zip(shown, cells, strict=True)) for row in rows]


def _line(trace: Trace, row: int, level: int, here: bool, numbers: str, width: int) -> DetailLine:
    word = _WORD.get(Kind(int(trace.slices.kind[row])), "")
    indent = " " * min(level, max(width // 5, 1))
    room = max(width - 1 - len(indent) - len(numbers) - 1, 8)
    name = cut_name(short_name(trace, row), room)
    if word and len(name) + len(word) + 1 <= room:
        name = f"{name} {word}"
    marker = "▸" if here else " "
    return DetailLine(f"{marker}{indent}{name:<{room}} {numbers}", "here" if here else "link", row)
