"""Times on clocks of files and of sequences."""

from __future__ import annotations

import numpy as np

from tracetui.reading.perfetto.sequences import NO_TIME, Clocks, SnapshotEntries, in_nanoseconds


def clocks(*snapshots, primary=0):
    """Snapshots as (position, sequence, {clock: (time, unit, is_incremental) or time})."""
    rows = []
    for number, (position, sequence, shown) in enumerate(snapshots):
        for clock, each in shown.items():
            time, unit, adds = each if isinstance(each, tuple) else (each, 1, False)
            rows.append((number, position, sequence, clock, time * unit, unit, adds))
    snapshot, position, sequence, clock, time, unit, adds = np.array(rows, np.int64).reshape(-1, 7).T
    return Clocks(SnapshotEntries(snapshot, position, sequence, clock, time, unit, adds.astype(bool)), primary)


def convert(found, *packets):
    """Times of packets given as (time, clock, sequence)."""
    time, clock, sequence = (np.array(column, np.int64) for column in zip(*packets, strict=True))
    return found.convert(time, clock, sequence, np.arange(10, 10 + len(time))).tolist()


def test_a_file_without_snapshots_is_in_boot_time():
    assert convert(clocks(), (5, 0, 1), (7, 6, 2)) == [5, 7]


def test_a_clock_that_no_snapshot_has_gives_no_time():
    assert convert(clocks((0, 1, {6: 100, 1: 1000})), (5, 0, 1), (7, 3, 1), (9, 64, 1)) == [5, NO_TIME, NO_TIME]


def test_the_only_clock_of_a_file_needs_no_snapshot():
    assert convert(clocks(), (5, 3, 1), (7, 3, 1)) == [5, 7]


def test_a_clock_of_all_is_converted_by_the_last_snapshot_before_the_time():
    found = clocks((0, 1, {6: 100, 3: 90}), (1, 1, {6: 200, 3: 180}))
    assert convert(found, (50, 3, 1), (95, 3, 1), (180, 3, 2), (185, 3, 2)) == [60, 105, 200, 205]


def test_a_clock_of_a_sequence_is_not_that_of_another():
    found = clocks((0, 1, {6: 100, 64: 0}), (1, 2, {6: 500, 64: 0}))
    assert convert(found, (5, 64, 1), (5, 64, 2), (5, 64, 3)) == [105, 505, NO_TIME]


def test_an_incremental_clock_adds_up_from_the_snapshot():
    found = clocks((0, 1, {6: 5000, 64: (5, 1000, True)}), (12, 1, {6: 9000, 64: (9, 1000, True)}))
    # Packets 10 and 11 stand before the second snapshot, 12 and 13 behind it.
    assert convert(found, (1, 64, 1), (2, 64, 1), (1, 64, 1), (3, 64, 1)) == [6000, 8000, 10000, 13000]


def test_packets_of_other_sequences_do_not_advance_an_incremental_clock():
    found = clocks((0, 1, {6: 0, 64: (0, 1, True)}), (1, 2, {6: 100, 64: (0, 1, True)}))
    assert convert(found, (1, 64, 1), (10, 64, 2), (1, 64, 1), (10, 64, 2)) == [1, 110, 2, 120]


def test_a_clock_of_a_sequence_may_lead_over_another_clock():
    found = clocks((0, 9, {6: 1000, 3: 900}), (1, 1, {3: 950, 65: 0}))
    assert convert(found, (10, 65, 1)) == [1060]


def test_the_wall_time_comes_from_a_snapshot():
    found = clocks((0, 1, {6: 100, 1: 5000}))
    assert found.wall_time(150) == 5050
    assert clocks().wall_time(150) is None


def test_the_primary_clock_is_the_reference_where_no_boot_time_is_known():
    found = clocks((0, 1, {1: 100, 5: 90}), primary=5)
    assert found.reference == 5
    assert convert(found, (100, 1, 1), (90, 5, 1)) == [90, 90]


def test_boot_time_comes_before_the_primary_clock():
    # Packets that name no clock are in boot time.
    found = clocks((0, 1, {6: 100, 3: 90}), primary=3)
    assert convert(found, (100, 0, 1), (90, 3, 1)) == [100, 100]


def test_times_beyond_all_clocks_are_none():
    assert convert(clocks(), (-1, 0, 1), (2**62, 0, 1), (3, 0, 1)) == [NO_TIME, NO_TIME, 3]


def test_a_unit_that_carries_a_time_too_far_gives_none():
    time, unit = np.array([2**40, 3, -1, 3]), np.array([2**40, 1000, 1, 0])
    assert in_nanoseconds(time, unit).tolist() == [NO_TIME, 3000, NO_TIME, NO_TIME]
