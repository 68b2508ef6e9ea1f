"""From the command to the first picture in a terminal: the first time, and again from the cache."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from tests.benchmarks.context import Context
from tests.benchmarks.large_trace import benchmark_folder, first_part
from tests.benchmarks.processes import measured_child
from tests.benchmarks.pty_app import PtyApp


def run(context: Context) -> dict[str, Any]:
    """Seconds to the first picture of the large trace with an empty cache and with what that left, beside loading.

    Each is the moment of the lanes and that of the list of kernels. What 10 MB take is nearly all start and imports.
    """
    trace, small = context.large, first_part()
    results: dict[str, Any] = {"usable": [], "first": [], "again": [], "small": []}
    for _ in range(context.rounds):
        results["usable"].append(measured_child("tracetui", trace)["wall"])
        with tempfile.TemporaryDirectory(dir=benchmark_folder()) as cache:
            results["first"].append(seconds_to_picture(trace, cache))
            results["again"].append(seconds_to_picture(trace, cache))
            results["small"].append(seconds_to_picture(small, cache))
    print(f"  usable after {min(results['usable']):.2f} s")
    for name, title in (("first", "first picture"), ("again", "opened again"), ("small", "10 MB")):
        lanes, lists, cpu, memory = (min(each) for each in zip(*results[name], strict=True))
        print(f"  {title}: lanes after {lanes:.2f} s, kernels after {lists:.2f} s", end="; ")
        print(f"until idle {cpu:.2f} CPU s, {memory / 1e6:.0f} MB")
    return results


def seconds_to_picture(trace: Path, cache: str) -> tuple[float, float, float, float]:
    """Open the trace, wait until everything has been computed, and quit.

    Returns the seconds of the first picture, of the lanes and of the list; the CPU seconds from the tabs until idle,
    and the bytes of memory by then.
    """
    with PtyApp(trace, cache=cache) as app:
        app.wait_until_pictured()
        pictured = app.cpu_seconds()
        app.wait_until_idle()
        cpu, memory = app.cpu_seconds() - pictured, app.memory()
        app.quit()
        return (*app.seconds_to_picture(), cpu, memory)
