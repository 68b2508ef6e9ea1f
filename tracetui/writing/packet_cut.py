"""A part of a Perfetto file as a new one: packets are chosen by the columns and copied as the bytes that they are."""

from __future__ import annotations

from collections.abc import Callable

from tracetui.errors import UsageError
from tracetui.model.trace import Trace
from tracetui.reading.perfetto.store import PacketStore
from tracetui.writing.container import Sink
from tracetui.writing.cut import Kept, nothing_left
from tracetui.writing.packets import PacketFilter, write_packets
from tracetui.writing.selection import Wanted, select


class PacketCut:
    """A part of a Perfetto file, chosen and not yet written."""

    def __init__(self, trace: Trace, wanted: Wanted) -> None:
        """Choose the packets.

        Raises: UsageError when there is no such step, or nothing is left.
        """
        assert isinstance(trace.store, PacketStore), "only a trace of packets can be cut so"
        selection = select(trace, wanted)
        if selection.is_empty(trace) and not wanted.everything:
            raise UsageError(nothing_left(trace))
        self._neighbours = selection.neighbours
        self._filter = PacketFilter(trace, trace.store, wanted, selection)

    def write(self, sink: Sink, progress: Callable[[int], None] = lambda _: None) -> Kept:
        """Write it as a whole file; `progress` hears after every block how many packets have been gone through.

        Raises: TraceError when the file of the trace has changed since it was read.
        """
        return Kept(write_packets(sink, self._filter.packets(progress)), self._neighbours)
