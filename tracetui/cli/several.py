"""`tracetui compare A B C ...`: every side after the first beside the first, in one table."""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tracetui.cli.show import narrowed
from tracetui.cli.sides import Written, read_all
from tracetui.errors import UsageError

if TYPE_CHECKING:
    from tracetui.analysis.comparing.sides.side import Side
    from tracetui.drawing.text.several_text import SeveralShown

MOST = 26
"""Sides have letters for names."""


def run(sides: Sequence[Written], options: argparse.Namespace) -> int:
    """Print the sides beside the first; the exit code is 1 for a file that is cut off.

    Raises: UsageError for options that speak of two sides, and for scopes or columns that do not exist; TraceError.
    """
    if len(sides) > MOST:
        raise UsageError(f"At most {MOST} sides stand beside each other, not {len(sides)}.")
    if options.show in ("kernels", "ops"):
        raise UsageError(f"--show {options.show} is for two sides: name the one to be held against the first.")
    if options.unfold:
        raise UsageError("--unfold is for the operators of two sides: name the one to be held against the first.")
    found = read_all(sides)
    _write(shown(found, sides, options), options.format)
    return 0 if all(side.trace.quality.truncated_at is None for side in found) else 1


def shown(found: Sequence[Side], sides: Sequence[Written], options: argparse.Namespace | None = None) -> SeveralShown:
    """What is printed of sides that have been read; without options the short table.

    Raises: UsageError for a column that does not exist.
    """
    # `--help` must not wait for these.
    import numpy as np

    from tracetui.analysis.comparing.several import Several
    from tracetui.drawing.text.several_text import SeveralShown, key_rows

    told = Several(tuple(found))
    commands = [command(sides[0], other) for other in sides[1:]]
    if options is None:
        short = key_rows(told.totals)
        return SeveralShown(told, short, commands, left_out=len(told.totals) - len(short))
    whole = options.show == "totals" or options.where or options.sort or options.format in ("json", "csv")
    table = narrowed(told.totals if whole else key_rows(told.totals), options.where, options.sort)
    table = table if options.limit is None else table.take(np.arange(min(options.limit, len(table))))
    alone = options.show == "totals"
    return SeveralShown(told, table, commands, alone, 0 if options.where else len(told.totals) - len(table))


def command(first: Written, other: Written) -> str:
    """What prints two of the sides in full."""
    words = [f"{each.path}#{each.scope}" if each.scope else each.path for each in (first, other)]
    if first.path == other.path and other.scope:
        words[1] = f"#{other.scope}"
    return shlex.join(["tracetui", "compare", *words])


def _write(printed: SeveralShown, form: str) -> None:
    from tracetui.drawing.text import export, several_text

    if form == "csv":
        sys.stdout.write(export.render(printed.table, printed.told.sides[0].trace, "totals", "csv"))
    elif form == "json":
        sys.stdout.write(several_text.as_json(printed))
    elif form == "md":
        sys.stdout.write(several_text.as_markdown(printed))
    elif sys.stdout.isatty():
        # rich is 60 ms that a pipe need not pay for.
        from rich.console import Console

        width = shutil.get_terminal_size().columns
        Console(width=width, highlight=False).print(several_text.as_rich(printed, width))
    else:
        sys.stdout.write(several_text.as_plain(printed))
