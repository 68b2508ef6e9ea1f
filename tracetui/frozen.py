"""`frozen`: a dataclass whose class takes a fifth of the time to make.

Opening a trace imports hundreds of them. `dataclasses` compiles up to six methods for each; here `__init__` is, and the
others are functions that all share. That nothing is assigned to a field is checked by the type checker alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")


@overload
def frozen(cls: type[T], /) -> type[T]: ...
@overload
def frozen(*, eq: bool = ..., slots: bool = ...) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
def frozen(cls: type[T] | None = None, /, *, eq: bool = False, slots: bool = False) -> Any:
    """A class whose annotations are its fields; with `eq` equal and hashed by them, with `slots` without a dict."""

    def made(cls: type[T]) -> type[T]:
        cls = dataclass(eq=False, repr=False, slots=slots)(cls)
        names = [name for name, each in cls.__dataclass_fields__.items() if each.compare]  # type: ignore[attr-defined]
        if "__repr__" not in cls.__dict__:
            cls.__repr__ = _repr  # type: ignore[method-assign]
        if eq:
            cls._compared = attrgetter(*names) if names else len  # type: ignore[attr-defined]
            cls.__eq__ = _eq  # type: ignore[method-assign]
            cls.__hash__ = _hash  # type: ignore[method-assign]
        return cls

    return made if cls is None else made(cls)


class Parallel:
    """Base of parallel arrays: its length is that of the first field."""

    def __len__(self) -> int:
        return len(getattr(self, next(iter(self.__dataclass_fields__))))  # type: ignore[attr-defined]


def _repr(self: Any) -> str:
    fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__dataclass_fields__)
    return f"{type(self).__qualname__}({fields})"


def _eq(self: Any, other: Any) -> Any:
    return self._compared(self) == self._compared(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(self._compared(self))
