"""The app, which takes note of being told to quit and stays: `python -m tests.load.staying FOLDER TRACE...`.

Keys at random find `q`, and Quit among the commands of the palette, every few minutes. A run of twenty minutes in
one process, whose memory means something, needs an app that stays then. Once the folder holds a file `leave` it
ends as it always does. Nothing else is changed: an end by any other way is an end that nobody asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tracetui.cli.main import main
from tracetui.ui.app import TraceApp
from tracetui.ui.opening.loading_screen import LoadingScreen
from tracetui.ui.recording.recording_form import RecordingScreen

LEAVE, QUITS = "leave", "quits"
"""Files of the folder: that quitting is meant, and a line for each time that it was not."""


def stay(folder: Path) -> None:
    """From now on, only take note of being told to quit."""
    for kind in (TraceApp, LoadingScreen, RecordingScreen):
        kind.action_quit = _noted(kind.action_quit, folder)  # type: ignore[assignment]


def quits(folder: Path) -> int:
    """How often the app was told to quit."""
    noted = folder / QUITS
    return len(noted.read_text().splitlines()) if noted.exists() else 0


def _noted(quit_for_good: Callable[[Any], Awaitable[None]], folder: Path) -> Callable[[Any], Awaitable[None]]:
    async def action_quit(self: Any) -> None:
        if (folder / LEAVE).exists():
            await quit_for_good(self)
        else:
            with (folder / QUITS).open("a") as file:
                file.write(f"{type(self).__name__}\n")

    return action_quit


if __name__ == "__main__":
    stay(Path(sys.argv[1]))
    sys.exit(main(sys.argv[2:]))
