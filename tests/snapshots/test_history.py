"""What is live at any moment adds up to the curve: of generated histories, and of real ones to the byte."""

from __future__ import annotations

import importlib.util
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.memory_snapshots import MIB, START_US, FakeAllocator, fragmented, frame, write
from tracetui.reading.snapshot import load_snapshot
from tracetui.snapshots.history import DeviceHistory, cheapest_hole, fullest_device, history_of, segment_map
from tracetui.snapshots.snapshot_tables import (
    GROUPINGS,
    OLDER_ROW,
    PANES,
    PENDING_ROW,
    holders,
    out_of_memory,
    pane_table,
    read_moment,
)

ACTS = st.lists(
    st.tuples(st.sampled_from(["alloc", "free", "wait", "complete", "cache", "history"]), st.integers(1, 5 * MIB)),
    min_size=1,
    max_size=60,
)


def played(acts: list[tuple[str, int]]) -> FakeAllocator:
    """A history of such acts; it begins at the first that says so, or with the first act."""
    fake = FakeAllocator(limit=64 * MIB)
    fake.recording = not any(act == "history" for act, _ in acts)
    for act, number in acts:
        free = [at for at, block in fake.live.items() if not block["is_pending"]]
        pending = [at for at, block in fake.live.items() if block["is_pending"]]
        if act == "alloc":
            fake.alloc(number, [frame(number % 5)])
        elif act in ("free", "wait") and free:
            fake.free(free[number % len(free)], completes=act == "free")
        elif act == "complete" and pending:
            fake.complete(pending[number % len(pending)])
        elif act == "cache":
            fake.empty_cache()
        elif act == "history":
            fake.recording = True
    return fake


def history(snapshot: dict[str, Any], folder: Path) -> DeviceHistory:
    loaded = load_snapshot(write(folder / "s.pickle", snapshot))
    return history_of(loaded, fullest_device(loaded))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ACTS)
def test_what_is_live_is_the_height_of_the_curve(tmp_path: Path, acts: list[tuple[str, int]]) -> None:
    fake = played(acts)
    found = history(fake.snapshot(), tmp_path)
    live = fake.live.values()
    rounded = sum(block["rounded"] - (block["size"] if block["is_known"] else block["rounded"]) for block in live)
    assert found.rounding == rounded
    # The fake counts what is older as it was requested, the snapshot rounded up.
    apart = {int(mine) - theirs for mine, theirs in zip(found.active[1:], fake.active, strict=True)}
    assert len(apart) <= 1
    assert found.reserved[1:].tolist() == fake.reserved
    assert (found.pending >= 0).all()
    for moment in {0, found.peak, found.count // 2, found.count}:
        assert found.unexplained(moment) == rounded
        for by in GROUPINGS:
            assert holders(found, moment, by)["bytes"].values.sum() == found.active[moment]
        mapped = segment_map(found, moment)
        assert mapped.size.sum() == found.reserved[moment]
        assert len(mapped.lives) == len(found.live(moment))
        if moment == found.count:
            assert sorted(mapped.gap_size.tolist()) == sorted(size for _, size in fake.gaps())
    pending = sum(block["size"] for block in live if block["is_pending"] and block["is_known"])
    assert found.pending[-1] >= pending


def test_what_is_not_completed_and_what_is_older_are_rows_of_their_own(tmp_path: Path) -> None:
    fake = FakeAllocator()
    fake.recording = False
    old = fake.alloc(MIB, [frame(1)])
    fake.recording = True
    new = fake.alloc(2 * MIB, [frame(2)])
    assert old is not None
    assert new is not None
    fake.free(new, completes=False)
    found = history(fake.snapshot(), tmp_path)
    rows = {row["holder"]: row["bytes"] for row in holders(found, found.count).rows()}
    assert rows == {OLDER_ROW: MIB, PENDING_ROW: 2 * MIB}
    assert found.pending.tolist()[-2:] == [0, 2 * MIB]
    fake.complete(new)
    assert history(fake.snapshot(), tmp_path).pending[-1] == 0


def test_an_oom_says_what_was_asked_what_stands_in_the_way_and_what_to_do(tmp_path: Path) -> None:
    found = history(fragmented().snapshot(), tmp_path)
    sentences = " ".join(out_of_memory(found, found.ooms[0]))
    for words in (
        "16.0 MiB was asked for in train.py:40 backward; the device had 0 B free, the largest free piece of the "
        "allocator was 4.0 MiB.",
        "32.0 MiB was free in segments",
        "expandable_segments:True",
        "train.py:11 forward",
    ):
        assert words in sentences
    hole = cheapest_hole(segment_map(found, found.ooms[0]), found, 16 * MIB)
    assert hole is not None
    # Three free pieces of 4 MiB and the two blocks between them.
    assert (hole.bytes, hole.size) == (8 * MIB, 20 * MIB)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ACTS, st.integers(1, 20 * MIB))
def test_no_hole_is_cheaper(tmp_path: Path, acts: list[tuple[str, int]], wanted: int) -> None:
    fake = played(acts)
    found = history(fake.snapshot(), tmp_path)
    hole = cheapest_hole(segment_map(found, found.count), found, wanted)
    costs = []
    for start, length in fake.segments.items():
        own = sorted((at, block["rounded"]) for at, block in fake.live.items() if start <= at < start + length)
        begins = [start, *(at + size for at, size in own)]
        ends = [*(at for at, _ in own), start + length]
        for first, begin in enumerate(begins):
            for last in range(first, len(ends)):
                if ends[last] - begin >= wanted:
                    costs.append(sum(size for _, size in own[first:last]))
    assert (hole.bytes if hole is not None else None) == min(costs, default=None)


def test_moments_have_names_numbers_and_times(tmp_path: Path) -> None:
    found = history(fragmented().snapshot(), tmp_path)
    assert read_moment(found, "end") == read_moment(found, str(found.count)) == found.count
    assert read_moment(found, "oom") == found.ooms[0]
    assert read_moment(found, "0us") == 1
    assert found.at_us(found.count) == int(found.time_us[-1]) - START_US


def test_contradictions_are_told_and_nothing_is_lost(tmp_path: Path) -> None:
    snapshot = fragmented().snapshot()
    events = snapshot["device_traces"][0]
    snapshot["device_traces"] = [[event for number, event in enumerate(events) if number % 7]]
    found = history(snapshot, tmp_path)
    for name in PANES:
        pane_table(found, name)
    assert holders(found, found.peak)["bytes"].values.sum() == found.active[found.peak]


# Real files, and torch's own reader of them


def expected(folder: Path) -> dict[str, Any]:
    facts = json.loads((folder / "expected.json").read_text())
    return {name: each for name, each in facts.items() if each["kind"] == "memory snapshot"}


@pytest.mark.full
def test_the_facts_of_real_snapshots_to_the_byte(shared_trace: Callable[[str], Path]) -> None:
    folder = shared_trace("beside")
    for name, facts in expected(folder).items():
        snapshot = load_snapshot(str(folder / name))
        assert len(snapshot.segments.size) == facts["segments"]
        assert snapshot.segments.size.sum() == facts["reserved_bytes"]
        assert snapshot.blocks.size[snapshot.blocks.is_active].sum() == facts["active_bytes"]
        for each in facts["devices"]:
            found = history_of(snapshot, each["device"])
            assert found.count == each["events"]
            assert int(found.active[0]) == each["before_history_bytes"]
            assert int(found.active[-1]) == each["final_bytes"]
            assert int(found.active[found.peak]) == each["peak_bytes"]
            assert found.peak == each["peak_after_event"]
            assert len(found.ooms) == len(each["oom"])
            for moment in np.linspace(0, found.count, 20).astype(int).tolist():
                assert found.unexplained(moment) == found.rounding
                assert holders(found, moment)["bytes"].values.sum() == found.active[moment]


def viewer() -> ModuleType:
    """The module of torch that reads snapshots, without torch."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        pytest.skip("needs torch")
    path = Path(spec.origin).parent / "cuda" / "_memory_viz.py"
    of_file = importlib.util.spec_from_file_location("memory_viz", path)
    assert of_file is not None
    assert of_file.loader is not None
    module = importlib.util.module_from_spec(of_file)
    of_file.loader.exec_module(module)
    return module


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ACTS)
def test_torch_sums_segments_up_to_the_same(tmp_path: Path, acts: list[tuple[str, int]]) -> None:
    snapshot = played(acts).snapshot()
    # It counts what was asked to be freed as free.
    for segment in snapshot["segments"]:
        for block in segment["blocks"]:
            block["state"] = "active_allocated" if block["state"] != "inactive" else "inactive"
    found = history(snapshot, tmp_path)
    module = viewer()
    said = module.segsum(pickle.loads((tmp_path / "s.pickle").read_bytes()))
    reserved = module.Bytes(int(found.reserved[-1]))
    assert f"total_reserved: {reserved!r}\n" in said
    assert f"segments: {len(found.segments)}\n" in said
    requested = int(found.snapshot.blocks.requested[found.active_blocks].sum())
    assert f"total_allocated: {module.Bytes(requested)!r}\n" in said
