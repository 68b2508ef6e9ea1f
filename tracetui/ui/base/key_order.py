"""Keys of a burst are carried out one after the other: what a key led to has happened before the next is looked at.

Textual hands a key to the widget with the focus, and looks for its command when it has come back through all parents.
A key right behind it, as a paste or a fast hand sends it, would go to the widget that had the focus before, and a
command that is looked for at once would overtake it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from textual.app import App
from textual.events import Event, Key, Paste
from textual.message import Message
from textual.message_pump import MessagePump
from textual.timer import Timer

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
