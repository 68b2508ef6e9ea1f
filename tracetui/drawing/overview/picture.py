"""The overview drawn: which part stands where, at every size.

Below 100 cells the parts stand in one column. From there on bars and tables stand beside what to do, steps beside
kernels, and what ran when goes from side to side. Numbers before titles are the groups that the parts open.
"""

from __future__ import annotations

from textwrap import wrap

import numpy as np

from tracetui.drawing.format import cut_name, whole_words
from tracetui.drawing.hues import (
    FAMILY_HUES,
    SEVERITY_HUES,
    Hue,
    label_in,
    share_words,
    three_digits,
    whole_cells,
)
from tracetui.drawing.overview.canvas import PLAIN, QUIET, STRONG, Canvas, Look, Pen
from tracetui.frozen import frozen
from tracetui.kernel_names.slice_names import Family
from tracetui.model.quantities import counted, rounded_percent
from tracetui.overview.facts import (
    MAKING,
    OTHER_CPU,
    Entry,
    Overview,
    left_out_words,
    length_words,
    spare_words,
    trust_words,
)
from tracetui.overview.overview_table import Strip
from tracetui.tables.step_table import CUT_BAR, scale_of_bars
from tracetui.text import clean

MIN_SIDE_BY_SIDE = 100
"""Minimum cells for two columns of parts."""
MIN_THREE_TABLES = 160
LEAD, STRIP_LEAD = 6, 9
"""Cells of the words before a bar, and before what ran when."""
MIN_BRACKETS = 24
"""Minimum cells of idle time under which its causes stand as brackets."""
BRIEF = {
    "elementwise": "elem", "communication": "comm", "reduction": "reduce", "attention": "attn", "copies": "copy",
    "other kernels": "other", "forward": "fwd", "backward": "bwd", "optimizer": "opt", "waits for the GPU": "waits",
    "operators": "ops", OTHER_CPU: "other",
}  # fmt: skip
_FAMILY_HUES = {family.name.lower(): hue for family, hue in FAMILY_HUES.items()}
_CPU_HUES = {
    "data": Hue.DATA, "optimizer": Hue.OPTIMIZER, "backward": Hue.BACKWARD, "forward": Hue.FORWARD, "wait": Hue.IDLE,
    "none": Hue.CPU,
}  # fmt: skip
_MOVES = {"copy": 1, "communication": 2}
_STEP_HUES = (Hue.GEMM, Hue.COMMUNICATION, Hue.IDLE)
_STEP_WORDS = ("compute", "communication", "idle")
Rows = list[tuple[int, Entry]]
"""Entries with their indices in the overview."""


@frozen(eq=True)
class Place:
    """A rectangle of cells."""

    x: int
    y: int
    width: int
    height: int


def hue_of(entry: Entry) -> Hue:
    """The hue of an entry's bar."""
    if entry.section in ("gpu", "kernel"):
        return _FAMILY_HUES.get(entry.key, Hue.OTHER)
    if entry.section == "cpu":
        return _CPU_HUES.get(entry.key, Hue.CPU)
    if entry.section == "todo":
        return SEVERITY_HUES.get(entry.key, Hue.NOTE)
    return {"idle": Hue.IDLE, "op": Hue.FORWARD}.get(entry.section, Hue.OTHER)


def strip_cells(width: int) -> int:
    """Cells of the axis of time in a picture of a width."""
    return max(width - 4 - STRIP_LEAD, 1)


class Picture:
    """The overview on a canvas."""

    def __init__(self, overview: Overview, strip: Strip | None, width: int, height: int, look: Look) -> None:
        self.overview, self.strip = overview, strip
        self.canvas = Canvas(width, height, look)
        self._rows: dict[str, Rows] = {}
        for index, entry in enumerate(overview.entries):
            self._rows.setdefault(entry.section, []).append((index, entry))
        (self._narrow if width < MIN_SIDE_BY_SIDE else self._wide)(width, height)
        self.canvas.items.sort(key=lambda item: item.index)

    def of(self, section: str) -> Rows:
        """The entries of a section."""
        return self._rows.get(section, [])

    @property
    def _heaviest(self) -> tuple[str, Rows]:
        """The heaviest kernels, or without a GPU operators, with their title."""
        kernels = self.of("kernel")
        if not self.overview.has_gpu:
            return "heaviest operators · own CPU time", self.of("op")
        median = self.overview.median_kernel
        return "heaviest kernels" + (f" · median {three_digits(median)}" if median else ""), kernels

    # Where the parts stand.

    def _narrow(self, width: int, height: int) -> None:
        """One column: each part with a rule above it, in as many lines as there are."""
        canvas, y = self.canvas, 0
        left_out = left_out_words(self.overview)
        if left_out:
            canvas.put(0, y, left_out, QUIET, width)
            y += 1
        title, heavy = self._heaviest
        canvas.rule(y, self._scope_title(width - 6), "4")
        y += 1 + self._bars(Place(0, y + 1, width, 3), tables=0, lines=1)
        todo = self.of("todo")
        if self.overview.has_gpu or todo:
            shown = todo[: max(min(len(todo), (height - y - 6) // 3, 4), 1)]
            canvas.rule(y, "what to do first", "3")
            y += 1 + self._brief_todo(Place(0, y + 1, width, len(shown)), shown)
        room = height - y - 1
        step_lines = self._step_lines(max(min(room // 2, 7), 2))
        if step_lines and room > 6:
            canvas.rule(y, self._steps_title, "5")
            self._steps(Place(0, y + 1, width, step_lines))
            y += 1 + step_lines
            y += self._serving(Place(0, y, width, min(len(self.of("serving")), 2)))
        if height - y - 1 >= 3:
            canvas.rule(y, title, "2")
            self._table(Place(0, y + 1, width, height - y - 2), heavy)
        self._trust(height - 1)

    def _wide(self, width: int, height: int) -> None:
        """Bars beside what to do, steps beside kernels, then what ran when."""
        canvas, y = self.canvas, 0
        left_out = left_out_words(self.overview)
        if left_out:
            canvas.put(0, y, left_out, QUIET, width)
            y += 1
        left = round(width * 0.62)
        room = height - y - 1
        tables = (6 if width >= MIN_THREE_TABLES else 5) if room >= 20 else 0
        title, heavy = self._heaviest
        upper = 2 + 4 + (tables + 1 if tables and self.overview.has_gpu else 0)
        if not self.overview.has_gpu:
            self._wide_without_gpu(Place(0, y, width, room), left, heavy)
            self._trust(height - 1)
            return
        strip_lines = max(min(round(room * 0.27), 12), 7) if self.strip is not None and room - upper >= 14 else 0
        lower = room - upper - strip_lines
        canvas.box(0, y, left, upper, self._scope_title(left - 10), "4")
        self._bars(Place(2, y + 1, left - 4, upper - 2), tables, 2 if self.overview.has_gpu else 1)
        canvas.box(left + 1, y, width - left - 1, upper, "what to do first", "3")
        self._cards(Place(left + 3, y + 1, width - left - 5, upper - 2))
        y += upper
        if lower >= 4:
            canvas.box(0, y, left, lower, self._steps_title, "5")
            kinds = len(self.of("serving"))
            used = self._steps(Place(2, y + 1, left - 4, lower - 2 - kinds))
            used += self._serving(Place(2, y + 1 + used, left - 4, kinds))
            self._where(Place(2, y + 1 + used, left - 4, lower - 2 - used))
            canvas.box(left + 1, y, width - left - 1, lower, title, "2")
            self._table(Place(left + 3, y + 1, width - left - 5, lower - 2), heavy)
            y += lower
        if strip_lines and self.strip is not None:
            canvas.box(0, y, width, strip_lines, f"when · {three_digits(self.strip.end - self.strip.start)}")
            self._when(Place(2, y + 1, width - 4, strip_lines - 2), self.strip)
        self._trust(height - 1)

    def _wide_without_gpu(self, place: Place, left: int, heavy: Rows) -> None:
        """Operators take the place of the GPU: a bar from side to side, their table beside the steps, the phases."""
        canvas, y, width = self.canvas, place.y, place.width
        canvas.box(0, y, width, 5, self._scope_title(width - 10), "4")
        self._bars(Place(2, y + 1, width - 4, 3), tables=0, lines=2)
        strip_lines = 3 if self.strip is not None and self.strip.phase_runs and place.height >= 16 else 0
        lower = place.height - 5 - strip_lines
        canvas.box(0, y + 5, left, lower, self._heaviest[0], "2")
        self._table(Place(2, y + 6, left - 4, lower - 2), heavy)
        x, room = left + 1, width - left - 1
        todo = self.of("todo")
        cards = min(2 * len(todo) + 2, lower // 2) if todo else 0
        canvas.box(x, y + 5, room, lower - cards, self._steps_title, "5")
        kinds = min(len(self.of("serving")), 4)
        used = self._steps(Place(x + 2, y + 6, room - 4, lower - cards - 2 - kinds))
        self._serving(Place(x + 2, y + 6 + used, room - 4, kinds))
        if cards:
            canvas.box(x, y + 5 + lower - cards, room, cards, "what to do first", "3")
            self._cards(Place(x + 2, y + 6 + lower - cards, room - 4, cards - 2))
        if strip_lines and self.strip is not None:
            lasted = three_digits(self.strip.end - self.strip.start)
            canvas.box(0, y + 5 + lower, width, 3, f"when · {lasted}")
            self._when(Place(2, y + 6 + lower, width - 4, 1), self.strip)

    def _scope_title(self, room: int) -> str:
        """Title of the scope with its length, and with all its times where there is room."""
        overview = self.overview
        scope = f"{overview.title} · {three_digits(overview.ns)}"
        titles = [f"{self._where_title} · {words}" for words in (length_words(overview), scope)]
        if not overview.has_gpu and self.of("op"):
            # The bar of operators has another base than that of the CPU: what they take themselves.
            titles = [f"{words} · ops by own CPU time" for words in titles] + titles
        for _, entry in self.of("mfu"):
            mfu = f"MFU {'≥ ' * (entry.key == 'bound')}{rounded_percent(100 * (entry.share or 0))}"
            titles = [f"{words} · {mfu}" for words in (*titles, scope)] + titles
        return next((words for words in titles if len(words) <= room), titles[-1])

    @property
    def _where_title(self) -> str:
        return (
            "where a step goes" if self.overview.title.startswith("step") or self.of("step") else "where the time goes"
        )

    @property
    def _steps_title(self) -> str:
        rows, overview = self.of("step"), self.overview
        if not rows:
            return "steps" if "step" in overview.pending else "no steps"
        odd = sum(bool(entry.note) for _, entry in rows)
        times = "period" if overview.has_gpu else "CPU time"
        parts = (f"steps ({overview.steps:,}) by {times}", f"{odd} off the median ▲" if odd else "", overview.overlap)
        return " · ".join(filter(None, parts))

    # What a step is spent on.

    def _bars(self, place: Place, tables: int, lines: int) -> int:
        """GPU, why it is idle, and CPU as bars on one scale, and tables of them; the lines that were used."""
        canvas, x, y = self.canvas, place.x, place.y
        room = place.width - LEAD
        if self.overview.has_gpu:
            # What computes, then what moves data, then nothing: idle time is read from the right edge.
            busy = sorted((entry for _, entry in self.of("gpu")), key=lambda entry: _MOVES.get(entry.key, 0))
            idle = [entry for _, entry in self.of("idle")]
            parts = [(e.name, BRIEF.get(e.name, e.name), e.ns or 0.0, hue_of(e)) for e in busy]
            is_made = "idle" not in self.overview.pending
            # What the families leave of the scope is idle; why is known later.
            idle_ns = sum(e.ns or 0.0 for e in idle) if is_made else self.overview.ns - sum(e.ns or 0.0 for e in busy)
            canvas.put(x, y, "GPU", STRONG)
            cells = canvas.stacked(x + LEAD, y, room, [*parts, ("IDLE", "IDLE", idle_ns, Hue.IDLE)], lines)
            y += lines
            canvas.put(x, y, "why", QUIET)
            if is_made:
                self._why(y, x + LEAD, room, *cells[-1], idle, idle_ns)
            else:
                canvas.put(x + LEAD, y, MAKING, QUIET, room)
            y += 1
        else:
            canvas.put(x, y, "ops", STRONG)
            hues = (Hue.GEMM, Hue.ATTENTION, Hue.ELEMENTWISE, Hue.REDUCTION)
            ops = [entry for _, entry in self.of("op")]
            named = [(e.name, e.name, e.ns or 0.0, hue) for e, hue in zip(ops, hues, strict=False)]
            others = sum(entry.ns or 0.0 for entry in ops[len(hues) :])
            canvas.stacked(x + LEAD, y, room, [*named, ("others", "others", others, Hue.OTHER)], lines)
            y += lines
        cpu = [entry for _, entry in self.of("cpu")]
        if cpu:
            canvas.put(x, y, "CPU", STRONG)
            order = ("data", "forward", "backward", "optimizer", "wait", "none")
            in_order = sorted(cpu, key=lambda entry: order.index(entry.key))
            canvas.stacked(
                x + LEAD, y, room, [(e.name, BRIEF.get(e.name, e.name), e.ns or 0.0, hue_of(e)) for e in in_order]
            )
            y += 1
        elif self.overview.has_gpu:
            said = (
                MAKING
                if "cpu" in self.overview.pending
                else "no CPU event in this time: what runs here was launched earlier"
            )
            canvas.put(x, y, f"CPU   {said}", QUIET, place.width)
            y += 1
        if tables and self.overview.has_gpu:
            self._three_tables(Place(x, y, place.width, min(tables + 1, place.y + place.height - y)))
        return y - place.y

    def _why(self, y: int, x: int, room: int, at: int, cells: int, idle: list[Entry], idle_ns: float) -> None:
        """The causes of idle time: brackets under it, or words where it is short."""
        canvas = self.canvas
        causes = [entry for entry in idle if entry.ns]
        if cells < MIN_BRACKETS:
            words = [f"{e.name} {three_digits(e.ns or 0)} ({share_words(e.share or 0)})" for e in causes[:3]]
            texts = [f"idle {three_digits(idle_ns)}: {' · '.join(words[:many])}" for many in range(len(words), 0, -1)]
            fitting = [text for text in texts if len(text) <= room] or texts[-1:] or ["the GPU is never idle"]
            canvas.put(x, y, fitting[0], Pen(Hue.IDLE), room)
            return
        said = "idle because of "
        if at - x >= len(said):
            canvas.put(at - len(said), y, said, QUIET)
        first = at
        for entry in causes:
            width = round((entry.ns or 0) / idle_ns * cells)
            if width < 4 or first + width > at + cells:
                continue
            inner = label_in(width, entry.name, entry.name, entry.ns or 0, self.overview.ns)
            canvas.put(first, y, f"└{inner.center(width - 2, '─')}┘", Pen(Hue.IDLE))
            first += width

    def _three_tables(self, place: Place) -> None:
        # Where steps overlap this is no time of the step's own work: the pane of steps has that.
        of_others = self.overview.overlap and self.overview.times
        groups = [
            ("GPU, other steps too" if of_others else "GPU by family", "gpu"),
            ("GPU idle because of", "idle"),
            ("CPU", "cpu"),
        ]
        count = 3 if self.canvas.width >= MIN_THREE_TABLES else 2
        width = place.width // count
        for index, (title, section) in enumerate(groups[:count]):
            x = place.x + index * width
            self.canvas.put(x, place.y, title, QUIET)
            self._rows_with_bars(Place(x, place.y + 1, width - 2, place.height - 1), self.of(section))

    def _rows_with_bars(self, place: Place, rows: Rows) -> None:
        """Name, time, share and a bar; what there is no room for as one row."""
        canvas = self.canvas
        shown = rows if len(rows) <= place.height else rows[: max(place.height - 1, 0)]
        most = max((entry.share or 0 for _, entry in rows), default=0) or 1
        longest = max((len(entry.name) for _, entry in rows), default=0)
        name = max(min(longest, 20, place.width - 19), 8)
        for line, (index, entry) in enumerate(shown):
            y = place.y + line
            x = canvas.put(place.x, y, entry.name, Pen(hue_of(entry), bold=True), name)
            x = canvas.put(x + 1, y, three_digits(entry.ns or 0), PLAIN, 7, right=True)
            x = canvas.put(x + 1, y, share_words(entry.share or 0), QUIET, 6, right=True)
            canvas.bar(x + 1, y, place.x + place.width - x - 1, (entry.share or 0) / most, hue_of(entry))
            canvas.item(index, place.x, y, name)
        rest = rows[len(shown) :]
        if rest and place.height > 0:
            ns = sum(entry.ns or 0 for _, entry in rest)
            y = place.y + len(shown)
            x = canvas.put(place.x, y, f"{len(rest)} others", QUIET, name)
            x = canvas.put(x + 1, y, three_digits(ns), QUIET, 7, right=True)
            canvas.put(x + 1, y, share_words(ns / self.overview.ns), QUIET, 6, right=True)

    # What to do first.

    def _brief_todo(self, place: Place, rows: Rows) -> int:
        """One line each: share, saving, what to do; the lines that were used."""
        canvas = self.canvas
        if not rows:
            canvas.put(place.x, place.y, spare_words(self.overview), QUIET, place.width)
            return 1
        for line, (index, entry) in enumerate(rows):
            y, pen = place.y + line, Pen(hue_of(entry), bold=True)
            self._edge(place.x, y, entry)
            x = canvas.put(place.x + 2, y, self._saving_share(entry), pen, 6, right=True)
            x = canvas.put(x + 1, y, f"≤ {three_digits(entry.ns)}" if entry.ns else "", PLAIN, 10, right=True)
            words = entry.note if entry.key != "note" and entry.note else entry.name
            canvas.put(x + 2, y, words, STRONG if line == 0 else PLAIN, place.width - x - 2)
            canvas.item(index, x + 2, y, min(len(words), place.width - x - 2))
        return len(rows)

    def _cards(self, place: Place) -> None:
        """Share and saving with a bar, what to do, and why: three lines each, or two where there is no saving."""
        canvas, y, end = self.canvas, place.y, place.y + place.height
        rows = self.of("todo")
        if not rows:
            words = spare_words(self.overview)
            for line, text in enumerate(wrap(words, max(place.width, 10))[: place.height]):
                canvas.put(place.x, place.y + line, text, QUIET)
            return
        most = max((entry.ns or 0 for _, entry in rows), default=0) or 1
        for number, (index, entry) in enumerate(rows):
            needed = 3 if entry.ns else 2
            if y + needed > end:
                left = len(rows) - number
                if y < end:
                    canvas.put(place.x + 2, y, f"{left} more", QUIET)
                return
            if entry.ns:
                self._edge(place.x, y, entry)
                x = canvas.put(place.x + 2, y, self._saving_share(entry), Pen(hue_of(entry), bold=True), 6, right=True)
                x = canvas.put(x + 1, y, f"≤ {three_digits(entry.ns)}", PLAIN, 9, right=True)
                canvas.bar(x + 1, y, max(place.x + place.width - x - 1, 0), entry.ns / most, hue_of(entry))
                y += 1
            self._edge(place.x, y, entry)
            canvas.put(place.x + 2, y, entry.note or entry.name, STRONG, place.width - 2)
            canvas.item(index, place.x + 2, y, place.width - 2)
            self._edge(place.x, y + 1, entry)
            canvas.put(place.x + 2, y + 1, entry.name if entry.note else "", QUIET, place.width - 2)
            y += 2

    def _edge(self, x: int, y: int, entry: Entry) -> None:
        """The severity, as a coloured edge, or as a letter without colours."""
        look = self.canvas.look
        letter = "▌" if look.colours == 256 and not look.plain else {"major": "!", "minor": "|"}.get(entry.key, " ")
        self.canvas.put(x, y, letter, Pen(hue_of(entry), bold=True))

    @staticmethod
    def _saving_share(entry: Entry) -> str:
        return share_words(min(entry.share, 1.0)) if entry.share is not None else ""

    # Steps.

    def _step_lines(self, most: int) -> int:
        steps = self.of("step")
        return min(len(steps), most) if len(steps) <= most else min(most, 5) if steps else 0

    def _steps(self, place: Place) -> int:
        """Rows of stacked bars while they fit, else a column for each step; the lines that were used."""
        rows, canvas = self.of("step"), self.canvas
        if not rows:
            if place.height > 0:
                none = f"{self.overview.no_steps}: B lists what repeats, prof.step() records them"
                said = MAKING if "step" in self.overview.pending else none
                canvas.put(place.x, place.y, said, QUIET, place.width)
            return min(1, place.height)
        if len(rows) <= place.height:
            return self._step_rows(place, rows)
        return self._step_columns(place, rows)

    def _step_rows(self, place: Place, rows: Rows) -> int:
        canvas = self.canvas
        longest = scale_of_bars([sum(entry.parts) for _, entry in rows])
        label = max(max(len(entry.name) for _, entry in rows), 3)
        notes = max((len(entry.note) + 3 for _, entry in rows if entry.note), default=0)
        width = max(place.width - label - 11 - min(notes, place.width // 3), 8)
        for line, (index, entry) in enumerate(rows):
            y, is_odd = place.y + line, bool(entry.note)
            canvas.put(place.x, y, entry.name, Pen(Hue.MINOR, bold=True) if is_odd else PLAIN, label, right=True)
            length = sum(entry.parts)
            hues = _STEP_HUES if len(entry.parts) == 3 else (Hue.FORWARD,)
            words = _STEP_WORDS if len(entry.parts) == 3 else ("CPU",)
            named = [
                (word if line == 0 else "", BRIEF.get(word, word) if line == 0 else "", ns, hue)
                for word, ns, hue in zip(words, entry.parts, hues, strict=True)
            ]
            self._plain_stack(place.x + label + 1, y, round(min(length / longest, 1) * width), named)
            if length > longest:
                canvas.put(place.x + label + width, y, CUT_BAR, STRONG)
            x = canvas.put(
                place.x + label + 2 + width, y, three_digits(length), STRONG if is_odd else PLAIN, 7, right=True
            )
            if is_odd:
                canvas.put(x + 1, y, f"▲ {entry.note}", Pen(Hue.MINOR, bold=True), place.x + place.width - x - 1)
            canvas.item(index, place.x, y, label)
        return len(rows)

    def _plain_stack(self, x: int, y: int, width: int, parts: list[tuple[str, str, float, Hue]]) -> None:
        """A stacked bar whose labels are names alone."""
        cells = self.canvas.stacked(x, y, width, [("", "", ns, hue) for _, _, ns, hue in parts])
        for (name, brief, _, hue), (at, count) in zip(parts, cells, strict=True):
            text = next((each for each in (name, brief) if 0 < len(each) <= count - 2), "")
            self.canvas.fill(at, y, count, hue, text)

    def _step_columns(self, place: Place, rows: Rows) -> int:
        """A column for each step, as high as it is long; below them their numbers and what is odd."""
        canvas = self.canvas
        odd = [entry for _, entry in rows if entry.note]
        words = min(len(odd), 2, max(place.height - 3, 0))
        height = min(place.height - 1 - words, 8)
        if height < 1:
            return 0
        longest = scale_of_bars([sum(entry.parts) for _, entry in rows])
        width = max(min(place.width // len(rows), 6), 1)
        shown = rows[: place.width // width]
        for column, (index, entry) in enumerate(shown):
            x, y = place.x + column * width, place.y + height - 1
            hues = _STEP_HUES if len(entry.parts) == 3 else (Hue.FORWARD,)
            lines = round(min(sum(entry.parts) / longest, 1) * height) or 1
            for hue, count in zip(hues, whole_cells(entry.parts, lines), strict=True):
                for _ in range(count):
                    canvas.fill(x, y, max(width - 1, 1), hue)
                    y -= 1
            if sum(entry.parts) > longest:
                canvas.put(x, y + 1, CUT_BAR, STRONG)
            number = entry.name if len(entry.name) < width or (width > 1 and len(entry.name) <= width) else ""
            pen = Pen(Hue.MINOR, bold=True) if entry.note else QUIET
            canvas.put(x, place.y + height, number or ("▲" if entry.note else ""), pen, width)
            canvas.item(index, x, place.y + height, max(len(number), 1))
        for line, entry in enumerate(odd[:words]):
            rest = len(odd) - words if line == words - 1 else 0
            more = f", and {counted(rest, 'more odd step')}" if rest else ""
            text = f"▲ step {entry.name}: {entry.note}{more}"
            canvas.put(place.x, place.y + height + 1 + line, text, Pen(Hue.MINOR, bold=True), place.width)
        return height + 1 + words

    def _serving(self, place: Place) -> int:
        """The kinds of steps of a server, a line each; the lines that were used."""
        rows = self.of("serving")[: place.height]
        for line, (index, entry) in enumerate(rows):
            x = self.canvas.put(place.x, place.y + line, f"{entry.name} ×{entry.count:,}", STRONG)
            self.canvas.put(x + 2, place.y + line, entry.note, PLAIN, place.x + place.width - x - 2)
            self.canvas.item(index, place.x, place.y + line, x - place.x)
        return len(rows)

    # What is heaviest.

    def _where(self, place: Place) -> None:
        """GPU time by source line, module or operator, in the room that the steps leave."""
        rows = self.of("where")
        if place.height < 3 or not rows:
            return
        noun = {"line": "source line"}.get(self.overview.where, self.overview.where)
        self.canvas.put(place.x, place.y, f"GPU time by {noun}", QUIET)
        self._table(Place(place.x, place.y + 1, place.width, place.height - 1), rows)

    def _table(self, place: Place, rows: Rows) -> None:
        """Name, calls, time, share and a bar, as many rows as fit; without calls where it is narrow."""
        canvas = self.canvas
        most = max((entry.share or 0 for _, entry in rows), default=0) or 1
        has_calls = place.width >= 56
        graph = max(place.width // 4, 6)
        name = place.width - graph - 16 - (8 if has_calls else 0)
        for line, (index, entry) in enumerate(rows[: max(place.height, 0)]):
            y = place.y + line
            x = canvas.put(place.x, y, cut_name(clean(entry.name), name), STRONG if line == 0 else PLAIN, name)
            if has_calls:
                calls = f"{entry.count:,}×" if entry.count is not None else ""
                x = canvas.put(x + 1, y, calls, QUIET, 7, right=True)
            x = canvas.put(x + 1, y, three_digits(entry.ns or 0), PLAIN, 7, right=True)
            x = canvas.put(x + 1, y, share_words(entry.share or 0), QUIET, 6, right=True)
            canvas.bar(x + 1, y, max(place.x + place.width - x - 1, 0), (entry.share or 0) / most, hue_of(entry))
            canvas.item(index, place.x, y, min(len(entry.name), name))

    # What ran when.

    def _when(self, place: Place, strip: Strip) -> None:
        """The CPU by phase, what the GPU ran as bars by family, and when it was idle, on one axis."""
        canvas, y = self.canvas, place.y
        x, bottom = place.x + STRIP_LEAD, place.y + place.height
        canvas.put(place.x, y, "CPU", STRONG)
        for first, cells, name, key, ns in strip.phase_runs:
            canvas.fill(x + first, y, cells, _CPU_HUES[key], _fitting(cells, name, ns))
        y += 1
        if not self.overview.has_gpu:
            return
        moves = [
            (word, family)
            for word, family in (("comm", Family.COMMUNICATION), ("copies", Family.COPY))
            if family in strip.families
        ]
        computing = [family for family in strip.families if family not in (Family.COPY, Family.COMMUNICATION)]
        tall = max(bottom - y - len(moves) - 1 - (1 if bottom - y - len(moves) >= 4 else 0), 1)
        if computing:
            shares = np.array([strip.families[family] for family in computing])
            whole, best = shares.sum(axis=0), np.argmax(shares, axis=0)
            canvas.put(place.x, y + tall - 1, "compute", Pen(Hue.GEMM, bold=True))
            for cell in range(len(whole)):
                self._column(x + cell, y, tall, float(whole[cell]), FAMILY_HUES[computing[int(best[cell])]])
            y += tall
            if bottom - y > len(moves) + 1:
                self._run_words(x, y, len(whole), strip)
                y += 1
        for word, family in moves:
            canvas.put(place.x, y, word, Pen(FAMILY_HUES[family], bold=True))
            for cell in range(len(strip.idle)):
                self._column(x + cell, y, 1, float(strip.families[family][cell]), FAMILY_HUES[family])
            y += 1
        if y < bottom:
            canvas.put(place.x, y, "idle", Pen(Hue.IDLE, bold=True))
            cell_ns = (strip.end - strip.start) / max(len(strip.idle), 1)
            edges = np.flatnonzero(np.diff(np.concatenate([[False], strip.idle > 0.5, [False]])))
            for first, last in edges.reshape(-1, 2).tolist():
                ns = float(strip.idle[first:last].sum()) * cell_ns
                canvas.fill(x + first, y, last - first, Hue.IDLE, _fitting(last - first, "", ns))

    def _column(self, x: int, y: int, tall: int, share: float, hue: Hue) -> None:
        """A bar that stands, in eighths of a line."""
        eighths = round(min(share, 1.0) * tall * 8)
        if eighths == 0:
            eighths = int(share > 0.01)
        for line in range(tall):
            part = min(max(eighths - (tall - 1 - line) * 8, 0), 8)
            if part:
                self.canvas.put(x, y + line, "#" if self.canvas.look.plain else "▁▂▃▄▅▆▇█"[part - 1], Pen(hue))

    def _run_words(self, x: int, y: int, cells: int, strip: Strip) -> None:
        """Runs of one family in words below them, the longest first, each where there is room for it."""
        free = np.ones(cells, bool)
        for first, _, family, number, ns in sorted(strip.runs, key=lambda run: -run[4]):
            name = {Family.GEMM: "GEMM", Family.POINTWISE: "elementwise"}.get(family, family.name.lower())
            text = f"└{name} ×{number:,} {three_digits(ns)}"
            if first + len(text) < cells and free[first : first + len(text) + 1].all():
                self.canvas.put(x + first, y, text, Pen(FAMILY_HUES[family]))
                free[first : first + len(text) + 1] = False

    def _trust(self, y: int) -> None:
        """Doubts about the numbers, in the last line."""
        said, notes = trust_words(self.overview)
        is_sound = not said.startswith("doubts")
        if "trust" in self.overview.pending:
            self.canvas.put(0, y, said, QUIET)
            return
        pen = Pen(Hue.GOOD if is_sound else Hue.MINOR, bold=True)
        x = self.canvas.put(0, y, f"{'✓' if is_sound else '⚠'} {said}", pen)
        failed = " ".join(self.overview.failures)
        if failed:
            x = self.canvas.put(x, y, f" · {failed}", Pen(Hue.MAJOR))
        if notes:
            text, room = f" · {notes}", self.canvas.width - x
            if len(text) > room:
                text = f"{whole_words(text[: max(room - 1, 0)], text)}…"
            self.canvas.put(x, y, text, QUIET, max(room, 0))
        if self.of("trust"):
            self.canvas.item(self.of("trust")[0][0], 0, y, min(x, self.canvas.width))


def _fitting(cells: int, name: str, ns: float) -> str:
    """The longest of name and time, name, its first letters that fits; empty where none does."""
    texts = (f"{name} {three_digits(ns)}".strip(), name)
    return next((text for text in texts if 0 < len(text) <= cells - 2), "")
