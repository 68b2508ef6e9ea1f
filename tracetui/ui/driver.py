"""The terminal as Textual drives it, with more care for how it ends."""

from __future__ import annotations

from textual.drivers.linux_driver import LinuxDriver

_EMPTY = "\x1b[H\x1b[J"
"""The cursor to the first cell, and nothing after it."""


class TidyDriver(LinuxDriver):
    """Empties its screen before it gives the terminal back.

    tmux, when its window has grown meanwhile, otherwise moves lines of the app above the prompt.
    """

    def run_input_thread(self) -> None:
        """Read keys; what goes wrong there is an error like any other."""
        try:
            super().run_input_thread()
        except Exception as error:
            self._app.call_later(self._app._handle_exception, error)

    def stop_application_mode(self) -> None:
        """Leave the terminal as it was found; also before the app is suspended."""
        self.write(_EMPTY)
        super().stop_application_mode()
