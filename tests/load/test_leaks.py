"""Many traces opened and left in one run of the app: what they held is given back."""

from __future__ import annotations

import gc
import json
import os
import weakref
from functools import lru_cache
from pathlib import Path

import pytest

from tests.load.memory import resident
from tracetui.ui.app import TraceApp
from tracetui.ui.shelf import KEPT
from tracetui.ui.trace_screen import TraceScreen

TRACES, EVENTS = 20, 100_000


@lru_cache
def trace_text(events: int) -> str:
    """A trace of steps of operators that launch kernels; the names of the operators hold the word SEED."""
    parts = []
    for number in range(events // 3):
        at, ids = 10 * number, {"args": {"correlation": number + 1, "External id": number + 1}}
        name = f"aten::opSEED_{number % 50}"
        parts += [
            {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": at, "dur": 8},
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": at + 1, "dur": 2}
            | ids,
            {"ph": "X", "cat": "kernel", "name": f"kernel{number % 30}", "pid": 0, "tid": 7, "ts": at + 4, "dur": 3}
            | ids,
        ]
        if number % 1000 == 0:
            step = {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{number // 1000}"}
            parts.append(step | {"pid": 1, "tid": 1, "ts": at, "dur": 9999})
    return json.dumps({"traceEvents": parts})


def write_trace(path: Path, seed: int, events: int = EVENTS) -> None:
    """A trace whose names no other has."""
    path.write_text(trace_text(events).replace("SEED", str(seed)))


async def look_at(pilot, path: str) -> TraceScreen:
    """Open a trace and walk through a few of its panes."""
    pilot.app.open(path)
    while not (isinstance(pilot.app.screen, TraceScreen) and pilot.app.screen.path == path):
        await pilot.pause(0.02)
    for key in ("1", ".", "]", "2", "5", "0"):
        await pilot.press(key)
    await pilot.pause()
    await pilot.app.workers.wait_for_complete()
    return pilot.app.screen


@pytest.mark.slow
async def test_twenty_traces_leave_nothing_behind(tmp_path):
    paths = [tmp_path / f"{number}.json" for number in range(TRACES)]
    for number, path in enumerate(paths):
        write_trace(path, number)
    app, seen, held = TraceApp([str(tmp_path)]), [], []
    async with app.run_test(size=(120, 40)) as pilot:
        for path in paths:
            screen = await look_at(pilot, str(path))
            seen.append(weakref.ref(screen.trace))
            del screen
            await pilot.pause()
            gc.collect()
            held.append(resident(os.getpid()))
        alive = sum(trace() is not None for trace in seen)
        assert len(app.shelf) == KEPT
    assert alive <= KEPT + 1
    # Once as many are kept as ever are, another one changes nothing.
    settled = held[KEPT + 2]
    assert max(held[-5:]) < 1.1 * settled, [round(each / 1e6) for each in held]


async def test_going_back_to_a_kept_trace_reads_nothing_again(tmp_path):
    paths = [tmp_path / f"{number}.json" for number in range(3)]
    for number, path in enumerate(paths):
        write_trace(path, number, 4000)
    app = TraceApp([str(tmp_path)])
    async with app.run_test(size=(120, 40)) as pilot:
        first = (await look_at(pilot, str(paths[0]))).trace
        for path in paths[1:]:
            await look_at(pilot, str(path))
        assert (await look_at(pilot, str(paths[0]))).trace is first


async def test_a_trace_that_was_let_go_is_read_again(tmp_path):
    paths = [tmp_path / f"{number}.json" for number in range(KEPT + 1)]
    for number, path in enumerate(paths):
        write_trace(path, number, 4000)
    app = TraceApp([str(tmp_path)])
    async with app.run_test(size=(120, 40)) as pilot:
        first = (await look_at(pilot, str(paths[0]))).trace
        for path in paths[1:]:
            await look_at(pilot, str(path))
        again = await look_at(pilot, str(paths[0]))
        assert again.trace is not first
        assert again.trace.events == first.events
