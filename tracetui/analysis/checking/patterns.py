"""Patterns of names: `*` stands for any text and `?` for one character; nothing else has a meaning, and case has none.

They are matched in time proportional to the name, whatever the pattern.
"""

from __future__ import annotations

import re
from collections.abc import Callable


def matcher(pattern: str, whole: bool = False) -> Callable[[str], bool]:
    """Whether a name is as a pattern says; one without `*` and `?` may stand anywhere in it, unless `whole` is set."""
    wanted = pattern.casefold()
    if "*" not in wanted and "?" not in wanted:
        return (lambda name: name.casefold() == wanted) if whole else (lambda name: wanted in name.casefold())
    first, *others = ("".join("." if letter == "?" else re.escape(letter) for letter in p) for p in wanted.split("*"))
    # An atomic group is never entered again: the first place at which a part fits is as good as any later one.
    middle = "".join(f"(?>.*?{part})" for part in others[:-1])
    tail = f".*{others[-1]}" if others else ""
    found = re.compile(f"{first}{middle}{tail}", re.DOTALL)
    return lambda name: found.fullmatch(name.casefold()) is not None
