"""The app: themes, which screen is on top, and the way in, `run`. A trace is the matter of `trace_view`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, ClassVar

from textual import on
from textual.app import App
from textual.binding import BindingType
from textual.command import Provider
from textual.screen import Screen

from tracetui.analysis.panes import PANES
from tracetui.errors import TracetuiError, UsageError
from tracetui.model.place import Place, read_view_string
from tracetui.ui.commands import CommandProvider, command
from tracetui.ui.loading import LoadingScreen
from tracetui.ui.messages import Loaded, LoadFailed
from tracetui.ui.pickers import TracePicker
from tracetui.ui.themes import DARK, LIGHT, THEMES
from tracetui.ui.trace_screen import TraceScreen


class TraceApp(App[int]):
    """One or several traces, one on screen at a time."""

    TITLE = "tracetui"
    CSS_PATH = Path(__file__).with_name("tracetui.tcss")
    COMMANDS: ClassVar[set[type[Provider]]] = {CommandProvider}  # type: ignore[assignment]
    COMMAND_PALETTE_BINDING = "ctrl+p"
    BINDINGS: ClassVar[list[BindingType]] = [
        command("ctrl+p", "command_palette", "Palette", "Every command by name.", "commands"),
        command("t", "traces", "List of traces", "Those given, or those in this folder."),
        command("ctrl+t", "switch_theme", "Light or dark"),
        command("ctrl+z", "suspend_process", "Suspend", "`fg` in the shell brings the app back."),
        command("q,ctrl+c", "quit", "Quit", "", "quit"),
    ]
    PAUSE_GC_ON_SCROLL = True

    def __init__(self, paths: list[str], place: Place | None = None) -> None:
        super().__init__()
        self.paths = paths or ["."]
        self.failure: TracetuiError | None = None
        """Why the app ended without showing anything."""
        self._place = place or Place()
        self._opened: dict[str, tuple[TraceScreen, float]] = {}
        """The screens of traces that were read, and when their files had changed last."""

    def on_mount(self) -> None:
        """Choose the theme and what to show first."""
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = DARK.name
        self.animation_level = "none"
        self.start()

    def start(self) -> None:
        """Load the file that was given, or list what there is."""
        if self._is_one_file:
            self.push_screen(LoadingScreen(self.paths[0]))
        else:
            self.action_traces()

    def open(self, path: str | None) -> None:
        """Show a trace, reading it unless that was done; without a path leave when nothing is open."""
        if path is None:
            if not self._opened:
                self.exit(0)
            return
        if path in self._opened and self._opened[path][1] == changed(path):
            self._put_on_top(self._opened[path][0])
        else:
            self._put_on_top(LoadingScreen(path))

    def action_traces(self) -> None:
        """Pick another trace."""
        self.push_screen(TracePicker(self.paths), self.open)

    def action_switch_theme(self) -> None:
        """Change between light and dark."""
        self.theme = LIGHT.name if self.current_theme.dark else DARK.name

    @property
    def _is_one_file(self) -> bool:
        return len(self.paths) == 1 and not Path(self.paths[0]).is_dir()

    def _put_on_top(self, screen: Screen[Any]) -> None:
        """Put a screen on top; the blank one below everything stays."""
        if len(self.screen_stack) > 1:
            self.switch_screen(screen)
        else:
            self.push_screen(screen)

    @on(Loaded)
    def _show_trace(self, message: Loaded) -> None:
        screen = TraceScreen(message.trace, message.picture, self._place)
        if message.path in self._opened:
            self.uninstall_screen(self._opened[message.path][0])
        self._opened[message.path] = screen, changed(message.path)
        self._place = Place()
        self.install_screen(screen, f"trace {id(screen)}")
        self._put_on_top(screen)

    @on(LoadFailed)
    def _fail(self, message: LoadFailed) -> None:
        if self._is_one_file:
            self.failure = message.error
            self.exit(message.error.exit_code, return_code=message.error.exit_code)
        else:
            self.pop_screen()
            self.push_screen(TracePicker(self.paths, str(message.error)), self.open)


def changed(path: str) -> float:
    """When a file changed last, in seconds since the epoch; 0 for standard input and what is gone."""
    try:
        return Path(path).stat().st_mtime
    except OSError:
        return 0.0


def run(paths: list[str], step: int | None = None, at: str | None = None) -> int:
    """Run the app on files and folders and return its exit code.

    Raises: UsageError for a view string that cannot be understood.
    """
    place = read_view_string(at) if at else Place()
    if place.pane is not None and place.pane not in PANES:
        raise UsageError(f"the view {at!r} names no pane {place.pane!r}; there are {', '.join(PANES)}")
    if step is not None:
        place = Place(step, place.pane, place.event, place.kernel, place.start_ns, place.length_ns)
    app = TraceApp(paths, place)
    app.run()
    if app.failure is not None:
        print(f"tracetui: {app.failure}", file=sys.stderr)
    return app.return_code or 0
