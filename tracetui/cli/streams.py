"""The standard streams of a command: all there, never failing for a character, and never steering a terminal.

This is the one place where text leaves a command. What a command prints may hold names from a trace, from a file
system or from a program that is recorded; what it prints with `print`, what argparse prints and what rich draws is
cleaned here.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Self, TextIO, cast

from tracetui.config import config
from tracetui.errors import AnalysisFailed
from tracetui.files import is_url, url_name
from tracetui.model.quantities import size
from tracetui.text import clean, clean_lines

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import TaskID
    from tracetui_workloads.recording.launcher import Event

    from tracetui.reading.load_progress import LoadProgress

_STREAMS = {0: "stdin", 1: "stdout", 2: "stderr"}


class SafeStream:
    """A stream that cleans what is written to it; everything else is that of the stream behind it."""

    def __init__(self, stream: TextIO) -> None:
        self.behind = stream
        """The stream that takes escape sequences, for what rich draws."""

    def write(self, text: str) -> int:
        """Write text that cannot steer a terminal."""
        self.behind.write(clean_lines(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.behind, name)


@contextmanager
def safe_streams() -> Iterator[None]:
    """While a command runs, the standard streams are open, print any character, and are cleaned."""
    open_closed_streams()
    before = sys.stdout, sys.stderr
    for stream in before:
        reconfigure = getattr(stream, "reconfigure", None)
        encoding = (getattr(stream, "encoding", None) or "").lower().replace("-", "")
        if reconfigure is not None and encoding != "utf8":
            # `?` for a character that the encoding lacks, as Latin-1 lacks the dash.
            with suppress(OSError, ValueError):
                reconfigure(errors="replace")
    sys.stdout, sys.stderr = (cast(TextIO, SafeStream(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def open_closed_streams() -> None:
    """Open `/dev/null` where a command was started with a closed stream, as by `2>&-`.

    A file that is opened later would get the number of the stream, and what is printed would go into the file.
    """
    for number in _STREAMS:
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free is the one that is missing.
            os.open(os.devnull, os.O_RDWR)
    for number, name in _STREAMS.items():
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", closefd=False))


# What the options `--color` and `--quiet` ask for is passed on in the environment: rich, Textual, a program that is
# recorded and the processes that read ranks all look there.

QUIET = "TRACETUI_QUIET"
"""Variable of the environment that leaves remarks on standard error out, set to anything but 0 or nothing."""
NO_COLOR, FORCE_COLOR = "NO_COLOR", "FORCE_COLOR"


@contextmanager
def output_as(color: str, quiet: bool) -> Iterator[None]:
    """While a command runs, the environment says what it was asked for about colours, one of `COLORS`, and remarks."""
    before = {name: os.environ.get(name) for name in (QUIET, NO_COLOR, FORCE_COLOR)}
    if quiet:
        os.environ[QUIET] = "1"
    for name, value in ((NO_COLOR, "never"), (FORCE_COLOR, "always")):
        os.environ.pop(name, None)
        if color == value:
            os.environ[name] = "1"
    try:
        yield
    finally:
        for name, text in before.items():
            os.environ.pop(name, None)
            if text is not None:
                os.environ[name] = text


def color_in_force(option: str | None) -> tuple[str, str]:
    """One of `COLORS`, and the option or the variable of the environment that says so; empty where none does."""
    if option is not None:
        return option, "--color"
    for name, value in ((NO_COLOR, "never"), (FORCE_COLOR, "always")):
        if os.environ.get(name):
            return value, name
    return config().word("color"), ""


def is_drawn() -> bool:
    """True where standard output is drawn as on a terminal: it is one, or colours are always wanted."""
    return sys.stdout.isatty() or bool(os.environ.get(FORCE_COLOR))


def is_quiet() -> bool:
    """True where nothing but errors goes to standard error."""
    return os.environ.get(QUIET, "") not in ("", "0")


def remark(text: str, prefix: str = "tracetui: ") -> None:
    """Print what is no error to standard error, at once."""
    if not is_quiet():
        print(f"{prefix}{text}", file=sys.stderr, flush=True)


def complain(text: str) -> None:
    """Print an error that does not end the command, or the last word on one that did, to standard error."""
    print(f"tracetui: {text}", file=sys.stderr)


def print_failures(sentences: Iterable[str]) -> int:
    """Print a sentence per analysis that failed, below the output; returns the exit code, 0 where none did."""
    failures = list(dict.fromkeys(sentences))
    # Standard error shall stand below the output.
    sys.stdout.flush()
    for sentence in failures:
        complain(sentence)
    return AnalysisFailed.exit_code if failures else 0


def drop_output() -> None:
    """Drop the rest of standard output, so that Python does not try again to write it at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def console(stream: TextIO, **options: Any) -> Console:
    """A console of rich on a stream, whose texts are cleaned and whose own escape sequences are not."""
    # rich is 60 ms that a pipe need not pay for.
    from rich.console import Console, RenderableType
    from rich.console import ConsoleOptions as Options
    from rich.segment import Segment

    class SafeConsole(Console):
        """Cleans every text before it becomes part of the output."""

        def render(self, renderable: RenderableType, options: Options | None = None) -> Iterable[Segment]:
            """The pieces that something consists of."""
            for segment in super().render(renderable, options):
                yield segment if segment.control else segment._replace(text=clean_lines(segment.text))

    return SafeConsole(file=getattr(stream, "behind", stream), highlight=False, **options)


# Progress on standard error: a bar on a terminal while a trace is read, written or recorded, remarks everywhere.

DELAY = 0.3
"""Seconds of silence before the bar of a trace appears."""
LINE_SECONDS = 3.0
"""Seconds between lines about how far it is, where there is no bar."""


class _Progress:
    """A bar on standard error; none where that is no terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._is_terminal = self._stream.isatty() and not is_quiet()
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._cleanup = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()
        self._bar = None

    def _show(self, description: str, total: float | None) -> None:
        """Put the bar on the terminal."""
        if self._is_terminal and self._bar is None:
            self._bar = self._cleanup.enter_context(new_bar(self._stream))
            self._task = self._bar.add_task(description, total=total, remark="")

    def _update(self, **values: object) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, **values)  # type: ignore[arg-type]


class TraceProgress(_Progress):
    """A bar for reading or writing a trace, once that takes longer than a moment."""

    def __init__(self, path: str, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        # Cleaned here, too: what is replaced later is measured too narrow.
        self._label = clean(label_of(path))
        self._started = time.monotonic()

    def update(self, progress: LoadProgress) -> None:
        """Show how far it is."""
        seconds = time.monotonic() - self._started
        if not self._is_terminal or seconds < DELAY:
            return
        description = f"{progress.stage} {self._label}"
        self._show(description, progress.bytes_total)
        self._update(
            description=description,
            completed=progress.bytes_done,
            total=progress.bytes_total,
            remark=rate(progress, seconds),
        )


class CountProgress(_Progress):
    """A bar for reading a number of files, once that takes longer than a moment."""

    def __init__(self, things: str, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        self._things = things
        self._started = time.monotonic()

    def update(self, done: int, total: int) -> None:
        """Show how many are done."""
        if not self._is_terminal or time.monotonic() - self._started < DELAY:
            return
        self._show(f"reading {self._things}", total)
        self._update(completed=done, total=total, remark=f"{done:,} of {total:,}")


class AttachProgress(_Progress):
    """A bar for the traces of processes that already run."""

    def __init__(self, words: str, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        self._words = words

    def update(self, states: str) -> None:
        """Show how many processes have come how far."""
        self._show(f"a trace of {self._words}", None)
        self._update(remark=states)


class RecordingProgress(_Progress):
    """A bar for a recording: its stage, and the last line that was printed in it.

    With `in_lines`, where there is no terminal for a bar, a line for the stages, one every `LINE_SECONDS` at most.
    """

    def __init__(
        self,
        title: str,
        stream: TextIO | None = None,
        known_remarks: set[str] | None = None,
        in_lines: bool = False,
    ) -> None:
        super().__init__(stream)
        self._in_lines, self._next_line = in_lines and not self._is_terminal, 0.0
        # Loads asyncio, which reading a trace does not need.
        from tracetui_workloads.recording.launcher import STAGES

        self._title = clean(title)
        self._stages = STAGES
        self._stage = STAGES[0]
        self._known_remarks = known_remarks
        """Remarks of earlier recordings, which are not repeated; None repeats them."""

    def __enter__(self) -> Self:
        self._show(f"{self._title}: {self._stage}", len(self._stages))
        return self

    def hear(self, event: Event) -> None:
        """Show an event of the recording."""
        from tracetui_workloads.recording.launcher import LogLine, Note, Progress, Stage

        match event:
            case Stage(name):
                self._stage = name
                self._update(completed=stage_index(name), description=f"{self._title}: {name}", remark="")
                # Of a list hundreds are built, one after another.
                self._print_stage(clean(name), is_new=" aten::" in name and not name.startswith("building"))
            case Progress(_, done, total):
                self._print_stage(f"{clean(self._stage)} {done}/{total}")
                completed = stage_index(self._stage) + done / max(total, 1)
                self._update(completed=completed, description=f"{self._title}: {self._stage} {done}/{total}")
            case LogLine(text):
                self._update(remark=clean(text)[:60])
            case Note(_, text) if self._known_remarks is None or text not in self._known_remarks:
                if self._known_remarks is not None:
                    self._known_remarks.add(text)
                self._print(f"tracetui: {text}")

    def _print_stage(self, words: str, is_new: bool = False) -> None:
        """Print how far it is, unless a line was printed a moment ago; `is_new` is printed in any case."""
        now = time.monotonic()
        if self._in_lines and (is_new or now >= self._next_line):
            self._next_line = now + LINE_SECONDS
            self._print(f"{self._title}: {words}")

    def _print(self, line: str) -> None:
        """Print a line, above the bar where there is one."""
        if self._bar is None:
            # That nobody can read the remarks any more is no reason to give the recording up.
            with suppress(OSError):
                if not is_quiet():
                    print(line, file=self._stream, flush=True)
        else:
            from rich.text import Text

            self._bar.console.print(Text(line))


def label_of(path: str) -> str:
    """A short name for a path."""
    return "standard input" if path == "-" else url_name(path) if is_url(path) else os.path.basename(path) or path


def rate(progress: LoadProgress, seconds: float) -> str:
    """For example `120.0 MiB, 410,000 events, 80.1 MiB/s, 5 s left`."""
    done, total = progress.bytes_done, progress.bytes_total
    events = f"{progress.events:,} event{'' if progress.events == 1 else 's'}"
    words = f"{size(done)}, {events}, {size(done / max(seconds, 1e-6))}/s"
    return f"{words}, {seconds * max(total - done, 0) / max(done, 1):.0f} s left" if total else words


def stage_index(stage: str) -> int:
    """The number of stages of a recording before this one."""
    from tracetui_workloads.recording.launcher import STAGES

    # A stage may name the operator that it is about.
    name = stage.partition(" aten::")[0]
    name = "first call" if name == "compiling" else name
    return STAGES.index(name) if name in STAGES else 0


def new_bar(stream: TextIO) -> Bar:
    """A bar of rich that vanishes at the end, and takes no text for markup."""
    # rich is 60 ms that a pipe need not pay for.
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    return Bar(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        TextColumn("{task.fields[remark]}", style="dim", markup=False),
        console=console(stream),
        transient=True,
        refresh_per_second=5,
        redirect_stdout=False,
        redirect_stderr=False,
    )
