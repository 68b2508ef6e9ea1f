"""Lines of text made of parts, some of which can be clicked, and their words: header, step switcher, tabs, key hints.

Textual's own Footer and Tabs repaint the screen on a focus change and animate; this draws one strip.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual.dom import DOMNode
from textual.events import Click, MouseDown, MouseMove, MouseUp
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget

from tracetui.drawing.format import CUT, cut_name, shorten, wrapped
from tracetui.frozen import frozen
from tracetui.linking.step_sources import NONE
from tracetui.model.quantities import count, duration, rounded_percent
from tracetui.model.table import DOUBTFUL, Table
from tracetui.model.trace import Trace
from tracetui.text import clean
from tracetui.ui.base import keys
from tracetui.ui.base.keys import Command, commands_in_focus, reason_against
from tracetui.ui.base.overlay import cut_line, fitting_line
from tracetui.ui.widgets.surface import CachedStyle


@frozen(eq=True)
class BarPart:
    """A stretch of a bar."""

    text: str
    style: str = "plain"
    """The component class that draws it: plain, strong, dim, empty, key, current or warn."""
    key: str = ""
    """Sent when it is clicked; nothing happens without one."""


class Bar(CachedStyle, Widget):
    """A line of parts; what does not fit is cut on the right, never within a number."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "bar--plain",
        "bar--strong",
        "bar--dim",
        "bar--empty",
        "bar--key",
        "bar--current",
        "bar--warn",
    }
    DEFAULT_CSS = """
    Bar {
        height: 1;
        padding: 0 1;
        .bar--strong { text-style: bold; }
        .bar--dim { color: $text-muted; }
        .bar--empty { color: $text-muted; text-style: dim; }
        .bar--key { color: $primary; text-style: bold; }
        .bar--current { background: $primary; color: $background; text-style: bold; }
        .bar--warn { color: $warning; text-style: bold; }
    }
    """

    parts: reactive[tuple[BarPart, ...]] = reactive(())
    """The parts of the line, from left to right."""

    class Pressed(Message):
        """A part with a key was clicked."""

        def __init__(self, bar: Bar, key: str) -> None:
            super().__init__()
            self.bar = bar
            self.key = key

        @property
        def control(self) -> Bar:
            """The bar, for `@on` selectors."""
            return self.bar

    @property
    def text(self) -> str:
        """All parts as one string."""
        return "".join(part.text for part in self.parts)

    def render_line(self, y: int) -> Strip:
        """The only line there is."""
        width = self.size.width
        if y > 0:
            return Strip.blank(width, self.rich_style)
        segments = [
            Segment(text, self.get_component_rich_style(f"bar--{style}")) for text, style in self._fitting(width)
        ]
        return Strip(segments).adjust_cell_length(width, self.rich_style)

    def _fitting(self, width: int) -> list[tuple[str, str]]:
        """Text and style of the parts, as far as they fit."""
        whole = self.text.rstrip()
        left = len(cut_line(whole, width)) if cell_len(whole) > width else len(self.text)
        cut = left < len(self.text)
        fitting: list[tuple[str, str]] = []
        for part in self.parts:
            if left > 0:
                fitting.append((part.text[:left], part.style))
                left -= len(part.text)
        if cut and fitting:
            text, style = fitting[-1]
            fitting[-1] = text[:-1] + CUT, style
        return fitting

    def on_click(self, event: Click) -> None:
        """Post which part was hit."""
        x = event.x - self.styles.padding.left
        for part in self.parts:
            width = cell_len(part.text)
            if 0 <= x < width:
                if part.key:
                    event.stop()
                    self.post_message(self.Pressed(self, part.key))
                return
            x -= width


# A bar that is also the border between what is above and below it: dragged with the mouse, it asks to be moved.


class SplitBar(Bar):
    """The tabs of a list, below the timeline."""

    class Dragged(Message):
        """The user wants the bar on another line of the screen."""

        def __init__(self, lines: int) -> None:
            super().__init__()
            self.lines = lines
            """Lines down from where the bar is; negative for up."""

    def __init__(self) -> None:
        super().__init__()
        self._is_held = self._was_dragged = False

    def on_mouse_down(self, event: MouseDown) -> None:
        """Take hold."""
        if event.button == 1:
            self._is_held, self._was_dragged = True, False
            self.capture_mouse()

    def on_mouse_move(self, event: MouseMove) -> None:
        """Ask to be moved to the line of the mouse."""
        lines = event.screen_y - self.region.y
        if self._is_held and lines:
            self._was_dragged = True
            self.post_message(self.Dragged(lines))

    def on_mouse_up(self, event: MouseUp) -> None:
        """Let go."""
        self._is_held = False
        self.release_mouse()

    def on_click(self, event: Click) -> None:
        """A drag ends on the bar, but picks no tab."""
        if self._was_dragged:
            event.prevent_default()
            event.stop()


# A sentence across the screen, in full: as many lines as it needs.

MAX_LINES = 3
"""Maximum lines of a sentence, however narrow the terminal is."""


class SentenceBar(Bar):
    """A bar that wraps one sentence."""

    sentence: reactive[str] = reactive("")
    """The sentence."""

    @property
    def text(self) -> str:
        """The sentence."""
        return self.sentence

    def watch_sentence(self) -> None:
        """Take as many lines as the sentence needs."""
        self._fit()

    def on_resize(self) -> None:
        """Wrap it again."""
        self._fit()

    def render_line(self, y: int) -> Strip:
        """One line of the sentence."""
        lines, style = self._lines(), self.get_component_rich_style("bar--strong")
        return Strip([Segment(lines[y] if y < len(lines) else "", style)]).adjust_cell_length(
            self.size.width, self.rich_style
        )

    def _fit(self) -> None:
        height = len(self._lines())
        if self.styles.height is None or self.styles.height.value != height:
            self.styles.height = height

    def _lines(self) -> list[str]:
        # Before the first layout the sentence counts as one line.
        return wrapped(clean(self.sentence), self.size.width)[:MAX_LINES] if self.size.width else [""]


# The words of header, step switcher, tabs and key hints.

ALWAYS_SHOWN = ("parts", "back", "help", "quit")
"""Hints for which there is always room: how to get about, and away."""
MIN_LABEL_LETTERS = 16
"""Letters of the file's name that are always in the header."""
STEPS_BY = "   by "
"""Stands before the words for what counts as a step."""
MIN_SOURCE_CELLS = 12
"""Cells of these words below which they are left out."""
READABLE_SOURCE_CELLS = 24
"""Cells of them for which numbers of steps give way."""
MOST_NUMBERS = 7
"""Maximum numbers of steps on the line of the steps."""
FEWEST_NUMBERS = 3
"""Numbers of steps on a line that is too short for what counts as one."""


_BUSY = "GPU busy "
_MAKER = re.compile(r"\b(?:NVIDIA|AMD|Instinct|GeForce|Tesla) ")
_BOARD = re.compile(r"[ -](?:SXM\d?|PCIe|DGX\w*|PG\d+|\d+GB)\b[-\w ]*?(?= x\d|,| \(|$)")
"""Left out of the name of a device on a short line, with its maker: `A100 x8` of `NVIDIA A100-SXM4-80GB x8`."""


def header_parts(trace: Trace, summary: Table | None, width: int) -> tuple[BarPart, ...]:
    """The header: file, marks of damage, device and runtime, and the sums of the summary once it is there.

    Nothing is said before that which the sums would replace. Where the line is short the name of the file gives way,
    down to a few letters, then runtime, kernels, steps, the time without the profiler. Where that is not enough the
    marks and the name of the device are shortened and the verdict comes first; the device gives way at last.
    """
    facts = {str(row["key"]): row["value"] for row in summary.rows()} if summary is not None else {}
    # Words with their rank: what gives way first has the highest.
    words: list[tuple[int, str]] = []
    devices = facts.get("devices")
    if devices:
        words.append((1, clean(str(devices))))
    else:
        names = list(dict.fromkeys(clean(device.name) for device in trace.devices if device.name))
        times = f" x{len(trace.devices)}" if len(trace.devices) > 1 and len(names) == 1 else ""
        words += [(1, ", ".join(names[:2]) + times)] if names else []
    words += [(6, text) for text in _runtime(trace)]
    for rank, key, word in ((4, "steps", "step"), (5, "kernels", "kernel")):
        number = _number(facts.get(key))
        if number:
            words.append((rank, f"{count(number)} {word}{'' if number == 1 else 's'}"))
    # What wrong numbers went into is not said without a mark.
    doubt = DOUBTFUL if summary is not None and summary.is_doubtful("value") else ""
    # The verdict stands beside it and is on the steps.
    busy, idle = _number(facts.get("gpu_busy_pct")), _number(facts.get("step_idle_pct"))
    if busy is not None:
        share = f"{rounded_percent(busy)}" if idle is None else f"{rounded_percent(100 - idle)} of steps"
        words.append((0, f"{doubt}{_BUSY}{share}"))
    verdict = facts.get("verdict")
    if verdict:
        words.append((0, doubt + clean(str(verdict))))
    unprofiled = _number(facts.get("unprofiled_us"))
    if unprofiled is not None:
        words.append((3, f"{duration(1000 * unprofiled)}/step without profiler"))
    if not words and summary is not None:
        number = len(trace.slices)
        words = [(0, clean(trace.format)), (1, f"{count(number)} slice{'' if number == 1 else 's'}")]
    alone = _number(facts.get("without_launch"))
    marks = [
        *damage_marks(trace, _number(facts.get("doubts"))),
        *([f"⚠{count(alone)} without launch"] if alone else []),
    ]

    short_marks = [re.sub(r" warnings?$", "", mark).replace("without launch", "no launch") for mark in marks]

    def length() -> int:
        return sum(len(mark) + 2 for mark in marks) + 2 + len(" · ".join(text for _, text in words))

    while len(words) > 1 and length() > width - MIN_LABEL_LETTERS and (worst := max(words)[0]):
        if worst == 1 and marks is not short_marks:
            marks = short_marks
            # The verdict, the device, the busy time.
            words.sort(key=lambda each: (_BUSY in each[1], each[0]))
            words = [
                (rank, _BOARD.sub("", _MAKER.sub("", text)) if rank else text.replace(_BUSY, "busy "))
                for rank, text in words
            ]
        else:
            words = [each for each in words if each[0] != worst]
    rest = [*(BarPart(f"  {mark}", "warn") for mark in marks), BarPart("  " + " · ".join(text for _, text in words))]
    free = width - sum(len(part.text) for part in rest)
    return BarPart(shorten(clean(trace.label), max(free, MIN_LABEL_LETTERS)), "strong"), *rest


def damage_marks(trace: Trace, doubts: float | None = None) -> list[str]:
    """Short marks for damage to the file, and the number of health checks with a warning.

    Until those are counted, the problems noticed while reading stand for them.
    """
    quality = trace.quality
    marks = ["PARTIAL"] if quality.partial else []
    if quality.truncated_at is not None:
        marks.append("TRUNCATED")
    elif quality.damage:
        marks.append("DAMAGED")
    if doubts is None:
        reported = (
            quality.dropped,
            quality.repaired,
            quality.damaged_keys,
            quality.replaced,
            quality.repeated,
            len(quality.overlong),
            quality.negative,
            quality.clipped,
            quality.stray_brackets,
            quality.further_arrays,
        )
        doubts = sum(map(bool, reported)) + len(quality.skipped_phases)
    return [*marks, f"⚠{doubts:.0f} warning{'' if doubts == 1 else 's'}"] if doubts else marks


def step_parts(
    numbers: Sequence[int],
    step: int | None,
    times: Sequence[str],
    width: int,
    steps_by: str = "",
    kind: str = "",
    remark: str = "",
) -> tuple[BarPart, ...]:
    """The step switcher: `step ◂ 2 · [3] · 4 ▸`, the times of the step, what it did, what counts as one.

    `times` is the same in fewer and fewer words. In `width` cells the words for what counts as a step give way first,
    then times but the first, then numbers of other steps, then requests and tokens of this one.
    """
    if not numbers:
        none = "steps turned off" if steps_by == NONE else "no steps recorded"
        return (
            BarPart(
                f"{none}: everything is listed. {keys.STEPS_BY} shows what can count as a step; "
                f"{keys.FIT_ALL} fits the whole trace",
                "dim",
            ),
        )
    words = clean(steps_by)
    warning = [BarPart(f"   {remark}", "strong")] if remark else []
    behind = [*warning, BarPart(f"   {keys.ALL_STEPS} {'one step' if step is None else 'all steps'}", "dim", "all")]
    room = width - len(STEPS_BY) * bool(words) - _cells(behind)
    fewest = times[-1] if times else ""
    choices = [(MOST_NUMBERS, each, kind) for each in times or ("",)]
    first = kind.split(", ")[0]
    choices += [(FEWEST_NUMBERS, fewest, kind), (FEWEST_NUMBERS, fewest, first)]
    choices += [(1, fewest, first)] if cell_len(words) <= READABLE_SOURCE_CELLS else []
    for limit, took, shown_kind in choices:
        before = _numbers(numbers, step, limit)
        if step is not None:
            before.append(BarPart(f"   {took}{f' {shown_kind}' if shown_kind else ''}"))
        if min(cell_len(words), READABLE_SOURCE_CELLS) <= room - _cells(before):
            break
    if step is not None and room - _cells(before) < min(cell_len(words), MIN_SOURCE_CELLS):
        before = [*_numbers(numbers, step, 1), before[-1]]
    left = room - _cells(before)
    is_readable = bool(words) and left >= min(cell_len(words), MIN_SOURCE_CELLS)
    return *before, BarPart(STEPS_BY + cut_name(words, left) if is_readable else "", "dim"), *behind


def _numbers(numbers: Sequence[int], step: int | None, limit: int) -> list[BarPart]:
    """The numbers of the steps, at most `limit` of them around the current one."""
    if step is None:
        words = f"{numbers[0]} … {numbers[-1]}" if len(numbers) > 1 else str(numbers[0])
        return [BarPart("all steps ", "strong"), BarPart(words, "plain", str(numbers[0]))]
    return [BarPart("step "), *switch_parts(numbers, numbers.index(step) if step in numbers else 0, limit)]


def _cells(parts: Iterable[BarPart]) -> int:
    return sum(cell_len(part.text) for part in parts)


def switch_parts(numbers: Sequence[int], current: int, limit: int = MOST_NUMBERS) -> list[BarPart]:
    """Up to `limit` numbers around the current one, which is in brackets, and arrows; each can be clicked."""
    parts = [BarPart("◂ ", "key" if current else "dim", str(numbers[max(current - 1, 0)]))]
    first = max(0, min(current - limit // 2, len(numbers) - limit))
    for index, number in enumerate(numbers[first : first + limit], first):
        if index > first:
            parts.append(BarPart(" · ", "dim"))
        here = index == current
        parts.append(BarPart(f"[{number}]" if here else str(number), "strong" if here else "plain", str(number)))
    last = current == len(numbers) - 1
    return [*parts, BarPart(" ▸", "dim" if last else "key", str(numbers[min(current + 1, len(numbers) - 1)]))]


def hint_parts(
    commands: Iterable[Command], width: int, first: DOMNode | None = None, where: str = ""
) -> tuple[BarPart, ...]:
    """The key hints: `where` the keys go, then keys that share a hint together, as in `[ ] step`; `KEPT` is never cut.

    Commands come in the order in which their keys are looked up; those of the node `first` are shown before others.
    """
    early: dict[str, list[str]] = {}
    late: dict[str, list[str]] = {}
    taken: set[str] = set()
    for command in commands:
        if not command.available:
            # Its keys are those of what comes next.
            continue
        keys = [key for key in command.keys if key not in taken]
        taken.update(keys)
        group = command.binding.group
        if keys and command.binding.show:
            words = group.description if group is not None else command.binding.description.lower()
            (early if command.node is first else late).setdefault(words, []).append(keys[0])
    kept = [(words, early.pop(words, late.pop(words, []))) for words in ALWAYS_SHOWN if words in early or words in late]
    parts: list[BarPart] = [BarPart(f"{where}: ", "dim")] if where else []
    left = width - sum(len(" ".join(keys)) + len(words) + 3 for words, keys in kept) + 2 * bool(kept)
    left -= len(where) + 2 * bool(where)
    # What leads to another screen comes before what is done to the list.
    late = {words: late[words] for words in sorted(late, key=lambda words: words != "compare")}
    for words, keys in [*early.items(), *late.items()]:
        text = " ".join(keys)
        left -= len(text) + len(words) + 3
        if left < 0:
            break
        parts += [BarPart(text, "key"), BarPart(f" {words}  ")]
    for index, (words, keys) in enumerate(kept, start=1):
        parts += [BarPart(" ".join(keys), "key"), BarPart(f" {words}{'  ' if index < len(kept) else ''}")]
    return tuple(parts)


def _runtime(trace: Trace) -> list[str]:
    """`CUDA 13.0` from 13000, `HIP 6.4` from 60443483."""
    cuda, hip = trace.metadata.get("cuda_runtime_version"), trace.metadata.get("hip_runtime_version")
    if isinstance(cuda, int):
        return [f"CUDA {cuda // 1000}.{cuda % 1000 // 10}"]
    if isinstance(hip, int):
        return [f"HIP {hip // 10_000_000}.{hip // 100_000 % 100}"]
    return []


def _number(value: object) -> float | None:
    if isinstance(value, int | float):
        return float(value)
    match = re.fullmatch(r"([\d,]+(?:\.\d+)?)\s*%?", value) if isinstance(value, str) else None
    return float(match[1].replace(",", "")) if match else None


# The last line of a screen: key hints, in whose place notices stand for a while.

NOTICE_SECONDS = 8.0
"""Seconds for which a notice stands in the place of the key hints."""

AFTER_KEY_SECONDS = 0.05
"""Seconds for which a notice stays after the next key, which may bring up another one."""

FocusedPart = tuple[DOMNode | None, str]
"""The part of the screen whose hints come first, and its name; None and an empty name for no part in particular."""


class HintsBar(Bar):
    """The keys that work right now, or a notice."""

    def __init__(self, focused_part: Callable[[], FocusedPart] = lambda: (None, ""), *, id: str = "hints") -> None:
        """`focused_part` returns the part of the screen that has the keys; it is called whenever hints are shown."""
        super().__init__(id=id)
        self._focused_part = focused_part
        self._notice: Timer | None = None

    def notice(self, text: str, warn: bool = False) -> None:
        """Show a notice in place of the key hints for a while."""
        self.parts = (BarPart(fitting_line(clean(text), self._width), "warn" if warn else "strong"),)
        if self._notice is not None:
            self._notice.stop()
        self._notice = self.set_timer(NOTICE_SECONDS, self.end_notice)

    def take_key(self, name: str, character: str | None) -> None:
        """Drop the notice from before a key, and say where the key works if it does nothing here.

        To be called before the key is carried out.
        """
        if self._notice is not None:
            # What the key brings up is painted in the same stroke, and may be another notice.
            self.set_timer(AFTER_KEY_SECONDS, partial(self._end_old_notice, self._notice))
        sentence = reason_against(self.screen, name, character)
        if sentence:
            self.notice(sentence)

    def _end_old_notice(self, notice: Timer) -> None:
        if self._notice is notice:
            self.end_notice()

    def end_notice(self) -> None:
        """Let the key hints come back."""
        if self._notice is not None:
            self._notice.stop()
        self._notice = None
        self.show_hints()

    def show_hints(self) -> None:
        """Name the keys that there are, those of the focused part first, unless a notice stands here."""
        if self._notice is None:
            commands = [command for _, group in commands_in_focus(self.screen) for command in group]
            self.parts = hint_parts(commands, self._width, *self._focused_part())

    @property
    def _width(self) -> int:
        """Cells of the line; before the first layout those of the terminal."""
        return (self.screen.size.width or self.app.size.width) - 2
