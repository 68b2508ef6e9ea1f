"""A flame tree as an icicle of cells, and as text that other programs read: folded stacks and speedscope's JSON."""

from __future__ import annotations

from dataclasses import field, replace
from functools import cached_property

import numpy as np
import orjson

from tracetui.drawing.format import shorten
from tracetui.drawing.hues import (
    FAMILY_HUES,
    HATCH,
    HATCH_GROUND,
    PHASE_HUES,
    Hue,
    bar,
    label_in,
    three_digits,
    whole_cells,
)
from tracetui.drawing.timeline.cells import Frame
from tracetui.drawing.timeline.palette import BOLD, GROUND, REVERSE, UNDERLINE, Palette, codes, single_width
from tracetui.frozen import frozen
from tracetui.kernel_names.slice_names import Family
from tracetui.linking.autograd import PHASE_NAMES, Phase
from tracetui.linking.groups import combinations, distinct
from tracetui.model.intervals import Int64
from tracetui.model.quantities import counted, rounded_percent, short_percent
from tracetui.model.table import Strings, Table
from tracetui.tables.flame import CAUSE, CLASS, FUNCTION, SEPARATOR, time_columns
from tracetui.text import clean

# Text.

SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def flame_text(table: Table, form: str, name: str) -> str:
    """Rows of the flame pane in one of these formats; `name` says what they are of.

    A row stands for its own time, so that filtered rows are right as well. Times below 0 are left out.
    """
    return folded(table) if form == "folded" else speedscope(table, name)


def folded(table: Table) -> str:
    """A line per row that has time of its own: its path and the time in whole nanoseconds."""
    return "".join(f"{path} {ns}\n" for path, ns in _own_times(table))


def speedscope(table: Table, name: str) -> str:
    """The file format of speedscope: a profile of samples, each of them a path and its own time in microseconds."""
    frames: dict[str, int] = {}
    samples, weights = [], []
    for path, ns in _own_times(table):
        samples.append([frames.setdefault(word, len(frames)) for word in path.split(SEPARATOR)])
        weights.append(ns / 1000)
    profile = {
        "type": "sampled",
        "name": clean(name),
        "unit": "microseconds",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": samples,
        "weights": weights,
    }
    whole = {
        "$schema": SCHEMA,
        "name": clean(name),
        "exporter": "tracetui",
        "activeProfileIndex": 0,
        "shared": {"frames": [{"name": word} for word in frames]},
        "profiles": [profile],
    }
    return orjson.dumps(whole).decode() + "\n"


def _own_times(table: Table) -> list[tuple[str, int]]:
    """The path of each row that has time of its own, and that time in ns."""
    own = np.rint(time_columns(table)[1].values.astype(np.float64) * 1000).astype(np.int64)
    paths = table["path"]
    return [(str(paths.cell(row)), int(own[row])) for row in np.flatnonzero(own > 0).tolist()]


# Cells.

_GREYS = {256: ((247, 243), (250, 246)), 16: ((7, 8), (7, 8))}
"""Colours of modules and functions on every other line, on a dark and on a light ground."""
_HITS = {256: (207, 200), 16: (13, 13)}
"""Background of what was searched for, on a dark and on a light ground."""
_EDGE, _PLAIN_EDGE = "▏", "|"
"""Between two neighbours, in the first cell of the right one."""
_PREFIXES = ("autograd::engine::evaluate_function: ", "torch::autograd::", "aten::")
MAX_NAMES = 11
"""Maximum lines of the list of names, its title among them."""
MIN_CUT_CELLS = 7
"""Cells below which a name is not cut to fit."""


@frozen(eq=True)
class FlameCell:
    """A row of the table on screen."""

    row: int
    line: int
    left: int
    width: int


@frozen(eq=True)
class Look:
    """Part of an icicle that is on screen, and its look."""

    top: int = 0
    """The row that has the whole width."""
    first: int = 0
    """Lines that are scrolled out above."""
    cursor: int = 0
    hits: frozenset[int] = frozenset()
    """The rows that were searched for."""
    plain: bool = False
    """True where the terminal has ASCII alone."""
    dark: bool = True


@frozen
class Icicle:
    """The rows of a flame tree, each before those below it."""

    table: Table
    _kept: dict[tuple[Look, int, int, int], tuple[list[FlameCell], Frame]] = field(default_factory=dict)

    def prepared(self) -> Icicle:
        """Itself, with what takes time worked out."""
        _ = self._children, self._names, self._phases, self.own
        return self

    @cached_property
    def depth(self) -> Int64:
        """Number of rows above each."""
        return self.table["depth"].values.astype(np.int64)

    @cached_property
    def total(self) -> Int64:
        """Time of each row in ns; negative times count as 0."""
        return np.maximum(np.rint(time_columns(self.table)[0].values.astype(np.float64) * 1000), 0).astype(np.int64)

    @cached_property
    def own(self) -> Int64:
        """Time of each row without those below it, likewise."""
        return np.maximum(np.rint(time_columns(self.table)[1].values.astype(np.float64) * 1000), 0).astype(np.int64)

    @cached_property
    def parent(self) -> Int64:
        """The row above each, -1 for the first."""
        parent, depth = np.full(len(self.depth), -1, np.int64), self.depth
        for level in range(1, int(depth.max(initial=0)) + 1):
            mine, above = np.flatnonzero(depth == level), np.flatnonzero(depth == level - 1)
            parent[mine] = above[np.searchsorted(above, mine) - 1]
        return parent

    @cached_property
    def _children(self) -> tuple[Int64, Int64]:
        """The rows by the one above them, in order, and where those of each row begin."""
        order = np.argsort(self.parent, kind="stable")
        return order, np.searchsorted(self.parent[order], np.arange(len(self.parent) + 1))

    def children(self, row: int) -> list[int]:
        """The rows right below one, the largest first."""
        order, heads = self._children
        below: list[int] = order[heads[row] : heads[row + 1]].tolist()
        return below

    def bare_name(self, row: int) -> str:
        """The name of a row, each letter a cell wide."""
        return single_width(clean(str(self.table["tree"].cell(row)).strip()))

    def name(self, row: int) -> str:
        """The name of a row, and how many modules or calls share it."""
        table, name = self.table, self.bare_name(row)
        many = table["merged"].cell(row) or (None if table["kind"].cell(row) == CLASS else table["calls"].cell(row))
        return f"{name} ×{many:,}" if isinstance(many, int) and many > 1 else name

    def words(self, row: int, measure: str) -> str:
        """All that is known of a row, in a line."""
        table, whole = self.table, max(int(self.total[0]), 1)
        share = rounded_percent(100 * int(self.total[row]) / whole)
        parts = [f"{three_digits(int(self.total[row]))} of {measure}, {share}"]
        if row and self.own[row] and self.children(row):
            parts.append(f"own {three_digits(int(self.own[row]))}")
        merged, calls = table["merged"].cell(row), table["calls"].cell(row)
        kind = table["kind"].cell(row)
        parts += [counted(int(str(merged)), "module")] if merged else []
        parts += [counted(int(str(calls)), "gap" if kind == CAUSE else "call")] if calls else []
        if row:
            above = int(self.parent[row])
            within = 100 * int(self.total[row]) / max(int(self.total[above]), 1)
            parts += [f"{rounded_percent(within)} of {shorten(self.bare_name(above), 30)}"] if above else []
        return " · ".join(parts)

    def matches(self, text: str) -> Int64:
        """The rows with time whose name contains a text."""
        wanted = text.casefold()
        found = self.table["tree"].matching(lambda name: wanted in name.casefold())
        return np.flatnonzero(found & (self.total > 0)) if text else np.empty(0, np.int64)

    def share(self, rows: Int64) -> float:
        """The share of the first row's time that some rows take; rows below another one are not counted twice."""
        chosen = np.zeros(len(self.depth), bool)
        chosen[rows] = True
        covered = np.zeros(len(self.depth), bool)
        for level in distinct(self.depth).tolist():
            mine = np.flatnonzero(self.depth == level)
            above = self.parent[mine]
            covered[mine] = (above >= 0) & (covered[above] | chosen[above])
        return float(self.total[chosen & ~covered].sum()) / max(int(self.total[0]), 1)

    def path(self, row: int) -> list[int]:
        """The rows above one and itself, the first one first."""
        rows = [row]
        while self.parent[rows[0]] >= 0:
            rows.insert(0, int(self.parent[rows[0]]))
        return rows

    def cells(self, top: int, width: int, lines: int) -> list[FlameCell]:
        """The rows at least a cell wide on `lines` lines, line by line; `top` has the whole width."""
        level = [FlameCell(top, 0, 0, width)] if width > 0 else []
        found: list[FlameCell] = []
        for line in range(1, lines + 1):
            found += level
            below: list[FlameCell] = []
            for cell in level:
                kids = self.children(cell.row)
                spent = self.total[kids].tolist()
                rest = max(int(self.total[cell.row]) - sum(spent), 0)
                left = cell.left
                for row, cells in zip(kids, whole_cells([*spent, rest], cell.width)[:-1], strict=True):
                    if cells:
                        below.append(FlameCell(row, line, left, cells))
                    left += cells
            level = below
        return found

    @cached_property
    def _names(self) -> tuple[Int64, Int64]:
        """A number for each name and kind, and the first row that has it."""
        names, kinds = Strings(), self.table["kind"].values.astype(np.int64)
        ids = np.array([names.intern(self.bare_name(row)) for row in range(len(self.depth))], np.int64)
        alike = combinations(ids, kinds)
        return alike.member, alike.first

    def largest_names(self, row: int, count: int) -> list[tuple[int, int]]:
        """A row of each name with most time of its own in and below a row, and that time in ns; the largest first."""
        outside = np.flatnonzero(self.depth[row + 1 :] <= self.depth[row])
        end = row + 1 + int(outside[0]) if len(outside) else len(self.depth)
        member, first = self._names
        spent = np.bincount(member[row:end], self.own[row:end], len(first))
        order = np.argsort(-spent, kind="stable")[:count]
        return [(int(first[name]), int(spent[name])) for name in order.tolist() if spent[name] > 0]

    def draw(self, look: Look, width: int, height: int, colours: Palette) -> Frame:
        """The lines that are seen, as a grid; where there is room, below them the names with most time."""
        cells, still = self._still(replace(look, cursor=-1), width, height, colours)
        frame = still.copy()
        for cell in cells:
            if cell.row == look.cursor:
                self._draw(frame, cell, look, colours)
        room = height - (cells[-1].line + 1 - look.first if cells else 0) - 2
        if room > 1 and self.children(look.cursor):
            self._list(frame, look, min(room, MAX_NAMES), colours)
        return frame

    def _still(self, look: Look, width: int, height: int, colours: Palette) -> tuple[list[FlameCell], Frame]:
        """The rows that are seen, and the lines without the cursor, kept for as long as nothing but that moves."""
        key = look, width, height, id(colours)
        if key not in self._kept:
            frame = Frame.blank(height, width)
            cells = [cell for cell in self.cells(look.top, width, look.first + height) if cell.line >= look.first]
            for cell in cells:
                self._draw(frame, cell, look, colours)
            self._kept.clear()
            self._kept[key] = cells, frame
        return self._kept[key]

    def _list(self, frame: Frame, look: Look, lines: int, colours: Palette) -> None:
        """Write the names with most time of their own in the row of the cursor on the last lines."""
        height, width = frame.shape
        largest, whole = self.largest_names(look.cursor, lines - 1), max(int(self.total[0]), 1)
        line = height - len(largest) - 1
        title = f"most time of their own in {self.name(look.cursor)}"
        frame.write(line, 0, codes(shorten(title, width)), GROUND, BOLD)
        room = max(width // 3 - 18, 0)
        for index, (row, ns) in enumerate(largest, start=line + 1):
            hue = self._hue(row)
            ink = GROUND if colours.mono else colours.quiet if hue is None else hue.colour(colours.colours, look.dark)
            share = short_percent(100 * ns / whole)
            frame.write(index, 0, codes(f"{three_digits(ns):>8} {share:>7} "))
            frame.write(index, 17, codes(bar(ns / max(largest[0][1], 1), room, look.plain)), ink)
            name = shorten(self.bare_name(row), max(width - room - 18, 0))
            frame.write(index, 18 + room, codes(name))

    def _draw(self, frame: Frame, cell: FlameCell, look: Look, colours: Palette) -> None:
        line, end = cell.line - look.first, cell.left + cell.width
        hue = self._hue(cell.row)
        fill, ground, ink = _filling(hue, self.depth[cell.row] % 2, look, colours)
        is_hit, is_current = cell.row in look.hits, cell.row == look.cursor
        attributes = BOLD if is_current or is_hit else 0
        if colours.mono:
            attributes |= (REVERSE if is_current else 0) | (UNDERLINE if is_hit else 0)
        elif is_current:
            fill, ground, ink = " ", colours.selected, int(colours.ink[colours.selected])
        elif is_hit:
            fill, ground = " ", _HITS[colours.colours][not look.dark]
            ink = int(colours.ink[ground])
        frame.write(line, cell.left, codes(fill * cell.width), ink, attributes)
        frame.bg[line, cell.left : end] = ground
        label = self._label(cell.row, cell.width)
        if label:
            padded = f" {label} "[: cell.width]
            word_ink = int(colours.ink[ground]) if ground != GROUND else GROUND
            frame.write(line, cell.left + (cell.width - len(padded)) // 2, codes(padded), word_ink, attributes)
        if cell.left > 0:
            edge = codes(_PLAIN_EDGE if look.plain else _EDGE)
            # The colour of the ground parts neighbours.
            grounds = (231, 233) if colours.colours == 256 else (15, 0)
            frame.write(line, cell.left, edge, GROUND if colours.mono else grounds[look.dark], attributes)

    def _label(self, row: int, width: int) -> str:
        name = self.name(row)
        brief = name
        for prefix in _PREFIXES:
            brief = brief.removeprefix(prefix)
        label = label_in(width, name, brief, int(self.total[row]), int(self.total[0]))
        if (label.endswith("%") and not any(letter.isalpha() for letter in label)) or not label:
            # A part of the name says more than a share alone.
            return shorten(brief, width - 2) if width >= MIN_CUT_CELLS else ""
        return label

    def _hue(self, row: int) -> Hue | None:
        """The hue of a row, None for the greys."""
        kind, family = self.table["kind"].cell(row), self.table["family"].cell(row)
        if family is not None:
            return FAMILY_HUES.get(Family[str(family).upper()], Hue.OTHER)
        if kind in (CLASS, FUNCTION) or row == 0:
            return None
        if kind == CAUSE or (kind == "runtime" and "Synchronize" in self.bare_name(row)):
            return Hue.IDLE
        return {"runtime": Hue.CPU, "overhead": Hue.NOTE}.get(str(kind), PHASE_HUES[self._phases[row]])

    @cached_property
    def _phases(self) -> list[Phase]:
        """The part of a step that the name of each row tells, or that of a row above it."""
        kinds, phases = self.table["kind"], [Phase.NONE]
        for row in range(1, len(self.depth)):
            phase = phases[self.parent[row]]
            if phase is Phase.NONE and kinds.cell(row) == "op":
                phase = Phase.FORWARD
            if kinds.cell(row) in ("op", "annotation"):
                name = self.bare_name(row)
                phase = next((each for each, pattern in PHASE_NAMES.items() if pattern.search(name)), phase)
            phases.append(phase)
        return phases


def _filling(hue: Hue | None, shade: int, look: Look, colours: Palette) -> tuple[str, int, int]:
    """The character between the words of a row, the colour behind it, and its own."""
    if colours.mono:
        if hue is None:
            return "-" if look.plain else "─", GROUND, GROUND
        return hue.value.plain if look.plain else hue.value.texture, GROUND, GROUND
    if hue is Hue.IDLE:
        ground = HATCH_GROUND[not look.dark] if colours.colours == 256 else GROUND
        mark = HATCH if colours.colours == 256 and not look.plain else hue.value.plain
        return mark, ground, hue.colour(colours.colours, look.dark)
    ground = _GREYS[colours.colours][not look.dark][shade] if hue is None else hue.colour(colours.colours, look.dark)
    return " ", ground, int(colours.ink[ground])
