"""The oracle of the importer's tests reads what Perfetto's own writer wrote."""

from __future__ import annotations

import json

import pytest

from tests.support.paths import SHARED
from tests.support.perfetto.reader import read

FOLDER = SHARED / "pftrace"
BOOT = 5_000_000_000


@pytest.mark.skipif(not FOLDER.is_dir(), reason="needs ../shared/traces/pftrace, which is not there")
def test_the_facts_of_a_file_of_other_producers():
    facts = json.loads((FOLDER / "expected.json").read_bytes())["generic.pftrace"]["facts"]
    recording = read((FOLDER / "generic.pftrace").read_bytes())
    tracks = recording.tracks

    slices = [[name, tracks[track].name, start - BOOT, dur] for name, track, start, dur in recording.slices]
    assert sorted(each for each in slices if each[0]) == sorted(facts["slices"])
    assert [each[1:] for each in slices if not each[0]] == facts["name_unknown_state_lost"]
    assert [[name, tracks[track].name, time - BOOT] for name, track, time in recording.unfinished] == facts[
        "unfinished"
    ]
    assert [[name, tracks[track].name, time - BOOT] for name, track, time in recording.instants] == facts["instants"]
    assert recording.stray_ends == facts["ends_of_nothing"]
    series = {tracks[track].name: samples for track, samples in recording.counters.items()}
    counters = {name: [[time - BOOT, value] for time, value in samples] for name, samples in series.items()}
    assert counters == facts["counters"]
    assert dict(recording.args) == facts["args"]
    assert sum(recording.not_shown.values()) == sum(facts["packets_not_shown"].values())
    assert recording.losses == facts["packets_dropped_by_the_writer"]
