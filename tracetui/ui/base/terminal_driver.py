"""The terminal as Textual drives it, with more care for how it ends and for how it stops and goes on."""

from __future__ import annotations

import asyncio
import os
import termios
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from typing import Any, TypeGuard

from rich.control import Control
from textual._ansi_sequences import SYNC_END, SYNC_START
from textual._compositor import ChopsUpdate, Compositor, LayoutUpdate
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.events import CursorPosition
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tracetui.ui.base.cell_differ import CellDiffer, Update
from tracetui.ui.base.signal_handling import attributes, in_background

# Whether the terminal is ready for another frame: each ends in a question, whose answer says that it was taken.

QUESTION = "\x1b[6n"

MAX_FRAMES = 8
"""Maximum frames under way."""
PROMPT_SECONDS = 0.02
"""An answer that takes at most this much longer than the fastest one found no queue before it."""
LATE_SECONDS = 0.08
"""An answer that takes this much longer than the fastest one had to wait in a queue."""
MIN_WAIT_SECONDS, MAX_WAIT_SECONDS = 0.5, 3.0
"""Time that is always given to an answer, and maximum time; then it is taken to be lost."""
WAITS_PER_ANSWER = 4
"""An answer may take so many times as long as the last one, besides."""
MAX_UNANSWERED = 8
"""Questions without any answer after which a terminal is asked no more."""
MAX_LEAVING_SECONDS = 1.0
"""Maximum time that answers are waited for before keys are no longer read."""


class FlowControl:
    """The frames that are under way to a terminal. Answers may come in another thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._asked: deque[float] = deque()
        self._answers_come = False
        self._fastest = float("inf")
        self._last = MAX_WAIT_SECONDS
        """Seconds that the last answer took."""
        self._allowed = 1
        self._was_held = False
        """Whether a frame had to wait since the last answer."""
        self._answered = threading.Condition()

    @property
    def under_way(self) -> int:
        """Number of frames that are not known to have been taken."""
        return len(self._asked)

    def is_ready(self) -> bool:
        """Whether a frame may be written now."""
        with self._answered:
            wait = min(MIN_WAIT_SECONDS + WAITS_PER_ANSWER * self._last, MAX_WAIT_SECONDS)
            if self._asked and self._answers_come and self._clock() - self._asked[0] > wait:
                self._asked.clear()
                self._answers_come = False
            is_ready = not self._answers_come or len(self._asked) < self._allowed
            self._was_held |= not is_ready
            return is_ready

    def question(self) -> str:
        """What to write behind a frame; empty for a terminal that does not answer."""
        with self._answered:
            if not self._answers_come and len(self._asked) >= MAX_UNANSWERED:
                return ""
            self._asked.append(self._clock())
            return QUESTION

    def take_answer(self) -> None:
        """Note that the terminal has taken the frame that was written first."""
        with self._answered:
            self._answers_come = True
            if self._asked:
                self._judge(self._clock() - self._asked.popleft())
            self._answered.notify_all()

    def forget(self) -> None:
        """Expect no answers any more: the terminal was another program's meanwhile."""
        with self._answered:
            self._asked.clear()
            self._answers_come = False
            self._answered.notify_all()

    def wait_for_answers(self) -> None:
        """Wait until a terminal that answers has done so: what came later would be typed into the shell."""
        with self._answered:
            if self._answers_come:
                self._answered.wait_for(lambda: not self._asked, MAX_LEAVING_SECONDS)

    def _judge(self, seconds: float) -> None:
        """Allow more frames under way where more are wanted and answers come at once, fewer where they have to wait."""
        self._fastest, self._last = min(self._fastest, seconds), seconds
        if seconds - self._fastest <= PROMPT_SECONDS:
            self._allowed = min(self._allowed + self._was_held, MAX_FRAMES)
        elif seconds - self._fastest >= LATE_SECONDS:
            self._allowed = max(self._allowed // 2, 1)
        self._was_held = False


_EMPTY = "\x1b[H\x1b[J"
"""The cursor to the first cell, and nothing after it."""
MAX_QUEUED_WRITES = 2
"""Writes that wait for the thread that writes; at so many the terminal takes them slower than they come."""


class TerminalDriver(LinuxDriver):
    """Empties its screen before it gives the terminal back, and takes the terminal once only.

    tmux, when its window has grown meanwhile, otherwise moves lines of the app above the prompt.
    """

    _has_terminal = False
    """Whether the terminal is the app's, from the first setting that is changed to the last that is put back."""

    def __init__(self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None):
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self.flow = FlowControl()
        self.takeovers = 0
        """How often the terminal was taken; what it shows at first is not known."""

    def is_ready(self) -> bool:
        """Whether another frame may be written now."""
        waiting = getattr(self._writer_thread, "_queue", None)
        return self.flow.is_ready() and (waiting is None or waiting.qsize() < MAX_QUEUED_WRITES)

    def process_message(self, message: Message) -> None:
        """Hand a message on, unless it is the answer to a frame: nothing else asks where the cursor is."""
        if isinstance(message, CursorPosition):
            self.flow.take_answer()
            with suppress(RuntimeError):
                # The app may have ended meanwhile.
                self._loop.call_soon_threadsafe(self._app.resume_writing)  # type: ignore[attr-defined]
            return
        super().process_message(message)

    def run_input_thread(self) -> None:
        """Read keys; what goes wrong there is an error like any other."""
        try:
            super().run_input_thread()
        except Exception as error:
            self._app.call_later(self._app._handle_exception, error)

    def write(self, data: str) -> None:
        """Write to the terminal; output is dropped while the app does not have it."""
        if self._writer_thread is not None:
            super().write(data)

    def start_application_mode(self) -> None:
        """Take the terminal, unless the app has it: a second reader of keys would never end."""
        if self._has_terminal:
            return
        super().start_application_mode()  # type: ignore[no-untyped-call]
        # In the background the terminal is not to be had, and Textual leaves it at that.
        self._has_terminal = self._writer_thread is not None
        self.takeovers += 1
        self.flow.forget()

    def disable_input(self) -> None:
        """Read no more keys, once the terminal has answered all that it was asked."""
        self.flow.wait_for_answers()
        super().disable_input()

    def stop_application_mode(self) -> None:
        """Restore the terminal; also before the app is suspended."""
        if self._has_terminal:
            self.write(_EMPTY)
            super().stop_application_mode()
            self._has_terminal = False

    def close(self) -> None:
        """Write what waits to be written, and end the thread that writes."""
        super().close()
        self._writer_thread = None

    # Textual stops and goes on within the handler of a signal, which waits forever for a lock when the signal came
    # while the app was writing, and takes the terminal twice when the signal to go on is told late.

    def _sigtstp_application(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._app.action_suspend_process)

    def _sigcont_application(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._go_on)

    def _go_on(self) -> None:
        """Take the terminal again where another program has used it meanwhile, as a shell does after SIGSTOP."""
        if in_background(self.fileno) or (self._has_terminal and self._is_raw()):
            return
        self.suspend_application_mode()
        self.resume_application_mode()
        self._app.refresh(layout=True)

    def _is_raw(self) -> bool:
        now = attributes(self.fileno)
        return now is not None and not now[3] & termios.ICANON


# Writes what Textual wants to show as differences of cells, and no faster than the terminal takes them.

RETRY_SECONDS = 0.05
"""Time after which a frame that was held back is tried again, should no answer of the terminal come before."""


class FrameWriter:
    """The way from Textual's updates to the terminal."""

    def __init__(self, app: App[Any], driver: TerminalDriver, retry: Callable[[], None]) -> None:
        """`retry` is called a while after a frame was held back, and is to call `resume`."""
        self._app = app
        self._retry = retry
        self._driver = driver
        self._differ = CellDiffer(app.console, erases_in_colour(os.environ))
        self._takeovers = driver.takeovers
        self._cursor: tuple[int, int] | None = None
        self._is_held = False

    @staticmethod
    def is_update(renderable: object) -> TypeGuard[Update]:
        """Whether it is an update of the kinds that are known."""
        return isinstance(renderable, LayoutUpdate | ChopsUpdate)

    def show(self, update: Update) -> None:
        """Show an update, now or when the terminal has taken the frames before it."""
        if self._takeovers != self._driver.takeovers:
            self._takeovers = self._driver.takeovers
            self.forget()
        self._differ.apply(update, *self._app.size)
        self.write()

    def forget(self) -> None:
        """Write every cell with the next frame: what the terminal shows is not known."""
        self._differ.forget()
        self._cursor = None

    def write(self) -> None:
        """Write what has changed if the terminal is ready for it, else later."""
        if not self._driver.is_ready():
            if not self._is_held:
                self._is_held = True
                asyncio.get_running_loop().call_later(RETRY_SECONDS, self._retry)
            return
        self._is_held = False
        frame = self._differ.difference()
        cursor = self._app.screen.outer_size.clamp_offset(self._app.cursor_position)
        if not frame and cursor == self._cursor:
            return
        self._cursor = self._app._previous_cursor_position = cursor
        frame += Control.move_to(*cursor).segment.text
        if self._app._sync_available:
            frame = f"{SYNC_START}{frame}{SYNC_END}"
        self._driver.write(frame + self._driver.flow.question())
        self._driver.flush()

    def resume(self) -> None:
        """Write what was held back."""
        if self._is_held:
            self._is_held = False
            self.write()


def erases_in_colour(environment: Mapping[str, str]) -> bool:
    """Whether the terminal erases with the background that is set, as its description says (`bce`)."""
    try:
        # A Python may have been built without it.
        import curses

        curses.setupterm(environment.get("TERM", ""), 1)
        return curses.tigetflag("bce") > 0
    except (ImportError, curses.error):
        return False


# A compositor that asks widgets for the lines that changed, and for no others.

Span = tuple[int, int, int]
"""A line of the screen, and the columns from and before which it changed."""


class RowCompositor(Compositor):
    """Paints the changed lines of a screen."""

    def render_partial_update(self) -> ChopsUpdate | None:
        """What changed since the last update, None for nothing."""
        regions = self._dirty_regions.copy()
        self._dirty_regions.clear()
        spans = [span for span in self._regions_to_spans(regions) if 0 <= span[0] < self.size.height]
        if not spans:
            return None
        painting = _Painting(self.cuts, spans)
        for widget, (region, clip) in self.visible_widgets.items():
            painting.take(widget, region, region.intersection(clip))
            if not painting.missing:
                break
        return ChopsUpdate(painting.chops, spans, painting.ends)


class _Painting:
    """The pieces of the changed lines, filled from the front of the screen to the back."""

    def __init__(self, cuts: list[list[int]], spans: Iterable[Span]) -> None:
        """`cuts` are the columns of each line at which a widget begins or ends."""
        self._cuts = cuts
        self.chops: list[dict[int, Strip | None]] = [{} for _ in cuts]
        """The pieces of each line by their first column; None where nothing changed."""
        self.ends: list[list[int]] = [[] for _ in cuts]
        """The columns behind these pieces."""
        self.missing: dict[int, set[int]] = defaultdict(set)
        """The first columns of pieces that are wanted and not there yet, by line."""
        for y, left, right in spans:
            self.chops[y] = dict.fromkeys(cuts[y][:-1])
            self.ends[y] = cuts[y][1:]
            self.missing[y] |= {x for x, end in pairwise(cuts[y]) if x < right and end > left}

    def take(self, widget: Widget, region: Region, seen: Region) -> None:
        """Fill in what is wanted and seen of a widget."""
        left, right = seen.column_span
        wanted = [
            y for y, columns in self.missing.items() if y in seen.line_range and any(left <= x < right for x in columns)
        ]
        for first, count in _runs(wanted):
            asked = Region(seen.x - region.x, first - region.y, seen.width, count)
            for y, strip in enumerate(widget.render_lines(asked), first):
                self._fill(y, strip, left, right)

    def _fill(self, y: int, strip: Strip, left: int, right: int) -> None:
        columns = [x for x in self._cuts[y] if left <= x <= right]
        pieces = strip.divide([x - left for x in columns[1:]]) if len(columns) > 2 else [strip]
        chops, missing = self.chops[y], self.missing[y]
        for x, piece in zip(columns, pieces, strict=False):
            if x in missing:
                missing.discard(x)
                chops[x] = piece
        if not missing:
            del self.missing[y]


def _runs(lines: list[int]) -> Iterator[tuple[int, int]]:
    """First line and number of lines of each stretch without a hole; `lines` ascend."""
    begin = 0
    for index in range(1, len(lines) + 1):
        if index == len(lines) or lines[index] != lines[index - 1] + 1:
            yield lines[begin], index - begin
            begin = index
