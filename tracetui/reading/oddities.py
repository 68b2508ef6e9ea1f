"""What stands in a file beside its events, and in a whole trace would not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

MAX_LISTED_ODDITIES = 1000
"""Maximum oddities of a file that are listed; further ones are counted."""


class Oddity(Enum):
    """What is not as in a whole trace; its value says so in words."""

    BRACKET = "a closing bracket between events"
    INNER_ARRAY = "another array of events"
    SECOND_KEY = "the key traceEvents once more"
    NEXT_TRACE = "another trace"
    FOREIGN = "something that is no event"


@dataclass(frozen=True, slots=True)
class Found:
    """An oddity and where it stands."""

    offset: int
    """Byte in the unpacked file."""
    kind: Oddity
    text: str = ""
    """How what stands there begins."""
