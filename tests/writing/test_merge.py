"""The ranks of a run as one trace: nothing lost, no id shared, times on one clock to the nanosecond."""

from __future__ import annotations

import io
import json
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import SHARED
from tests.support.ranks import BASE, metadata
from tracetui.cli.main import main
from tracetui.errors import UsageError
from tracetui.opening.rank_folder import open_rank_set
from tracetui.opening.rank_reading import SummaryWork
from tracetui.reading.load import load
from tracetui.writing.merge import Merge, RankClock, RankEvents
from tracetui.writing.selection import Wanted

SETS = SHARED / "ranks"
needs_sets = pytest.mark.skipif(not SETS.exists(), reason="the sets of ranks are not here")


def merged(folder: Path | str, **chosen: Any) -> tuple[Merge, dict[str, Any]]:
    """The merge of a folder, and the document that it writes."""
    merge = Merge(open_rank_set([str(folder)], work=SummaryWork(1, uses_cache=False)), **chosen)
    sink = io.BytesIO()
    count = merge.write(sink)
    document = json.loads(sink.getvalue(), parse_float=str)
    assert count == len(document["traceEvents"])
    return merge, document


def event_ns(event: dict[str, Any]) -> int:
    """The start of an event in ns, exactly as it is written."""
    whole, _, part = str(event["ts"]).partition(".")
    return int(whole) * 1000 + int(part.ljust(3, "0"))


def write_rank(
    folder: Path, rank: int, events: list[dict[str, Any]], host: str = "node0", base: int | None = BASE
) -> None:
    """A file of a rank with these events and a collective that all ranks end at the same moment."""
    keys = metadata(rank, 2, host, base)
    (folder / f"rank{rank}_trace.json").write_text(json.dumps({**keys, "traceEvents": events}))


def slice_of(pid: object, tid: object, ts: str | float, **more: Any) -> dict[str, Any]:
    """A slice of an operator."""
    return {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": pid, "tid": tid, "ts": ts, "dur": 5, **more}


def rewritten(events: list[dict[str, Any]], index: int = 2, clock: RankClock | None = None) -> list[dict[str, Any]]:
    """Events of rank 3, the one with this index in the merged file."""
    maker = RankEvents(index, 3, "node1", clock or RankClock(0), iter(range(1000, 2000)))
    raw = [json.dumps(event).encode() for event in events]
    return [json.loads(event, parse_float=str) for event in (*maker.rewritten(raw), *maker.process_metadata())]


@needs_sets
@pytest.mark.parametrize("name", ["g4_gpu_tp2x2_2hosts", "g2_step_8ranks_2hosts_missing"])
@pytest.mark.full
def test_every_event_is_there_once_and_moved_by_the_shift_of_its_clock(name: str) -> None:
    merge, document = merged(SETS / name)
    own = [load(each.path) for each in merge.ranks.run.files]
    phases = Counter(event["ph"] for event in document["traceEvents"])
    clocks = merge.ranks.clocks
    starts = Counter(event_ns(event) for event in document["traceEvents"] if event["ph"] == "X")
    expected: Counter[int] = Counter()
    for index, trace in enumerate(own):
        moved = trace.origin_ns - int(clocks.shift[clocks.host[index]]) - merge.base_ns
        expected.update((trace.slices.start + moved).tolist())
    assert starts == expected and phases["X"] == sum(len(trace.slices) for trace in own)
    assert phases["s"] + phases["f"] == sum(len(trace.flows) for trace in own)


@needs_sets
@pytest.mark.full
def test_ids_of_ranks_do_not_meet_and_links_stay(tmp_path: Path) -> None:
    path = tmp_path / "merged.json.gz"
    assert main(["merge", str(SETS / "g4_gpu_tp2x2_2hosts"), "-o", str(path), "--no-cache"]) == 0
    ranks = open_rank_set([str(SETS / "g4_gpu_tp2x2_2hosts")], work=SummaryWork(1, uses_cache=False))
    from tracetui.linking.links import links

    whole, parts = load(str(path)), [load(each.path) for each in ranks.run.files]
    linked = links(whole)
    rows = linked.gpu[linked.launch[linked.gpu] >= 0]
    assert len(rows) == sum(int((links(part).launch[links(part).gpu] >= 0).sum()) for part in parts)
    homes = [whole.lanes[lane].process.split(" · ")[0] for lane in whole.slices.lane.tolist()]
    assert all(homes[row] == homes[linked.launch[row]] for row in rows.tolist())
    assert sorted(set(homes) - {"Spans"}) == [f"rank {rank}" for rank in range(4)]
    arrows = Counter((flow, key) for flow, key in zip(whole.flows.id.tolist(), whole.flows.key.tolist(), strict=True))
    assert max(arrows.values()) <= max(
        max(Counter(zip(part.flows.id.tolist(), part.flows.key.tolist(), strict=True)).values()) for part in parts
    )
    assert {device.id for device in whole.devices} == {
        int(lane.pid) for lane in whole.lanes if lane.name.startswith("stream") and lane.process != "Spans"
    }


@needs_sets
@pytest.mark.full
def test_lanes_stand_rank_by_rank_under_their_names() -> None:
    merge, document = merged(SETS / "g2_step_8ranks_2hosts_missing")
    names = {
        event["pid"]: event["args"]["name"] for event in document["traceEvents"] if event["name"] == "process_name"
    }
    order = {
        event["pid"]: event["args"]["sort_index"]
        for event in document["traceEvents"]
        if event["name"] == "process_sort_index"
    }
    shown = [names[pid] for pid in sorted(order, key=order.__getitem__)]
    assert [name.split(" · ")[0] for name in shown] == [f"rank {rank}" for rank in merge.ranks.ranks]
    assert shown[-1].startswith("rank 7 · node1 · python ")


def test_numbers_that_join_events_are_the_ranks_own() -> None:
    args = {"correlation": 12, "External id": 0, "Sequence number": 7, "Fwd thread id": 0, "Ev Idx": 4}
    (event, *_) = rewritten([slice_of(4711, 4711, 1.5, args=args)])
    assert event["args"] == {
        "correlation": 20000000012,
        "External id": 20000000000,
        "Sequence number": 20000000007,
        "Fwd thread id": 0,
        "Ev Idx": 4,
    }
    assert event["pid"] == event["tid"] == 1000


def test_ids_of_any_kind_stay_apart() -> None:
    flows = [{"ph": "s", "id": each, "pid": 1, "tid": 2, "ts": 1, "name": "x"} for each in (5, "0x5", 1 << 62, -1, -7)]
    ids = [event["id"] for event in rewritten(flows)[:5]]
    others = [event["id"] for event in rewritten(flows, index=1)[:5] if not isinstance(event["id"], str)]
    assert ids[:2] == [20000000005, "3:0x5"] and len(set(ids)) == 5 and not set(ids) & set(others)


def test_times_are_exact_where_a_float_is_not() -> None:
    events = [slice_of(1, 1, "1760000000123456.789"), slice_of(1, 1, "1.7e15"), slice_of(1, 1, "when")]
    raw = [json.dumps(event).encode() for event in events]
    maker = RankEvents(0, 0, None, RankClock(-1_760_000_000_000_000_001), iter(range(1000, 2000)))
    texts = [event.decode() for event in maker.rewritten(raw)]
    assert '"ts":123456.788' in texts[0] and '"ts":-60000000000000.001' in texts[1] and '"when"' in texts[2]


def test_drift_moves_both_ends_so_that_slices_stay_nested() -> None:
    clock = RankClock(0, drift=100e-6, origin=0)
    outer, inner, *_ = rewritten([slice_of(1, 1, 1000), slice_of(1, 1, 1003.5, dur=1.5)], clock=clock)
    ends = [event_ns(each) + round(float(each["dur"]) * 1000) for each in (outer, inner)]
    assert event_ns(inner) == 1003500 - 100 and ends[0] >= ends[1]


def test_the_profilers_own_processes_are_shared_and_its_threads_are_not() -> None:
    (event, *rest) = rewritten([{**slice_of("Spans", "PyTorch Profiler", 1), "cat": "Trace"}])
    assert (event["pid"], event["tid"]) == ("Spans", "rank 3 PyTorch Profiler") and rest == []


def test_a_device_has_the_same_new_number_everywhere() -> None:
    kernel = {**slice_of(1, 7, 1), "cat": "kernel", "args": {"device": 1, "stream": 7, "correlation": 3}}
    memory = {"ph": "i", "name": "[memory]", "pid": 9, "tid": 9, "ts": 1, "args": {"Device Type": 1, "Device Id": 1}}
    host = {**memory, "args": {"Device Type": 0, "Device Id": 0}}
    first, second, third, *named = rewritten([kernel, memory, host])
    assert first["pid"] == first["args"]["device"] == second["args"]["Device Id"] and third["args"]["Device Id"] == 0
    assert "rank 3 · node1 · GPU 1" in {each["args"].get("name") for each in named}


def test_stack_frames_keep_their_parents() -> None:
    maker = RankEvents(1, 1, None, RankClock(0), iter(range(1000, 2000)))
    frames = dict(maker.stack_frames({"stackFrames": {"4": {"name": "f"}, "5": {"name": "g", "parent": 4}}}))
    (event,) = maker.rewritten([json.dumps(slice_of(1, 1, 1, sf=5)).encode()])
    assert frames[frames[json.loads(event)["sf"]]["parent"]]["name"] == "f"


def test_clocks_that_nothing_bounds_are_told(tmp_path: Path) -> None:
    write_rank(tmp_path, 0, [slice_of(1, 1, 1000.0)])
    write_rank(tmp_path, 1, [slice_of(1, 1, 5000.0)], host="node1", base=BASE + 60 * 10**9)
    merge, document = merged(tmp_path)
    first, second = (event_ns(event) for event in document["traceEvents"] if event["ph"] == "X")
    assert merge.notes == ["Nothing bounds the clock of rank 1: its times stand as they are."]
    assert second - first == 60 * 10**9 + 4_000_000
    assert document["ranks"][1]["clock_error_ns"] is None and document["ranks"][1]["metadata"]["host_name"] == "node1"


def test_a_clock_of_another_kind_does_not_pull_the_file_apart(tmp_path: Path) -> None:
    write_rank(tmp_path, 0, [slice_of(1, 1, 1000.0)])
    write_rank(tmp_path, 1, [slice_of(1, 1, 5000.0)], host="node1", base=BASE + 86_400 * 10**9)
    for path in tmp_path.iterdir():
        text = path.read_text().replace('"world_size": 2', '"world_size": 1')
        path.write_text(text)
    ranks = open_rank_set([str(tmp_path / "rank1_trace.json")], work=SummaryWork(1, uses_cache=False))
    assert Merge(ranks).base_ns == ranks.origin_ns // 10**9 * 10**9 - 60 * 10**9


@needs_sets
@pytest.mark.full
def test_chosen_ranks_and_steps() -> None:
    merge, document = merged(SETS / "g1_input_4ranks", numbers=[1, 3], wanted=Wanted(steps=(4, 4)))
    assert [each["rank"] for each in document["ranks"]] == [1, 3] and len(merge.ranks) == 4
    steps = [event["name"] for event in document["traceEvents"] if event["name"].startswith("ProfilerStep#")]
    assert steps == ["ProfilerStep#4"] * 2
    with pytest.raises(UsageError, match="no trace of rank 9"):
        Merge(merge.ranks, numbers=[9])
    with pytest.raises(UsageError, match="No rank has anything"):
        merged(SETS / "g1_input_4ranks", wanted=Wanted(steps=(999, 999)))


@needs_sets
@pytest.mark.full
def test_a_range_is_one_stretch_of_the_common_clock() -> None:
    merge, document = merged(SETS / "g2_step_8ranks_2hosts_missing", wanted=Wanted(window=(100e6, 150e6)))
    origin = merge.ranks.origin_ns - merge.base_ns
    work = [event for event in document["traceEvents"] if event["ph"] == "X" and event["pid"] != "Spans"]
    assert len({event["pid"] for event in work}) == 7
    for event in work:
        start = event_ns(event) - origin
        assert start <= 150e6 and start + float(event["dur"]) * 1000 >= 100e6


@needs_sets
def test_what_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(SETS / "g1_input_4ranks")
    (tmp_path / "there.json").write_text("mine")
    for path, said in (
        ("m.pftrace", "name the file"),
        ("there.json", "--force replaces it"),
        ("no/m.json", "no folder"),
    ):
        assert main(["merge", folder, "-o", str(tmp_path / path)]) == 2
        assert said in capsys.readouterr().err
    assert main(["merge", folder, "-o", str(tmp_path / "m.json"), "--ranks", "3-1"]) == 2
    assert main(["merge", folder, "-o", str(tmp_path / "m.json"), "--ranks", "a"]) == 2
    assert (tmp_path / "there.json").read_text() == "mine" and len(list(tmp_path.iterdir())) == 1


def test_a_rank_that_is_cut_off_is_written_up_to_there(tmp_path: Path) -> None:
    write_rank(tmp_path, 0, [slice_of(1, 1, 1000.0 + number) for number in range(9)])
    write_rank(tmp_path, 1, [slice_of(1, 1, 1000.0 + number) for number in range(9)])
    path = tmp_path / "rank1_trace.json"
    path.write_bytes(path.read_bytes()[:-150])
    merge, document = merged(tmp_path)
    assert any("Rank 1 is written up to its end" in note for note in merge.notes)
    assert 9 < sum(event["ph"] == "X" for event in document["traceEvents"]) < 18


def starts_by_name(events: list[dict[str, Any]], offset: int) -> Counter[tuple[str, int]]:
    return Counter((event["name"], event_ns(event) + offset) for event in events if event["ph"] == "X")


@needs_sets
def test_an_archive_has_the_whole_traces_and_offsets_that_put_them_where_a_merge_does(tmp_path: Path) -> None:
    folder, path = SETS / "g4_gpu_tp2x2_2hosts", tmp_path / "m.zip"
    assert main(["merge", str(folder), "-o", str(path), "--ranks", "1-3"]) == 0
    _, document = merged(folder, numbers=(1, 2, 3))
    with zipfile.ZipFile(path) as archive:
        assert all(
            each.compress_type == zipfile.ZIP_DEFLATED and not each.flag_bits & 8 for each in archive.filelist[1:]
        )
        manifest = json.loads(archive.read("perfetto_manifest.json"))["perfetto_manifest"]
        found = {
            entry["path"]: json.loads(archive.read(entry["path"]), parse_float=str)["traceEvents"]
            for entry in manifest["files"]
        }
    assert manifest["version"] == 1 and len(manifest["files"]) == 3
    assert [entry["machine"]["name"] for entry in manifest["files"]] == [f"rank {r} · node{r // 2}" for r in (1, 2, 3)]
    (reference,) = (entry["path"] for entry in manifest["files"] if "clocks" not in entry)
    together: Counter[tuple[str, int]] = Counter()
    for entry in manifest["files"]:
        clocks = entry.get("clocks", {"sync_to": {"file": reference}, "offset_ns": 0})
        # Nothing may be moved to before time 0 of the reference, where Perfetto drops it.
        assert clocks["sync_to"] == {"file": reference} and clocks["offset_ns"] >= 0
        together += starts_by_name(found[entry["path"]], clocks["offset_ns"])
    apart = starts_by_name(document["traceEvents"], 0)
    (shift,) = {min(at for _, at in apart) - min(at for _, at in together)}
    assert apart == Counter({(name, at + shift): count for (name, at), count in together.items()})


@needs_sets
def test_an_archive_of_a_part_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["merge", str(SETS / "g1_input_4ranks"), "-o", str(tmp_path / "m.zip"), "--steps", "3"]) == 2
    assert "An archive holds whole traces" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_what_a_manifest_cannot_say_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for rank in (0, 1):
        write_rank(tmp_path, rank, [slice_of(1, 1, 1000.0 + number) for number in range(9)])
    path = tmp_path / "rank1_trace.json"
    path.write_bytes(path.read_bytes()[:-150])
    merge = Merge(open_rank_set([str(tmp_path)], work=SummaryWork(1, uses_cache=False)))
    clock = RankClock(0, 150e-6)
    monkeypatch.setattr(Merge, "_clock", lambda self, index: (clock, ""))
    sink = io.BytesIO()
    assert merge.write_archive(sink) == 2
    assert "Rank 0 drifts by 150 ppm, which a manifest cannot say." in merge.notes
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)
    with pytest.raises(UsageError, match="over 2 GiB"):
        merge.write_archive(io.BytesIO())
