"""The standard streams of a command: all there, never failing for a character, and never steering a terminal.

This is the one place where text leaves a command. What a command prints may hold names from a trace, from a file
system or from a program that is recorded; what it prints with `print`, what argparse prints and what rich draws is
cleaned here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO, cast

from tracetui.errors import AnalysisFailed
from tracetui.safe_text import clean_lines

if TYPE_CHECKING:
    from rich.console import Console

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
        _replace_unknown_characters(stream)
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


def _replace_unknown_characters(stream: TextIO) -> None:
    """Print `?` for a character that the encoding of a stream lacks, as Latin-1 lacks the dash."""
    reconfigure = getattr(stream, "reconfigure", None)
    encoding = (getattr(stream, "encoding", None) or "").lower().replace("-", "")
    if reconfigure is not None and encoding != "utf8":
        with suppress(OSError, ValueError):
            reconfigure(errors="replace")


def tell_failures(sentences: Iterable[str]) -> int:
    """Tell which analyses failed, below what does not rest on them; returns the exit code, 0 where none did."""
    told = list(dict.fromkeys(sentences))
    # What follows on standard error shall stand below it.
    sys.stdout.flush()
    for sentence in told:
        print(f"tracetui: {sentence}", file=sys.stderr)
    return AnalysisFailed.exit_code if told else 0


def drop_output() -> None:
    """Forget what is still to be written to standard output, so that Python does not try again at its end."""
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
