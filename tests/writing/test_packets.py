"""Parts of Perfetto files, and damaged ones written anew: packets copied as they are, and never JSON."""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path

import pytest

from tests.support.paths import SHARED
from tests.support.perfetto import writer as w
from tests.support.perfetto.writer import BEGIN, COUNTER, END, INSTANT, NEEDS_STATE, STATE, packet
from tracetui.cli import perfetto
from tracetui.cli.main import main
from tracetui.model.trace import LaneKind
from tracetui.reading.load import load

FOLDER = SHARED / "pftrace"
CLOCK = packet(w.snapshot({6: 1000, 1: 5000}), time=1000, sequence=1)
PROCESS, THREAD = packet(w.process(6, 77, "browser")), packet(w.thread(7, 77, 78, "io", parent=6))
# As Chrome does, an event and the names of later ones stand in one packet.
NAMED = packet(
    w.interned(w.entry(2, 1, "first"), w.entry(2, 2, "second")),
    w.event(BEGIN, 7, iid=1),
    time=1000,
    sequence=1,
    flags=w.CLEARED | NEEDS_STATE,
)


def event(kind, time, *fields, track=7, **more):
    """A packet with a track event."""
    return packet(w.event(kind, track, *fields, **more), time=time, sequence=1, flags=NEEDS_STATE)


SMALL = b"".join(
    (
        CLOCK,
        PROCESS,
        THREAD,
        packet(w.counter_track(8, "sum", incremental=True, parent=6)),
        NAMED,
        event(END, 2000),
        event(COUNTER, 2500, w.number(30, 5), track=8),
        event(BEGIN, 3000, iid=2),
        event(INSTANT, 3500, name="moment"),
        event(BEGIN, 3600, name="inner"),
        event(END, 3700),
        event(END, 4000),
        event(COUNTER, 4500, w.number(30, 2), track=8),
        packet(w.data(1, "early"), time=1500),
        packet(w.data(1, "late"), time=3500),
        packet(w.data(33, "configuration")),
        event(BEGIN, 9000, name="unfinished"),
    )
)


@pytest.fixture
def small(tmp_path):
    """The path of a small file."""
    path = tmp_path / "small.pftrace"
    path.write_bytes(SMALL)
    return path


def slices(trace):
    """Name, lane, start on the clock of the file and duration of every slice."""
    base = round(trace.origin_us * 1000)
    rows = range(len(trace.slices))
    start, dur, lane = (getattr(trace.slices, name).tolist() for name in ("start", "dur", "lane"))
    return sorted((trace.name_of(row), trace.lanes[lane[row]].name, start[row] + base, dur[row]) for row in rows)


def run(*arguments):
    """The exit code of a command."""
    return main([str(each) for each in arguments])


def test_a_window_keeps_pairs_names_and_sums(small, tmp_path):
    out = tmp_path / "out.pftrace"
    assert run("cut", small, "--window", "2us:3.2us", "-o", out) == 0
    trace = load(str(out))
    assert slices(trace) == [("inner", "io", 3600, 100), ("second", "io", 3000, 1000)]
    assert [trace.names[name] for name in trace.instants.name.tolist()] == ["moment"]
    (counter,) = trace.counters
    assert counter.value.tolist() == [5, 7]
    assert trace.quality.not_shown == {"ftrace_events": 1, "trace_config": 1}
    assert [lane.process for lane in trace.lanes] == ["browser 77"]
    assert trace.origin_ns - trace.origin_us * 1000 == 4000


def test_lanes_choose_too(small, tmp_path):
    out = tmp_path / "out.pftrace"
    assert run("cut", small, "--lanes", "io", "-o", out) == 0
    assert slices(load(str(out))) == slices(load(str(small)))
    assert run("cut", small, "--lanes", "gpu", "-o", tmp_path / "none.pftrace") == 2


def test_everything_is_every_packet(small, tmp_path):
    out = tmp_path / "out.pftrace"
    assert run("cut", small, "-o", out) == 0
    assert out.read_bytes() == SMALL


def test_times_that_are_added_up_stay_true(tmp_path):
    path, out = tmp_path / "t.pftrace", tmp_path / "out.pftrace"
    clock = packet(
        w.snapshot({6: 1000, 64: 0}, incremental=[64]), w.defaults(clock=64), time=1000, sequence=1, flags=1, clock=6
    )
    path.write_bytes(
        clock + THREAD + b"".join(event(1 + number % 2, 100, name=f"s{number // 2}") for number in range(20))
    )
    whole = slices(load(str(path)))
    assert whole[0] == ("s0", "io", 1100, 100)
    assert run("cut", path, "--window", "900ns:1100ns", "-o", out) == 0
    part = slices(load(str(out)))
    assert 0 < len(part) < len(whole)
    assert set(part) <= set(whole)


def test_a_state_keeps_its_end(tmp_path):
    path, out = tmp_path / "t.pftrace", tmp_path / "out.pftrace"
    path.write_bytes(THREAD + b"".join(event(STATE, 1000 * time, name=f"s{time}") for time in range(1, 6)))
    assert run("cut", path, "--window", "1us:1.5us", "-o", out) == 0
    assert ("s2", "io", 2000, 1000) in slices(load(str(out)))


@pytest.mark.skipif(not FOLDER.is_dir(), reason="needs ../shared/traces/pftrace, which is not there")
@pytest.mark.parametrize("name", ["graph_counters.pftrace.gz", "fusion_mwe_trace.pftrace.gz", "generic.pftrace"])
def test_a_part_of_a_file_shows_what_the_file_shows(name, tmp_path):
    out = tmp_path / "out.pftrace.gz"
    whole = load(str(FOLDER / name))
    middle = (whole.window[0] + whole.window[1]) // 2
    assert run("cut", FOLDER / name, "--window", f":{middle}ns", "-o", out) == 0
    part = load(str(out))
    assert part.format.replace(", gzip", "") == whole.format.replace(", gzip", "")
    early = [each for each in slices(whole) if each[2] - whole.origin_us * 1000 < middle]
    # What is open at the end of its lane ends where the lane does.
    found = slices(part)
    assert len(found) == len(early)
    assert sum(a != b for a, b in zip(found, early, strict=True)) <= whole.quality.unfinished


@pytest.mark.skipif(not FOLDER.is_dir(), reason="needs ../shared/traces/pftrace, which is not there")
def test_a_step_of_torch_keeps_its_kernels(tmp_path):
    name, out = FOLDER / "graph_counters.pftrace.gz", tmp_path / "out.pftrace"
    assert run("cut", name, "--steps", "1", "-o", out) == 0
    whole, part = load(str(name)), load(str(out))
    names = [part.name_of(row) for row in range(len(part.slices))]
    assert {each for each in names if each.startswith("ProfilerStep")} == {"ProfilerStep#1"}
    kernels = [each for each in slices(whole) if each[1] in {"stream 7", "main", "DP"}]
    assert set(slices(part)) <= set(slices(whole))
    assert sum(lane.last - lane.first for lane in part.lanes if lane.kind is LaneKind.GPU) < len(kernels)
    assert part.is_torch


def test_json_is_never_written_under_the_name_of_protobuf(small, tmp_path, capsys):
    source = tmp_path / "t.json"
    source.write_text('[{"ph":"X","ts":1,"dur":1,"name":"x","pid":1,"tid":1}]')
    for command, path, out in (
        ("cut", source, "a.pftrace"),
        ("cut", source, "a.pftrace.gz"),
        ("cut", small, "a.json.gz"),
        ("repair", small, "a.json"),
        ("repair", source, "a.perfetto-trace.zst"),
    ):
        assert run(command, path, "-o", tmp_path / out) == 2
        assert "is written as that: name the file" in capsys.readouterr().err
        assert not (tmp_path / out).exists()


def test_names_in_protobuf_are_not_replaced(small, tmp_path, capsys):
    assert run("cut", small, "--hash-names", "-o", tmp_path / "a.pftrace") == 2
    assert "--hash-names is for JSON traces" in capsys.readouterr().err


def test_stacks_are_left_out(tmp_path):
    path, out = tmp_path / "t.pftrace", tmp_path / "out.pftrace"
    args = w.annotation("Call stack", w.data(6, "secret.py(1)")) + w.annotation("x", w.number(4, 1))
    path.write_bytes(THREAD + event(BEGIN, 1000, args, name="op") + event(END, 2000))
    assert run("cut", path, "--no-stacks", "-o", out) == 0
    assert b"secret" not in out.read_bytes()
    assert load(str(out)).event_of(0)["args"] == {"x": 1}


def test_what_is_whole_is_copied(small, tmp_path, capsys):
    out = tmp_path / "out.pftrace"
    assert run("repair", small, "-o", out) == 0
    assert out.read_bytes() == SMALL
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "nothing was to be done" in printed.err


def test_what_is_damaged_is_left_out_and_listed(tmp_path, capsys):
    path, out = tmp_path / "t.pftrace", tmp_path / "out.pftrace"
    damaged = w.data(1, w.number(8, 5) + w.tag(11, 2) + b"\x7f")
    path.write_bytes(SMALL + damaged + w.deflated(event(INSTANT, 9500, name="packed")) + event(END, 10_000)[:-2])
    assert run("repair", path, "-o", out) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith(f"byte {len(SMALL) + 2:,}: left out, it cannot be read") for line in lines)
    assert any(f"byte {path.stat().st_size:,}: left out, the file ends within it" in line for line in lines)
    assert any("packed into others" in line for line in lines)
    again = load(str(out))
    assert again.quality.dropped == 0
    assert not again.quality.is_part
    assert slices(again) == slices(load(str(path)))


def test_a_part_for_the_browser_is_protobuf(tmp_path, small):
    parser = argparse.ArgumentParser()
    perfetto.add_arguments(parser)
    path = Path(perfetto._part(parser.parse_args([str(small), "--window", "2us:3.2us"]), str(tmp_path)))
    assert path.name == "small.cut.pftrace.gz"
    assert gzip.decompress(path.read_bytes())[:1] == b"\n"
    assert len(load(str(path)).slices) == 2


def test_a_report_is_named_without_the_suffix(small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("report", small) == 0
    assert (tmp_path / "small.report.html").is_file()
