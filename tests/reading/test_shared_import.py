"""The importer on real traces: counts, and nesting against a plain stack on every lane."""

from __future__ import annotations

from collections import Counter

import orjson
import pytest

from tests.support.paths import SHARED
from tests.support.slow import slow_events, slow_nesting
from tests.support.traces import given_traces
from tracetui.errors import TracetuiError
from tracetui.model.intervals import TOLERANCE
from tracetui.model.trace import LaneKind
from tracetui.reading.load import load

FILES = given_traces("d*.json*", "puzzlers/*.json*", rest=pytest.mark.full)
NESTING_LANES = (LaneKind.CPU, LaneKind.OVERHEAD, LaneKind.BOOKKEEPING)

if not SHARED.exists():
    pytest.skip("needs ../shared/traces, which is not there", allow_module_level=True)

FACTS = orjson.loads((SHARED / "expected.json").read_bytes())
EVENTS_OF_EDGE = {
    "e03_array_unclosed_trailing_comma.json": 469,
    "e07_control_chars_in_name.json": 469,
    "e09_non_utf8_name.json": 469,
    "e11_concatenated_gzip_members.json.gz": 469,
    "e13_ts_dur_strings_absolute.json": 469,
    "e21_integers_over_int64.json": 469,
    "e27_leading_comma_array.json": 469,
    "e31_utf16.json": 469,
    "e33_plain_json_with_gz_suffix.json.gz": 469,
    "r02_json_lines_real.pfw.gz": 93_894,
    "r03_rpd_strings_real.json": 706,
}
SENTENCES = {"e19_metadata_only.json": "none that is timed", "e29_git_lfs_pointer.json": "Git LFS"}


@pytest.fixture(scope="module", params=FILES)
def read(request):
    """The name of a real trace and the trace: every test of one runs before the next is read."""
    return request.param, load(str(SHARED / request.param))


def test_nesting_equals_a_plain_stack_on_every_lane(read):
    _, trace = read
    slices = trace.slices
    for lane in trace.lanes:
        if lane.kind not in NESTING_LANES:
            continue
        rows = slice(lane.first, lane.last)
        start, end = slices.start[rows].tolist(), slices.end[rows].tolist()
        expected = slow_nesting([0] * len(start), start, end, TOLERANCE)
        found = [parent - lane.first if parent >= 0 else -1 for parent in slices.parent[rows].tolist()]
        assert found == expected.parent, lane


def test_every_event_is_accounted_for(read):
    name, trace = read
    quality = trace.quality
    if name.endswith("different_priority_streams.json.gz"):
        pytest.skip("its head is not JSON: no second reader to compare with")
    phases = Counter(event.get("ph", "") for event in slow_events(SHARED / name))
    assert trace.events == phases.total()
    complete = phases["X"] + phases["B"] + phases["b"] + phases["S"]
    assert len(trace.slices) == complete - quality.dropped
    assert len(trace.flows) == phases["s"] + phases["t"] + phases["f"]


def test_every_fact_is_of_a_trace_that_is_read():
    assert set(FACTS) <= {file.values[0] for file in FILES}


def test_phases_and_categories_of_the_facts(read):
    name, trace = read
    if name not in FACTS:
        assert name.startswith("puzzlers/")
        return
    assert trace.events == FACTS[name]["events"]
    counts = Counter(trace.categories[number] for number in trace.slices.category.tolist())
    for category, count in FACTS[name]["categories"].items():
        if category in ("kernel", "Kernel", "cpu_op", "Operator", "python_function", "gpu_memcpy", "Memcpy"):
            assert counts[category] == count, category


@pytest.mark.parametrize("path", given_traces("edge/[er][0-9]*", rest=pytest.mark.full))
def test_no_damaged_file_ends_in_a_traceback(path):
    name = path.removeprefix("edge/")
    try:
        trace = load(str(SHARED / path))
    except TracetuiError as error:
        assert SENTENCES[name] in str(error)
        return
    assert name not in SENTENCES
    assert trace.events == EVENTS_OF_EDGE.get(name, trace.events)
    # Every look unpacks a block, so of a long file a hundred are enough; the short ones are looked at every 50 rows.
    for row in range(0, len(trace.slices), max(50, len(trace.slices) // 100)):
        assert isinstance(trace.event_of(row), dict)


def test_a_truncated_file_says_where():
    trace = load(str(SHARED / "edge" / "e01_truncated_mid_event.json"))
    assert trace.quality.truncated_at == 83_749
    assert "byte 83,749" in trace.quality.notes[0]
    assert trace.events == 236
