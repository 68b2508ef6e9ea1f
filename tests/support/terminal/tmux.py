"""A tmux server of its own, with one window, for a test to type into and read from."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyte

from tests.support.waiting import POLL_SECONDS, PROCESS_SECONDS

PAUSE = 0.05
"""Seconds between two looks at the screen."""
SETTLED = 4
"""Looks at a screen that are alike before it counts as settled."""
_STATUS = re.compile(r"exit status (\d+)")


class Tmux:
    """A shell in a window of a fixed size; `close` ends the server and whatever runs in it."""

    def __init__(self, columns: int, rows: int, folder: Path) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tracetui-tmux-")
        self._socket = str(Path(self._folder.name) / "socket")
        environment = {
            key: value
            for key, value in os.environ.items()
            if key not in {"TMUX", "NO_COLOR", "COLUMNS", "LINES", "COLORTERM"}
        }
        self._run(
            "-f", os.devnull, "-u", "new-session", "-d", "-x", str(columns), "-y", str(rows),
            "-c", str(folder), "env PS1='$ ' sh", env={**environment, "LANG": "C.UTF-8"},
        )  # fmt: skip

    def type(self, text: str) -> None:
        """Type a text as it stands."""
        self._run("send-keys", "-l", text)

    def press(self, *keys: str) -> None:
        """Press keys by tmux's names for them: `Enter`, `Tab`, `Escape`, `C-d`, or a letter."""
        self._run("send-keys", *keys)

    def command(self, *words: str) -> None:
        """Run a command in the shell and have it print its exit status afterwards."""
        self.type(shlex.join(words) + "; echo exit status $?")
        self.press("Enter")

    def screen(self) -> str:
        """What the window shows."""
        return self._run("capture-pane", "-p")

    def painted(self) -> str:
        """What the window shows, with the sequences that give it its looks."""
        return self._run("capture-pane", "-e", "-p")

    def wait_for(self, *texts: str) -> str:
        """The screen once it shows every one of the texts.

        Raises: AssertionError with the screen when it does not within the patience.
        """
        return self.wait_until(lambda screen: all(text in screen for text in texts), f"{texts} did not appear")

    def wait_until(self, is_so: Callable[[str], object], told: str) -> str:
        """The screen once something is so of it.

        Raises: AssertionError with what is told and the screen when it is not within the patience.
        """
        end = time.monotonic() + POLL_SECONDS
        while not is_so(screen := self.screen()):
            assert time.monotonic() < end, f"{told}:\n{screen}"
            time.sleep(PAUSE)
        return screen

    def settled(self, before: str = "", looks: bool = False) -> str:
        """The screen, or it with its looks, once it is another than before and has stayed as it is for a while.

        Raises: AssertionError when it goes on changing for the patience.
        """
        end = time.monotonic() + POLL_SECONDS
        last, same = "", 0
        while same < SETTLED or last == before:
            assert time.monotonic() < end, f"it did not settle:\n{last}"
            time.sleep(PAUSE)
            now = self.painted() if looks else self.screen()
            last, same = now, same + 1 if now == last else 0
        return last

    def wait_for_shell(self) -> None:
        """Wait until the shell hears what is typed; when it takes the terminal back, it empties what was typed before.

        Raises: AssertionError with the screen when it does not answer within the patience.
        """
        end = time.monotonic() + POLL_SECONDS
        while "it is 42" not in self.screen():
            assert time.monotonic() < end, self.screen()
            self.type("echo it is $((6 * 7))")
            self.press("Enter")
            time.sleep(0.3)

    def cell(self, text: str) -> pyte.screens.Char:
        """The first cell of a text on the window, with its looks; a blank one where the text is not to be seen."""
        painted = self.painted().rstrip("\n").splitlines()
        screen = pyte.Screen(300, max(len(painted), 1))
        pyte.Stream(screen).feed("\r\n".join(painted))
        for y, line in enumerate(screen.display):
            if text in line:
                return screen.buffer[y][line.index(text)]
        return screen.default_char

    def wait_for_look(self, text: str, look: str, wanted: bool = True) -> None:
        """Wait until a text is, or is not, `bold`, `underscore` or `reverse`.

        Raises: AssertionError when it does not become so within the patience.
        """
        end = time.monotonic() + POLL_SECONDS
        while time.monotonic() < end:
            cell = self.cell(text)
            if cell.data == text[0] and getattr(cell, look) == wanted:
                return
            time.sleep(PAUSE)
        raise AssertionError(f"{text} is not {look}={wanted}:\n{self.painted()}")

    def exit_status(self) -> int:
        """The exit status of a command, once it has ended."""
        screen = self.wait_until(_STATUS.search, "the command did not end")
        return int(_STATUS.findall(screen)[0])

    def wait_until_gone(self, text: str) -> str:
        """The screen once it no longer shows a text.

        Raises: AssertionError with the screen when it still does after the patience.
        """
        return self.wait_until(lambda screen: text not in screen, f"{text!r} stayed")

    def wait_for_change(self, before: str) -> str:
        """The screen once it differs from what it was.

        Raises: AssertionError when it stays the same for the patience.
        """
        return self.wait_until(lambda screen: screen != before, "nothing changed")

    def state(self) -> dict[str, str]:
        """What programs can leave behind: alternate screen, hidden cursor, mouse reports, application keys."""
        flags = ("alternate_on", "cursor_flag", "mouse_any_flag", "keypad_cursor_flag", "insert_flag")
        values = self._run("display-message", "-p", ":".join(f"#{{{flag}}}" for flag in flags))
        return dict(zip(flags, values.strip().split(":"), strict=True))

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of the window."""
        self._run("resize-window", "-x", str(columns), "-y", str(rows))

    def close(self) -> None:
        """End the server."""
        subprocess.run(["tmux", "-S", self._socket, "kill-server"], capture_output=True, check=False)
        self._folder.cleanup()

    def _run(self, *words: str, env: dict[str, str] | None = None) -> str:
        command = ["tmux", "-S", self._socket, *words]
        result = subprocess.run(command, capture_output=True, text=True, check=True, env=env, timeout=PROCESS_SECONDS)
        return result.stdout
