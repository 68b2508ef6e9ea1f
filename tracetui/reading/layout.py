"""How a file is laid out around its events, as it turned out while they were read."""

from __future__ import annotations

from dataclasses import dataclass, field

from tracetui.model.trace import UNREADABLE
from tracetui.reading.oddities import MAX_LISTED_ODDITIES, Found, Oddity


@dataclass
class FileLayout:
    """How a file is laid out around its events, and what was wrong with them."""

    container: str = "object"
    """`object`, `array` or `lines`."""
    header: bytes = b""
    """Everything in front of the array's bracket."""
    trailer: bytes = b""
    """Everything behind the last array."""
    trailer_at: int = 0
    """Where that begins in the unwrapped stream."""
    between: list[bytes] = field(default_factory=list)
    """What stands between arrays, where there are several."""
    is_headless: bool = False
    """Whether the file does not begin like a trace; keys may still follow behind its events."""
    truncated_at: int | None = None
    is_within_event: bool = False
    """Whether the file ends in the middle of an event."""
    is_closed: bool = True
    """Whether the end of the array, and of the object around it, was met."""
    dropped: int = 0
    repaired: int = 0
    replaced: int = 0
    repeated: int = 0
    examples: list[tuple[int, str]] = field(default_factory=list)
    oddities: list[Found] = field(default_factory=list)
    """The first `MAX_LISTED_ODDITIES`."""
    odd_counts: dict[Oddity, int] = field(default_factory=dict)

    def note(self, found: Found) -> None:
        """Take note of an oddity."""
        self.odd_counts[found.kind] = self.odd_counts.get(found.kind, 0) + 1
        if len(self.oddities) < MAX_LISTED_ODDITIES:
            self.oddities.append(found)
        if found.kind is Oddity.FOREIGN:
            self.dropped += 1
            self.examples.append((found.offset, f"{UNREADABLE}: {found.text}"))
