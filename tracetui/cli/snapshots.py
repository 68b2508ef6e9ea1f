"""Memory snapshots on the command line: commands that take traces hand those over to here."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from tracetui.cli.streams import TraceProgress, console, remark
from tracetui.errors import UsageError

if TYPE_CHECKING:
    from tracetui.model.memory_snapshot import MemorySnapshot
    from tracetui.model.table import Table
    from tracetui.snapshots.history import DeviceHistory

PANES = ("peak", "live", "segments", "unfreed", "oom")
"""The panes that only memory snapshots have."""
_OF_TRACES = {
    "step": "--step",
    "range": "--range",
    "steps_by": "--steps-by",
    "capture": "--capture",
    "snapshot": "--snapshot",
}
"""Options that say something of a trace."""


def is_snapshot_file(path: str) -> bool:
    """True where a file begins as a memory snapshot does; standard input is a trace."""
    # Loads what reads files, which `--help` must not wait for.
    from tracetui.reading.source import holds_snapshot

    return path != "-" and holds_snapshot(path)


def read_snapshot(path: str) -> MemorySnapshot:
    """Read a snapshot, with progress on standard error.

    Raises: TraceError when the file cannot be used.
    """
    from tracetui.reading.snapshot import load_snapshot

    with TraceProgress(path) as progress:
        return load_snapshot(path, progress.update)


def read_history(path: str, options: argparse.Namespace) -> DeviceHistory:
    """The device of a snapshot that is asked for, or the fullest.

    Raises: UsageError for options of traces and an unknown device; TraceError for the file.
    """
    # Loads numpy, which `--help` must not wait for.
    from tracetui.snapshots.snapshot_tables import chosen_history

    for name, option in _OF_TRACES.items():
        if getattr(options, name, None) not in (None, []):
            raise UsageError(f"{option} is about a trace; of a memory snapshot a moment is chosen with --at.")
    return chosen_history(read_snapshot(path), getattr(options, "device", None))


def two_histories(options: argparse.Namespace) -> tuple[DeviceHistory, DeviceHistory]:
    """The two snapshots that are compared.

    Raises: UsageError for more or fewer, traces among them and options of traces; TraceError for a file.
    """
    others = [each for each in options.sides if not is_snapshot_file(each)]
    if len(options.sides) != 2 or others:
        what = f"{others[0]} is none" if others else f"the number of files is {len(options.sides)}"
        raise UsageError(f"A memory snapshot is compared with one other snapshot, and {what}.")
    if options.show != "all" or options.unfold:
        raise UsageError("--show and --unfold are about traces: of snapshots there is one table.")
    a, b = options.sides
    return read_history(a, options), read_history(b, options)


def pane_of(options: argparse.Namespace) -> tuple[DeviceHistory, int, Table]:
    """The pane of a snapshot that is asked for: its device, its moment and its rows.

    Raises: UsageError for a pane, moment, device or grouping that does not exist; TraceError for the file.
    """
    # These load numpy, which `--help` must not wait for.
    from tracetui.snapshots.snapshot_tables import PANES as TABLES
    from tracetui.snapshots.snapshot_tables import pane_table, read_moment

    if options.pane not in TABLES:
        raise UsageError(
            f"{options.trace} is a memory snapshot, which has no {options.pane}: there are {', '.join(TABLES)}."
        )
    pane = TABLES[options.pane]
    if options.at is not None and not pane.takes_moment:
        raise UsageError(f"{pane.name} is about the end of the history: leave --at out.")
    history = read_history(options.trace, options)
    moment = pane.moment(history) if options.at is None else read_moment(history, options.at)
    return history, moment, pane_table(history, pane.name, moment, options.by)


def print_state(path: str, options: argparse.Namespace) -> int:
    """Print what the app would show first: the OOM, or else the peak.

    Raises: UsageError for options of traces; TraceError for the file.
    """
    from tracetui.drawing.text.export import LINE_CELLS
    from tracetui.snapshots.snapshot_tables import pane_table

    history = read_history(path, options)
    pane = "oom" if history.ooms else "peak"
    print_rows(history.snapshot, pane_table(history, pane), f"{pane} by line", "table", LINE_CELLS)
    return 0


def print_rows(
    snapshot: MemorySnapshot,
    table: Table,
    title: str,
    form: str,
    width: int | None,
    chosen: bool = False,
    document: Callable[[], str] = str,
) -> None:
    """Print rows of a snapshot in a format, of which JSON is what `document` makes; chosen columns are printed all.

    Without a width the output is a terminal.
    """
    from tracetui.drawing.text import export, snapshot_text

    if form == "json":
        sys.stdout.write(document())
    elif form == "csv":
        sys.stdout.write(export.csv_rows(table))
        remark(f"{table.headline} {table.note}".rstrip())
    elif form == "md":
        sys.stdout.write(snapshot_text.as_markdown(snapshot, table, title, chosen))
    elif form == "plain":
        sys.stdout.write(snapshot_text.as_blocks(snapshot, table, title))
    elif width is None and not chosen:
        cells = shutil.get_terminal_size().columns
        console(sys.stdout, width=cells).print(snapshot_text.as_rich(snapshot, table, title, cells))
    else:
        sys.stdout.write(snapshot_text.as_plain(snapshot, table, title, width, chosen))
