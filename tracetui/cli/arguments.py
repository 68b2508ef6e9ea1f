"""Arguments that several commands share, each declared once: what is opened, and how many rows are printed."""

from __future__ import annotations

import argparse

from tracetui.cli.completion import FILES
from tracetui.opening import OpenOptions


def completes_files(action: argparse.Action) -> None:
    """Mark an argument as a path."""
    action.complete = FILES  # type: ignore[attr-defined]


def add_trace(parser: argparse.ArgumentParser, help: str = "a trace, or - for standard input") -> None:
    """Declare the trace that a command reads."""
    completes_files(parser.add_argument("trace", metavar="TRACE", help=help))


def add_steps_by(parser: argparse.ArgumentParser) -> None:
    """Declare the option that says where the steps of a trace begin."""
    parser.add_argument(
        "--steps-by",
        metavar="NAME",
        help="what counts as a step: an annotation, a function, a module, or `graph 1` (see `show steps --by source`)",
    )


def add_opening(parser: argparse.ArgumentParser) -> None:
    """Declare what the user may say about a trace, see `OpenOptions`."""
    add_steps_by(parser)
    parser.add_argument("--device", metavar="NAME", help="what the GPU is, such as H100, whatever the trace says")


def opening(options: argparse.Namespace) -> OpenOptions:
    """What the command line says about the traces that it opens."""
    return OpenOptions(options.steps_by, getattr(options, "device", None))


def add_output(
    parser: argparse.ArgumentParser | argparse._ArgumentGroup, metavar: str, help: str, *, required: bool = False
) -> None:
    """Declare where a command writes, and that it may replace a file."""
    completes_files(parser.add_argument("-o", "--output", metavar=metavar, required=required, help=help))
    add_force(parser)


def add_force(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Declare the option without which no file is replaced."""
    parser.add_argument("--force", action="store_true", help="replace a file that exists")


def add_sort(parser: argparse.ArgumentParser) -> None:
    """Declare the option that sorts a table."""
    parser.add_argument(
        "--sort",
        metavar="COL",
        help="sort by a column, by name or heading, numbers largest first; COL:asc and COL:desc say how",
    )


def add_where(parser: argparse.ArgumentParser) -> None:
    """Declare the option that filters a table."""
    parser.add_argument(
        "--where",
        metavar="FILTER",
        help="only rows with this text, or for which a condition on columns holds: 'dur > 100us & op ~ mm'",
    )


def row_count(text: str) -> int:
    """An argument that is a number of rows, 0 being fine."""
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number, not {text!r}") from None
    if number < 0:
        raise argparse.ArgumentTypeError("must not be negative")
    return number
