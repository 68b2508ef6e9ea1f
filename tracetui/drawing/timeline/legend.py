"""The legend of the colours and marks of the timeline and the lists, as a grid of cells that fits a width."""

from __future__ import annotations

from tracetui.drawing.hues import HATCH, Hue
from tracetui.drawing.timeline.cells import Frame
from tracetui.drawing.timeline.palette import (
    BOLD,
    FIRST_PHASE,
    GROUND,
    PHASES,
    REVERSE,
    UNDERLINE,
    Palette,
    codes,
)
from tracetui.frozen import frozen
from tracetui.kernel_names.slice_names import Family
from tracetui.linking.autograd import PHASE_WORDS

FAMILY_WORDS = {
    Family.GEMM: "GEMM",
    Family.ATTENTION: "attention",
    Family.REDUCTION: "reduction",
    Family.POINTWISE: "elementwise",
    Family.COPY: "copies",
    Family.COMMUNICATION: "communication",
    Family.OTHER: "other kernels",
    Family.OP: "other operators",
    Family.ANNOTATION: "annotations",
    Family.RUNTIME: "runtime calls",
    Family.PYTHON: "Python",
    Family.OVERHEAD: "profiler",
}
"""Name of the slices of each family."""

NUMBER_WORDS = {
    **{int(family): words for family, words in FAMILY_WORDS.items()},
    **{FIRST_PHASE + number: PHASE_WORDS[phase] for number, phase in enumerate(PHASES)},
}
"""The same by their number in a palette, with the operators of each phase."""

SIGNS = (
    ("▂▅", "busy share of a cell"),
    ("×9", "so many short slices, and their time"),
    ("◀▶", "related, outside the window"),
    ("▸▾", "lane folded, all rows"),
    ("▪", "lane pinned"),
    ("▼▽", "selection, its launch or kernel"),
    ("╰╮", "from a launch to its start"),
    ("▐▕", "their lanes"),
    ("◆", "measuring point"),
    ("[]", "range of time (axis), shown part (minimap)"),
    ("·", "row that is not the selection"),
    ("~", "column in doubt (Health)"),
    ("–", "not in the trace"),
)
"""Signs without a colour of their own, and what they mean."""

_GAP = 2


@frozen(eq=True)
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
    entries = [_of_family(number, colours) for number in NUMBER_WORDS]
    hatch, stipple = "▒" if colours.mono or colours.stippled else " ", "░" if colours.stippled else " "
    entries.append(_of_mark("selected", hatch, colours.selected, BOLD | UNDERLINE, colours))
    underlined = UNDERLINE | (REVERSE if colours.mono else 0)
    entries.append(_of_mark("related to it", stipple, colours.highlighted, underlined, colours))
    ink = GROUND if colours.mono else colours.idle
    # Mostly idle, and some of the time.
    sample = HATCH + Hue.IDLE.value.texture
    entries.append(LegendEntry(sample, "idle, in part", (ink,) * 2, (colours.hatch, GROUND)))
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


def _of_family(number: int, colours: Palette) -> LegendEntry:
    """Two neighbouring slices of a family."""
    words = NUMBER_WORDS[number]
    sample = "  " if colours.textures is None else chr(int(colours.textures[number])) * 2
    if colours.mono:
        return LegendEntry(sample, words, (GROUND,) * 2, (GROUND,) * 2, REVERSE)
    shades = colours.shades[number].tolist()
    return LegendEntry(sample, words, tuple(int(colours.ink[shade]) for shade in shades), tuple(shades))


def _of_mark(words: str, sign: str, colour: int, attributes: int, colours: Palette) -> LegendEntry:
    """A marked slice."""
    fg, bg = (GROUND, GROUND) if colours.mono else (int(colours.ink[colour]), colour)
    return LegendEntry(sign * 2, words, (fg,) * 2, (bg,) * 2, attributes)
