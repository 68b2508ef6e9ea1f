"""Values as a tree of JSON and a list of arrays, and back: columns stay bytes, everything else becomes text.

A node of the tree is a number, a text, a truth value or null itself, or a list of a tag and what belongs to it. Objects
are those of the classes that are named to the encoder; nothing in a tree can name another class, and nothing is run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracetui.model.strings import Strings

Tree = Any
Array = NDArray[Any]
Classes = Mapping[str, type]

_PLAIN = (int, float, str, bool, type(None))
_ARRAY, _SCALAR, _BYTES, _TEXTS, _STRINGS = "array", "scalar", "bytes", "texts", "strings"
_LIST, _TUPLE, _SET, _DICT, _ENUM, _OBJECT = "list", "tuple", "set", "dict", "enum", "object"
_NUMBERS = "biuf"
"""Kinds of numpy's types that are stored: truth values, whole numbers and fractions."""
MIN_TEXTS = 100
"""Texts of a list from which on they are stored as bytes."""


class NotStorable(Exception):
    """A value of a class that cannot be stored."""


def by_name(classes: Iterable[type]) -> Classes:
    """Classes by their names, which are stored in a tree."""
    return {each.__name__: each for each in classes}


class Encoder:
    """Turns values into trees; the arrays in them are collected, each once."""

    def __init__(self, classes: Classes, arrays: Iterable[Array] = ()) -> None:
        """`arrays` are those that are collected already."""
        self.arrays: list[Array] = []
        self._classes = classes
        self._numbers: dict[int, int] = {}
        self._originals: list[Array] = []
        for each in arrays:
            self._add(each)

    def tree(self, value: object) -> Tree:
        """A value as a tree.

        Raises: NotStorable for a value of another class.
        """
        if type(value) in _PLAIN:
            return value
        if isinstance(value, np.ndarray):
            return [_ARRAY, self._add(value)]
        if isinstance(value, np.generic):
            return [_SCALAR, self._add(np.array(value))]
        if isinstance(value, bytes):
            return [_BYTES, self._add(np.frombuffer(value, np.uint8))]
        if isinstance(value, Strings):
            return [_STRINGS, self._add_texts(list(value))]
        if type(value) in (list, tuple, frozenset):
            return self._sequence(value)  # type: ignore[arg-type]
        if type(value) is dict:
            return [_DICT, [[self.tree(key), self.tree(each)] for key, each in value.items()]]
        return self._object(value)

    def _sequence(self, value: Iterable[object]) -> Tree:
        values: list[Any] = list(value)
        if isinstance(value, list) and len(values) >= MIN_TEXTS and all(type(each) is str for each in values):
            return [_TEXTS, self._add_texts(values)]
        tag = _LIST if isinstance(value, list) else _TUPLE if isinstance(value, tuple) else _SET
        return [tag, [self.tree(each) for each in values]]

    def _object(self, value: object) -> Tree:
        name = type(value).__name__
        if self._classes.get(name) is not type(value):
            raise NotStorable(f"values of {type(value)} are not stored")
        if isinstance(value, Enum):
            return [_ENUM, name, value.name]
        return [_OBJECT, name, [self.tree(getattr(value, field)) for field in _fields(type(value))]]

    def _add_texts(self, texts: list[str]) -> int:
        # Unlike UTF-8 this holds every text that Python can hold.
        return self._add(np.frombuffer(json.dumps(texts).encode("ascii"), np.uint8))

    def _add(self, array: Array) -> int:
        number = self._numbers.get(id(array))
        if number is None:
            if array.dtype.kind not in _NUMBERS:
                raise NotStorable(f"arrays of {array.dtype} are not stored")
            number = self._numbers[id(array)] = len(self.arrays)
            # An array that goes leaves its id to another one.
            self._originals.append(array)
            self.arrays.append(np.ascontiguousarray(array).reshape(array.shape))
        return number


def decode(tree: Tree, arrays: Sequence[Array], classes: Classes) -> Any:
    """The value that a tree stands for.

    Raises: ValueError, TypeError, KeyError, IndexError for what is no tree.
    """
    if not isinstance(tree, list):
        return tree
    tag, payload = tree[0], tree[1]
    if tag == _ARRAY:
        return arrays[payload]
    if tag == _SCALAR:
        return arrays[payload][()]
    if tag == _BYTES:
        return arrays[payload].tobytes()
    if tag in (_TEXTS, _STRINGS):
        texts = json.loads(arrays[payload].tobytes())
        return texts if tag == _TEXTS else Strings(texts)
    if tag == _DICT:
        return {decode(key, arrays, classes): decode(value, arrays, classes) for key, value in payload}
    if tag in (_LIST, _TUPLE, _SET):
        values = [decode(each, arrays, classes) for each in payload]
        return values if tag == _LIST else tuple(values) if tag == _TUPLE else frozenset(values)
    if tag == _ENUM:
        return classes[payload][tree[2]]  # type: ignore[index]
    if tag == _OBJECT:
        made, names = classes[payload], _fields(classes[payload])
        return made(**{name: decode(each, arrays, classes) for name, each in zip(names, tree[2], strict=True)})
    raise ValueError(f"{tag!r} is no tag")


def _fields(of: type) -> Sequence[str]:
    """The names of what an object is made of."""
    if is_dataclass(of):
        return [field.name for field in fields(of) if field.init]
    named: Sequence[str] | None = getattr(of, "_fields", None)
    if named is None:
        raise NotStorable(f"{of} has no fields")
    return named
