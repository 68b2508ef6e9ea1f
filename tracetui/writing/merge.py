"""The ranks of a run as one trace: processes named and ordered by rank, ids kept apart, all times on one clock.

One rank is read at a time, block by block; of a part of a run one rank's trace is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import msgspec
import numpy as np

from tracetui.errors import UsageError
from tracetui.ranks.rank_runs import MAX_BEGIN_GAP_NS
from tracetui.ranks.rank_set import RankSet
from tracetui.reading.load import load
from tracetui.reading.raw_events import RawEvents
from tracetui.reading.store import Store
from tracetui.writing.container import Sink, object_around, write_array
from tracetui.writing.cut import Cut
from tracetui.writing.rank_events import RankClock, RankEvents, process_numbers
from tracetui.writing.selection import Wanted

HEAD_NS = 60 * 10**9
"""Time 0 of the merged file lies this many ns before the first work, in whole seconds: nothing stands before it."""
EVERYTHING = Wanted()


@dataclass
class Merge:
    """A merge, chosen and not yet written."""

    ranks: RankSet
    wanted: Wanted = EVERYTHING
    """Steps, or a range of time from the start of the earliest rank."""
    numbers: Sequence[int] | None = None
    """Ranks that are written, None for all."""
    notes: list[str] = field(default_factory=list)
    """What a reader of the file must know, in sentences; complete once it is written."""

    def __post_init__(self) -> None:
        """Raises: UsageError for a rank that is not there."""
        absent = sorted(set(self.numbers or ()) - set(self.ranks.ranks))
        if absent:
            there = f"{self.ranks.ranks[0]} to {self.ranks.ranks[-1]}" if len(self.ranks) > 1 else self.ranks.ranks[0]
            raise UsageError(f"There is no trace of rank {', '.join(map(str, absent))}: there are {there}.")

    @property
    def base_ns(self) -> int:
        """Time 0 of the file, in ns as the clock of the first rank shows it."""
        return (self.ranks.origin_ns - HEAD_NS) // 10**9 * 10**9

    @property
    def indices(self) -> list[int]:
        """Which of the ranks are written."""
        return [index for index, rank in enumerate(self.ranks.ranks) if self.numbers is None or rank in self.numbers]

    def write(self, sink: Sink, progress: Callable[[int, int], None] = lambda done, total: None) -> int:
        """Write the file and return the number of events; `progress` hears how many ranks of how many are written.

        Raises: UsageError where nothing is left; TraceError for a file that cannot be read any more.
        """
        keys: dict[str, Any] = {"deviceProperties": [], "ranks": []}
        events = self._events(keys, progress)
        first = next(events, None)
        if first is None:
            raise UsageError("No rank has anything in what was asked for.")
        head = {"schemaVersion": 1, "displayTimeUnit": "ms", "baseTimeNanoseconds": self.base_ns}
        sink.write(object_around(head)[0])
        count = write_array(sink, chain([first], events))
        # What the files say behind their events is known by now.
        sink.write(b"," + msgspec.json.encode(keys)[1:] + b"\n")
        return count

    def _events(self, keys: dict[str, Any], progress: Callable[[int, int], None]) -> Iterator[bytes]:
        numbers, indices = process_numbers(), self.indices
        for position, index in enumerate(indices):
            progress(position, len(indices))
            rank, host = self.ranks.ranks[index], self.ranks.hosts[index]
            clock, note = self._clock(index)
            events = RankEvents(position, rank, host, clock, numbers)
            metadata: dict[str, Any] = {}
            blocks = self._whole(index, metadata) if self.wanted.everything else self._part(index, metadata)
            for block in blocks:
                yield from events.rewritten(block)
            yield from events.process_metadata()
            keys["deviceProperties"] += events.devices(metadata)
            frames = dict(events.stack_frames(metadata))
            if frames:
                keys.setdefault("stackFrames", {}).update(frames)
            keys["ranks"].append(self._described(index, metadata))
            self.notes += [note] if note else []
        progress(len(indices), len(indices))

    def _whole(self, index: int, metadata: dict[str, Any]) -> Iterator[list[bytes]]:
        """All events of a rank; fills `metadata` with what stands around them."""
        raw = RawEvents(self.ranks.run.files[index].path)
        yield from raw
        if raw.damage:
            self.notes.append(f"Rank {self.ranks.ranks[index]} is written up to its end: it {raw.damage}.")
        metadata.update(raw.metadata)

    def _part(self, index: int, metadata: dict[str, Any]) -> Iterator[Iterator[bytes]]:
        """The events of a rank that were asked for; likewise."""
        trace = load(self.ranks.run.files[index].path)
        try:
            cut = Cut(trace, self._own_wanted(index, trace.origin_ns))
        except UsageError as error:
            self.notes.append(f"Rank {self.ranks.ranks[index]} has nothing of it: {error}")
            return
        yield cut.events()
        assert isinstance(trace.store, Store), "it was read from a file"
        metadata.update(trace.store.container.metadata)

    def _own_wanted(self, index: int, origin: int) -> Wanted:
        """What was asked for, on the rank's own clock from the start of its own trace."""
        if self.wanted.window is None:
            return self.wanted
        clock, _ = self._clock(index)
        base = self.ranks.summaries[index].header.base_ns or 0
        start = self.ranks.origin_ns - self.base_ns - clock.moved(origin - base)
        low, high = (None if each is None else each + start for each in self.wanted.window)
        return Wanted(window=(low, high))

    def _clock(self, index: int) -> tuple[RankClock, str]:
        """How the times of a rank are moved, and what is to be said of that."""
        clocks, summary, rank = self.ranks.clocks, self.ranks.summaries[index], self.ranks.ranks[index]
        base, host = summary.header.base_ns or 0, int(clocks.host[index])
        if clocks.is_known[host]:
            drift, origin = float(clocks.drift[host]), int(clocks.origin[host])
            return RankClock(base - int(clocks.shift[host]) - self.base_ns, drift, origin - base), ""
        known = clocks.is_known[clocks.host]
        starts = clocks.common(
            np.flatnonzero(known), np.array([each.window[0] for each in self.ranks.summaries])[known]
        )
        first = int(starts.min())
        apart = summary.window[0] - first
        if abs(apart) <= MAX_BEGIN_GAP_NS:
            return RankClock(
                base - self.base_ns
            ), f"Nothing bounds the clock of rank {rank}: its times stand as they are."
        note = f"Nothing bounds the clock of rank {rank}, which is far from the others': it begins where they begin."
        return RankClock(base - self.base_ns - apart), note

    def _described(self, index: int, metadata: dict[str, Any]) -> dict[str, Any]:
        """What the file says of a rank: where it came from, how its times were moved, and the keys of its own file."""
        clocks, host = self.ranks.clocks, int(self.ranks.clocks.host[index])
        error = float(clocks.error[host])
        left = ("deviceProperties", "stackFrames", "traceEvents")
        return {
            "rank": self.ranks.ranks[index],
            "file": self.ranks.shown_path(self.ranks.run.files[index].path),
            "host": self.ranks.hosts[index],
            "clock_shift_ns": int(clocks.shift[host]) if clocks.is_known[host] else None,
            "clock_error_ns": None if np.isnan(error) else round(error),
            "clock_drift_ppm": float(clocks.drift[host]) * 1e6,
            "metadata": {key: value for key, value in metadata.items() if key not in left},
        }
