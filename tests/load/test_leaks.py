"""Many traces opened and left in one run of the app, and the same walk again and again: memory comes back."""

from __future__ import annotations

import asyncio
import gc
import heapq
import json
import os
import shutil
import subprocess
import sys
import weakref
from functools import lru_cache
from pathlib import Path

import pytest
from textual._styles_cache import StylesCache

from tests.support.app import Shown, keys, settle, to_pane, training
from tests.support.memory import resident
from tests.support.paths import SAMPLES
from tests.support.waiting import until
from tracetui.ui.app import TraceApp
from tracetui.ui.compare.compare_view import CompareScreen
from tracetui.ui.open_comparison import MAX_RECENT_TRACES
from tracetui.ui.trace.trace_screen import TraceScreen

pytestmark = pytest.mark.full

TRACES, EVENTS = 20, 100_000
ALONE = "TRACETUI_TEST_ALONE"
"""Is set in a process that runs one test and nothing else."""
PANES = (*"123456789MHR1bbbb2bb1", *["right_square_bracket"] * 2, *["left_square_bracket"] * 2)
"""Keys that have every table of a trace made, and of a few of its steps."""
DIALOGS = ("ctrl+p", "d", "escape", "question_mark", "escape", "t", "escape", "slash", *"ad", "enter", *"nFe", "enter")
"""Keys that open and close whatever lies over a trace."""
LOOKS = ("escape", "tab", *"wwlhss0zzz", "tab", "m", "apostrophe", "escape", "m", "y", *["ctrl+t"] * 3, "c", "enter")
"""Keys for the timeline, the marks and the themes; the last two compare two steps."""
WALKS = 3
"""So often the traces are walked through before memory is looked at, and so often again."""


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


def collect() -> None:
    """Collect what is not used any more, also what holds on to it only until it would have been due.

    The pilot waits with a limit of 30 s, and the loop keeps a timer that was called off, with the screen it was for.
    """
    timers = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
    timers[:] = [timer for timer in timers if not timer.cancelled()]
    heapq.heapify(timers)
    gc.unfreeze()
    gc.collect()


async def look_at(pilot, path: str) -> TraceScreen:
    """Open a trace and walk through a few of its panes."""
    pilot.app.open(path)
    while not (isinstance(pilot.app.screen, TraceScreen) and pilot.app.screen.path == path):
        await pilot.pause(0.02)
    # What is typed as a command needs the line that it is typed into.
    await settle(pilot)
    await keys(pilot, *to_pane("kernels"), "full_stop", "right_square_bracket")
    await keys(pilot, *to_pane("ops"), *to_pane("launches"), "0")
    await pilot.app.workers.wait_for_complete()
    return pilot.app.screen


@pytest.mark.nightly
@pytest.mark.skipif(ALONE in os.environ, reason="is what starts the other")
def test_twenty_traces_leave_nothing_behind_in_a_process_of_their_own():
    # What other tests of this process have left would be measured along.
    words = [
        "-m",
        "pytest",
        "-q",
        "-n0",
        "-p",
        "no:cacheprovider",
        "-m",
        "",
        f"{__file__}::test_twenty_traces_leave_nothing_behind",
    ]
    said = subprocess.run([sys.executable, *words], env={**os.environ, ALONE: "1"}, capture_output=True, text=True)
    assert said.returncode == 0 and "1 passed" in said.stdout, said.stdout[-3000:]


@pytest.mark.nightly
@pytest.mark.skipif(ALONE not in os.environ, reason="is run in a process of its own by the test before")
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
            collect()
            held.append(resident(os.getpid()))
        alive = sum(trace() is not None for trace in seen)
        assert len(app.recent) == MAX_RECENT_TRACES
    assert alive <= MAX_RECENT_TRACES + 1
    # Once as many are kept as ever are, another one changes nothing.
    settled = held[TRACES // 2]
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
    paths = [tmp_path / f"{number}.json" for number in range(MAX_RECENT_TRACES + 1)]
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


async def test_a_trace_that_others_are_compared_with_does_not_keep_them(tmp_path):
    paths = [str(tmp_path / f"{number}.json") for number in range(MAX_RECENT_TRACES + 4)]
    for number, path in enumerate(paths):
        write_trace(Path(path), number, 4000)
    app, seen = TraceApp(paths[:1]), []
    async with app.run_test(size=(120, 40)) as pilot:
        await look_at(pilot, paths[0])
        for path in paths[1:]:
            app.open([paths[0], path])
            while not (isinstance(app.screen, CompareScreen) and app.screen.view.compared.paths[1] == path):
                await pilot.pause(0.02)
            await settle(pilot)
            assert len(app.screen_stack) == 3
            seen.append(weakref.ref(app.screen.traces[1]))
        await look_at(pilot, paths[0])

        def only_the_last_are_alive() -> bool:
            # A thread that is just writing a trace to the cache holds it until it has.
            collect()
            alive = [trace() is not None for trace in seen]
            return sum(alive) == MAX_RECENT_TRACES - 1 and all(alive[1 - MAX_RECENT_TRACES :])

        await until(pilot, only_the_last_are_alive)


async def test_a_trace_picked_from_the_list_takes_the_place_of_all_screens(tmp_path):
    paths = [str(tmp_path / f"{number}.json") for number in range(2)]
    for number, path in enumerate(paths):
        write_trace(Path(path), number, 4000)
    app = TraceApp(paths[:1])
    async with app.run_test(size=(120, 40)) as pilot:
        for path in paths * 2:
            await look_at(pilot, path)
            await pilot.press("c", "enter")
            while not isinstance(app.screen, CompareScreen):
                await pilot.pause(0.02)
            await settle(pilot)
        assert len(app.screen_stack) == 3


async def test_what_was_laid_over_a_screen_leaves_nothing_behind():
    app = Shown(training())
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)

        async def rounds(number):
            for _ in range(number):
                for key in ("ctrl+p", "escape", "question_mark", "escape", "t", "escape"):
                    await pilot.press(key)
                    await settle(pilot)
            collect()
            # Not `isinstance`: it would ask proxies that other tests have left, which warn.
            return sum(type(found) is StylesCache for found in gc.get_objects())

        before = await rounds(2)
        assert await rounds(6) <= before


async def walk(pilot, path):
    """Look at everything of a trace, and come back to it from a comparison of two of its steps."""
    await look_at(pilot, path)
    for way in (DIALOGS, PANES, LOOKS):
        await keys(pilot, *way)
    while not isinstance(pilot.app.screen, TraceScreen):
        await pilot.press("escape")
        await settle(pilot)


@pytest.mark.nightly
async def test_the_same_walk_again_takes_no_more_memory(tmp_path):
    paths = [tmp_path / name for name in ("mlp_train_cpu.json.gz", "made.json")]
    shutil.copy(SAMPLES / paths[0].name, paths[0])
    write_trace(paths[1], 0, 20_000)
    app, held = TraceApp([str(tmp_path)]), []
    async with app.run_test(size=(120, 40)) as pilot:
        for _ in range(2 * WALKS):
            for path in paths:
                await walk(pilot, str(path))
            collect()
            held.append(resident(os.getpid()))
    early, late = max(held[WALKS - 2 : WALKS]), max(held[-2:])
    assert late < 1.05 * early, [round(each / 1e6, 1) for each in held]
