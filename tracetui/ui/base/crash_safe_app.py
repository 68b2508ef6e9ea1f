"""An app that gives the terminal back whatever happens, and reports a defect in two sentences.

Errors of messages that reach a widget after it was removed are ignored: see `is_for_removed_widget`.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from textual import log
from textual._styles_cache import StylesCache
from textual.app import App, ComposeResult
from textual.command import CommandList, CommandPalette
from textual.css.query import NoMatches
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Click, Event, Key, Paste, Resize
from textual.message import Message
from textual.message_pump import MessagePump
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget
from textual.worker import WorkerFailed

from tracetui.crash_report import crash_message
from tracetui.errors import AnalysisFailed
from tracetui.text import clean
from tracetui.ui.base.analysis_safe import AnalysisSafe, analysis_failure
from tracetui.ui.base.differ_switch import why_off
from tracetui.ui.base.overlay import Overlay
from tracetui.ui.base.signal_handling import SignalHandling, in_background
from tracetui.ui.base.terminal_driver import TerminalDriver

if TYPE_CHECKING:
    from tracetui.ui.base.terminal_driver import FrameWriter


# Keys of a burst are carried out one after the other: what a key led to has happened before the next is looked at.

ROUNDS = 3
"""How often a marker climbs from the widget to the app; what a part hears and tells on in its own words takes two."""
LOOK_SECONDS = 0.25
"""Seconds between two looks whether a marker was lost with a widget that was removed."""
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
        self._held: deque[Event] = deque()
        self._target: MessagePump | None = None
        """Where the last key went."""
        self._last: Event | None = None
        """The last key, until it has come back or was used up on its way."""
        self._rounds = 0
        """Rounds that the marker has to go; 0 while no key is held."""
        self._number = self._looks = 0
        self._timer: Timer | None = None

    @property
    def holds(self) -> bool:
        """Whether a key waits for those before it."""
        return bool(self._held)

    async def take(self, event: Event) -> None:
        """Handle a key or a paste that comes from the terminal, now or once those before it are through."""
        if self._rounds or self._is_busy():
            self._held.append(event)
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
        if self._held:
            await self._hand_on(self._held.popleft())
        if self._held:
            self._begin()

    async def _hand_on(self, event: Event) -> None:
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
        """Whether the last key is under way, or anything waits at the widget that got it, or at those around that."""
        if self._last is not None and not self._last._stop_propagation:
            return True
        node = self._target
        while node is not None and node is not self._app:
            if node.message_queue_size:
                return True
            node = node._parent
        return False

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
        """Go on without a marker that is lost; one whose widget is there is on its way, however busy the machine is."""
        self._looks += 1
        if self._target is None or not self._target.is_attached or self._looks >= MAX_LOOKS:
            self._app.post_message(Climbed(self._number))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None


def is_ordered(event: object) -> bool:
    """Whether an event is typed, and comes from the terminal."""
    return isinstance(event, Key | Paste) and not event.is_forwarded


# The palette of commands as Textual has it, made safe for keys and clicks that its list is not ready for.


class SafeCommandList(CommandList):
    """Ignores a click on a command that is not listed any more."""

    def on_click(self, event: Click) -> None:
        """Keep the click from Textual 8.2, which looks its index up in the present list."""
        index = event.style.meta.get("option")
        if index is not None and index >= self.option_count:
            event.prevent_default()
            event.stop()


class SafePalette(CommandPalette, Overlay[None]):
    """Palette that closes once, and ignores keys that move in its list until the list is laid out."""

    def compose(self) -> ComposeResult:
        """The usual parts with a list of our own."""
        for part in super().compose():
            yield SafeCommandList() if type(part) is CommandList else part

    def _action_command_list(self, action: str) -> None:
        # Textual 8.2 looks up the line of the current command without asking whether lines were made yet
        # (`OptionList._move_page`): pgup or pgdn right behind ctrl+p, in one burst, ended the app with `KeyError: 0`.
        lists = self.query(CommandList)
        if lists and lists.first().scrollable_content_region:
            super()._action_command_list(action)


INNER_FAILURES = (AttributeError, TypeError, ValueError, LookupError, ArithmeticError, RuntimeError)
"""What goes wrong where an inner part of Textual is not as it was."""
MIN_SCREENS = 2
"""Screens of which the last cannot be left for the one below: Textual's own, and the first that is shown."""
FAILURE_SECONDS = 30
"""Seconds for which the sentence about an analysis that failed stays: it holds a path to read."""
SWITCH_SECONDS = 0.001
"""Seconds after which a thread at work lets the screen go on: a fifth of Python's own, which a key waits for often."""


def is_for_removed_widget(error: BaseException) -> bool:
    """Whether an error is that of a widget that was removed before its message arrived.

    Textual tells a palette that is closed how busy it is, and mounts a screen that is left already; there is nothing
    left that could show a wrong thing. The widget that handled the message gets no other after an error, so that has to
    be gone as well: an app that goes on deaf would be worse than one that ends.
    """
    return isinstance(error, NoMatches) and _is_gone(_hearer(error.__traceback__))


def _hearer(trace: TracebackType | None) -> MessagePump | None:
    """Who dealt with the message: the first in the traceback."""
    while trace is not None:
        owner = trace.tb_frame.f_locals.get("self")
        if isinstance(owner, MessagePump):
            return owner
        trace = trace.tb_next
    return None


def _is_gone(part: MessagePump | None) -> bool:
    if not isinstance(part, Widget):
        return False
    # A screen is taken from the stack first, then it loses its parts, and at last its parent.
    return not part.is_attached or part.screen not in part.app.screen_stack


class CrashSafeApp(AnalysisSafe, App[int]):
    """Textual's own account of an error is a screenful of source with the values of variables: not for this app."""

    crash: str = ""
    """The report of a defect, printed once the terminal is given back."""

    last_key: float = 0.0
    """When the last key came, by the monotonic clock."""

    def __init__(self) -> None:
        # Without colours at all, not in the greys that Textual makes of its own.
        super().__init__(ansi_color=True if "NO_COLOR" in os.environ else None)
        self._writer: FrameWriter | None = None
        self._has_writer = not why_off()
        self._key_order = KeyOrder(self, super().on_event)

    @property
    def is_plain(self) -> bool:
        """Whether the terminal has 16 colours, or is to have none."""
        return self.no_color or self.console.color_system in ("standard", "windows", None)

    def get_driver_class(self) -> type[Driver]:
        """The usual driver, tidier where it is the one for terminals."""
        usual = super().get_driver_class()
        return TerminalDriver if usual is LinuxDriver else usual

    def _handle_exception(self, error: Exception) -> None:
        cause = error.error if isinstance(error, WorkerFailed) else error
        if is_for_removed_widget(cause):
            return
        if self._goes_on(cause):
            return
        if not self.crash:
            self.crash = crash_message(cause)
        super()._handle_exception(error)

    def _goes_on(self, error: BaseException) -> bool:
        """Whether an analysis failed where that is no reason to end, and say so.

        A screen that could not be opened over another one is left again. What runs behind a message, when all else is
        done, leaves the part that it belongs to as it was.
        """
        part, calls = _hearer(error.__traceback__), [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        failure = analysis_failure(error) if isinstance(part, Widget) else None
        if failure is None or not isinstance(part, Widget):
            return False
        is_opening = calls[0] == "_pre_process" and len(self.screen_stack) > MIN_SCREENS and part.screen is self.screen
        if is_opening:
            self.call_later(self.pop_screen)
        elif "_flush_next_callbacks" not in calls:
            return False
        self.tell_failure(failure)
        return True

    def tell_failure(self, failure: AnalysisFailed) -> None:
        """Say that an analysis failed, above whatever is on screen."""
        self.notify(clean(str(failure)), severity="warning", markup=False, timeout=FAILURE_SECONDS)

    def _fatal_error(self) -> None:
        self._close_messages_no_wait()

    def panic(self, *renderables: RenderableType) -> None:
        """End the app; `crash` has the report."""
        self._close_messages_no_wait()

    def _print_error_renderables(self) -> None:
        self._exit_renderables.clear()

    def _set_pointer_shape(self, shape: str) -> None:
        """Leave the mouse pointer as it is: terminals that do not know the sequence show it as text."""

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        """Write an update as differences of cells; in Textual's way where that cannot be done."""
        writer = self._frame_writer() if renderable is not None else None
        if writer is None:
            super()._display(screen, renderable)
        elif not writer.is_update(renderable):
            writer.forget()
            super()._display(screen, renderable)
        else:
            if self._running and not self._closed and not self._batch_count:
                self._try_to_write(partial(writer.show, renderable))
            self.post_display_hook()

    def _frame_writer(self) -> FrameWriter | None:
        """The writer of frames, made when it is first needed; None where Textual writes."""
        if self._writer is None and self._has_writer and isinstance(self._driver, TerminalDriver):
            try:
                # What it imports may have moved in a later version of Textual.
                from tracetui.ui.base.terminal_driver import FrameWriter

                self._writer = FrameWriter(self, self._driver, self.resume_writing)
            except (ImportError, *INNER_FAILURES) as error:
                self._write_as_textual(error)
        return self._writer

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
        """Write what waited for the terminal, which is ready by now."""
        if self._writer is not None and self._running and not self._closed:
            self._try_to_write(self._writer.resume)

    def action_redraw(self) -> None:
        """Write every cell of the screen again."""
        if self._writer is None:
            self.refresh(layout=True)
            return
        self._writer.forget()
        self._try_to_write(self._writer.write)

    def on_mount(self) -> None:
        """From now on, a screen that was left leaves nothing behind."""
        self.screen_change_signal.subscribe(self, forget_drawings)

    async def on_event(self, event: Event) -> None:
        """Handle an event; keys that come after the one that quits are for the shell."""
        if isinstance(event, Resize) and self._writer is not None and event.size == self.size:
            # It had another size for a moment, in which the terminal may have lost cells.
            self.action_redraw()
        if isinstance(event, Key):
            self.last_key = time.monotonic()
            self._key_order.came_back(event)
        if self._exit and isinstance(event, Key):
            return
        if is_ordered(event):
            await self._key_order.take(event)
        else:
            await super().on_event(event)

    async def _on_climbed(self, message: Climbed) -> None:
        await self._key_order.climbed(message.number)

    def action_command_palette(self) -> None:
        """Show the palette of commands, unless it is on screen."""
        if not isinstance(self.screen, CommandPalette):
            # The name by which Textual knows it.
            self.push_screen(SafePalette(id="--command-palette"))

    def action_suspend_process(self) -> None:
        """Give the terminal back and stop, until the shell continues the process in the foreground."""
        if self._driver is None or not self._driver.can_suspend:
            return
        with self.suspend():
            os.kill(os.getpid(), signal.SIGSTOP)
            while in_background(0):
                # Continued with `bg`: there is nothing to do without a terminal.
                os.kill(os.getpid(), signal.SIGSTOP)

    def leave(self, code: int) -> None:
        """End the app from a signal's handler; before it runs there is nothing to end but the process."""
        loop = self._loop
        if loop is None or loop.is_closed():
            raise SystemExit(code)
        loop.call_soon_threadsafe(self._leave, code)

    def _leave(self, code: int) -> None:
        self.exit(code, return_code=code)

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


def forget_drawings(_: object = None) -> None:
    """Let go of the lines of widgets that are gone; those of the others are made again when they are wanted.

    A cache of colours in Textual (https://github.com/Textualize/textual/issues/6665) has the caches of lines of the
    last 1024 widgets as its keys: 220 kB for each time that the palette was opened, up to some 40 MB.
    """
    forget = getattr(StylesCache.get_inner_outer, "cache_clear", None)
    if forget is not None:
        forget()
