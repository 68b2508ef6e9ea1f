"""Packets that are not shown are counted by kind, known and unknown ones."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.perfetto import writer as w
from tracetui.reading.perfetto import packet_collector
from tracetui.reading.perfetto.packet_collector import NotShown
from tracetui.reading.perfetto.wire import MessageBytes

FTRACE, SYS_STATS, LOG = 1, 7, 39


def counted(*packets: bytes) -> tuple[dict[str, int], list[bool]]:
    """The counts of packets given by their content, and which of them are of some kind."""
    ends = np.cumsum([len(each) for each in packets], dtype=np.int64)
    starts = ends - np.array([len(each) for each in packets], np.int64)
    kinds = NotShown()
    of_kind = kinds.add(MessageBytes(b"".join(packets)), starts, ends)
    return kinds.counts, of_kind.tolist()


@pytest.mark.parametrize("copies", [1, 100])
def test_packets_are_counted_by_kind(copies):
    time = w.number(8, 5)
    packets = [time + w.data(FTRACE, "x"), w.data(FTRACE, "y"), w.data(SYS_STATS, ""), w.data(3999, "z"), time, b""]
    counts, of_kind = counted(*packets * copies)
    assert counts == {"ftrace_events": 2 * copies, "sys_stats": copies, "field 3999": copies}
    assert of_kind == [True, True, True, True, False, False] * copies


def test_a_packet_counts_once(copies=100):
    assert counted(*[w.data(FTRACE, "x") + w.data(LOG, "y") + w.data(FTRACE, "z")] * copies)[0] == {
        "ftrace_events": copies
    }


def test_kinds_beyond_number_are_counted_together(monkeypatch):
    monkeypatch.setattr(packet_collector, "MAX_KINDS", 3)
    counts, _ = counted(*[w.data(number, "x") for number in range(5000, 5010)])
    assert counts == {"field 5000": 1, "field 5001": 1, "field 5002": 1, "other kinds": 7}
