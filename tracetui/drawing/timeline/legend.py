"""The legend of the colours and marks of the timeline and the lists, as a grid of cells that fits a width."""

from __future__ import annotations

from dataclasses import dataclass

from tracetui.drawing.timeline.cells import Frame
from tracetui.drawing.timeline.palette import BOLD, GROUND, IDLE_WORDS, REVERSE, UNDERLINE, Palette, codes
from tracetui.kernel_names.slice_names import Family

FAMILY_WORDS = {
    Family.GEMM: "matrix products",
    Family.ATTENTION: "attention",
    Family.REDUCTION: "reductions",
    Family.POINTWISE: "pointwise",
    Family.COPY: "copies",
    Family.COMMUNICATION: "communication",
    Family.OTHER: "other kernels",
    Family.OP: "operators",
    Family.ANNOTATION: "annotations",
    Family.RUNTIME: "runtime calls",
    Family.PYTHON: "Python",
    Family.OVERHEAD: "profiler",
}
"""Name of the slices of each family."""

SIGNS = (
    ("▂▅", "busy share of a cell"),
    ("◀▶", "related, outside the window"),
    ("▸▾", "lane folded, all rows"),
    ("▪", "lane pinned"),
    ("▼▽", "selection, its launch or kernel"),
    ("▐▕", "their lanes"),
    ("◆", "measuring point"),
    ("[]", "range of time (axis), shown part (minimap)"),
    ("·", "row that is not the selection"),
    ("~", "column in doubt (Health)"),
    ("–", "not in the trace"),
)
"""Signs without a colour of their own, and what they mean."""

_GAP = 2


@dataclass(frozen=True)
class LegendEntry:
    """A sample of cells, and what it means."""

    sample: str
    words: str
    fg: tuple[int, ...]
    """Text colours of the cells of the sample."""
    bg: tuple[int, ...]
    """Backgrounds of them."""
    attributes: int = 0

    @property
    def cells(self) -> int:
        """Cells that it takes, with the gap behind it."""
        return len(self.sample) + 1 + len(self.words) + _GAP


def legend_entries(colours: Palette) -> list[LegendEntry]:
    """Everything that has a meaning of its own, in the colours that slices are drawn in."""
    entries = [_of_family(family, colours) for family in Family]
    hatch, stipple = "▒" if colours.mono or colours.stippled else " ", "░" if colours.stippled else " "
    entries.append(_of_mark("selected", hatch, colours.selected, BOLD | UNDERLINE, colours))
    underlined = UNDERLINE | (REVERSE if colours.mono else 0)
    entries.append(_of_mark("related to it", stipple, colours.highlighted, underlined, colours))
    for words, colour in zip(IDLE_WORDS, colours.idle.tolist(), strict=True):
        entries.append(LegendEntry("╌╌", words, (GROUND if colours.mono else colour,) * 2, (GROUND,) * 2))
    return entries + [LegendEntry(sign, words, (GROUND,) * 2, (GROUND,) * 2, BOLD) for sign, words in SIGNS]


def legend_lines(colours: Palette, width: int) -> list[list[LegendEntry]]:
    """The entries, broken into lines of a width in cells."""
    lines: list[list[LegendEntry]] = [[]]
    taken = 0
    for entry in legend_entries(colours):
        if lines[-1] and taken + entry.cells - _GAP > width:
            lines.append([])
            taken = 0
        lines[-1].append(entry)
        taken += entry.cells
    return lines


def draw_legend(colours: Palette, width: int, height: int) -> Frame:
    """The legend as a grid; lines that have no room are left out."""
    frame = Frame.blank(height, width)
    for y, line in enumerate(legend_lines(colours, width)[:height]):
        x = 0
        for entry in line:
            for i, (fg, bg) in enumerate(zip(entry.fg, entry.bg, strict=True)):
                if i < len(entry.sample):
                    frame.write(y, x + i, codes(entry.sample[i]), fg, entry.attributes)
                    frame.bg[y, x + i : x + i + 1] = bg
            frame.write(y, x + len(entry.sample) + 1, codes(entry.words))
            x += entry.cells
    return frame


def _of_family(family: Family, colours: Palette) -> LegendEntry:
    """Two neighbouring slices of a family."""
    letters = "  "
    if colours.letters is not None:
        letter = chr(int(colours.letters[family]))
        letters = letter + letter.upper()
    if colours.mono:
        return LegendEntry(letters, FAMILY_WORDS[family], (GROUND,) * 2, (GROUND,) * 2, REVERSE)
    shades = colours.shades[family].tolist()
    return LegendEntry(letters, FAMILY_WORDS[family], tuple(int(colours.ink[shade]) for shade in shades), tuple(shades))


def _of_mark(words: str, sign: str, colour: int, attributes: int, colours: Palette) -> LegendEntry:
    """A marked slice."""
    fg, bg = (GROUND, GROUND) if colours.mono else (int(colours.ink[colour]), colour)
    return LegendEntry(sign * 2, words, (fg,) * 2, (bg,) * 2, attributes)
