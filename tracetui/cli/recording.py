"""What is told on standard error while a recording is made: a progress bar on a terminal, remarks everywhere."""

from __future__ import annotations

import sys
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, TextIO

from tracetui.cli.reading import printable
from workloads.recording.launcher import STAGES, Event, LogLine, Note, Progress, Stage

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID


class RecordingBar:
    """A bar with a part for every stage, beside it the stage and the last line that was printed in it."""

    def __init__(self, title: str, stream: TextIO | None = None, told: set[str] | None = None) -> None:
        self._title = printable(title)
        self._told = told
        """Remarks of earlier recordings, which are not repeated; None repeats them."""
        self._stream = stream or sys.stderr
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._stage = STAGES[0]
        self._cleanup = ExitStack()

    def __enter__(self) -> RecordingBar:
        if self._stream.isatty():
            self._bar = self._cleanup.enter_context(new_bar(self._stream))
            self._task = self._bar.add_task(self._words(), total=len(STAGES), said="")
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()
        self._bar = None

    def hear(self, event: Event) -> None:
        """Show an event."""
        match event:
            case Stage(name):
                self._stage = name
                self._update(completed=position(name), description=self._words(), said="")
            case Progress(_, done, total):
                self._update(
                    completed=position(self._stage) + done / max(total, 1), description=self._words(done, total)
                )
            case LogLine(text):
                self._update(said=printable(text)[:60])
            case Note(_, text) if self._told is None or text not in self._told:
                if self._told is not None:
                    self._told.add(text)
                self._tell(f"tracetui: {printable(text)}")

    def _words(self, done: int = 0, total: int = 0) -> str:
        return f"{self._title}: {printable(self._stage)}" + (f" {done}/{total}" if total else "")

    def _update(self, **values: object) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, **values)  # type: ignore[arg-type]

    def _tell(self, line: str) -> None:
        """Write a line, above the bar where there is one."""
        if self._bar is None:
            # That nobody can read the remarks any more is no reason to give the recording up.
            with suppress(OSError):
                print(line, file=self._stream, flush=True)
        else:
            from rich.text import Text

            self._bar.console.print(Text(line))


def position(stage: str) -> int:
    """How many stages lie before one."""
    name = "first call" if stage == "compiling" else stage
    return STAGES.index(name) if name in STAGES else 0


def new_bar(stream: TextIO) -> Bar:
    """A bar of rich that vanishes at the end, and takes no text for markup."""
    # rich is 60 ms that a pipe need not pay for.
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    return Bar(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        TextColumn("{task.fields[said]}", style="dim", markup=False),
        console=Console(file=stream, highlight=False),
        transient=True,
        refresh_per_second=5,
        redirect_stdout=False,
        redirect_stderr=False,
    )
