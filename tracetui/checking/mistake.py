"""An expression that is not understood, and the position of the error."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from tracetui.errors import UsageError

MAX_SUGGESTED_NAMES = 4
"""Maximum names suggested for one that does not exist."""
MAX_LISTED_NAMES = 24
"""Maximum names listed where none is similar."""
ALL_NAMES_HINT = "`tracetui check --names TRACE` lists all names."
NO_COMMAS_HINT = "A number has no comma in it: 3,874 is written 3874 or 3_874."
"""Hint for a number with a thousands separator."""
MAX_SHOWN_CHARACTERS = 76
"""Maximum characters of a long expression shown around the error."""


class Mistake(UsageError):
    """An expression that is not understood: a sentence, and the position in the text that it is about."""

    def __init__(self, sentence: str, at: int) -> None:
        super().__init__(sentence)
        self.at = at
        """Characters before the error."""
        self.text = ""
        """The whole expression, once it is known."""
        self.source = ""
        """Where the expression is written, as `limits.txt, line 3`; empty for the command line."""
        self.others: tuple[Mistake, ...] = ()
        """Further mistakes, where several expressions were parsed."""

    @property
    def lines_below(self) -> tuple[str, ...]:
        """The expression, where it is known, and a caret under the position."""
        return tuple(f"  {line}" for line in pointed(self.text, self.at)) if self.text else ()


def together(mistakes: Sequence[Mistake]) -> Mistake:
    """The first of several mistakes, which holds the others."""
    first = mistakes[0]
    first.others = tuple(mistakes[1:])
    return first


def pointed(text: str, at: int) -> tuple[str, str]:
    """The expression, cut to one line where it is long, and a caret under the position."""
    first = max(0, min(at - MAX_SHOWN_CHARACTERS // 2, len(text) - MAX_SHOWN_CHARACTERS))
    shown = text[first : first + MAX_SHOWN_CHARACTERS]
    head, tail = "… " if first else "", " …" if first + MAX_SHOWN_CHARACTERS < len(text) else ""
    return f"{head}{shown}{tail}", " " * (len(head) + min(at, len(text)) - first) + "^"


def nearest(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """A sentence that suggests the names most similar to one that does not exist, or what to do where none is."""
    names = list(dict.fromkeys(known))
    wanted = name.casefold()
    held = [each for each in names if wanted and wanted in each.casefold()]
    like = difflib.get_close_matches(name, names, MAX_SUGGESTED_NAMES, 0.6)
    suggestions = list(dict.fromkeys([*like, *sorted(held, key=len)]))[:MAX_SUGGESTED_NAMES]
    if suggestions:
        return f"Did you mean {' or '.join(suggestions)}?"
    if otherwise or len(names) > MAX_LISTED_NAMES:
        return otherwise or ALL_NAMES_HINT
    return f"There are {', '.join(names)}."
