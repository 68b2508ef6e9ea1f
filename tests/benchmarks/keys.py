"""From a key to the first and the last byte it painted, and how many bytes those were, on a terminal of 200x50.

Keys are pressed at a person's pace, so that the work that waits for a pause is done and counted; one is held as well,
and some are pressed as soon as there is a picture.
"""

from __future__ import annotations

import math
import tempfile
from typing import Any, NamedTuple

from tests.benchmarks.context import Context
from tests.benchmarks.large_trace import benchmark_folder
from tests.benchmarks.pty_app import Answer, PtyApp
from tests.benchmarks.runs import percentile

PRESSES = 24
"""Of every action, in one round."""
KERNELS = ":kernels\r"
"""Typed to open the pane of kernels, whichever is open."""
EARLY_PRESSES = 8
"""Keys pressed as soon as there is a picture."""
HELD, HELD_SECONDS = ("]", "[", "."), 2.0
"""Keys that are held, and for how long."""
IDLE = 10.0
"""Seconds in which nothing is pressed."""


class Action(NamedTuple):
    """What to do again and again."""

    first: str
    """Typed once; the click is on the lanes."""
    keys: str
    """Pressed in turn."""
    is_warmed: bool = True
    """Whether each key is pressed once before; what is computed when a pane is first seen is measured by `panes`."""


ACTIONS = {
    "next kernel": Action(KERNELS, "."),
    # Steps that have not been seen yet, then back to them.
    "next step": Action(KERNELS, "]" * 40 + "[" * 40, is_warmed=False),
    "switch pane": Action(KERNELS, "2345"),
    "pan": Action("\x1b[<0;90;9M\x1b[<0;90;9m", "ddddaaaa"),
    "zoom": Action("", "wwwwssss"),
}


def run(context: Context) -> dict[str, Any]:
    """Open the trace once, press every key many times, and measure medians and the 99th percentile."""
    results: dict[str, Any] = {}
    with (
        tempfile.TemporaryDirectory(dir=benchmark_folder()) as cache,
        PtyApp(context.large, cache=cache) as app,
    ):
        app.wait_until_pictured()
        pictured = app.cpu_seconds()
        early = [answer for answer in (app.press(".") for _ in range(EARLY_PRESSES)) if answer]
        results["right after opening"] = summary(early, EARLY_PRESSES) | {"cpu": math.nan}
        app.wait_until_idle()
        results["until idle"] = app.cpu_seconds() - pictured
        print(f"  from the picture until idle {results['until idle']:.1f} CPU s")
        for action, (first, keys, is_warmed) in ACTIONS.items():
            app.press(first, quiet=0.5)
            for key in dict.fromkeys(keys) if is_warmed else "":
                app.press(key, quiet=1.0, patience=10.0)
            cpu = app.cpu_seconds()
            answers = [app.press(keys[i % len(keys)]) for i in range(PRESSES * context.rounds)]
            used = (app.cpu_seconds() - cpu) / len(answers)
            results[action] = {**summary([answer for answer in answers if answer], len(answers)), "cpu": used * 1000}
            print(f"  {action:<12} {words(results[action])}", flush=True)
        results["held"] = [app.hold(key, HELD_SECONDS) * 1000 for key in HELD]
        print(f"  held: {max(results['held']):.0f} ms behind")
        app.wait_until_idle()
        cpu = app.cpu_seconds()
        painted = app.watch(quiet=IDLE, patience=IDLE)
        results["idle"] = {"bytes": painted.bytes if painted else 0, "cpu": (app.cpu_seconds() - cpu) / IDLE}
        print(f"  {'idle':<12} {results['idle']['bytes']} bytes, {results['idle']['cpu']:.1%} CPU in {IDLE:.0f} s")
    return results


def summary(answers: list[Answer], presses: int) -> dict[str, Any]:
    """Percentiles of milliseconds and bytes; `answers` of `presses` painted something."""
    if not answers:
        return {"answers": 0, "presses": presses}
    times = [answer.seconds * 1000 for answer in answers]
    firsts = [answer.first * 1000 for answer in answers]
    sizes = [answer.bytes for answer in answers]
    return {
        "answers": len(answers),
        "presses": presses,
        "first_p50": percentile(firsts, 0.5),
        "first_p99": percentile(firsts, 0.99),
        "p50": percentile(times, 0.5),
        "p99": percentile(times, 0.99),
        "bytes": percentile(sizes, 0.5),
        "most_bytes": max(sizes),
    }


def words(figures: dict[str, Any]) -> str:
    """Medians and 99th percentiles in words."""
    if not figures["answers"]:
        return "nothing was painted"
    answers = f"{figures['answers']} answers to {figures['presses']} keys"
    return (
        f"first byte {figures['first_p50']:6.1f} ms, p99 {figures['first_p99']:6.1f}; last "
        f"{figures['p50']:6.1f} ms, p99 {figures['p99']:6.1f}; {figures['bytes']:7,} bytes, most "
        f"{figures['most_bytes']:,}; {figures['cpu']:.1f} CPU ms  ({answers})"
    )
