"""What is lost, replaced or changed of a file is told on standard error, in Health, and in `check`, whoever read it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.same_columns import both, needs_scanner, reading
from tracetui.checking.namespace import summary_facts
from tracetui.checking.report import Status, assertion, report
from tracetui.cli.main import main
from tracetui.comparing.side import side
from tracetui.health.health_table import doubts
from tracetui.health.link_checks import Doubt
from tracetui.health.summary import changes_of_file, facts
from tracetui.model.trace import Kind, Trace
from tracetui.reading.load import load
from tracetui.reading.odd_texts import replaced_in, rows_with_repeated_keys

EVENT = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 5.5, "dur": 20, "args": {"a": 1}}
ONE = json.dumps(EVENT)
HEAD = '{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "H100"}], '


def around(*events: str, head: str = HEAD) -> bytes:
    return f'{head}"traceEvents": [{", ".join(events)}]}}'.encode()


DAMAGES = {
    "a damaged head": (
        around(ONE, head='{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "H"100"}], '),
        {"metadata_lost": 1},
        {"damaged metadata": 1},
    ),
    "a head without its first brackets": (
        around(ONE, head='{{"id": 6, "name": "H100"}], "schemaVersion": 1, '),
        {"metadata_lost": 1},
        {"damaged metadata": 1},
    ),
    "a bare word in the head": (
        around(ONE, head='{"schemaVersion": 1, "rate": NaN, '),
        {"metadata_lost": 1},
        {"damaged metadata": 1},
    ),
    "bytes that are no UTF-8": (
        around(ONE.replace("aten", "~~aten"), ONE).replace(b"~~", b"\xff\xfe"),
        {"bytes_replaced": 2},
        {"bytes replaced": 2},
    ),
    "such bytes in the head": (around(ONE).replace(b"H100", b"H\xff00"), {"bytes_replaced": 1}, {"bytes replaced": 1}),
    "half a character": (around(ONE.replace("aten", r"\ud83daten")), {"bytes_replaced": 1}, {"bytes replaced": 1}),
    "a name twice": (around(ONE, ONE[:-1] + ', "name": "other"}'), {"keys_twice": 1}, {"keys twice": 1}),
    "an argument twice": (around(ONE, ONE.replace('"a": 1', '"a": 1, "a": 2')), {"keys_twice": 1}, {"keys twice": 1}),
    "a key of the head twice": (around(ONE, head=HEAD + '"schemaVersion": 2, '), {"keys_twice": 1}, {"keys twice": 1}),
    "a key twice in a damaged block": (
        around(ONE[:-1] + ', "dur": 3}', ONE.replace("20", "nan")),
        {"keys_twice": 1, "events_mended": 1},
        {"keys twice": 1, "mended events": 1},
    ),
    "no time": (around(ONE, ONE.replace('"ts": 5.5, ', "")), {"events_lost": 1}, {"dropped events": 1}),
    "samples": (
        around(ONE, *[ONE.replace('"X"', '"P"')] * 2),
        {"events_lost": 2},
        {"skipped phases": 2},
    ),
    "a duration below zero": (around(ONE, ONE.replace("20", "-20")), {"times_changed": 1}, {"negative durations": 1}),
    "an end without a begin": (
        around(ONE, ONE.replace('"X"', '"E"').replace("mm", "other")),
        {"events_lost": 1},
        {"unmatched ends": 1},
    ),
}


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "trace.json"


def loaded(path: Path, data: bytes) -> Trace:
    path.write_bytes(data)
    return load(str(path))


def changes(trace: Trace) -> dict[str, int]:
    return {name: count for name, count in changes_of_file(trace).items() if count}


def doubt(trace: Trace, name: str) -> Doubt:
    """What a check of health found, which applies to the trace."""
    found = doubts(trace)[name]
    assert found is not None
    return found


def numbers_of(trace: Trace) -> dict[str, float]:
    """The lines of the summary that are numbers."""
    return {fact.key: float(fact.value) for fact in facts(trace) if isinstance(fact.value, int | float)}


@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.full
def test_a_loss_is_told_wherever_it_is_looked_for(name, path, capsys):
    data, changed, found = DAMAGES[name]
    trace = loaded(path, data)
    assert changes(trace) == changed
    checks = {check: each.count for check, each in doubts(trace).items() if each}
    assert {check: checks[check] for check in found} == found
    assert len(trace.quality.notes) == len(changed)
    for measure, count in changed.items():
        assert summary_facts(trace)[measure].value == count
        (outcome,) = report(side(trace), [assertion(f"{measure} == {count}")]).outcomes
        assert outcome.status == Status.HOLDS
    assert main(["show", "summary", "--no-cache", str(path)]) == 0
    assert len(capsys.readouterr().err.splitlines()) == len(changed)


@needs_scanner
@pytest.mark.parametrize("name", DAMAGES)
def test_the_scanner_and_python_tell_the_same(name, path, monkeypatch):
    path.write_bytes(DAMAGES[name][0])
    scanned, oracle = both(str(path), monkeypatch)
    assert scanned == oracle


def test_a_sound_file_has_lost_nothing(path):
    trace = loaded(path, around(ONE, ONE))
    assert changes(trace) == {}
    assert trace.quality.notes == []
    assert not {fact.key for fact in facts(trace)} & set(changes_of_file(trace))
    assert all(summary_facts(trace)[name].value == 0 for name in changes_of_file(trace))


@pytest.mark.parametrize("damage", ["a damaged head", "bytes that are no UTF-8", "a name twice", "no time"])
def test_the_place_that_is_told_is_that_of_the_damage(damage, path):
    data = DAMAGES[damage][0]
    (note,) = loaded(path, data).quality.notes
    at = int(re.findall(r"byte ([\d,]+)", note)[0].replace(",", ""))
    begins = {
        "a damaged head": b'100"}]',
        "bytes that are no UTF-8": b"\xff\xfeaten",
        "a name twice": ONE[:-1].encode() + b', "name"',
        "no time": ONE.replace('"ts": 5.5, ', "").encode(),
    }
    assert data[at:].startswith(begins[damage])


@pytest.mark.parametrize("scanned", [True, False], ids=["scanned", "python"])
def test_the_last_value_of_a_key_counts(scanned, path, monkeypatch):
    path.write_bytes(around(ONE[:-1] + ', "name": "other", "dur": 7}'))
    with reading(monkeypatch, scanned):
        trace = load(str(path))
    assert (trace.name_of(0), int(trace.slices.dur[0])) == ("other", 7000)


@needs_scanner
def test_keys_that_begin_and_end_alike_are_no_repetition(path, monkeypatch):
    keys = {f"Collective {middle} name (rank)": 1 for middle in "abcdef"} | {str(number): 1 for number in range(90)}
    path.write_bytes(json.dumps([EVENT | {"args": keys}] * 3).encode())
    scanned, oracle = both(str(path), monkeypatch)
    assert scanned == oracle
    assert changes(load(str(path))) == {}


@needs_scanner
def test_an_event_whose_keys_were_seen_in_another_order_is_looked_at_again(path, monkeypatch):
    twice = ONE.replace('"a": 1', '"b": 1, "a": 1, "b": 2')
    path.write_bytes(
        around(*[ONE.replace('"a": 1', '"a": 1, "b": 2')] * 5, twice, ONE.replace('"a": 1', '"b": 1, "a": 2'))
    )
    scanned, oracle = both(str(path), monkeypatch)
    assert scanned == oracle
    assert changes(load(str(path))) == {"keys_twice": 1}


def test_an_element_that_is_no_event_is_not_counted_as_one(path):
    trace = loaded(path, around("{}", ONE, "null", ONE))
    assert {fact.key: fact.value for fact in facts(trace)}["events"] == 2
    assert doubt(trace, "empty elements").count == 2


@pytest.mark.parametrize(
    ("block", "rows"),
    [
        (b'[{"a":1},{"a":1,"a":2},{"args":{"b":1,"b":1}}]', [1, 2]),
        (b'[{"a" : 1, "a" : 2}]', [0]),
        (b'[{"a":"x\\":","b":{"c":{"d":1}}}]', []),
        (b'[{"args":{"x":{"c":1,"c":1}}}]', []),
        (b'[{"a\xff":1,"a\xff":2}]', [0]),
        (b"[5,null,[]]", []),
        (b'[{"ab":1,"a\\u0062":2}]', [0]),
        (b'[{"a"' + b" " * 99 + b':1,"a":2}]', [0]),
        (b'[{"}":1,"{":"{","a":"\\\\","b":[{"a":1}]},{"a":1,"a":2}] ', [1]),
        (b'[{"a key of many bytes, 1":1,"a key of many bytes, 1":2}]', [0]),
    ],
)
def test_rows_with_repeated_keys(block, rows):
    assert rows_with_repeated_keys(block) == rows


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"plain", (0, 0)),
        ("µ😀".encode(), (0, 0)),
        (b"ab\xff\xfe", (2, 2)),
        (rb"a\ud83d\ude00", (0, 0)),
        (rb"a\ud83d", (1, 1)),
        (rb"a\\ud83d", (0, 0)),
        (rb"\ude00\ud83dx", (2, 0)),
    ],
)
def test_what_was_replaced(data, found):
    assert replaced_in(data) == found


def kernels(count: int, long: int, us: float, **more: Any) -> bytes:
    """Kernels of a stream, 10 us each, of which one is said to last so long."""
    events = []
    for number in range(count):
        args = {"correlation": number, "stream": 7}
        call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1}
        events.append(call | {"ts": 20 * number, "dur": 5, "args": args})
        dur = us if number == long else 10
        work = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 20 * number + 8, "dur": dur}
        events.append(work | {"args": args | more})
    return json.dumps(events).encode()


@pytest.mark.parametrize("long", [0, 3, 15])
def test_a_kernel_that_runs_past_others_takes_no_time_of_theirs(long, path):
    trace = loaded(path, kernels(20, long, 3_400_000))
    values = {fact.key: fact.value for fact in facts(trace)}
    assert trace.window[1] == 398_000
    assert values["gpu_busy_us"] == 19 * 10 + 20
    assert values["times_changed"] == 1
    assert doubt(trace, "work that runs past others").count == 1
    assert "3.400 s" in doubt(trace, "work that runs past others").example
    assert len(trace.quality.notes) == 1


def test_kernels_that_overlap_the_next_ones_stay_as_they_are(path):
    trace = loaded(path, kernels(20, 3, 45))
    assert trace.quality.overlong == ()
    assert int(trace.slices.dur[trace.slices.of_kind(Kind.KERNEL)].max()) == 45_000


def test_branches_of_a_graph_and_lanes_of_several_programs_stay_as_they_are(path):
    graph = json.loads(kernels(20, 3, 300))
    for event in graph:
        event["args"]["correlation"] = 1
    trace = loaded(path, json.dumps(graph).encode())
    assert trace.quality.overlong == ()
    shared = json.loads(kernels(40, 0, 100)) + json.loads(kernels(40, 1, 100)) + json.loads(kernels(40, 2, 100))
    for number, event in enumerate(shared):
        event["dur"] = 100 if event["cat"] == "kernel" and number % 4 == 1 else event["dur"]
    assert loaded(path, json.dumps(shared).encode()).quality.overlong == ()


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("edge/e05_unescaped_quotes_in_name.json", {"events_mended": 2}),
        ("edge/e07_control_chars_in_name.json", {}),
        ("edge/e09_non_utf8_name.json", {"bytes_replaced": 4}),
        ("edge/e15_negative_and_missing_dur.json", {"times_changed": 2}),
        ("edge/e17_impossible_kernel_duration.json", {"times_changed": 1}),
        ("edge/e21_integers_over_int64.json", {}),
        ("edge/e23_missing_pid_tid_name_ts.json", {"events_lost": 1}),
        ("edge/e25_legacy_missing_quote.json", {"events_lost": 30}),
        ("edge/e35_child_outlives_parent.json", {}),
        ("puzzlers/different_priority_streams.json.gz", {"metadata_lost": 1}),
        ("d16_b300_tiny.json.gz", {}),
    ],
)
@pytest.mark.full
def test_the_facts_of_edge_files(shared_trace, name, changed, capsys):
    path = shared_trace(name)
    trace = load(str(path))
    assert changes(trace) == changed
    assert main(["show", "health", "--no-cache", str(path)]) == 0
    assert len(capsys.readouterr().err.splitlines()) == len(changed)


def test_an_impossible_kernel_is_no_reason_for_a_verdict(shared_trace):
    odd = numbers_of(load(str(shared_trace("edge/e17_impossible_kernel_duration.json"))))
    sound = numbers_of(load(str(shared_trace("d16_b300_tiny.json.gz"))))
    assert odd["duration_us"] == pytest.approx(sound["duration_us"], rel=0.01)
    assert odd["gpu_busy_pct"] < 99
    assert odd["self_device_total_us"] < 20_000
