"""Results of analyses: kept with their trace, in memory and on disk where declared; and guarded against defects.

`@kept` on `links(trace)` keeps the result for as long as the trace. On `counts(trace, step)` it keeps one per step, of
which the last `MAX_KEPT` stay. The name of the function is the key; a second function of the same name raises
ValueError when its module is imported. `on_disk=True` also writes the result to the cache of read traces: it comes
back when the trace is opened again as it was recorded, without steps, a device or recordings of graphs that the user
chose. `of_file=True` says that none of these choices changes the result, so that it always comes back. The classes of
results on disk are those of the return annotation. Results with other keys go through `Trace.keep`.

A defect in one analysis costs its own result and nothing else: each pane, rule, check, table, statement and assertion
goes through `guarded`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import is_dataclass
from enum import Enum
from functools import cache, partial, wraps
from inspect import Parameter, signature
from sys import modules
from types import SimpleNamespace
from typing import Any, Concatenate, ParamSpec, TypeVar, get_args, get_type_hints, overload

from tracetui.crash_report import described, where_reported
from tracetui.errors import AnalysisFailed, TracetuiError
from tracetui.frozen import frozen
from tracetui.model.trace import Interrupted, Trace

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Analysis = Callable[Concatenate["Trace", Arguments], Result]


@frozen(eq=True)
class Kept:
    """A function whose results are kept."""

    function: Callable[..., Any]
    on_disk: bool
    of_file: bool
    parameters: tuple[Parameter, ...]
    """Parameters behind the trace."""

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.function.__name__

    def key(self, *args: Any, **named: Any) -> Any:
        """The key of a result in `Trace.cache`; an argument that is left out is the same as its default."""
        if not self.parameters:
            return self.name
        rest = self.parameters[len(args) :]
        return (self.name, *args, *(named.get(each.name, each.default) for each in rest))


KEPT: dict[str, Kept] = {}
"""The functions of all imported modules, by name."""


@overload
def kept(function: Analysis[Arguments, Result], /) -> Analysis[Arguments, Result]: ...


@overload
def kept(
    *, on_disk: bool = False, of_file: bool = False
) -> Callable[[Analysis[Arguments, Result]], Analysis[Arguments, Result]]: ...


def kept(function: Any = None, /, *, on_disk: bool = False, of_file: bool = False) -> Any:
    """Keep the results of a function with the trace that is its first argument, one per set of other arguments."""
    if function is None:
        return partial(_kept, on_disk=on_disk or of_file, of_file=of_file)
    return _kept(function, on_disk=False, of_file=False)


def _kept(function: Callable[..., Any], *, on_disk: bool, of_file: bool) -> Callable[..., Any]:
    name = function.__name__
    if name in KEPT:
        raise ValueError(f"{KEPT[name].function.__module__} and {function.__module__} both keep results of {name}")
    entry = KEPT[name] = Kept(function, on_disk, of_file, tuple(signature(function).parameters.values())[1:])

    @wraps(function)
    def once(trace: Trace) -> Any:
        return trace.keep(name, partial(function, trace))

    @wraps(function)
    def once_each(trace: Trace, *args: Any, **named: Any) -> Any:
        return trace.keep(entry.key(*args, **named), partial(function, trace, *args, **named))

    return once_each if entry.parameters else once


def kept_of(key: Any) -> Kept | None:
    """The function that made the result under a key of `Trace.cache`; None for a result of `Trace.keep`."""
    return KEPT.get(key[0] if isinstance(key, tuple) else key)


def is_kept(trace: Trace, function: Callable[..., Any], *args: Any) -> bool:
    """True where the result of a kept function, for the given arguments, is known."""
    return KEPT[function.__name__].key(*args) in trace.cache


def of_file_results(results: dict[Any, Any]) -> dict[Any, Any]:
    """Those of some results, by key, that no choice of the user changes."""
    return {key: result for key, result in results.items() if (entry := kept_of(key)) and entry.of_file}


def result_classes() -> set[type]:
    """The classes of all results on disk whose functions are imported, and the classes of which they are made."""
    return {each for entry in list(KEPT.values()) if entry.on_disk for each in classes_of(entry.function)}


@cache
def classes_of(function: Callable[..., Any]) -> frozenset[type]:
    """The project's classes in the return annotation of a function, and those of their fields."""
    # The parameters may be annotated with what is imported for type checkers alone.
    only = SimpleNamespace(__annotations__={"result": function.__annotations__["return"]})
    returned = get_type_hints(only, modules[function.__module__].__dict__)["result"]
    classes: dict[type, None] = {}
    _add_classes(returned, classes)
    return frozenset(classes)


def _add_classes(annotation: Any, classes: dict[type, None]) -> None:
    for each in get_args(annotation):
        _add_classes(each, classes)
    is_class = isinstance(annotation, type) and annotation.__module__.startswith("tracetui.")
    if annotation in classes or not is_class or not (is_dataclass(annotation) or issubclass(annotation, (Enum, tuple))):
        return
    classes[annotation] = None
    if not issubclass(annotation, Enum):
        for each in get_type_hints(annotation).values():
            _add_classes(each, classes)


# Running one analysis so that a defect in it costs its own result, and nothing else.


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
