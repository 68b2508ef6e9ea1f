"""Everything that the app takes of Textual that has a private name, and what it does without.

`NAMES` lists the names by the part of the app that rests on them. At import each is looked up in the Textual that is
installed. A part of which a name is missing, or a function takes other parameters, is left out: the app then has
Textual's own behaviour there. `--no-differ` and versions of Textual that were not tried leave out how the screen is
written (`WRITING`), and nothing else: a crash is reported in the app's words whoever writes.
"""

from __future__ import annotations

import importlib
import inspect
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from textual import log
from textual.app import App
from textual.drivers import linux_driver
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Key
from textual.geometry import Region
from textual.message import Message
from textual.message_pump import MessagePump
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from tracetui.ui.base.differ_switch import why_off

if TYPE_CHECKING:
    from textual._compositor import ChopsUpdate as ChopsUpdate
    from textual._compositor import Compositor
    from textual._compositor import LayoutUpdate as LayoutUpdate
    from textual._xterm_parser import XTermParser
else:
    # A placeholder stands for each that is not there; what rests on it is left out.
    Missing = type("Missing", (), {})
    try:
        from textual import _compositor
    except ImportError:
        _compositor = None
    ChopsUpdate = getattr(_compositor, "ChopsUpdate", Missing)
    LayoutUpdate = getattr(_compositor, "LayoutUpdate", Missing)
    Compositor = getattr(_compositor, "Compositor", Missing)
    XTermParser = getattr(linux_driver, "XTermParser", Missing)

NAMES = {
    "frames": (
        "textual.app App._display(self, screen, renderable)",
        "textual.app App._batch_count",
        "textual.app App._closed",
        "textual._compositor ChopsUpdate",
        "textual._compositor LayoutUpdate",
    ),
    "rows": (
        "textual._compositor Compositor",
        "textual.screen Screen._compositor",
        "textual._compositor Compositor.render_partial_update(self)",
        "textual._compositor Compositor._dirty_regions",
        "textual._compositor Compositor._regions_to_spans(regions)",
        "textual._compositor ChopsUpdate(chops, spans, chop_ends)",
    ),
    "crashes": (
        "textual.app App._handle_exception(self, error)",
        "textual.app App._fatal_error(self)",
        "textual.app App._print_error_renderables(self)",
        "textual.app App._exit_renderables",
        "textual.message_pump MessagePump._close_messages_no_wait(self)",
    ),
    "failures": ("textual.message_pump MessagePump._dispatch_message(self, message)",),
    "pointer": ("textual.app App._set_pointer_shape(self, shape)",),
    "stopped": ("textual.message Message._stop_propagation",),
    "writer": (
        "textual.drivers.linux_driver LinuxDriver._writer_thread",
        "textual.drivers._writer_thread WriterThread._queue",
    ),
    "styles": ("textual.css.styles RenderStyles._cache_key",),
    "style caches": ("textual._styles_cache StylesCache.get_inner_outer",),
    "codes": ("rich.style Style._ansi",),
    "escape": (
        "textual._xterm_parser XTermParser._sequence_to_key_events(self, sequence, alt)",
        "textual.drivers.linux_driver XTermParser",
    ),
}
"""By part: module, then a class with an attribute or a function with its parameters."""
WRITING = ("frames", "rows")
"""The parts that write differences of cells, and paint only the rows that changed."""

INNER_FAILURES = (AttributeError, TypeError, ValueError, LookupError, ArithmeticError, RuntimeError)
"""Errors that come up where an inner part of Textual is not as it was."""


def _is_there(name: str) -> bool:
    """True where one of `NAMES` is in the Textual that is installed, with the parameters expected."""
    module, _, rest = name.partition(" ")
    path, _, parameters = rest.partition("(")
    owner, _, attribute = path.partition(".")
    try:
        part = getattr(importlib.import_module(module), owner)
    except (ImportError, AttributeError):
        return False
    if attribute and not hasattr(part, attribute):
        # What `__init__` sets is among the names that its code uses.
        codes = [getattr(vars(base).get("__init__"), "__code__", None) for base in part.__mro__]
        return any(code is not None and attribute in code.co_names for code in codes)
    if not parameters:
        return True
    try:
        actual = inspect.signature(getattr(part, attribute) if attribute else part).parameters
    except (TypeError, ValueError):
        return False
    return ", ".join(actual) == parameters.rstrip(")")


@cache
def missing_names() -> tuple[str, ...]:
    """The private names that this Textual lacks, or has with other parameters."""
    return tuple(name.partition(" ")[2] for names in NAMES.values() for name in names if not _is_there(name))


@cache
def works(part: str) -> bool:
    """True where a part of `NAMES` can be used; asked for when the classes are made, so a switch counts at import."""
    return not (part in WRITING and why_off()) and all(map(_is_there, NAMES[part]))


def why_textual_writes() -> str:
    """The reason why Textual writes the screen, to end a sentence; empty where differences of cells are written."""
    reason = why_off()
    if reason or works("frames"):
        return reason
    return f"it lacks {', '.join(missing_names())}, or has it in another form"


class HookedPump(MessagePump):
    """A part of the screen that gets the errors of its message handlers."""

    def goes_on(self, message: Message, error: Exception) -> bool:
        """Handle an error of a message handler; False to have it raised."""
        raise NotImplementedError

    if works("failures"):

        async def _dispatch_message(self, message: Message) -> None:
            try:
                await super()._dispatch_message(message)
            except Exception as error:
                if not self.goes_on(message, error):
                    raise


def is_opening(calls: list[str]) -> bool:
    """True for functions that were called to open a part of the screen."""
    return calls[0] == "_pre_process"


def is_behind_messages(calls: list[str]) -> bool:
    """True for functions that were called when all messages were dealt with."""
    return "_flush_next_callbacks" in calls


class HookedApp(App[int]):
    """An app that gets every error and every frame before Textual; Textual handles those that are not taken."""

    def take_error(self, error: Exception) -> bool:
        """Handle an error from anywhere; False to end the app."""
        raise NotImplementedError

    def take_frame(self, update: LayoutUpdate | ChopsUpdate | None) -> bool:
        """Write an update; None for anything else, which Textual writes. False to leave it to Textual."""
        raise NotImplementedError

    if works("crashes"):
        # Textual's own account of an error is a screenful of source with the values of variables.

        def _handle_exception(self, error: Exception) -> None:
            if not self.take_error(error):
                super()._handle_exception(error)

        def _fatal_error(self) -> None:
            self._close_messages_no_wait()

        def panic(self, *renderables: RenderableType) -> None:
            """End the app without Textual's own account."""
            self._close_messages_no_wait()

        def _print_error_renderables(self) -> None:
            self._exit_renderables.clear()

    if works("pointer"):

        def _set_pointer_shape(self, shape: str) -> None:
            """Leave the mouse pointer as it is: terminals that do not know the sequence show it as text."""

    if works("frames"):

        def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
            if renderable is None:
                return
            update = renderable if isinstance(renderable, LayoutUpdate | ChopsUpdate) else None
            if not self.take_frame(update):
                super()._display(screen, renderable)

    def shows_frames(self) -> bool:
        """True while frames are written."""
        return self.is_running and not self._closed and not self._batch_count


def is_stopped(event: Message) -> bool:
    """True where a widget has used an event up; False where that is not known."""
    return works("stopped") and event._stop_propagation


def has_writer(driver: LinuxDriver) -> bool:
    """True while a driver has a thread that writes, and where that is not known."""
    return not works("writer") or driver._writer_thread is not None


def queued_writes(driver: LinuxDriver) -> int:
    """Writes that wait for the thread that writes; 0 where that is not known."""
    if not works("writer") or driver._writer_thread is None:
        return 0
    return driver._writer_thread._queue.qsize()


def drop_writer(driver: LinuxDriver) -> None:
    """Treat a driver's writer thread as ended: later writes are dropped."""
    if works("writer"):
        driver._writer_thread = None


class EscapeParser(XTermParser):
    """Takes escape and a key that come in one read for these two, where Textual takes them for that key with alt.

    Textual makes `£` of escape and `3`, as Macs do with option; over a slow line the two come together.
    """

    keeps_alt = False
    """True where a key with alt means something to the app; then only those go apart of which Textual makes signs."""

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[Key]:
        keys = list(super()._sequence_to_key_events(sequence, alt))
        is_sign = (
            len(sequence) == 2 and sequence[0] == "\x1b" and any(not (key.character or "").isascii() for key in keys)
        )
        if is_sign or (alt and not self.keeps_alt):
            return [Key("escape", "\x1b"), *super()._sequence_to_key_events(sequence[-1])]
        return keys


def part_escape_from_keys(keeps_alt: bool) -> None:
    """Have what a terminal sends parsed by an `EscapeParser`, from the next time that it is read."""
    if works("escape"):
        EscapeParser.keeps_alt = keeps_alt
        linux_driver.XTermParser = EscapeParser  # type: ignore[attr-defined]


def style_versions(widget: Widget) -> tuple[int, ...] | None:
    """Counts of changes of the styles of a widget and of those above; None where that is not known."""
    return tuple(node.styles._cache_key for node in widget.ancestors_with_self) if works("styles") else None


codes_of: Any = attrgetter("_ansi") if works("codes") else lambda style: None
"""The SGR codes that a style was last drawn with, or None."""


def clear_style_caches() -> None:
    """Drop the cached lines of all widgets; they are made again when they are needed.

    A cache of colours in Textual (https://github.com/Textualize/textual/issues/6665) has the caches of lines of the
    last 1024 widgets as its keys: 220 kB for each time that the palette was opened, up to some 40 MB.
    """
    if works("style caches"):
        from textual._styles_cache import StylesCache

        clear = getattr(StylesCache.get_inner_outer, "cache_clear", None)
        if clear is not None:
            clear()


# A compositor that asks widgets for the lines that changed, and for no others.

Span = tuple[int, int, int]
"""A line of the screen, and the columns from and before which it changed."""


def paint_rows(screen: Screen[Any]) -> None:
    """Have a new screen paint the lines that changed alone."""
    if works("rows"):
        screen._compositor = RowCompositor()


class RowCompositor(Compositor):
    """Paints the changed lines of a screen; as Textual does once that has failed."""

    has_failed = False

    def render_partial_update(self) -> ChopsUpdate | None:
        """The lines that changed since the last update, None for nothing."""
        if self.has_failed:
            return super().render_partial_update()
        regions = self._dirty_regions.copy()
        try:
            return self._changed_rows(regions)
        except INNER_FAILURES as error:
            log.warning(f"Textual paints the screen, as painting rows failed: {error!r}")
            self.has_failed = True
            self._dirty_regions.update(regions)
            return super().render_partial_update()

    def _changed_rows(self, regions: set[Region]) -> ChopsUpdate | None:
        self._dirty_regions.clear()
        spans = [span for span in self._regions_to_spans(regions) if 0 <= span[0] < self.size.height]
        if not spans:
            return None
        painting = _Painting(self.cuts, spans)
        for widget, (region, clip) in self.visible_widgets.items():
            painting.take(widget, region, region.intersection(clip))
            if not painting.missing:
                break
        return ChopsUpdate(painting.chops, spans, painting.ends)


class _Painting:
    """The pieces of the changed lines, filled from the front of the screen to the back."""

    def __init__(self, cuts: list[list[int]], spans: Iterable[Span]) -> None:
        """`cuts` are the columns of each line at which a widget begins or ends."""
        self._cuts = cuts
        self.chops: list[dict[int, Strip | None]] = [{} for _ in cuts]
        """The pieces of each line by their first column; None where nothing changed."""
        self.ends: list[list[int]] = [[] for _ in cuts]
        """The columns behind these pieces."""
        self.missing: dict[int, set[int]] = defaultdict(set)
        """The first columns of pieces that are wanted and not there yet, by line."""
        for y, left, right in spans:
            self.chops[y] = dict.fromkeys(cuts[y][:-1])
            self.ends[y] = cuts[y][1:]
            self.missing[y] |= {x for x, end in pairwise(cuts[y]) if x < right and end > left}

    def take(self, widget: Widget, region: Region, seen: Region) -> None:
        """Fill in what is wanted and seen of a widget."""
        left, right = seen.column_span
        wanted = [
            y for y, columns in self.missing.items() if y in seen.line_range and any(left <= x < right for x in columns)
        ]
        for first, count in _runs(wanted):
            asked = Region(seen.x - region.x, first - region.y, seen.width, count)
            for y, strip in enumerate(widget.render_lines(asked), first):
                self._fill(y, strip, left, right)

    def _fill(self, y: int, strip: Strip, left: int, right: int) -> None:
        columns = [x for x in self._cuts[y] if left <= x <= right]
        pieces = strip.divide([x - left for x in columns[1:]]) if len(columns) > 2 else [strip]
        chops, missing = self.chops[y], self.missing[y]
        for x, piece in zip(columns, pieces, strict=False):
            if x in missing:
                missing.discard(x)
                chops[x] = piece
        if not missing:
            del self.missing[y]


def _runs(lines: list[int]) -> Iterator[tuple[int, int]]:
    """First line and number of lines of each stretch without a hole; `lines` ascend."""
    begin = 0
    for index in range(1, len(lines) + 1):
        if index == len(lines) or lines[index] != lines[index - 1] + 1:
            yield lines[begin], index - begin
            begin = index
