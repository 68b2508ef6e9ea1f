"""A damaged Perfetto file, written anew as one that every viewer opens, and what had to be left out for that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tracetui.model.trace import UNREADABLE, Trace
from tracetui.reading.perfetto.store import PacketStore
from tracetui.writing.container import Sink
from tracetui.writing.packets import write_packets
from tracetui.writing.repair import CUT_OFF, LEFT_OUT, Mend

PACKED = "packets that were packed into others stand in the file themselves"


@dataclass
class PacketRepair:
    """A trace written anew; `done` lists what was changed once it is written."""

    trace: Trace
    done: list[Mend] = field(default_factory=list)

    def write(self, sink: Sink, progress: Callable[[int], None] = lambda _: None) -> int:
        """Write all packets that can be read, and return their number.

        Raises: TraceError when the file has changed since it was read.
        """
        store = self.trace.store
        assert isinstance(store, PacketStore), "only a trace of packets can be repaired so"
        count = write_packets(sink, self._packets(store, progress))
        quality = self.trace.quality
        listed = [(at, text) for at, text in quality.examples if text.startswith(UNREADABLE)]
        self.done += [Mend(at, LEFT_OUT, text.removeprefix(f"{UNREADABLE}: ")) for at, text in listed]
        if (more := quality.unreadable - len(listed)) > 0:
            self.done.append(Mend(None, f"{more:,} further pieces that cannot be read were left out"))
        if quality.truncated_at is not None:
            self.done.append(Mend(quality.truncated_at, CUT_OFF))
        if store.is_rewritten:
            self.done.append(Mend(None, PACKED))
        return count

    def _packets(self, store: PacketStore, progress: Callable[[int], None]) -> Iterator[bytes]:
        damaged = set(store.rules.damaged.tolist())
        for first, packets in store.packets():
            progress(first)
            yield from (packet for number, packet in enumerate(packets, first) if number not in damaged)
