"""The app: themes, the stack of screens, and its entry points `run` and `compare`; `trace_view` shows one trace."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from textual import on
from textual.binding import BindingType
from textual.command import Provider
from textual.events import Key
from textual.message import Message
from textual.screen import Screen
from textual.theme import BUILTIN_THEMES, Theme

from tracetui.config import THEME_NAMES, config
from tracetui.errors import TracetuiError, UsageError, nearest
from tracetui.files import is_url
from tracetui.model.viewpoint import Viewpoint, read_view_string
from tracetui.opening.rank_folder import RankSetName
from tracetui.opening.trace_opening import AS_RECORDED, OpenOptions, SideName
from tracetui.panes import PANES
from tracetui.text import clean
from tracetui.ui.base import keys
from tracetui.ui.base.crash_safe_app import CrashSafeApp
from tracetui.ui.base.exports import save_picture
from tracetui.ui.base.keys import CommandProvider, command
from tracetui.ui.base.overlay import CompareAsked, Loaded, LoadFailed, Overlay, PartSizes, SliceAsked, SnapshotLoaded
from tracetui.ui.open_comparison import ComparisonOpener, RecentTraces, SidesFound, StepsReady, prepare_steps
from tracetui.ui.opening.loading_screen import LoadingScreen
from tracetui.ui.opening.trace_files import TraceAppeared, TraceFollower
from tracetui.ui.opening.trace_picker import TraceChoice, TracePicker
from tracetui.ui.ranks.rank_reader import MomentAsked, RankLanesAsked, RankTraceAsked, SetFailed
from tracetui.ui.trace.trace_screen import StepsAsked, TraceScreen
from tracetui.ui.widgets.bar import HintsBar
from tracetui.ui.widgets.searchable_view import SizedScreen

# Themes: the app's own dark and light, and two in the terminal's colours. Quiet: in the lanes the slices stand out.
#
# The latter leave text and background as the terminal has them, so that they suit any palette, and terminals with 16
# colours or none; what has the focus is shown in reverse video (`ansi.tcss`).

DARK = Theme(
    name="tracetui-dark",
    primary="#7fb2e5",
    secondary="#8fa3b8",
    accent="#e0a458",
    warning="#e0a458",
    error="#d9776c",
    success="#7fb2e5",
    foreground="#d8dee6",
    background="#101418",
    surface="#161b21",
    panel="#1d242c",
    dark=True,
)
LIGHT = Theme(
    name="tracetui-light",
    primary="#1f5f99",
    secondary="#5a6b7d",
    accent="#a65f00",
    warning="#a65f00",
    error="#b03a2e",
    success="#1f5f99",
    foreground="#1d242c",
    background="#ffffff",
    surface="#f4f6f8",
    panel="#e6e8ea",
    dark=False,
)
ANSI_DARK, ANSI_LIGHT = BUILTIN_THEMES["ansi-dark"], BUILTIN_THEMES["ansi-light"]

THEMES = (DARK, LIGHT)
"""Those that Textual does not have."""
OWN_COLOURS, TERMINALS_COLOURS = (DARK.name, LIGHT.name), (ANSI_DARK.name, ANSI_LIGHT.name)

VARIABLE = "TRACETUI_THEME"
"""Names the theme to start with: dark, light, ansi-dark or ansi-light."""
_CHOICES = dict(zip(THEME_NAMES, (DARK.name, LIGHT.name, ANSI_DARK.name, ANSI_LIGHT.name), strict=True))


def usable(is_plain: bool) -> tuple[str, ...]:
    """Names of the themes to go through; on a plain terminal, with 16 colours or none, those in its own colours."""
    return TERMINALS_COLOURS if is_plain else OWN_COLOURS + TERMINALS_COLOURS


def first_theme(environment: Mapping[str, str], is_plain: bool) -> str:
    """The theme to start with: that of `TRACETUI_THEME`, else one for the colours and background of the terminal."""
    names = usable(is_plain)
    wanted = _CHOICES.get(environment.get(VARIABLE, ""), "")
    if wanted in names:
        return wanted
    # COLORFGBG is `text;background`, in which 7 and 15 are white.
    is_white = environment.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15")
    is_light = wanted == LIGHT.name or (not wanted and is_white)
    return names[is_light]


def next_theme(current: str, is_plain: bool) -> str:
    """The theme after one."""
    names = usable(is_plain)
    return names[(names.index(current) + 1) % len(names)] if current in names else names[0]


PROBLEM_SECONDS = 15.0
"""Seconds for which the app says what is wrong in the settings."""
MAX_SCREENS = 6
"""Maximum screens above each other; at this depth a slice is shown on a screen that is there already."""


class TraceApp(CrashSafeApp):
    """One or several traces, one on screen at a time."""

    HELP_WHERE = "everywhere"

    TITLE = "tracetui"
    CSS_PATH = [Path(__file__).with_name(name) for name in ("tracetui.tcss", "ansi.tcss")]
    COMMANDS: ClassVar[set[type[Provider]]] = {CommandProvider}  # type: ignore[assignment]
    COMMAND_PALETTE_BINDING = "ctrl+p"
    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.PALETTE, "command_palette", "Palette", "Every command by name.", "commands"),
        command(keys.TRACE_LIST, "traces", "List of traces", "Of the command line, or of this folder."),
        command(keys.THEME, "switch_theme", "Next theme", "Dark, light, or the terminal's own colours."),
        command(keys.PICTURE, "save_picture", "Picture of the screen", "As it is now, to an SVG file."),
        command(keys.REDRAW, "redraw", "Redraw", "Should another program have written on the screen."),
        command(keys.SUSPEND, "suspend_process", "Suspend", "`fg` in the shell brings the app back."),
        command(keys.QUIT, "quit", "Quit", "", "quit"),
        command(keys.ESCAPE, "stop_comparing", "Give up comparing", "While it is worked out.", before_typing=True),
        # Also where text is typed, whose field would copy.
        command(keys.QUIT_ANYWHERE, "leave", "Quit from anywhere", "Also while typing.", before_typing=True),
    ]
    PAUSE_GC_ON_SCROLL = True

    def __init__(
        self,
        paths: list[str],
        viewpoint: Viewpoint | None = None,
        sides: Sequence[SideName] | None = None,
        options: OpenOptions = AS_RECORDED,
        ranks: RankSetName | None = None,
        follows: bool = False,
    ) -> None:
        """With `sides`, traces or parts of one are compared, more than two with the first; `ranks` are shown.

        `options` are for every trace that is opened. Where it `follows`, every trace that appears in the folders is.
        """
        super().__init__()
        self.paths = paths or ["."]
        self._names_folder = len(paths) == 1
        """True where a path was named, and the current folder is not just meant."""
        self._rank_screens: dict[RankSetName, Screen[None]] = {}
        """The screens of sets of ranks: going back to one takes no time."""
        self.options = options
        self.marked_traces: list[str] = []
        """Paths that are marked in the list of traces, A first."""
        self.part_sizes = PartSizes()
        """The sizes that the parts of the screen were given."""
        self.failure: TracetuiError | None = None
        """The error with which the app ended without showing anything."""
        self._opening_viewpoint = viewpoint or Viewpoint()
        self.recent = RecentTraces(self)
        self._opener = ComparisonOpener(self, self, self.recent)
        self._sides = sides
        self._ranks = ranks
        self._follows = follows
        self._postponed: list[Message] = []
        """Messages that wait until nothing lies over the screen that they are about."""

    def on_mount(self) -> None:
        """Choose the theme and what to show first."""
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = first_theme({VARIABLE: config().word("theme"), **os.environ}, self.is_plain)
        self.animation_level = "none"
        if problems := [*config().problems, *keys.key_problems()]:
            more = "" if len(problems) == 1 else f" And {len(problems) - 1} more: see `tracetui config`."
            self.notify(f"{problems[0]}{more}", severity="warning", timeout=PROBLEM_SECONDS, markup=False)
        self.screen_change_signal.subscribe(self, self._catch_up, immediate=True)
        self.start()

    def start(self) -> None:
        """Load the file that was given, or the sides of a comparison, or list what there is."""
        if self._sides is not None:
            self._opener.start(*self._sides)
        elif self._ranks is not None:
            self._show_ranks(self._ranks)
        elif self._is_one_file:
            self.push_screen(LoadingScreen(self.paths[0], self.options))
        elif self._follows:
            self.push_screen(TracePicker(self.paths), self.open)
            TraceFollower(self, self.paths).start()
        else:
            # A folder that was named may be there for its ranks.
            self.push_screen(TracePicker(self.paths, opens_ranks=self._names_folder), self.open)

    @on(TraceAppeared)
    def _open_appeared(self, message: TraceAppeared) -> None:
        """Open a new trace of the followed folder; it waits while the user types or a file is read."""
        if isinstance(self.screen, TracePicker):
            self.screen.dismiss(message.path)
        elif not self._waits(message):
            self.open(message.path)

    def open(self, chosen: TraceChoice) -> None:
        """Show a trace, compare two or list more, reading those not read yet; None leaves the app when nothing is open.

        More than two that were marked are compared with the first.
        """
        if isinstance(chosen, RankSetName):
            self._show_ranks(chosen)
            return
        if isinstance(chosen, tuple):
            self._opener.start(*map(SideName, chosen))
            return
        if isinstance(chosen, list) and len(chosen) > 2:
            self.paths = chosen
            self.action_traces()
            return
        if isinstance(chosen, list) and len(chosen) == 2:
            self._opener.start(SideName(chosen[0]), SideName(chosen[1]))
            return
        path = chosen[0] if isinstance(chosen, list) else chosen
        if path is None:
            if len(self.screen_stack) < 2:
                self.exit(0)
            return
        if os.path.isdir(path):
            # What several ranks left.
            self._show_ranks(RankSetName((path,)))
            return
        self._opener.give_up()
        read = self.recent.get(path)
        self._put_on_top(LoadingScreen(path, self.options) if read is None else self.recent.screen_of(read))

    def folders_beside(self, path: str) -> list[str]:
        """Folders and files with traces beside one of a path: those the app was started with, or else its folder."""
        is_here = path != "-" and not is_url(path)
        return [str(Path(path).parent) if is_here else "."] if self._is_one_file else self.paths

    @property
    def has_list(self) -> bool:
        """True where the trace was picked from a list of traces."""
        return self._sides is None and not self._is_one_file

    def warn(self, text: str) -> None:
        """Show a warning on the screen on top."""
        self.remark(text, warn=True)

    def remark(self, text: str, warn: bool = False) -> None:
        """Show a sentence on the screen on top."""
        on_top = self.screen
        if isinstance(on_top, SizedScreen):
            on_top.notice(text, warn)
        else:
            self.notify(clean(text), severity="warning" if warn else "information", markup=False)

    def end_with(self, error: TracetuiError) -> None:
        """End the app, which never showed anything."""
        self.failure = error
        self.exit(error.exit_code, return_code=error.exit_code)

    def on_key(self, event: Key) -> None:
        """Before a key is carried out: the last notice goes, and a key that does nothing here says where it does."""
        hints = getattr(self.screen, "hints", None)
        if isinstance(hints, HintsBar):
            hints.take_key(event.key, event.character)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The list of traces is opened once, whatever else lies over it; only what is under way is given up."""
        if action == "stop_comparing":
            return self._opener.is_comparing and not isinstance(self.screen, Overlay)
        return action != "traces" or not any(isinstance(screen, TracePicker) for screen in self.screen_stack)

    def action_stop_comparing(self) -> None:
        """Give up a comparison that is being worked out."""
        self._opener.stop()

    def action_traces(self) -> None:
        """Pick another trace."""
        self.push_screen(TracePicker(self.paths), self.open)

    def action_switch_theme(self, name: str = "") -> None:
        """Take a theme by its name, or the next of dark, light and the terminal's own colours."""
        wanted = _CHOICES.get(name)
        is_usable = wanted is not None and wanted in usable(self.is_plain)
        self.theme = wanted if is_usable and wanted else next_theme(self.theme, self.is_plain)

    async def action_leave(self) -> None:
        """Quit, as the screen on top does."""
        on_top: Any = self.screen
        await (on_top.action_quit() if hasattr(on_top, "action_quit") else self.action_quit())

    def action_save_picture(self) -> None:
        """Write the screen to an SVG file and name it."""
        on_top = self.screen
        self.remark(*save_picture(self, on_top.label if isinstance(on_top, SizedScreen) else self.TITLE or ""))

    @property
    def _is_one_file(self) -> bool:
        return len(self.paths) == 1 and not Path(self.paths[0]).is_dir()

    def _show_ranks(self, name: RankSetName) -> None:
        """Show a set of ranks, which is read once."""
        self._opener.give_up()
        if self.options.compile_log and not name.options.compile_log:
            name = replace(name, options=name.options._replace(compile_log=self.options.compile_log))
        screen = self._rank_screens.get(name)
        if screen is None:
            # The screen of ranks imports what compares them, which traces alone do not need.
            from tracetui.ui.ranks.rank_view import RankScreen

            screen = self._rank_screens[name] = RankScreen(name, self.options.uses_cache)
            self.install_screen(screen, f"ranks {id(screen)}")
        if screen in self.screen_stack:
            while self.screen is not screen:
                self.pop_screen()
        else:
            self._put_on_top(screen)

    @on(SetFailed)
    def _fail_ranks(self, message: SetFailed) -> None:
        """List the traces instead, with what went wrong."""
        if self._waits(message):
            return
        if self._ranks is not None and len(self._rank_screens) == 1:
            self.end_with(message.error)
            return
        for name, screen in list(self._rank_screens.items()):
            if screen is self.screen:
                del self._rank_screens[name]
                self.pop_screen()
                self.uninstall_screen(screen)
        self.push_screen(TracePicker(self.paths, str(message.error)), self.open)

    @on(MomentAsked)
    def _show_moment(self, message: MomentAsked) -> None:
        if not self._waits(message):
            self._opener.start_moment(message)

    @on(RankLanesAsked)
    def _show_lanes(self, message: RankLanesAsked) -> None:
        if not self._waits(message):
            self._opener.start_lanes(message)

    @on(RankTraceAsked)
    def _show_rank(self, message: RankTraceAsked) -> None:
        """Open the trace of a rank above the set."""
        if self._waits(message):
            return
        read = self.recent.get(message.path)
        if read is None:
            self._opening_viewpoint = message.viewpoint
            self.push_screen(LoadingScreen(message.path, self.options))
        else:
            self._put_above(read, message.viewpoint)

    def _put_above(self, read: Loaded, viewpoint: Viewpoint) -> None:
        """Show a trace above what is shown, to go back to that."""
        screen = self.recent.screen_of(read, viewpoint)
        if screen.is_mounted:
            screen.visit(viewpoint)
        if isinstance(self.screen, LoadingScreen):
            self.switch_screen(screen)
        else:
            self.push_screen(screen)

    def _put_on_top(self, screen: Screen[Any]) -> None:
        """Show a screen in place of all others; the blank one below everything stays."""
        while len(self.screen_stack) > 2:
            self.pop_screen()
        if len(self.screen_stack) > 1:
            self.switch_screen(screen)
        else:
            self.push_screen(screen)

    def _waits(self, message: Message) -> bool:
        """True while a picker, a form or the help lies on top: the message is kept until that is closed."""
        if not isinstance(self.screen, Overlay):
            return False
        self._postponed.append(message)
        return True

    def _catch_up(self, _: Screen[Any]) -> None:
        """Handle what was queued."""
        if not isinstance(self.screen, Overlay):
            postponed, self._postponed = self._postponed, []
            for message in postponed:
                self.post_message(message)

    def _is_outdated(self, path: str) -> bool:
        """True where another trace is being read by now."""
        return isinstance(self.screen, LoadingScreen) and self.screen.path != path

    @on(Loaded)
    def _show_trace(self, message: Loaded) -> None:
        if self._waits(message) or self._is_outdated(message.path):
            return
        self.recent.put(message)
        if self._opener.is_under_way:
            self._opener.take(message)
        else:
            viewpoint, self._opening_viewpoint = self._opening_viewpoint, Viewpoint()
            below = self.screen_stack[-2] if len(self.screen_stack) > 2 else None
            if getattr(below, "stays_below", False):
                self._put_above(message, viewpoint)
            else:
                self._put_on_top(self.recent.screen_of(message, viewpoint))

    @on(SnapshotLoaded)
    def _show_snapshot(self, message: SnapshotLoaded) -> None:
        if self._waits(message) or self._is_outdated(message.path):
            return
        if self._opener.is_under_way:
            self._opener.fail(
                UsageError(f"{message.path} is a memory snapshot: `tracetui compare` prints what differs.")
            )
            return
        # Only snapshots need it.
        from tracetui.ui.snapshot_view import SnapshotScreen

        self._put_on_top(SnapshotScreen(message.snapshot, message.path))

    @on(CompareAsked)
    def _compare(self, message: CompareAsked) -> None:
        if self._waits(message):
            return
        if message.b is None:
            self._opener.pick_other(message.a)
        else:
            self._opener.start(message.a, message.b, *message.others, tab=message.tab)

    @on(SidesFound)
    def _show_sides(self, message: SidesFound) -> None:
        if not self._waits(message):
            self._opener.show(message)

    @on(StepsAsked)
    def _change_steps(self, message: StepsAsked) -> None:
        # Without a description, textual writes out what is called: every column of the trace.
        prepare = partial(prepare_steps, self, message)
        self.run_worker(prepare, thread=True, group="steps", exclusive=True, description="steps")

    @on(StepsReady)
    def _show_steps(self, message: StepsReady) -> None:
        if self._waits(message):
            return
        if isinstance(message.read, UsageError):
            self.warn(str(message.read))
        elif not self._opener.is_under_way and not isinstance(self.screen, LoadingScreen):
            self.recent.put(message.read)
            self._put_on_top(self.recent.screen_of(message.read, message.asked.viewpoint, message.asked.marks))

    @on(SliceAsked)
    def _show_slice(self, message: SliceAsked) -> None:
        if self._waits(message):
            return
        trace = message.trace
        viewpoint = Viewpoint(message.step, event=int(trace.slices.event[message.row]), steps_by=trace.steps_by)
        screen = self.recent.screen_of(message, viewpoint)
        if screen in self.screen_stack and len(self.screen_stack) < MAX_SCREENS:
            # The comparison was opened from this trace, and stays below to come back to.
            self.push_screen(TraceScreen(message.trace, message.timeline_index, viewpoint, message.path))
        elif screen in self.screen_stack:
            while self.screen is not screen:
                self.pop_screen()
        else:
            self.push_screen(screen)
        if screen.is_mounted:
            screen.visit(viewpoint)

    @on(LoadFailed)
    def _fail(self, message: LoadFailed) -> None:
        if self._waits(message) or self._is_outdated(message.path):
            return
        if self._opener.is_under_way:
            self._opener.fail(message.error)
        elif self._is_one_file:
            self.end_with(message.error)
        elif len(self.screen_stack) > 2 and getattr(self.screen_stack[-2], "stays_below", False):
            self.pop_screen()
            self.warn(str(message.error))
        else:
            self.pop_screen()
            self.push_screen(TracePicker(self.paths, str(message.error)), self.open)


def compare(a: SideName, b: SideName, others: Sequence[str] = (), options: OpenOptions = AS_RECORDED) -> int:
    """Run the app on two traces, or two parts of one, and return its exit code; others are in the list of traces."""
    return _run(TraceApp(list(dict.fromkeys([a.path, b.path, *others])), sides=(a, b), options=options))


def compare_all(paths: Sequence[str]) -> int:
    """Run the app on two traces beside each other, or on the table of more, and return its exit code."""
    return _run(TraceApp(list(paths), sides=[SideName(path) for path in paths]))


def run(
    paths: list[str],
    step: int | None = None,
    at: str | None = None,
    options: OpenOptions = AS_RECORDED,
    ranks: RankSetName | None = None,
    follows: bool = False,
) -> int:
    """Run the app on files and folders, or on a set of ranks, and return its exit code.

    An app that `follows` opens every trace that appears in its folders.

    Raises: UsageError for a view string that cannot be understood.
    """
    viewpoint = read_view_string(at) if at else Viewpoint()
    if viewpoint.pane is not None and viewpoint.pane not in PANES:
        raise UsageError(f"The view {at!r} names no pane: {viewpoint.pane!r} is none. {nearest(viewpoint.pane, PANES)}")
    if step is not None:
        viewpoint = replace(viewpoint, step=step, every_step=False)
    if viewpoint.steps_by and options.steps_by is None:
        options = options._replace(steps_by=viewpoint.steps_by)
    return _run(TraceApp(paths, viewpoint, options=options, ranks=ranks, follows=follows))


def _run(app: TraceApp) -> int:
    code = app.run_safely()
    if app.failure is not None:
        print(f"tracetui: {clean(str(app.failure))}", file=sys.stderr)
    return code
