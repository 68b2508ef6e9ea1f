"""Running one analysis so that a defect in it costs its own result, and nothing else.

Results of analyses that are shown beside others go through here: each pane, rule and check, each table and the
statement of a comparison, each assertion, each table of ranks. An unexpected exception becomes an error with a sentence
like any other; its traceback is written to a file, once however many ask for the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from tracetui.crash_report import described, where_reported
from tracetui.errors import AnalysisFailed, TracetuiError
from tracetui.model.trace import Interrupted, Trace

Result = TypeVar("Result")


@contextmanager
def guarded(what: str) -> Iterator[None]:
    """Turn unexpected exceptions within it into the failure of one analysis.

    Raises: AnalysisFailed for such an exception; `what`, with a capital, names the result that could not be made.
    """
    try:
        yield
    except (TracetuiError, Interrupted):
        raise
    except Exception as error:
        raise failure_of(what, error) from error


class Failures:
    """Makes several independent results, and keeps a sentence about each that failed."""

    def __init__(self) -> None:
        self._sentences: dict[str, None] = {}

    @property
    def sentences(self) -> tuple[str, ...]:
        """A sentence about each failure, in order."""
        return tuple(self._sentences)

    def note(self, sentences: Iterable[str]) -> None:
        """Add failures that were reported elsewhere."""
        self._sentences.update(dict.fromkeys(sentences))

    def make(self, what: str, make: Callable[[], Result]) -> Result:
        """The result of `make`.

        Raises: AnalysisFailed as `guarded`.
        """
        try:
            with guarded(what):
                return make()
        except AnalysisFailed as failure:
            self.note((str(failure),))
            raise

    def make_or(self, what: str, make: Callable[[], Result], instead: Callable[[str], Result]) -> Result:
        """A result, or the one that `instead` makes of the sentence that says why it failed."""
        try:
            return self.make(what, make)
        except AnalysisFailed as failure:
            return instead(str(failure))


def keep_guarded(trace: Trace, key: Any, what: str, make: Callable[[], Result]) -> Result:
    """`Trace.keep` of a result or of its failure, so that a failed analysis is not run again.

    Raises: AnalysisFailed as `guarded`.
    """
    return checked(trace.keep(key, lambda: result_or_failure(what, make)))


def result_or_failure(what: str, make: Callable[[], Result]) -> Result | AnalysisFailed:
    """A result, or the failure as `guarded` raises it."""
    try:
        with guarded(what):
            return make()
    except AnalysisFailed as failure:
        return failure


def checked(result: Result | AnalysisFailed) -> Result:
    """A result that is no failure. Raises: AnalysisFailed for one that is."""
    if isinstance(result, AnalysisFailed):
        raise result.with_traceback(None)
    return result


def attempted(makers: Iterable[Callable[[], Result]]) -> tuple[list[Result], list[AnalysisFailed]]:
    """The results of several analyses, and the failures of those that failed."""
    results: list[Result] = []
    failures: list[AnalysisFailed] = []
    for make in makers:
        try:
            results.append(make())
        except AnalysisFailed as failure:
            failures.append(failure)
    return results, failures


def failures_in_words(failures: Sequence[AnalysisFailed], kind: str) -> tuple[str, ...]:
    """A sentence about analyses of a kind, such as `rules`, that failed; of many in full the first alone."""
    more = f"{len(failures) - 1:,} more {kind} failed." if len(failures) > 1 else ""
    return (" ".join(filter(None, (str(failures[0]), more))),) if failures else ()


def failure_of(what: str, error: Exception) -> AnalysisFailed:
    """The failure of one analysis by an unexpected exception; its report is written to a file."""
    if isinstance(error, MemoryError):
        return AnalysisFailed(f"{what} could not be made: there is not enough memory for it.")
    return AnalysisFailed(f"{what} could not be made: it failed with {described(error)}. {where_reported(error)}")
