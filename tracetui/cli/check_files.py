"""The files of a check: the assertions that are read from one, and where its results may be written.

No file that a check reads is ever written to. Any other file that is there already is overwritten only where it is
the result of an earlier check, as a CI leaves them lying about.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from tracetui.cli.sides import split
from tracetui.errors import TracetuiError, UsageError

STANDARD = "-"
"""Standard input or output."""


def lines(path: str, trace: str) -> list[tuple[str, str]]:
    """The expressions in a file, one a line and without those that are only a remark, each with its place.

    Raises: UsageError for a file that cannot be read.
    """
    if path == STANDARD and split(trace).path == STANDARD:
        raise UsageError("Standard input cannot be both the trace and the assertions.")
    try:
        data = sys.stdin.buffer.read() if path == STANDARD else Path(path).read_bytes()
        every = data.decode("utf-8-sig").splitlines()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no text in UTF-8 (byte {error.start:,}): assertions stand one a line.") from None
    title = "standard input" if path == STANDARD else path
    numbered = ((line, f"{title}, line {number}") for number, line in enumerate(every, 1))
    found = [(line, place) for line, place in numbered if line.split("#", 1)[0].strip()]
    if not found:
        raise UsageError(f"{path} holds no assertions.")
    return found


def refuse_outputs(options: argparse.Namespace) -> None:
    """Find out before any work whether `-o` and `--junit` may be written.

    A folder that is missing is told later, beside the results. Raises: UsageError for a file that is read too, for
    one that is there and no earlier result (without `--force`), and for two results in one file.
    """
    if options.junit == STANDARD:
        raise UsageError("JUnit XML on standard output is --format junit; --junit takes a file.")
    given = [path for path in (options.output, options.junit) if path and path != STANDARD]
    for path in given:
        _refuse(path, options)
    if len(given) == 2 and _is_one_file(*given):
        raise UsageError(f"-o and --junit are one file, {options.junit}: name two, or leave -o out.")


def written(path: str, text: str) -> str:
    """Write a result; a sentence where that is not possible, empty where it is."""
    from tracetui.files import write_whole

    try:
        write_whole(Path(path), text)
    except OSError as error:
        return f"{path} cannot be written: {error.strerror or error}."
    return ""


def write_results(text: str, junit: str | None, options: argparse.Namespace) -> None:
    """Print or write what a check found, and as JUnit where that is asked; whatever fails, the results are told.

    Raises: TracetuiError for what could not be written.
    """
    failed = [written(options.junit, junit)] if junit is not None else []
    if options.output and options.output != STANDARD:
        failed.append(written(options.output, text))
    if not options.output or options.output == STANDARD or failed[-1]:
        sys.stdout.write(text)
        # What follows on standard error shall stand below it.
        sys.stdout.flush()
    if any(failed):
        raise TracetuiError(" ".join(filter(None, failed)))


def _refuse(path: str, options: argparse.Namespace) -> None:
    from tracetui.drawing.text.check_results import is_result
    from tracetui.files import open_already

    if os.path.isdir(path):
        raise UsageError(f"{path} is a folder: name a file in it.")
    if open_already(Path(path)) is not None or not os.path.isfile(path):
        return
    for read, what in _inputs(options):
        if read.exists() and read.samefile(path):
            raise UsageError(f"{path} is {what} itself: name another file.")
    if options.force:
        return
    try:
        with open(path, "rb") as file:
            known = is_result(file)
    except OSError:
        known = False
    if not known:
        raise UsageError(f"{path} is there already and no earlier result: name another file, or --force replaces it.")


def _inputs(options: argparse.Namespace) -> Iterator[tuple[Path, str]]:
    """Every file that the check reads, and what a sentence calls it."""
    trace = split(options.trace).path
    yield _place(trace), "the trace"
    if options.baseline is not None:
        # `#4` alone is a step of the trace, which has no file of its own.
        yield _place(split(options.baseline).path), "the baseline"
    for path in options.files:
        yield _place(path), "the file of assertions"


def _place(path: str) -> Path:
    return Path("/dev/stdin" if path == STANDARD else path)


def _is_one_file(a: str, b: str) -> bool:
    from tracetui.files import open_already

    if os.path.exists(a) and os.path.exists(b):
        is_device = not os.path.isfile(a) or open_already(Path(a)) is not None
        return not is_device and os.path.samefile(a, b)
    return os.path.realpath(a) == os.path.realpath(b)
