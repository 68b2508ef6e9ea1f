"""What `tracetui --version` prints."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from tracetui import __version__
from tracetui.cli.tried_torch import TRIED


class PrintVersion(argparse.Action):
    """Prints the version, the versions of torch that were tried, how files are read and screens written, and exits."""

    def __init__(self, option_strings: Sequence[str], dest: str, **_: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help="show program's version number and exit")

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Print it."""
        print(f"tracetui {__version__}\n{TRIED}\n{reading_paths()}\n{screen_writer()}")
        parser.exit()


def reading_paths() -> str:
    """What reads events and inflates gzip here, and why it is not the faster one."""
    # ctypes, and looking for the libraries, are for this option alone.
    from tracetui.reading.inflating import inflate_library
    from tracetui.reading.scanner.library import why_pure
    from tracetui.reading.scanner.scanning_threads import MAX_THREADS, scanning_threads

    reason, library, threads = why_pure(), inflate_library(), scanning_threads()
    if reason:
        path = f"Events are read in Python, as {reason}."
    elif threads == 1:
        path = "Events are read by the C scanner in one thread, as this process may use one core."
    else:
        path = f"Events are read by the C scanner in up to {threads} threads: one for each core, at most {MAX_THREADS}."
    why = f", as {library.why_not_fast}" if library.why_not_fast else ""
    return f"{path}\ngzip is inflated by {library.name}{why}."


def screen_writer() -> str:
    """What writes the screen of the app here, and why it is Textual itself."""
    # It looks for the version of Textual.
    from tracetui.ui.base.differ_switch import why_off

    reason = why_off()
    return f"Textual writes the screen, as {reason}." if reason else "Only cells of the screen that change are written."
