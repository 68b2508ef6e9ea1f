"""Following a folder: every trace that appears in it is announced to the app."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from textual.app import App
from textual.message import Message

from tracetui.ui.opening.folder_watch import WATCH_SECONDS, FolderWatch


@dataclass
class TraceAppeared(Message):
    """A trace was written to the folder that is followed; of several the newest."""

    path: str


class TraceFollower:
    """Looks for new traces in a thread, one look at a time."""

    def __init__(self, app: App[Any], paths: Sequence[str]) -> None:
        self._app, self._watch = app, FolderWatch(paths)
        self._is_looking = False

    def start(self) -> None:
        """Follow from now on: what is there is known."""
        self._watch.begin()
        self._app.set_interval(WATCH_SECONDS, self._look)

    def _look(self) -> None:
        if not self._is_looking:
            self._is_looking = True
            self._app.run_worker(self._announce, thread=True, group="follow")

    def _announce(self) -> None:
        try:
            if appeared := self._watch.changes().appeared:
                self._app.post_message(TraceAppeared(str(appeared[-1])))
        finally:
            self._is_looking = False
