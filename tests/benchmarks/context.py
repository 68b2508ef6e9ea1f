"""What all benchmarks of one run share."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tests.benchmarks import large_trace
from tests.benchmarks.peers import Peer


@dataclass
class Context:
    """The traces, the rounds and the peers of a run."""

    rounds: int
    trace: Path | None = None
    """Measured in place of the traces that are made."""
    is_huge: bool = False
    """Whether the 4 GB trace is made, measured and deleted."""
    peers: list[Peer] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    """Why each of the other peers is not measured."""

    @property
    def large(self) -> Path:
        """The trace of 1.18 GB."""
        return self.trace or large_trace.large_trace()

    @property
    def middle(self) -> Path:
        """The trace of 270 MB."""
        return self.trace or large_trace.large_trace(large_trace.MIDDLE_COPIES)
