"""What is asked of a process: for how long, with what, and where Kineto is to write it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from tracetui.errors import UsageError

MAX_SECONDS = 600.0
"""Seconds beyond which a trace would be too large to be of use."""
WARMUP_SECONDS = 1
"""Seconds in which the recorder runs before the trace begins; Kineto alone would take five."""


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """A trace of some seconds, or of some iterations where `iterations` is not 0."""

    seconds: float = 2.0
    iterations: int = 0
    """Calls of an optimizer's `step`, which is what PyTorch counts in a process that imported `torch.profiler`."""
    shapes: bool = False
    stack: bool = False
    memory: bool = False

    def __post_init__(self) -> None:
        """Raises: UsageError for a length that makes no trace."""
        if self.iterations < 0 or (not self.iterations and not 0 < self.seconds <= MAX_SECONDS):
            raise UsageError(f"A trace takes more than 0 and at most {MAX_SECONDS:g} seconds, or 1 iteration or more.")
        if math.isnan(self.seconds):
            raise UsageError("The seconds of a trace are a number.")

    def configuration(self, path: Path) -> str:
        """The lines that Kineto reads; it puts `_` and its process id before the suffix of the path.

        Options are given under their names of torch 2.1 and later, and under the ones before.
        """
        if self.iterations:
            length = [
                "PROFILE_START_ITERATION=0",
                "PROFILE_START_ITERATION_ROUNDUP=1",
                "ACTIVITIES_WARMUP_ITERATIONS=1",
                f"ACTIVITIES_ITERATIONS={self.iterations}",
                # Where no iterations are counted, newer versions take a trace of this length in their place: of half a
                # second unless told. Of 0 they take none, as older ones do.
                "ACTIVITIES_DURATION_MSECS=0",
            ]
        else:
            length = [
                "PROFILE_START_TIME=0",
                f"ACTIVITIES_WARMUP_PERIOD_SECS={WARMUP_SECONDS}",
                f"ACTIVITIES_DURATION_MSECS={max(round(1000 * self.seconds), 1)}",
            ]
        options = {
            "PROFILE_REPORT_INPUT_SHAPES": self.shapes,
            "PROFILE_WITH_STACK": self.stack,
            "PROFILE_PROFILE_MEMORY": self.memory,
        }
        return "\n".join(
            [
                f"ACTIVITIES_LOG_FILE={path}",
                *length,
                *(f"{name}={'true' if is_on else 'false'}" for name, is_on in options.items()),
                "",
            ]
        )

    @property
    def words(self) -> str:
        """For example `2 s` or `3 iterations`."""
        if self.iterations:
            return f"{self.iterations} iteration{'' if self.iterations == 1 else 's'}"
        return f"{self.seconds:g} s"
