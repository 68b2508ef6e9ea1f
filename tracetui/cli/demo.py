"""Open a simulated trace of a GPU: no GPU, no torch, and nothing measured.

The traces are made from the figures that "Profiling in PyTorch" and GPU puzzler 7 published for an A100, and say in
their names and metadata that they are simulated. Without a name they are listed; two names are compared. Standard
output is the paths of the traces."""

from __future__ import annotations

import argparse
import difflib
import shutil
import textwrap
from pathlib import Path

from tracetui.cli.arguments import Command, add_differ, add_force, completes_files, switch_differ
from tracetui.cli.recording import has_terminal
from tracetui.cli.streams import remark
from tracetui.errors import CannotWrite, UsageError
from tracetui.files import user_cache_folder
from tracetui.text import clean

EXAMPLES = """\
examples:
  tracetui demo                              the list, and on a terminal the traces to choose from
  tracetui demo linear
  tracetui demo mlp mlp_compile              both, compared
  tracetui demo mlp --no-open -o traces      only written, into that folder"""

MAX_CELLS = 120
"""Maximum width of the list."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tracetui demo`."""
    parser.epilog = EXAMPLES
    parser.add_argument("names", nargs="*", metavar="NAME", help="a demo; two are compared")
    out = parser.add_argument("-o", "--out", metavar="DIR", help="the folder to write to (default: the user's cache)")
    completes_files(out)
    add_force(parser)
    parser.add_argument("--no-open", dest="open", action="store_false", help="do not open what was written")
    add_differ(parser)


def run(options: argparse.Namespace) -> int:
    """Write the named traces, or all of them, then open or list them. Returns the exit code.

    Raises: UsageError for a name that is none, and a file that exists; CannotWrite.
    """
    switch_differ(options)
    # Loads dataclasses and the simulated programs, which `--help` does without.
    from tracetui.demo.catalogue import DEMOS, file_name, write

    names = list(dict.fromkeys(map(_known, options.names)))
    is_opened = options.open and has_terminal()
    if not (names or options.out or is_opened):
        print("\n".join(listed(MAX_CELLS)))
        return 0
    folder = Path(options.out) if options.out is not None else user_cache_folder() / "demo"
    chosen = names or list(DEMOS)
    existing = [name for name in map(file_name, chosen) if (folder / name).exists()]
    if options.out is not None and existing and not options.force:
        raise UsageError(f"{folder / existing[0]} exists already: name another folder, or --force replaces it.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # A list of traces has the newest first.
        paths = [str(write(name, folder)) for name in reversed(chosen)][::-1]
    except OSError as error:
        raise CannotWrite(f"{folder} cannot be written: {error.strerror}.") from error
    if names or options.out:
        print("\n".join(map(clean, paths)), flush=True)
    if not is_opened:
        return 0
    remark("simulated from published figures; nothing was measured.")
    # Textual takes a third of a second to import.
    from tracetui.ui import app

    if len(names) > 1:
        return app.compare_all(paths)
    code = app.run(paths if names else [str(folder)])
    if not names:
        print("\n".join(listed(min(shutil.get_terminal_size().columns, MAX_CELLS))))
    return code


def listed(width: int) -> list[str]:
    """Every demo with what is to be seen in it, and the pairs."""
    from tracetui.demo.catalogue import DEMOS, PAIRS

    first = max(map(len, DEMOS)) + 2
    lines = ["Simulated from figures published for an A100; nothing was measured.", ""]
    for name, demo in DEMOS.items():
        told = [*textwrap.wrap(demo.sees, width - first), f"keys: {demo.keys}"]
        lines += [f"{name:<{first}}{told[0]}", *(" " * first + line for line in told[1:])]
    lines += ["", "two beside each other:"]
    pairs = [(f"tracetui demo {a} {b}", why) for a, b, why in PAIRS]
    widest = max(len(command) for command, _ in pairs)
    return [*lines, *(f"  {command:<{widest}}  {why}" for command, why in pairs)]


def _known(name: str) -> str:
    """The demo that a word names.

    Raises: UsageError where there is none.
    """
    from tracetui.demo.catalogue import DEMOS

    normalized = name.replace("-", "_")
    if normalized in DEMOS:
        return normalized
    close = difflib.get_close_matches(normalized, DEMOS, 1)
    guess = f" Did you mean {close[0]}?" if close else ""
    raise UsageError(f"There is no demo {name}.{guess} There are {', '.join(DEMOS)}.")


COMMANDS = {"demo": Command("open a simulated trace of a GPU, for whoever has none", __doc__, add_arguments, run)}
