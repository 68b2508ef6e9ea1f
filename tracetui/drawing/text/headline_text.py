"""Sides at first sight as lines: the ratio of their times, and what each time consists of as bars on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, TypedDict

from tracetui.comparing.noise import BEYOND_NOISE, Change
from tracetui.comparing.statement import BUSY, ON_CPU, PERIOD, SIDE_NAMES, SPAN, WALL, Headline, SideTimes, Spent
from tracetui.drawing.format import shorten
from tracetui.drawing.hues import Hue
from tracetui.drawing.stacked_bars import BarPart, Line, Look, Piece, stacked, text_of
from tracetui.model.quantities import ABSENT, Scale, time_scale
from tracetui.text import clean

SPENT_HUES = {
    Spent.COMPUTE: Hue.GEMM,
    Spent.COMMUNICATION: Hue.COMMUNICATION,
    Spent.COPY: Hue.COPY,
    Spent.IDLE: Hue.IDLE,
    Spent.CPU: Hue.CPU,
}
_BRIEF = {
    Spent.COMPUTE: "comp",
    Spent.COMMUNICATION: "comm",
    Spent.COPY: "copy",
    Spent.IDLE: "idle",
    Spent.CPU: "CPU",
}
RATIO_HUES = {Change.LESS: Hue.GOOD, Change.MORE: Hue.MAJOR}
"""Faster and slower; everything else is said without a hue."""
MEANING = {
    PERIOD: "from the end of the step before on the GPU to its own",
    SPAN: "from the first kernel to the last",
    BUSY: "in which the GPU ran something",
    WALL: "from the start of a run to its end",
    ON_CPU: "without waiting for the GPU",
}
"""What the times are."""
PLURALS = {"kernel": "kernels", "operator": "operators", "copy": "copies"}
BAR_SHARE = 0.5
"""Share of the width that the longest bar takes at most."""
MIN_BAR = 16
"""Minimum cells of the longest bar, for words to stand behind it."""
TIME_FACT, COUNT_FACT, BUSY_FACT, NOISE_FACT = range(4)
"""Indices of the facts of a headline."""
MAX_NAME = 22
"""Maximum cells of the name of a side."""
GAP = "   "


def headline_line(headline: Headline, width: int | None = None) -> Line:
    """Both sides, the ratio and the facts, as many of them as fit: `unfused → fused   8.45x faster   GPU span ...`."""
    a, b = (clean(side.name) for side in headline.sides[:2])
    ratio = headline.ratios[0]
    names = f"{a} → {b}" if width is None else f"{shorten(a, max(width // 4, 8))} → {shorten(b, max(width // 4, 8))}"
    pieces = [Piece(names, Look.STRONG)]
    if ratio.words:
        hue = RATIO_HUES.get(ratio.change)
        look = Look.FILL if hue else Look.STRONG
        pieces += [Piece(GAP), Piece(f" {ratio.words} " if hue else ratio.words, look, hue)]
    room = None if width is None else width - len(text_of(pieces)) - len(GAP)
    facts = list(headline.facts)
    for index in (BUSY_FACT, COUNT_FACT, NOISE_FACT, TIME_FACT):
        if facts and room is not None and len(" · ".join(filter(None, facts))) > room:
            facts[index] = ""
    return (*pieces, Piece(GAP), Piece(" · ".join(filter(None, facts)))) if any(facts) else tuple(pieces)


def side_lines(headline: Headline, width: int, textured: bool = False, labelled: bool = True) -> list[Line]:
    """A line per side: its letter and name, time, ratio to the first, the bar, and what does not stand in the bar."""
    known = [each.time for each in headline.sides if each.time == each.time]
    scale = time_scale(known)
    names = [shorten(clean(each.name), MAX_NAME) for each in headline.sides]
    times = [scale.one(each.time) if each.time == each.time else ABSENT for each in headline.sides]
    ratios = [_brief_ratio(headline, index) for index in range(len(names))]
    columns = [max(map(len, column)) for column in (names, times, ratios)]
    taken = sum(columns) + 2 + 3 * len("  ")
    room = max(width - taken - 2, 1)
    for most in (2, 1, 0):
        facts = [", ".join(_facts(each, headline.of_gpu, scale)[:most]) for each in headline.sides]
        cells = min(int(width * BAR_SHARE), room - max(map(len, facts)))
        if cells >= MIN_BAR:
            break
    lines = []
    for index, side in enumerate(headline.sides):
        ratio = headline.ratios[index - 1] if index else None
        hue = RATIO_HUES.get(ratio.change) if ratio else None
        bar: Line = ()
        if side.time > 0 and headline.slower > 0:
            length = max(round(cells * side.time / headline.slower), 1)
            parts = [BarPart(SPENT_HUES[each], each.value, _BRIEF[each], 1000 * us) for each, us in side.spent]
            bar = stacked(parts, length, 1000 * side.time, textured, labelled, lambda ns: scale.one(ns / 1000))
        behind = facts[index]
        lines.append(
            (
                Piece("  " if headline.is_apart else f"{SIDE_NAMES[index]} ", Look.STRONG),
                Piece(f"{names[index]:<{columns[0]}}  {times[index]:>{columns[1]}}  "),
                Piece(f"{ratios[index]:>{columns[2]}}", Look.INK if hue else Look.PLAIN, hue),
                Piece("  "),
                *bar,
                Piece(f"  {behind}" if behind else "", Look.DIM),
            )
        )
    return lines


def _facts(side: SideTimes, of_gpu: bool, scale: Scale) -> list[str]:
    """`36 kernels`, `busy 188 µs`."""
    number, what = side.count, "kernel" if of_gpu else "operator"
    if of_gpu and not number and side.copies:
        number, what = side.copies, "copy"
    words = [f"{number:,g} {what if number == 1 else PLURALS[what]}"]
    if side.busy == side.busy and side.busy != side.time:
        words.append(f"busy {scale.one(side.busy)}")
    return words


def _brief_ratio(headline: Headline, index: int) -> str:
    """`8.45x faster`, `=` for the same and `?` within noise; empty for the first."""
    if index == 0:
        return ""
    ratio = headline.ratios[index - 1]
    if ratio.change in BEYOND_NOISE:
        return ratio.words
    return {Change.SAME: "=", Change.WITHIN_NOISE: "?"}.get(ratio.change, "")


def headline_lines(headline: Headline, width: int, textured: bool = False, labelled: bool = True) -> list[Line]:
    """All of it: of two sides the line of both, the bars, of several the ratios between those after the first."""
    first = (
        headline_line(headline, width)
        if len(headline.sides) == 2
        else (Piece(f"{headline.what}{headline.per}", Look.STRONG), Piece(f", {MEANING[headline.what]}", Look.DIM))
    )
    return [first, *side_lines(headline, width, textured, labelled), *pair_lines(headline, width)]


def pair_lines(headline: Headline, width: int) -> list[Line]:
    """The ratios between the sides after the first, as many on a line as fit."""
    lines: list[list[str]] = []
    for pair in map(clean, headline.pairs):
        if lines and len(" · ".join([*lines[-1], pair])) <= width - 2:
            lines[-1].append(pair)
        else:
            lines.append([pair])
    return [(Piece("  "), Piece(" · ".join(each))) for each in lines]


def legend(sides: Sequence[SideTimes]) -> Line:
    """Meaning of the textures of the bars."""
    used = dict.fromkeys(each for side in sides for each, us in side.spent if us > 0)
    pieces = []
    for each in used:
        hue = SPENT_HUES[each]
        pieces += [Piece(hue.value.texture, Look.INK, hue), Piece(f" {each.value}  ", Look.DIM)]
    return tuple(pieces)


class SideTimesDocument(TypedDict):
    """The time of a side in µs, what it is spent on by kind, and how many kernels or operators ran."""

    name: str
    us: float | None
    spent: dict[str, float | None]
    busy_us: float | None
    kernels: NotRequired[float | None]
    operators: NotRequired[float | None]


class RatioDocument(TypedDict):
    """The time of a side by that of the first, null where it is not counted."""

    words: str
    change: str
    ratio: float | None


class HeadlineDocument(TypedDict):
    """Several sides at first sight; `ratios` has those after the first."""

    what: str
    sides: list[SideTimesDocument]
    ratios: list[RatioDocument]


def document(headline: Headline) -> HeadlineDocument:
    """The same for a script; times in µs."""
    first = headline.sides[0].time
    sides: list[SideTimesDocument] = []
    for side in headline.sides:
        spent = {each.value: _number(us) for each, us in side.spent}
        row: SideTimesDocument = {
            "name": clean(side.name),
            "us": _number(side.time),
            "spent": spent,
            "busy_us": _number(side.busy),
        }
        row["kernels" if headline.of_gpu else "operators"] = _number(side.count)
        sides.append(row)
    return {
        "what": headline.what,
        "sides": sides,
        "ratios": [
            {
                "words": ratio.words,
                "change": ratio.change.value,
                "ratio": _number(side.time / first) if ratio.change in BEYOND_NOISE and first else None,
            }
            for ratio, side in zip(headline.ratios, headline.sides[1:], strict=True)
        ],
    }


def _number(value: float) -> float | None:
    return round(value, 3) if value == value else None
