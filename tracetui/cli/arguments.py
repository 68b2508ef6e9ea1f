"""Arguments that several commands share, each declared once: what is opened, and how many rows are printed."""

from __future__ import annotations

import argparse
import difflib
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, NoReturn

from tracetui.config import COLORS
from tracetui.errors import UsageError, nearest
from tracetui.files import NO_FILE
from tracetui.opening.trace_opening import OpenOptions
from tracetui.ui.base.differ_switch import VARIABLE


class Command(NamedTuple):
    """A command, as `COMMANDS` of its file declares it under its name."""

    help: str
    """Its line in the list of commands."""
    description: str | None
    """The text above its arguments."""
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    """Does what the options say, and returns the exit code."""


# One style of error: a sentence, then where the help is.

_SENTENCES = (
    (r"argument (.+): invalid choice: (.+?) \(choose from (.*)\)", ""),
    (r"the following arguments are required: (.+, .+)", "{0} are missing."),
    (r"the following arguments are required: (.+)", "{0} is missing."),
    (r"argument (.+): expected one argument", "{0} needs a value."),
    (r"argument (.+): expected .*", "{0} needs a value or more."),
    (r"argument (.+): invalid int value: (.+)", "{0} takes a whole number, not {1}."),
    (r"argument (.+): invalid float value: (.+)", "{0} takes a number, not {1}."),
    (r"argument (.+): not allowed with argument (.+)", "{0} and {1} exclude each other: leave one of them out."),
    (r"argument (.+): ignored explicit argument (.+)", "{0} takes no value, and {1} stands there."),
    (r"argument (.+): (must .*|takes .*)", "{0} {1}."),
)
"""What argparse says, as patterns, and the sentence in its place."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are those of every other misuse."""

    def error(self, message: str) -> NoReturn:
        """Raises: UsageError, always."""
        sentence = f"{message[:1].upper()}{message[1:]}."
        for pattern, words in _SENTENCES:
            if match := re.fullmatch(pattern, message, re.DOTALL):
                sentence = words.format(*match.groups()) if words else _no_such_choice(*match.groups())
                break
        raise UsageError(
            sentence if sentence.endswith("?") else f"{sentence} `{self.prog} --help` lists what there is."
        )


def _no_such_choice(argument: str, given: str, choices: str) -> str:
    known = [each.strip("'") for each in choices.split(", ")]
    # A name of an argument is that of what it takes, and an option takes several.
    what = f"{argument} takes no" if argument.startswith("-") else f"There is no {argument.lower()}"
    return f"{what} {given}. {nearest(given[1:-1], known)}"


def completes_files(action: argparse.Action) -> None:
    """Mark an argument as a path."""
    action.complete = "files"  # type: ignore[attr-defined]


def add_everywhere(parser: argparse.ArgumentParser) -> None:
    """Declare the options that every command has, which may also stand before its name."""
    group = parser.add_argument_group("everywhere")
    group.add_argument(
        "--color",
        choices=COLORS,
        default=argparse.SUPPRESS,
        help="colours: on a terminal (auto), also in a pipe, or none; else NO_COLOR, FORCE_COLOR or the settings say",
    )
    group.add_argument(
        "--quiet", action="store_true", default=argparse.SUPPRESS, help="nothing but errors on standard error"
    )


MAX_JOBS = 1000
"""Maximum number of processes that a user may ask for."""
MAX_SUGGESTED_OPTIONS = 3
"""Maximum number of options that are suggested for one that does not exist."""
MIN_SIMILARITY = 0.65
"""Minimum similarity of an option that is suggested, as difflib measures it."""


def similar_options(given: str, known: Sequence[str]) -> list[str]:
    """The options that one which does not exist may have been meant for: what it begins, else what is spelt like it."""
    begun = [each for each in known if len(given) > len("--") and (each.startswith(given) or given.startswith(each))]
    begun = [each for each in begun if each.startswith("--")]
    return (begun or difflib.get_close_matches(given, known, MAX_SUGGESTED_OPTIONS, MIN_SIMILARITY))[
        :MAX_SUGGESTED_OPTIONS
    ]


def add_trace(parser: argparse.ArgumentParser, help: str = "a trace, or - for standard input") -> None:
    """Declare the trace that a command reads."""
    completes_files(parser.add_argument("trace", metavar="TRACE", help=help))


def add_steps_by(parser: argparse.ArgumentParser) -> None:
    """Declare the option that says where the steps of a trace begin."""
    parser.add_argument(
        "--steps-by",
        metavar="NAME",
        help="what counts as a step: an annotation or how its names begin, a function (`frame:NAME`), a module, "
        "`graph 1`, what repeats (`graphs`, `kernels`, `optimizer`, `modules`, `operators`), `auto` (what is found), "
        "`none`; see `show steps --by source`",
    )


def add_range(
    parser: argparse.ArgumentParser | argparse._MutuallyExclusiveGroup,
    help: str = "only what ran in a range of time: its start and length, as 12.5us+250us",
) -> None:
    """Declare the option that chooses a range of time."""
    parser.add_argument("--range", metavar="START+LENGTH", help=help)


def add_opening(parser: argparse.ArgumentParser) -> None:
    """Declare what the user may say about a trace, see `OpenOptions`."""
    add_steps_by(parser)
    parser.add_argument("--device", metavar="NAME", help="what the GPU is, such as H100, whatever the trace says")
    for name, metavar, help in (
        ("--peak", "TFLOPS", "peak of the GPU in TFLOP/s for MFU, whatever its model has"),
        ("--flops", "N", "floating-point operations of a step for MFU, as 1.2e15, in place of those that shapes tell"),
    ):
        parser.add_argument(name, metavar=metavar, type=_positive_number, help=help)
    capture = parser.add_argument(
        "--capture",
        metavar="FILE",
        action="append",
        default=[],
        help="a trace of the capture of the graphs that are replayed, or a folder of such traces; may be given more "
        "than once. Without it capture_traces/ beside the trace is looked at; none: no file",
    )
    completes_files(capture)
    snapshot = parser.add_argument(
        "--snapshot",
        metavar="FILE",
        help="a memory snapshot of the same run, whose curve and holders the trace then has; without it the only one "
        "beside the trace; none: no file",
    )
    completes_files(snapshot)
    log = parser.add_argument(
        "--compile-log",
        metavar="FILE",
        help="the log of torch.compile (TORCH_TRACE), or a folder of logs. Without it the one of the same process "
        "beside the trace or in $TORCH_TRACE is used; none: no log",
    )
    completes_files(log)
    requests = parser.add_argument(
        "--requests",
        metavar="FILE",
        help="the requests of the server that the trace is of: a log of vLLM or SGLang, or OTLP JSON. Without it the "
        "only such file beside the trace is used; none: no file",
    )
    completes_files(requests)
    add_no_cache(parser)


def add_no_cache(parser: argparse.ArgumentParser) -> None:
    """Declare the option that has traces read from their files."""
    parser.add_argument(
        "--no-cache",
        action="store_true",
        help="read the file, also where the cache has it (see `tracetui cache`), and keep nothing of it there",
    )


def opening(options: argparse.Namespace) -> OpenOptions:
    """The options of the command line about the traces that it opens."""
    captures = tuple(getattr(options, "capture", ()))
    # Commands that write a trace write what its file has.
    snapshot, log, requests = (getattr(options, name, NO_FILE) for name in ("snapshot", "compile_log", "requests"))
    device, peak, flops = (getattr(options, name, None) for name in ("device", "peak", "flops"))
    return OpenOptions(options.steps_by, device, captures, not options.no_cache, snapshot, peak, flops, log, requests)


def add_differ(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Declare the option that has the app write screens as Textual does."""
    parser.add_argument(
        "--no-differ",
        action="store_true",
        help="have Textual write the screen, in place of only the cells that changed, as many as the terminal takes",
    )


def switch_differ(options: argparse.Namespace) -> None:
    """Pass that option on to the app."""
    if options.no_differ:
        os.environ[VARIABLE] = "1"


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


def add_columns(parser: argparse.ArgumentParser) -> None:
    """Declare the option that chooses the columns of a table."""
    parser.add_argument(
        "--columns",
        metavar="A,B,C",
        help="these columns alone, in this order, by name or heading; all: every column, however wide",
    )


def add_where(parser: argparse.ArgumentParser) -> None:
    """Declare the option that filters a table."""
    parser.add_argument(
        "--where",
        metavar="FILTER",
        help="only rows with this text, or for which a condition on columns holds: 'dur > 100us & op ~ mm'; "
        "of groups (--by) the groups",
    )


def row_count(text: str) -> int:
    """An argument that is a number of rows, 0 being fine."""
    number = _whole_number(text)
    if number < 0:
        raise argparse.ArgumentTypeError("must not be negative")
    return number


def job_count(text: str) -> int:
    """An argument that is a number of processes."""
    number = _whole_number(text)
    if not 1 <= number <= MAX_JOBS:
        raise argparse.ArgumentTypeError(f"must be 1 to {MAX_JOBS}")
    return number


def _positive_number(text: str) -> float:
    with suppress(ValueError):
        if 0 < (number := float(text)) < float("inf"):
            return number
    raise argparse.ArgumentTypeError(f"takes a number above 0, not {text!r}")


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"takes a whole number, not {text!r}") from None
