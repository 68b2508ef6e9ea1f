"""An app that restores the terminal after any error, and reports a defect in two sentences.

Errors of messages that reach a widget after it was removed are ignored: see `is_for_removed_widget`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import Any

from textual import log
from textual.app import App, ComposeResult
from textual.command import CommandList, CommandPalette
from textual.css.query import NoMatches
from textual.dom import DOMNode
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Click, Event, Key, Paste, Resize
from textual.message import Message
from textual.message_pump import MessagePump
from textual.timer import Timer
from textual.widget import Widget
from textual.worker import WorkerFailed

from tracetui.crash_report import crash_message
from tracetui.errors import AnalysisFailed
from tracetui.text import clean
from tracetui.ui.base.cell_differ import Update
from tracetui.ui.base.overlay import AnalysisSafe, Overlay, analysis_failure
from tracetui.ui.base.terminal_driver import FrameWriter, SignalHandling, TerminalDriver, in_background
from tracetui.ui.base.textual_internals import (
    INNER_FAILURES,
    HookedApp,
    clear_style_caches,
    is_behind_messages,
    is_opening,
    is_stopped,
    missing_names,
    works,
)

# Keys of a burst are carried out one after the other: what a key led to has happened before the next is looked at.
#
# Textual hands a key to the widget with the focus, and looks for its command when it has come back through all
# parents. A key right behind it, as a paste or a fast hand sends it, would go to the widget that had the focus before,
# and a command that is looked for at once would overtake it.

ROUNDS = 3
"""Times that a marker climbs from the widget to the app; a message that is answered with another takes two."""
LOOK_SECONDS = 0.25
"""Seconds between two looks whether a marker was lost with a widget that was removed."""
ROWS_SECONDS = 0.01
"""Seconds between two looks whether rows are there that a key waits for."""
MAX_LOOKS = 20
"""Looks after which keys go on, whatever became of the marker."""


class Climbed(Message):
    """A marker that was posted to a widget behind a key and has come to the app, as all that the key led to by then."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class KeyOrder:
    """Holds keys back until those before them are through. Only a burst costs anything."""

    def __init__(self, app: App[Any], handle: Callable[[Event], Awaitable[None]]) -> None:
        self._app, self._handle = app, handle
        self._waiting: deque[Event] = deque()
        self._target: Widget | None = None
        """The widget that got the last key."""
        self._last: Event | None = None
        """The last key, until it has come back or was used up on its way."""
        self._rounds = 0
        """Rounds that the marker has to go; 0 while no key is held."""
        self._number = self._looks = 0
        self._timer: Timer | None = None

    @property
    def holds(self) -> bool:
        """True while a key waits for those before it."""
        return bool(self._waiting)

    async def take(self, event: Event) -> None:
        """Handle a key or a paste that comes from the terminal, now or once those before it are through."""
        if self._rounds or self._is_busy() or self._awaits_rows():
            self._waiting.append(event)
            if not self._rounds:
                self._begin()
        else:
            await self._hand_on(event)

    async def climbed(self, number: int) -> None:
        """Go on, with the next round or the next key, as the marker of a number has come."""
        if number != self._number or not self._rounds:
            return
        self._stop_timer()
        self._rounds -= 1
        if self._rounds:
            self._send()
            return
        self._last = None
        if self._waiting and self._awaits_rows():
            self._rounds = 1
            self._app.set_timer(ROWS_SECONDS, self._send)
            return
        if self._waiting:
            await self._hand_on(self._waiting.popleft())
        if self._waiting:
            self._begin()

    async def _hand_on(self, event: Event) -> None:
        if not self._app.screen_stack:
            # The app is closing: a key has nowhere to go.
            self._waiting.clear()
            return
        self._target, self._last = self._app.focused or self._app.screen, event
        await self._handle(event)
        if not event.is_forwarded:
            # A command that comes before all others.
            self._last = None

    def came_back(self, event: Event) -> None:
        """Note that a key has gone through the widgets and is with the app again."""
        if event is self._last:
            self._last = None

    def _is_busy(self) -> bool:
        """True while the last key is under way, or anything waits at the widget that got it, or around that."""
        if self._last is not None and not is_stopped(self._last):
            return True
        node: DOMNode | None = self._target
        while node is not None and node is not self._app:
            if node.message_queue_size:
                return True
            node = node.parent
        return False

    def _awaits_rows(self) -> bool:
        """True while the screen has no rows yet that the next key may be about."""
        return bool(self._app.screen_stack) and getattr(self._app.screen, "awaits_rows", False)

    def _begin(self) -> None:
        self._rounds = ROUNDS
        self._send()

    def _send(self) -> None:
        self._number += 1
        marker = Climbed(self._number)
        target = self._target
        is_posted = target is not None and target.is_attached and target.post_message(marker)
        if not is_posted:
            self._app.post_message(marker)
        self._looks = 0
        self._timer = self._app.set_interval(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        """Go on without a lost marker; one whose widget still exists will arrive, however busy the machine is."""
        self._looks += 1
        if self._target is None or not self._target.is_attached or self._looks >= MAX_LOOKS:
            self._app.post_message(Climbed(self._number))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None


# The palette of commands as Textual has it, made safe for keys and clicks that its list is not ready for.


class SafeCommandList(CommandList):
    """Ignores a click on a command that is not listed any more, and pages until it is laid out."""

    def on_click(self, event: Click) -> None:
        """Keep the click from Textual 8.2, which looks its index up in the present list."""
        index = event.style.meta.get("option")
        if index is not None and index >= self.option_count:
            event.prevent_default()
            event.stop()

    # Textual 8.2 looks up the line of the current command without asking whether lines were made yet
    # (`OptionList._move_page`): pgup or pgdn right behind ctrl+p, in one burst, ended the app with `KeyError: 0`.

    def action_page_up(self) -> None:
        """Move a page up."""
        if self.scrollable_content_region:
            super().action_page_up()  # type: ignore[no-untyped-call]

    def action_page_down(self) -> None:
        """Move a page down."""
        if self.scrollable_content_region:
            super().action_page_down()  # type: ignore[no-untyped-call]


class SafePalette(CommandPalette, Overlay[None]):
    """Palette that closes once."""

    def compose(self) -> ComposeResult:
        """The usual parts with a list of our own."""
        for part in super().compose():
            yield SafeCommandList() if type(part) is CommandList else part


MIN_SCREENS = 2
"""Screens of which the last cannot be left for the one below: Textual's own, and the first that is shown."""
FAILURE_SECONDS = 30
"""Seconds for which the sentence about an analysis that failed stays: it holds a path to read."""
SWITCH_SECONDS = 0.001
"""Seconds after which a thread at work lets the screen go on: a fifth of Python's own, which a key waits for often."""


def is_for_removed_widget(error: BaseException) -> bool:
    """True for the error of a widget that was removed before its message arrived.

    Textual tells a palette that is closed how busy it is, and mounts a screen that is left already; there is nothing
    left that could show a wrong thing. The widget that handled the message gets no other after an error, so that has to
    be gone as well: an app that goes on deaf would be worse than one that ends.
    """
    part = _handler(error.__traceback__) if isinstance(error, NoMatches) else None
    if not isinstance(part, Widget):
        return False
    # A screen is taken from the stack first, then it loses its parts, and at last its parent.
    return not part.is_attached or part.screen not in part.app.screen_stack


def _handler(trace: TracebackType | None) -> MessagePump | None:
    """The part that dealt with the message: the first in the traceback."""
    while trace is not None:
        owner = trace.tb_frame.f_locals.get("self")
        if isinstance(owner, MessagePump):
            return owner
        trace = trace.tb_next
    return None


class CrashSafeApp(AnalysisSafe, HookedApp):
    """An app that leaves the terminal as it was, and reports a defect in two sentences."""

    crash: str = ""
    """The report of a defect, printed once the terminal is given back."""

    last_key: float = 0.0
    """Time of the last key, by the monotonic clock."""

    def __init__(self) -> None:
        # Without colours at all, not in the greys that Textual makes of its own.
        super().__init__(ansi_color=True if "NO_COLOR" in os.environ else None)
        self._writer: FrameWriter | None = None
        self._has_writer = works("frames")
        self.terminal: TerminalDriver | None = None
        """The driver, where it is the one for terminals."""
        self.event_loop: asyncio.AbstractEventLoop | None = None
        """The loop that the app runs in, while it does."""
        self._key_order = KeyOrder(self, super().on_event)

    @property
    def is_plain(self) -> bool:
        """True for a terminal with 16 colours, or one that is to have none."""
        return self.no_color or self.console.color_system in ("standard", "windows", None)

    def get_driver_class(self) -> type[Driver]:
        """The usual driver, tidier where it is the one for terminals."""
        usual = super().get_driver_class()
        return TerminalDriver if usual is LinuxDriver else usual

    def take_error(self, error: Exception) -> bool:
        """Handle an error from anywhere; False to end the app, with a report."""
        cause = error.error if isinstance(error, WorkerFailed) else error
        if is_for_removed_widget(cause) or self._is_bearable(cause):
            return True
        self.crash = self.crash or crash_message(cause)
        return False

    def _is_bearable(self, error: BaseException) -> bool:
        """Say that an analysis failed where that is no reason to end; False for other errors.

        A screen that could not be opened over another one is left again. What runs behind a message, when all else is
        done, leaves the part that it belongs to as it was.
        """
        part, calls = _handler(error.__traceback__), [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        failure = analysis_failure(error) if isinstance(part, Widget) else None
        if failure is None or not isinstance(part, Widget):
            return False
        if is_opening(calls) and len(self.screen_stack) > MIN_SCREENS and part.screen is self.screen:
            self.call_later(self.pop_screen)
        elif not is_behind_messages(calls):
            return False
        self.report_failure(failure)
        return True

    def report_failure(self, failure: AnalysisFailed) -> None:
        """Report a failed analysis in a notification above the screen."""
        self.notify(clean(str(failure)), severity="warning", markup=False, timeout=FAILURE_SECONDS)

    def take_frame(self, update: Update | None) -> bool:
        """Write an update as differences of cells; False where Textual has to write it."""
        if self._writer is None and self._has_writer and self.terminal is not None:
            try:
                self._writer = FrameWriter(self, self.terminal, self.resume_writing)
            except INNER_FAILURES as error:
                self._write_as_textual(error)
        if self._writer is None:
            return False
        if update is None:
            self._writer.invalidate()
            return False
        if self.shows_frames():
            self._try_to_write(partial(self._writer.show, update))
        self.post_display_hook()
        return True

    def _try_to_write(self, write: Callable[[], None]) -> None:
        try:
            write()
        except INNER_FAILURES as error:
            self._write_as_textual(error)

    def _write_as_textual(self, error: Exception) -> None:
        """From now on, leave the writing to Textual."""
        log.warning(f"Textual writes the screen, as differences of cells failed: {error!r}")
        self._writer, self._has_writer = None, False
        self.refresh(layout=True)

    def resume_writing(self) -> None:
        """Write the pending frame: the terminal is ready."""
        if self._writer is not None and self.is_running:
            self._try_to_write(self._writer.resume)

    def action_redraw(self) -> None:
        """Write every cell of the screen again."""
        if self._writer is None:
            self.refresh(layout=True)
            return
        self._writer.invalidate()
        self._try_to_write(self._writer.write)

    def on_mount(self) -> None:
        """From now on, a screen that was left leaves nothing behind."""
        self.screen_change_signal.subscribe(self, lambda _: clear_style_caches())
        if missing_names():
            log.warning(f"Textual lacks, or has in another form: {', '.join(missing_names())}")

    async def on_event(self, event: Event) -> None:
        """Handle an event; keys that come after the one that quits are for the shell."""
        if isinstance(event, Resize) and self._writer is not None and event.size == self.size:
            # It had another size for a moment, in which the terminal may have lost cells.
            self.action_redraw()
        if isinstance(event, Key):
            self.last_key = time.monotonic()
            self._key_order.came_back(event)
        if self.return_code is not None and isinstance(event, Key):
            return
        # Typed, and from the terminal.
        if isinstance(event, Key | Paste) and not event.is_forwarded:
            await self._key_order.take(event)
        else:
            await super().on_event(event)

    async def _on_climbed(self, message: Climbed) -> None:
        # Keys that come after the one that quits are for the shell.
        if self.return_code is None:
            await self._key_order.climbed(message.number)

    def action_command_palette(self) -> None:
        """Show the palette of commands, unless it is on screen."""
        if not isinstance(self.screen, CommandPalette):
            # The name by which Textual knows it.
            self.push_screen(SafePalette(id="--command-palette"))

    def action_suspend_process(self) -> None:
        """Give the terminal back and stop, until the shell continues the process in the foreground."""
        if self.terminal is None or not self.terminal.can_suspend:
            return
        with self.suspend():
            os.kill(os.getpid(), signal.SIGSTOP)
            while in_background(0):
                # Continued with `bg`: there is nothing to do without a terminal.
                os.kill(os.getpid(), signal.SIGSTOP)

    async def run_async(self, **options: Any) -> int | None:
        """Run, and keep the event loop."""
        self.event_loop = asyncio.get_running_loop()
        try:
            return await super().run_async(**options)
        finally:
            self.event_loop = None

    def leave(self, code: int) -> None:
        """End the app from a signal's handler; before it runs there is nothing to end but the process."""
        loop = self.event_loop
        if loop is None or loop.is_closed():
            raise SystemExit(code)
        loop.call_soon_threadsafe(partial(self.exit, code, return_code=code))

    def run_safely(self) -> int:
        """Run to the end and return the exit code; a report of a defect goes to standard error afterwards."""
        sys.setswitchinterval(SWITCH_SECONDS)
        try:
            with SignalHandling(self.leave):
                self.run()
        except Exception as error:
            self.crash = self.crash or crash_message(error)
        if self.crash:
            print(self.crash, file=sys.stderr)
            return 1
        return self.return_code or 0
