"""Results of analyses that are worked out once per trace and kept with it: in memory, and on disk where declared.

`@kept` on `links(trace)` keeps the result for as long as the trace. On `counts(trace, step)` it keeps one per step, of
which the last `MAX_KEPT` stay. The name of the function is the key; a second function of the same name raises
ValueError when its module is imported. `on_disk=True` also writes the result to the cache of read traces: it comes
back when the trace is opened again as it was recorded, without steps, a device or recordings of graphs that the user
chose. `of_file=True` says that none of these choices changes the result, so that it always comes back. The classes of
results on disk are those of the return annotation. Results with other keys go through `Trace.keep`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from enum import Enum
from functools import cache, partial, wraps
from inspect import Parameter, signature
from sys import modules
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, get_args, get_type_hints, overload

if TYPE_CHECKING:
    from tracetui.model.trace import Trace

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Analysis = Callable[Concatenate["Trace", Arguments], Result]


@dataclass(frozen=True)
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
