"""The terminal as Textual drives it, with more care for how it ends and for how it stops and goes on.

The first signal ends the app as `q` does. When that takes too long, a thread ends the process, recordings included. A
terminal that is gone needs no care: then the process ends at once.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import termios
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from rich.control import Control
from textual.drivers.linux_driver import LinuxDriver
from textual.events import CursorPosition
from textual.message import Message
from textual.messages import TerminalSupportsSynchronizedOutput

from tracetui.ui.base.cell_differ import CellDiffer, Update
from tracetui.ui.base.keys import KEY_NAMES
from tracetui.ui.base.textual_internals import drop_writer, has_writer, part_escape_from_keys, queued_writes

if TYPE_CHECKING:
    from tracetui.ui.base.crash_safe_app import CrashSafeApp

GRACE = 3.0
"""Seconds that the app has to end by itself."""

CANCELLED = 128
"""A process that a signal ended has this and the number of the signal as its exit code."""

_SIGNALS = (signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
_RESET = (
    # Mouse, focus and paste reports, resize reports; line wrap, keyboard protocol, the other screen, the cursor.
    "\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l\x1b[?1004l\x1b[?2004l\x1b[?2048l"
    "\x1b[?7h\x1b[<u\x1b[?1049l\x1b[?25h\x1b[0m"
)


class SignalHandling:
    """While this context lasts, signals end the app in an orderly way; afterwards the terminal is as it was."""

    def __init__(self, leave: Callable[[int], None], file: int = 0) -> None:
        """`leave` asks the app to end with an exit code, from the main thread; `file` is the terminal."""
        self._leave = leave
        self._file = file
        self._before: dict[signal.Signals, Any] = {}
        self._looks: list[Any] | None = None
        self._code = 0

    def __enter__(self) -> SignalHandling:
        self._looks = attributes(self._file)
        for number in _SIGNALS:
            self._before[number] = signal.signal(number, self._handle)
        threading.Thread(target=self._watch, name="watch-line", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.give_back()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def give_back(self) -> None:
        """Undo what the app did to the terminal, where it did not do so itself."""
        now = attributes(self._file)
        if self._looks is None or now is None or now[3] == self._looks[3] or in_background(self._file):
            return
        with suppress(termios.error):
            termios.tcsetattr(self._file, termios.TCSANOW, self._looks)
        # A terminal that takes nothing must not keep the process.
        if select.select([], [self._file], [], 0.5)[1]:
            with suppress(OSError):
                os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, _RESET.encode())

    def _handle(self, number: int, _: FrameType | None) -> None:
        """Ask the app to end; a second signal does not wait for it."""
        if self._code or is_cut(self._file) or in_background(self._file):
            self._end(CANCELLED + number)
        self._code = CANCELLED + number
        threading.Thread(target=self._insist, name="insist", daemon=True).start()
        self._leave(self._code)

    def _insist(self) -> None:
        time.sleep(GRACE)
        self._end(self._code)

    def _watch(self) -> None:
        """Notice a closed connection also without a signal: keys would be read from it without end."""
        poll = select.poll()
        # Nothing is asked for: a hang-up is told all the same, and this thread sleeps until then.
        poll.register(self._file, 0)
        while True:
            for _, event in poll.poll():
                if event & select.POLLHUP:
                    self._end(CANCELLED + signal.SIGHUP)
                if event & select.POLLNVAL:
                    return

    def _end(self, code: int) -> None:
        """End the process and its recordings, now."""
        launcher = sys.modules.get("tracetui_workloads.recording.launcher")
        if launcher is not None:
            launcher.kill_all()
        self.give_back()
        os._exit(code)


def attributes(file: int) -> list[Any] | None:
    """The settings of a terminal, None for a file that is no terminal or is closed."""
    try:
        return termios.tcgetattr(file)
    except termios.error:
        return None


def is_cut(file: int) -> bool:
    """True once a terminal's other end is gone."""
    poll = select.poll()
    poll.register(file, 0)
    return any(event & select.POLLHUP for _, event in poll.poll(0))


def in_background(file: int) -> bool:
    """True while another process group owns the terminal, as in a suspended app: using it would stop this process."""
    try:
        return os.tcgetpgrp(file) != os.getpgrp()
    except OSError:
        return False


# Whether the terminal is ready for another frame: each ends in a question, whose answer says that it was taken.
#
# The question is where the cursor is (`CSI 6n`). Every terminal answers that when it gets there in what was written,
# so the answer counts for all that SSH and the network hold before it. While frames are under way no other is written,
# and what is wanted meanwhile is one frame later. How many may be under way depends on whether answers take longer
# than the fastest one: on a slow line it is one. A terminal that never answers is written to as frames come.

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
        """True where a frame had to wait since the last answer."""
        self._answered = threading.Condition()

    @property
    def under_way(self) -> int:
        """Number of frames that are not known to have been taken."""
        return len(self._asked)

    def is_ready(self) -> bool:
        """True while a frame may be written."""
        with self._answered:
            wait = min(MIN_WAIT_SECONDS + WAITS_PER_ANSWER * self._last, MAX_WAIT_SECONDS)
            if self._asked and self._answers_come and self._clock() - self._asked[0] > wait:
                self._asked.clear()
                self._answers_come = False
            is_ready = not self._answers_come or len(self._asked) < self._allowed
            self._was_held |= not is_ready
            return is_ready

    def question(self) -> str:
        """The text to write behind a frame; empty for a terminal that does not answer."""
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

    def expect_none(self) -> None:
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
SYNC_START, SYNC_END = "\x1b[?2026h", "\x1b[?2026l"
"""Around a frame that the terminal shows at once."""
MAX_QUEUED_WRITES = 2
"""Writes that wait for the thread that writes; at so many the terminal takes them slower than they come."""


class TerminalDriver(LinuxDriver):
    """Empties its screen before it gives the terminal back, and takes the terminal once only.

    tmux, when its window has grown meanwhile, otherwise moves lines of the app above the prompt.
    """

    _has_terminal = False
    """True while the terminal is the app's, from the first setting that is changed to the last that is put back."""

    def __init__(
        self, app: CrashSafeApp, *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        app.terminal = self
        self.owner = app
        self.event_loop = asyncio.get_running_loop()
        self.flow = FlowControl()
        self.can_synchronize = False
        """True once the terminal has said that it can show a frame at once."""
        self.takeovers = 0
        """Times that the terminal was taken; its cells are not known then."""
        # Textual stops and goes on within the handler of a signal, which waits forever for a lock when the signal came
        # while the app was writing, and takes the terminal twice when the signal to go on is told late.
        signal.signal(signal.SIGTSTP, self._stop)
        signal.signal(signal.SIGCONT, self._continue)

    def is_ready(self) -> bool:
        """True while another frame may be written."""
        return self.flow.is_ready() and queued_writes(self) < MAX_QUEUED_WRITES

    def process_message(self, message: Message) -> None:
        """Hand a message on, unless it is the answer to a frame: nothing else asks where the cursor is."""
        if isinstance(message, CursorPosition):
            self.flow.take_answer()
            with suppress(RuntimeError):
                # The app may have ended meanwhile.
                self.event_loop.call_soon_threadsafe(self.owner.resume_writing)
            return
        if isinstance(message, TerminalSupportsSynchronizedOutput):
            self.can_synchronize = True
        super().process_message(message)

    def run_input_thread(self) -> None:
        """Read keys; what goes wrong there is an error like any other."""
        part_escape_from_keys(any("alt+" in name for names in KEY_NAMES.values() for name in names))
        try:
            super().run_input_thread()
        except Exception as error:
            self.owner.call_later(self._fail, error)

    @staticmethod
    def _fail(error: Exception) -> None:
        raise error

    def write(self, data: str) -> None:
        """Write to the terminal; output is dropped while the app does not have it."""
        if has_writer(self):
            super().write(data)

    def start_application_mode(self) -> None:
        """Take the terminal, unless the app has it: a second reader of keys would never end."""
        if self._has_terminal:
            return
        super().start_application_mode()  # type: ignore[no-untyped-call]
        # In the background the terminal is not to be had, and Textual leaves it at that.
        self._has_terminal = has_writer(self)
        self.takeovers += 1
        self.flow.expect_none()

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
        drop_writer(self)

    def _stop(self, *_: object) -> None:
        self.event_loop.call_soon_threadsafe(self.owner.action_suspend_process)

    def _continue(self, *_: object) -> None:
        self.event_loop.call_soon_threadsafe(self._go_on)

    def _go_on(self) -> None:
        """Take the terminal again where another program has used it meanwhile, as a shell does after SIGSTOP."""
        if in_background(self.fileno) or (self._has_terminal and self._is_raw()):
            return
        self.suspend_application_mode()
        self.resume_application_mode()
        self.owner.refresh(layout=True)

    def _is_raw(self) -> bool:
        now = attributes(self.fileno)
        return now is not None and not now[3] & termios.ICANON


# Writes what Textual wants to show as differences of cells, and no faster than the terminal takes them.
#
# It stands in for `App._display` and uses other parts of Textual that may change without notice.

RETRY_SECONDS = 0.05
"""Time after which a frame that was held back is tried again, should no answer of the terminal come before."""


class FrameWriter:
    """The way from Textual's updates to the terminal."""

    def __init__(self, app: CrashSafeApp, driver: TerminalDriver, retry: Callable[[], None]) -> None:
        """`retry` is called a while after a frame was held back, and is to call `resume`."""
        self._app = app
        self._retry = retry
        self._driver = driver
        self._differ = CellDiffer(app.console, erases_in_colour(os.environ))
        self._takeovers = driver.takeovers
        self._cursor: tuple[int, int] | None = None
        self._is_held = False

    def show(self, update: Update) -> None:
        """Show an update, now or when the terminal has taken the frames before it."""
        if self._takeovers != self._driver.takeovers:
            self._takeovers = self._driver.takeovers
            self.invalidate()
        self._differ.apply(update, *self._app.size)
        self.write()

    def invalidate(self) -> None:
        """Write every cell with the next frame: what the terminal shows is not known."""
        self._differ.invalidate()
        self._cursor = None

    def write(self) -> None:
        """Write the changes now if the terminal is ready, else later."""
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
        self._cursor = cursor
        frame += Control.move_to(*cursor).segment.text
        if self._driver.can_synchronize:
            frame = f"{SYNC_START}{frame}{SYNC_END}"
        self._driver.write(frame + self._driver.flow.question())
        self._driver.flush()

    def resume(self) -> None:
        """Write the pending frame."""
        if self._is_held:
            self._is_held = False
            self.write()


def erases_in_colour(environment: Mapping[str, str]) -> bool:
    """True where the terminal erases with the background that is set, as its description says (`bce`)."""
    try:
        # A Python may have been built without it.
        import curses

        curses.setupterm(environment.get("TERM", ""), 1)
        return curses.tigetflag("bce") > 0
    except (ImportError, curses.error):
        return False
