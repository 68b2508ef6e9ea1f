"""A trace from the cache is the trace that was read: every column, every remark, every event, every result."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.paths import SAMPLES, SHARED
from tests.support.same_columns import columns_of
from tests.support.traces import given_traces
from tracetui.drawing.timeline.raster import TimelineIndex
from tracetui.drawing.timeline.window import Window
from tracetui.errors import TraceError
from tracetui.health.health_table import CHECKS
from tracetui.health.summary import counts
from tracetui.linking.frames import frames, module_paths
from tracetui.linking.graph_nodes import graph_nodes
from tracetui.linking.links import links
from tracetui.linking.steps import steps
from tracetui.model.intervals import TimeRange
from tracetui.model.table import Table
from tracetui.model.trace import Trace
from tracetui.opening.cache_file import Encoder
from tracetui.opening.kept_traces import add_results, keep_trace, kept_results, read_trace, stored_classes
from tracetui.opening.trace_opening import OpenOptions, keep_opened, open_trace
from tracetui.panes import PANES
from tracetui.reading.load import load
from tracetui.reading.store import Store

FOLDERS = ("d*", "edge/*", "puzzlers/*", "inference/*", "pftrace/*.json", "pftrace/*.pf*")


def all_of(trace: Trace) -> dict[str, Any]:
    """Everything that a trace holds, and some of its events."""
    held = columns_of(trace)
    held["counters"] = [
        (repr(each), each.time.tolist(), repr(each.value.tolist()), each.event.tolist()) for each in trace.counters
    ]
    for name in ("devices", "label", "path", "size_bytes", "is_torch", "origin_ns"):
        held[name] = repr(getattr(trace, name))
    store = trace.store
    if isinstance(store, Store):
        held["container"], held["pairs"] = repr(store.container), [each.tolist() for each in store.pairs]
        held["blocks"] = [(location, data) for location, data in store.blocks()][:3]
    some = np.linspace(0, trace.events - 1, min(trace.events, 25)).astype(np.int64)
    held["some"] = [repr(store.event(number)) for number in some.tolist()]
    held["args"] = repr(store.args(some, ["correlation", "Input Dims"]))
    return held


@pytest.mark.parametrize("name", given_traces(*FOLDERS, samples=True))
@pytest.mark.full
def test_a_real_file_comes_back_as_it_was_read(name: str, read_again: list[str]) -> None:
    path = SHARED / name
    try:
        read = read_trace(str(path))
    except TraceError:
        assert read_again
        return
    before = all_of(read)
    is_kept = keep_trace(read)
    again = read_trace(str(path))
    assert is_kept == isinstance(read.store, Store)
    assert len(read_again) == (1 if is_kept else 2)
    assert all_of(again) == before == all_of(load(str(path)))


def results(trace: Trace) -> list[Any]:
    encoder = Encoder(stored_classes())
    found = [links(trace), frames(trace), module_paths(trace), graph_nodes(trace), steps(trace)]
    return [encoder.tree(each) for each in found] + [array.tolist() for array in encoder.arrays]


@pytest.mark.parametrize("name", ["mlp_train_cpu.json.gz", "attention_flash_cpu.json.gz"])
def test_results_that_were_known_come_back(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read = read_trace(str(SAMPLES / name))
    before = results(read)
    assert keep_trace(read)
    again = read_trace(str(SAMPLES / name))
    assert {"links", "frames", "module_paths"} <= set(again.cache) and "steps" not in again.cache
    add_results(again)
    assert {"graph_nodes", "steps"} <= set(again.cache)
    assert results(again) == before == results(load(str(SAMPLES / name)))


def test_what_the_first_list_asks_for_comes_back_but_for_ranges_of_time() -> None:
    path = str(SAMPLES / "mlp_train_cpu.json.gz")
    trace = read_trace(path)
    start = int(trace.slices.start[0])
    drawn = TimeRange(start, start + 1_000_000)
    PANES["kernels"].build(trace)
    known = {part: counts(trace, part) for part in (None, drawn)}
    checked = {key: found for key, found in trace.cache.items() if isinstance(key, tuple) and key[0] == "_check_result"}
    assert keep_trace(trace)
    again = read_trace(path)
    add_results(again)
    assert again.cache["counts", None] == known[None] and ("counts", drawn) not in again.cache
    assert checked and {key: again.cache[key] for key in checked} == checked


def test_results_that_are_found_later_are_added(read_again: list[str]) -> None:
    path = str(SAMPLES / "mlp_train_cpu.json.gz")
    assert keep_trace(read_trace(path))
    second = read_trace(path)
    assert "links" not in second.cache and not keep_trace(second)
    links(second)
    assert keep_trace(second) and not keep_trace(second)
    third = read_trace(path)
    assert "links" in third.cache and not keep_trace(third)
    assert len(read_again) == 1


def test_what_was_added_to_a_trace_after_it_was_read_is_not_kept() -> None:
    path = str(SAMPLES / "mlp_train_cpu.json.gz")
    trace = read_trace(path)
    trace.quality.notes.append("of another file")
    keep_trace(trace)
    assert "of another file" not in read_trace(path).quality.notes


def test_texts_that_utf8_cannot_hold_and_numbers_that_are_none_come_back(tmp_path: Path) -> None:
    event = {"ph": "X", "pid": 1, "tid": 1, "ts": 1, "dur": 2, "name": "\ud800 a\x00b"}
    more = {"schemaVersion": float("nan"), "large": 1 << 90, "deep": [[[{"a": None}]]], "t": "\udfff"}
    path = tmp_path / "odd.json"
    path.write_text(json.dumps({**more, "traceEvents": [event, {**event, "name": "b", "ts": 3}]}))
    read = read_trace(str(path))
    before = all_of(read)
    assert keep_trace(read) and all_of(read_trace(str(path))) == before


@pytest.mark.full
def test_a_trace_whose_reading_was_stopped_is_not_kept(tmp_path: Path) -> None:
    event = {"ph": "X", "pid": 1, "tid": 1, "ts": 1, "dur": 2, "name": "a" * 500}
    path = tmp_path / "long.json.gz"
    with gzip.open(path, "wt") as file:
        json.dump([{**event, "ts": number} for number in range(20_000)], file)
    seen: list[int] = []
    part = read_trace(str(path), lambda progress: seen.append(progress.events), lambda: bool(seen))
    assert part.quality.partial and not keep_trace(part)


def test_results_that_rest_on_what_the_user_says_come_back_only_where_nothing_is_said() -> None:
    path = str(SAMPLES / "mlp_train_cpu.json.gz")
    trace = open_trace(path)
    steps(trace), links(trace)
    assert keep_opened(trace)
    assert "steps" in open_trace(path).cache
    for options in (OpenOptions(device="H100"), OpenOptions(steps_by="aten::mm")):
        chosen = open_trace(path, options)
        assert "steps" not in chosen.cache and len(steps(chosen)) == len(steps(open_trace(path, without(options))))


def without(options: OpenOptions) -> OpenOptions:
    return options._replace(uses_cache=False)


@pytest.mark.parametrize("name", ["mlp_train_cpu.json.gz", "attention_flash_cpu.json.gz"])
@pytest.mark.full
def test_every_pane_says_the_same_with_the_results_that_came_back(name: str) -> None:
    path = str(SAMPLES / name)
    first = open_trace(path)
    TimelineIndex(first)
    panes = [pane for pane in PANES.values() if pane.name != "range"]
    tables = [repr_of(pane.build(first)) for pane in panes]
    assert keep_opened(first)
    again = open_trace(path)
    known = set(again.cache)
    assert {"track_layout", ("_check_result", CHECKS[0].name), "verdict"} <= known and known == set(kept_results(first))
    assert [repr_of(pane.build(again)) for pane in panes] == tables
    tracks = np.arange(TimelineIndex(again).tracks)
    window = Window.fit(*again.window, 100)
    frames_of = [TimelineIndex(each).frame(tracks.tolist(), window, 100) for each in (first, again)]
    assert np.array_equal(frames_of[0].chars, frames_of[1].chars) and np.array_equal(frames_of[0].bg, frames_of[1].bg)


def repr_of(table: Table) -> str:
    return repr([(column.name, [column.cell(row) for row in range(len(column))]) for column in table.columns])


def test_a_result_of_an_unknown_class_is_left_out_and_the_rest_is_kept() -> None:
    class Unknown:
        pass

    path = str(SAMPLES / "mlp_train_cpu.json.gz")
    trace = open_trace(path)
    trace.cache["clock_skew"] = Unknown()
    links(trace)
    assert keep_opened(trace)
    again = open_trace(path)
    assert "links" in again.cache and "clock_skew" not in again.cache
    again.cache["clock_skew"] = Unknown()
    assert not keep_opened(again)
