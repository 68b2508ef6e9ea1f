"""The args of an event in words: `grid 12x8x1 = 96 blocks`, `32 per thread`, and the rest as they are.

Pure. Values come from the trace and are not trusted: they are only ever turned into text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from tracetui.drawing.format import clean, size

LONGEST = 400
"""Characters of one value that are shown."""

Fact = tuple[str, str]
"""A label and its value."""


def facts_of_args(args: Mapping[str, Any]) -> list[Fact]:
    """Labels and values of an event's args, those that explain a launch first."""
    facts = [(label, words(args[key])) for key, (label, words) in _WORDS.items() if key in args]
    facts += _shapes(args)
    facts += [
        (clean(str(key)), plain(value))
        for key, value in args.items()
        if key not in _WORDS and key not in _SHAPES and value not in ("", None, [])
    ]
    return facts


def plain(value: Any) -> str:
    """Any JSON value on one line, safe to print, cut where it is very long."""
    if isinstance(value, list):
        text = "[" + ", ".join(plain(item) for item in value[:100]) + (", …]" if len(value) > 100 else "]")
    elif isinstance(value, dict):
        text = "{" + ", ".join(f"{clean(str(key))}: {plain(item)}" for key, item in list(value.items())[:100]) + "}"
    elif isinstance(value, float):
        text = f"{value:.6g}"
    else:
        text = clean(str(value))
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def extent(value: Any) -> str:
    """A grid or block as `12x8x1`."""
    return "x".join(plain(item) for item in value) if isinstance(value, list) else plain(value)


def _counted(noun: str) -> Callable[[Any], str]:
    def words(value: Any) -> str:
        if isinstance(value, list) and value and all(isinstance(item, int) for item in value):
            return f"{extent(value)} = {prod(value):,} {noun}{'' if prod(value) == 1 else 's'}"
        return plain(value)

    return words


def _bytes(value: Any) -> str:
    return size(value) if isinstance(value, int | float) else plain(value)


def _with(unit: str) -> Callable[[Any], str]:
    return lambda value: f"{plain(value)} {unit}"


_WORDS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "device": ("device", plain),
    "stream": ("stream", plain),
    "grid": ("grid", _counted("block")),
    "block": ("block", _counted("thread")),
    "registers per thread": ("registers", _with("per thread")),
    "shared memory": ("shared memory", _bytes),
    "blocks per SM": ("blocks per SM", plain),
    "warps per SM": ("warps per SM", plain),
    "est. achieved occupancy %": ("occupancy (est.)", _with("%")),
    "bytes": ("size", _bytes),
    "memory bandwidth (GB/s)": ("bandwidth", _with("GB/s")),
    "correlation": ("correlation", plain),
}

_SHAPES = ("Input Dims", "Input dims", "Input type", "Input Strides", "Concrete Inputs")


def _shapes(args: Mapping[str, Any]) -> list[Fact]:
    """One line per input of an op: its type and dimensions, strides where recorded, or its value."""
    dims = _listed(args, "Input Dims") or _listed(args, "Input dims")
    types, strides = _listed(args, "Input type"), _listed(args, "Input Strides")
    values = _listed(args, "Concrete Inputs")
    facts = []
    for index in range(max(len(dims), len(types), len(values))):
        kind, shape = _at(types, index), _at(dims, index)
        words = [plain(kind)] if kind else []
        if shape:
            words.append(plain(shape))
            if _at(strides, index):
                words.append(f"strides {plain(_at(strides, index))}")
        if _at(values, index):
            words.append(f"= {plain(_at(values, index))}")
        if words:
            facts.append((f"input {index}", " ".join(words)))
    return facts


def _listed(args: Mapping[str, Any], key: str) -> list[Any]:
    value = args.get(key)
    return value if isinstance(value, list) else []


def _at(values: list[Any], index: int) -> Any:
    return values[index] if index < len(values) else None
