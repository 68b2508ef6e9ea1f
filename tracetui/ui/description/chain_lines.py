"""The dispatch chain as lines: every level with its time, its own time, and its share of the outermost op. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tracetui.analysis.kernel_names import short_kernel
from tracetui.analysis.linking.chains import outermost_op
from tracetui.drawing.name_cutting import cut_name
from tracetui.model.quantities import duration, rounded_percent
from tracetui.model.trace import GPU_WORK, Kind, Trace
from tracetui.safe_text import clean
from tracetui.ui.description.styled_lines import DetailLine

MIN_SELF_CELLS = 50
"""From this width on there is room for the self time."""
MIN_SHARE_CELLS = 34
"""Below this width there is room for the total alone."""
_TIME = 9
_SHARE = 9

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
    titles = _columns("total", "self", "% of op" if op >= 0 else "", width)
    lines = [DetailLine((title + titles.rjust(width - len(title)))[:width], "label")]
    below = False
    for level, each in enumerate(chain):
        below |= each == op
        numbers = _numbers(trace, each, op if below else -1, width)
        lines.append(_line(trace, each, level, each == row, numbers, width))
    return lines


def _numbers(trace: Trace, row: int, op: int, width: int) -> str:
    slices = trace.slices
    total = duration(int(slices.dur[row]))
    if Kind(int(slices.kind[row])) in GPU_WORK:
        return _columns(total, "", "", width)
    whole = int(slices.dur[op]) if op >= 0 else 0
    share = rounded_percent(100 * int(slices.dur[row]) / whole) if whole else ""
    return _columns(total, duration(int(slices.self_time[row])), share, width)


def _columns(total: str, own: str, share: str, width: int) -> str:
    if width < MIN_SHARE_CELLS:
        return total
    own = f"{own:>{_TIME + 1}}" if width >= MIN_SELF_CELLS else ""
    return f"{total:>{_TIME}}{own}{share:>{_SHARE}}"


def _line(trace: Trace, row: int, level: int, here: bool, numbers: str, width: int) -> DetailLine:
    word = _WORD.get(Kind(int(trace.slices.kind[row])), "")
    indent = " " * min(level, max(width // 5, 1))
    room = max(width - 1 - len(indent) - len(numbers) - 1, 8)
    name = cut_name(short_name(trace, row), room)
    if word and len(name) + len(word) + 1 <= room:
        name = f"{name} {word}"
    marker = "▸" if here else " "
    return DetailLine(f"{marker}{indent}{name:<{room}} {numbers}", "here" if here else "link", row)
