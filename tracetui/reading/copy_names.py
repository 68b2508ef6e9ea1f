"""Names of copies whose producer writes the direction beside the name: `Memcpy` with `copy kind` (torch 2.15, R2.25a).

They get the name that every other recording of torch has, `Memcpy DtoH (Device -> Pinned)`, which says what analyses
ask of it. Where the arguments do not tell, the name stays.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from tracetui.model.strings import Strings
from tracetui.model.trace import Kind, Trace

_NAME = "Memcpy"
_KEYS = ("copy kind", "src kind", "dst kind")
_DIRECTION, _MEMORY = re.compile(r"[HDAPU]to[HDAPU]"), re.compile(r"[A-Za-z]{1,20}")


def with_directions(trace: Trace) -> Trace:
    """The trace with the direction in the names of its copies, where only their arguments have it."""
    number = trace.names.find(_NAME)
    if number < 0:
        return trace
    slices = trace.slices
    rows = np.flatnonzero((slices.name == number) & (slices.kind == Kind.MEMCPY))
    if len(rows) == 0:
        return trace
    given = list(zip(*trace.args_of(rows, _KEYS), strict=True))
    texts = Strings(trace.names)
    known = {each: texts.intern(name) for each in set(map(_said, given)) if (name := _copy_name(each))}
    names = slices.name.copy()
    names[rows] = [known.get(_said(each), number) for each in given]
    return replace(trace, names=texts, slices=replace(slices, name=names))


def _said(values: tuple[object, ...]) -> tuple[str, ...]:
    """The arguments as texts, empty for anything else."""
    return tuple(each if isinstance(each, str) else "" for each in values)


def _copy_name(said: tuple[str, ...]) -> str:
    """`Memcpy DtoH (Device -> Pinned)`, empty where the arguments say something else."""
    direction, source, target = said
    if not (_DIRECTION.fullmatch(direction) and _MEMORY.fullmatch(source) and _MEMORY.fullmatch(target)):
        return ""
    return f"{_NAME} {direction} ({source.capitalize()} -> {target.capitalize()})"
