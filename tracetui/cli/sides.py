"""The sides of a comparison as they are written on the command line: `PATH`, `PATH#SCOPE`, or `#SCOPE` of the same."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tracetui.cli.reading import printable, read
from tracetui.errors import UsageError

if TYPE_CHECKING:
    from tracetui.analysis.comparing.sides.side import Side
    from tracetui.model.trace import Trace

FORMS = "write `A.json B.json`, `A.json#3 A.json#4`, or `A.json '#3' '#4'`"
"""How two sides can be named."""
QUOTE = "The shell takes a word that begins with # for a comment: quote it."
_BARE = re.compile(r"\d+(:\d+)?")
"""A scope without its sign."""


class Written(NamedTuple):
    """A side as it was written."""

    path: str
    scope: str


def written(words: Sequence[str]) -> tuple[Written, ...]:
    """The sides that two words or more name; a scope alone is of the trace before it, which may stand apart in front.

    Raises: UsageError for words that name no sides.
    """
    if len(words) < 2:
        raise UsageError(f"One side is not enough: {FORMS}. {QUOTE}")
    if _is_scope(words[0]):
        raise UsageError(f"{words[0]!r} is a scope without a trace before it: {FORMS}.")
    first, rest = split(words[0]), words[1:]
    if len(rest) > 1 and not first.scope and all(map(_is_scope, rest)):
        return tuple(Written(first.path, word[1:]) for word in rest)
    sides = [first]
    for word in rest:
        if _BARE.fullmatch(word) and not os.path.exists(word):
            raise UsageError(f"{word} is no file; if a step is meant, {FORMS}. {QUOTE}")
        if not _is_scope(word):
            sides.append(split(word))
        elif len(words) > 2 and not sides[-1].scope:
            raise UsageError(f"It is not clear whether {sides[-1].path} is a side beside {word!r}: {FORMS}.")
        else:
            sides.append(Written(sides[-1].path, word[1:]))
    return tuple(sides)


def written_sides(words: Sequence[str]) -> tuple[Written, Written]:
    """The two sides that the words name.

    Raises: UsageError for anything else.
    """
    sides = written(words)
    if len(sides) != 2:
        raise UsageError(f"Here two sides are compared, not {len(sides)}: {FORMS}.")
    return sides[0], sides[1]


def split(word: str) -> Written:
    """Path and scope of `PATH#SCOPE`; of several ways to read it the one with the longest path that exists."""
    places = [place for place, letter in enumerate(word) if letter == "#"]
    for place in [len(word), *reversed(places)]:
        if _exists(word[:place]):
            return Written(word[:place], word[place + 1 :])
    return Written(word[: places[0]], word[places[0] + 1 :]) if places else Written(word, "")


def one_side(word: str) -> str:
    """What could be compared where only one side was named: its steps, or what runs several times in it.

    Raises: UsageError for a scope without a trace, TraceError for a file.
    """
    # This loads numpy, which `--help` must not wait for.
    from tracetui.analysis.comparing.sides.offers import repeated_scopes, step_scopes

    if _is_scope(word):
        raise UsageError(f"{word!r} is a scope without a trace before it: {FORMS}.")
    path = split(word).path
    trace, name = read(path), shlex.quote(path)
    offers = []
    if len(found := step_scopes(trace)) > 1:
        offers.append(f"its steps, as in `{name} '{found[0]}' '{found[1]}'`")
    if names := repeated_scopes(trace):
        some = ", ".join(f"{printable(each)} ({runs:,})" for each, runs in names)
        scopes = " ".join(shlex.quote(printable(f"#{names[0][0]}[{number}]")) for number in (1, 2))
        offers.append(f"runs of what is called more than once, {some}, as in `{name} {scopes}`")
    within = f" Within it there are {'; and '.join(offers)}." if offers else ""
    return f"One side is not enough: {FORMS}.{within} {QUOTE}"


def read_sides(words: Sequence[str]) -> tuple[Side, Side]:
    """Load the two sides that the words name, a file only once.

    Raises: UsageError for words that name no two sides, TraceError for a file.
    """
    a, b = read_all(written_sides(words))
    return a, b


def read_all(sides: Sequence[Written]) -> list[Side]:
    """Load sides, a file only once.

    Raises: UsageError for a scope that does not exist, TraceError for a file.
    """
    # This loads numpy, which `--help` must not wait for.
    from tracetui.analysis.comparing.sides.side import side

    traces: dict[str, Trace] = {}
    places = [each.path if each.path == "-" else os.path.realpath(each.path) for each in sides]
    for place, each in zip(places, sides, strict=True):
        if place not in traces:
            traces[place] = read(each.path)
    return [side(traces[place], each.scope) for place, each in zip(places, sides, strict=True)]


def _is_scope(word: str) -> bool:
    return word.startswith("#") and not os.path.exists(word)


def _exists(path: str) -> bool:
    return path == "-" or os.path.exists(path)
