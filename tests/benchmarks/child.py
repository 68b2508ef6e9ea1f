"""One measurement in a fresh process: `python -m tests.benchmarks.child WHAT TRACE` prints one JSON object.

Imports happen before the clock starts, and what they took of memory is taken off the peak.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

Figures = dict[str, Any]


def peak_bytes() -> int:
    """The largest resident size of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def measured(work: Callable[[], Figures]) -> Figures:
    """What the work returns, with its wall and CPU seconds and how far it raised the peak."""
    before, wall, cpu = peak_bytes(), time.perf_counter(), time.process_time()
    figures = work()
    return {
        "wall": time.perf_counter() - wall,
        "cpu": time.process_time() - cpu,
        "peak": peak_bytes() - before,
        **figures,
    }


def load_with_tracetui(path: str) -> Figures:
    """Load, then join launches and find steps: what the first screen needs."""
    from tracetui.analysis.linking.links import links
    from tracetui.analysis.linking.steps import steps
    from tracetui.importers.load import LoadProgress, load

    def work() -> Figures:
        read_at: list[float] = []

        def watch(progress: LoadProgress) -> None:
            if progress.stage != "reading" and not read_at:
                read_at.append(time.process_time())

        started = time.process_time()
        trace = load(path, progress=watch)
        loaded = time.process_time()
        links(trace)
        steps(trace)
        return {
            "events": trace.events,
            "slices": len(trace.slices),
            "read_cpu": read_at[0] - started,
            "load_cpu": loaded - started,
            "kept": trace.slices.nbytes,
        }

    return measured(work)


def load_with_orjson(path: str) -> Figures:
    """The whole file as dictionaries, without the garbage collector."""
    import orjson

    gc.disable()

    def work() -> Figures:
        with open(path, "rb") as file:
            document = orjson.loads(file.read())
        return {"events": len(document["traceEvents"] if isinstance(document, dict) else document)}

    return measured(work)


def build_panes(path: str) -> Figures:
    """Seconds for each pane of a loaded trace, built in order, as the app builds them."""
    from tracetui.analysis.panes import PANES
    from tracetui.drawing.timeline.raster import Picture
    from tracetui.importers.load import load

    trace = load(path)
    figures: Figures = {}
    started = time.perf_counter()
    Picture(trace)
    figures["lanes"] = [time.perf_counter() - started, len(trace.slices)]
    for pane in PANES.values():
        started = time.perf_counter()
        table = pane.build(trace)
        figures[pane.name] = [time.perf_counter() - started, len(table)]
    return figures


MEASUREMENTS = {"tracetui": load_with_tracetui, "orjson": load_with_orjson, "panes": build_panes}

if __name__ == "__main__":
    print(json.dumps(MEASUREMENTS[sys.argv[1]](sys.argv[2])))
