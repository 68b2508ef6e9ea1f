"""What the collector asks of the events of a block, whether they were read as objects or scanned as columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tracetui.model.intervals import Bool, Int64

MAX_TIME_US = 3e15
"""Microseconds from 0 beyond which a time or a duration is none: sums of three still fit 64 bits in ns."""
NO_TIME = np.iinfo(np.int64).min
"""Stands for a time that an event does not have."""
RELATIVE_LIMIT_US = 9e12
"""Below this a float64 of microseconds still tells nanoseconds apart (R0.2)."""


SCOPES = {"g": 2, "p": 1}
"""Numbers of how far an instant is to be seen: everywhere, or in its process; its thread has 0."""


class Ids(dict[Any, int]):
    """Numbers values in the order in which they turn up."""

    def __missing__(self, value: Any) -> int:
        number = self[value] = len(self)
        return number


class SliceNumbers(NamedTuple):
    """Numbers of slices, one entry for each."""

    dur: NDArray[np.float64]
    """Microseconds, NaN for none."""
    correlation: Int64
    external: Int64


class ArgumentColumns(Protocol):
    """The arguments of some events, one entry for each."""

    def numbers(self, name: str) -> Int64:
        """A number by its name in the file; NULL for none."""
        ...

    def texts(self, names: Sequence[str], ids: dict[bytes, int]) -> NDArray[np.int32]:
        """The number of an argument's JSON; it stands under the first of the names that an event has."""
        ...

    def have_grid(self) -> Bool:
        """Which of the events say on which grid they launch."""
        ...


class RareFields(Protocol):
    """What the collector asks of some events of a block by their rows."""

    def __len__(self) -> int: ...

    def arguments(self, rows: Int64) -> ArgumentColumns:
        """The arguments of some events."""
        ...

    def flow_ids(self, rows: Int64, number_of: Callable[[Any], int]) -> Int64:
        """The ids of some flow ends; `number_of` makes numbers of what are none."""
        ...

    def have_id(self, rows: Int64) -> Bool:
        """Which of some events have an id."""
        ...

    def args_json(self, rows: Int64) -> list[bytes] | None:
        """The args of some events as they stand in the file, None where they cannot be told apart."""
        ...

    def scopes(self, rows: Int64) -> NDArray[np.uint8]:
        """How far each of some instants is to be seen: a number of `SCOPES`, or 0."""
        ...

    def in_full(self, rows: list[int]) -> list[dict[str, Any]]:
        """Some events with all that they have."""
        ...

    def count_empty(self, rows: list[int]) -> int:
        """How many of some events are no event, such as `{}`."""
        ...


def whole_times(micros: NDArray[np.float64], exact: Callable[[], Int64]) -> Int64:
    """Times in whole ns, `NO_TIME` where there is none; `exact` is asked where float64 does not tell them apart."""
    bad = ~(np.abs(micros) < MAX_TIME_US)
    micros = np.where(bad, 0, micros)
    whole = np.floor(micros)
    fraction = micros - whole
    far = np.abs(micros) >= RELATIVE_LIMIT_US
    if (far & (fraction != 0)).any():
        times = exact().copy()
    else:
        times = whole.astype(np.int64) * 1000 + np.rint(fraction * 1000).astype(np.int64)
    times[bad] = NO_TIME
    return times
