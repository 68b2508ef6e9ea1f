"""Explanations of events in three sentences, from the page `events.md`, of which docs/events.md is a copy."""

from __future__ import annotations

import re
from fnmatch import translate
from functools import cache
from pathlib import Path

from tracetui.frozen import frozen
from tracetui.kernel_names import Family, decode
from tracetui.model.trace import Kind

PAGE = Path(__file__).with_name("events.md")
_ENTRY = re.compile(r"^### (.+)\n((?:`[^`\n]+` ?)+)\n\n(.+)$", re.MULTILINE)


@frozen(eq=True)
class Explanation:
    """An entry of the page."""

    title: str
    """The event in a few words: `A launch of a kernel`."""
    patterns: tuple[str, ...]
    """Names with `*` for any text, `family:` and `kind:`."""
    text: str
    """Its sentences."""


@cache
def explanations() -> tuple[Explanation, ...]:
    """All entries, in the order of the page, which is read when the first is asked for."""
    return tuple(
        Explanation(title, tuple(re.findall(r"`([^`]+)`", patterns)), text)
        for title, patterns, text in _ENTRY.findall(PAGE.read_text(encoding="utf-8"))
    )


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], Explanation], ...]:
    # `[` stands for itself, as names have it.
    return tuple(
        (re.compile("|".join(translate(each.replace("[", "[[]")) for each in entry.patterns), re.DOTALL), entry)
        for entry in explanations()
    )


def explanation(name: str, kind: Kind | None = None) -> Explanation | None:
    """The entry for a slice of a name and a kind; without a kind that of the name alone, None where there is none."""
    entry = next((entry for pattern, entry in _patterns() if pattern.match(name)), None)
    if entry is not None:
        return entry
    family = decode(name, Kind.KERNEL if kind is None else kind).family
    is_kernel = kind == Kind.KERNEL or (kind is None and family != Family.OTHER)
    labels = [f"family:{family.name.lower()}"] if is_kernel else []
    labels += [] if kind is None else [f"kind:{kind.name.lower()}"]
    return next((each for label in labels for each in explanations() if label in each.patterns), None)
