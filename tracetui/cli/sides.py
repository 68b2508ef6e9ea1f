"""The sides of a comparison on the command line: `PATH`, `PATH#SCOPE`, or `#SCOPE` of the same trace."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tracetui.cli.traces import read_trace
from tracetui.errors import UsageError
from tracetui.opening.trace_opening import AS_RECORDED, OpenOptions, SideName
from tracetui.urls import is_url

if TYPE_CHECKING:
    from tracetui.comparing.side import Side
    from tracetui.model.trace import Trace

FORMS = "write `A.json B.json`, `A.json#3 A.json#4`, or `A.json '#3' '#4'`"
"""How two sides can be named."""
QUOTE = "The shell takes a word that begins with # for a comment: quote it."
_BARE = re.compile(r"\d+(:\d+)?")
"""A scope without its sign."""


def named_sides(words: Sequence[str]) -> tuple[SideName, ...]:
    """The sides that two words or more name; a scope alone is of the trace before it, which may stand apart in front.

    Raises: UsageError for words that name no sides.
    """
    if len(words) < 2:
        raise UsageError(f"One side is not enough: {FORMS}. {QUOTE}")
    if _is_scope(words[0]):
        raise UsageError(f"{words[0]!r} is a scope without a trace before it: {FORMS}.")
    first, rest = split(words[0]), words[1:]
    if len(rest) > 1 and not first.scope and all(map(_is_scope, rest)):
        return tuple(SideName(first.path, word[1:]) for word in rest)
    sides = [first]
    for word in rest:
        if _BARE.fullmatch(word) and not os.path.exists(word):
            raise UsageError(f"{word} is no file; if a step is meant, {FORMS}. {QUOTE}")
        if not _is_scope(word):
            sides.append(split(word))
        elif len(words) > 2 and not sides[-1].scope:
            raise UsageError(f"It is not clear whether {sides[-1].path} is a side beside {word!r}: {FORMS}.")
        else:
            sides.append(SideName(sides[-1].path, word[1:]))
    return tuple(sides)


def named_pair(words: Sequence[str]) -> tuple[SideName, SideName]:
    """The two sides that the words name.

    Raises: UsageError for anything else.
    """
    sides = named_sides(words)
    if len(sides) != 2:
        raise UsageError(f"Here two sides are compared, not {len(sides)}: {FORMS}.")
    return sides[0], sides[1]


def split(word: str) -> SideName:
    """Path and scope of `PATH#SCOPE`; of several ways to read it the one with the longest path that exists."""
    if is_url(word):
        url, _, scope = word.partition("#")
        return SideName(url, scope)
    signs = [index for index, letter in enumerate(word) if letter == "#"]
    for end in [len(word), *reversed(signs)]:
        if _exists(word[:end]):
            return SideName(word[:end], word[end + 1 :])
    return SideName(word[: signs[0]], word[signs[0] + 1 :]) if signs else SideName(word)


def missing_side(word: str, options: OpenOptions = AS_RECORDED) -> str:
    """A sentence on what could be compared where only one side is named: its steps, or what runs several times in it.

    Raises: UsageError for a scope without a trace, TraceError for a file.
    """
    # This loads numpy, which `--help` must not wait for.
    from tracetui.comparing.offers import repeated_scopes, step_scopes

    if _is_scope(word):
        raise UsageError(f"{word!r} is a scope without a trace before it: {FORMS}.")
    path = split(word).path
    trace, name = read_trace(path, options), shlex.quote(path)
    offers = []
    if len(found := step_scopes(trace)) > 1:
        offers.append(f"its steps, as in `{name} '{found[0]}' '{found[1]}'`")
    if names := repeated_scopes(trace):
        some = ", ".join(f"{each} ({runs:,})" for each, runs in names)
        scopes = " ".join(shlex.quote(f"#{names[0][0]}[{number}]") for number in (1, 2))
        offers.append(f"runs of what is called more than once, {some}, as in `{name} {scopes}`")
    offered = f" Within it there are {'; and '.join(offers)}." if offers else ""
    return f"One side is not enough: {FORMS}.{offered} {QUOTE}"


def read_sides(sides: Sequence[SideName], options: OpenOptions = AS_RECORDED) -> list[Side]:
    """Open the sides, a file that several of them name only once.

    Raises: UsageError for a scope that does not exist, TraceError for a file.
    """
    # This loads numpy, which `--help` must not wait for.
    from tracetui.comparing.side import side

    traces: dict[str, Trace] = {}
    paths = [each.path if each.path == "-" or is_url(each.path) else os.path.realpath(each.path) for each in sides]
    for path, each in zip(paths, sides, strict=True):
        if path not in traces:
            traces[path] = read_trace(each.path, options)
    return [side(traces[path], each.scope) for path, each in zip(paths, sides, strict=True)]


def _is_scope(word: str) -> bool:
    return word.startswith("#") and not os.path.exists(word)


def _exists(path: str) -> bool:
    return path == "-" or os.path.exists(path)
