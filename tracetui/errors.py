"""Errors, each with the exit code that the command line answers with.

TracetuiError
├── TraceError          the file cannot be used (1)
│   ├── NotFound        no such file, or it cannot be read
│   ├── NotATrace       the bytes are something else, or nothing
│   │   └── OtherKind   the bytes are those of a known kind of file that is no trace
│   ├── NoEvents        a trace without one usable event
│   └── NotEnoughMemory this process may take no more memory
├── ClusterUnusable     no Dask cluster at an address, or its workers lack what reading needs (1)
├── CannotWrite         the disk is full, or nothing may be written in that folder (1)
├── Unanswerable        the trace is fine but does not hold what was asked (1)
├── AnalysisFailed      a defect of one analysis; what does not rest on it is shown all the same (1)
├── UsageError          the command was not understood, or the output file exists, has no folder or is an input (2)
├── CannotRun           torch, a GPU or a compiler is missing (3)
└── RunFailed           the recording failed (4)

A message is one sentence for a person: what, where (a byte offset where there is one) and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


class TracetuiError(Exception):
    """Base of every error that is told to the user as a sentence and never as a traceback."""

    exit_code = 1

    @property
    def lines_below(self) -> tuple[str, ...]:
        """Lines that are printed below the sentence."""
        return ()


class TraceError(TracetuiError):
    """The file cannot be opened as a trace."""


class NotFound(TraceError):
    """The path does not exist, is a folder without traces, or may not be read."""


class NotATrace(TraceError):
    """The content is not a trace: empty, another format, a Git LFS pointer, or damaged beyond reading."""


class OtherKind(NotATrace):
    """The content is that of a known kind of file: a log, a snapshot, a report of another profiler."""

    def __init__(self, label: str, what: str, advice: str) -> None:
        """`{}` in the advice stands for the file."""
        super().__init__(f"{label} is {what}: {advice.replace('{}', label)}.")
        self.words = f"{what}: {advice.replace('{}', 'FILE')}"
        """Description of files of the kind and what to do with them, whatever their names, without a full stop."""

    def __reduce__(self) -> tuple[Any, ...]:
        # As of any exception with more arguments than its message, which another process may raise.
        return _other_kind, (str(self), self.words)


def _other_kind(message: str, words: str) -> OtherKind:
    error = OtherKind.__new__(OtherKind, message)
    error.args, error.words = (message,), words
    return error


class NoEvents(TraceError):
    """The file is a trace, but not one event in it can be placed in time."""


class NotEnoughMemory(TraceError, MemoryError):
    """The file may be fine, but the process gets no more memory: of the machine, or below its limit."""


class ClusterUnusable(TracetuiError):
    """A Dask cluster cannot be reached, or has no workers, or one that lacks what reading needs."""


class CannotWrite(TracetuiError):
    """A file could not be written; the message says which, why, and what is left of it."""


class Unanswerable(TracetuiError):
    """The trace does not hold what was asked; the message says how to record it."""


class AnalysisFailed(TracetuiError):
    """One analysis ended in an error that nobody expected; the message says which, and where the report lies."""


class UsageError(TracetuiError):
    """The command line names a pane, column, step or option that does not exist, or a file that may not be written."""

    exit_code = 2


class CannotRun(TracetuiError):
    """A recording cannot be made on this machine."""

    exit_code = 3


class RunFailed(TracetuiError):
    """A recording was started and failed."""

    exit_code = 4


MAX_SUGGESTED_NAMES = 4
"""Maximum names suggested for one that does not exist."""
MAX_LISTED_NAMES = 24
"""Maximum names listed where none is similar."""


def nearest(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """A sentence that suggests the names most similar to one that does not exist, or what to do where none is.

    Without `otherwise` that is the list of names, empty for a long one.
    """
    names = list(dict.fromkeys(known))
    wanted = name.casefold()
    containing = sorted((each for each in names if wanted and wanted in each.casefold()), key=len)
    similar = difflib.get_close_matches(name, names, MAX_SUGGESTED_NAMES, 0.6)
    if suggestions := list(dict.fromkeys([*similar, *containing]))[:MAX_SUGGESTED_NAMES]:
        return f"Did you mean {' or '.join(suggestions)}?"
    if otherwise or not 0 < len(names) <= MAX_LISTED_NAMES:
        return otherwise
    return f"There {'is' if len(names) == 1 else 'are'} {', '.join(names)}."
