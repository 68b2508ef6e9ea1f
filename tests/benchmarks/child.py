"""One measurement in a fresh process: `python -m tests.benchmarks.child WHAT TRACE` prints one JSON object.

Imports happen before the clock starts, and what they took of memory is taken off the peak.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracetui.model.trace import Trace

Figures = dict[str, Any]
GPU_CATEGORIES = {"kernel", "gpu_memcpy", "gpu_memset"}


def peak_bytes() -> int:
    """The largest resident size of this process so far; that of `getrusage` begins with the size of its parent."""
    try:
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
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
    from tracetui.linking.links import links
    from tracetui.linking.steps import steps
    from tracetui.reading.load import load
    from tracetui.reading.load_progress import LoadProgress

    kept: list[Trace] = []

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
        kept.append(trace)
        return {"read_cpu": (read_at or [loaded])[0] - started, "load_cpu": loaded - started}

    figures = measured(work)
    return {**figures, **_contents(kept[0])}


def _contents(trace: Trace) -> Figures:
    import numpy as np

    from tracetui.model.trace import GPU_WORK

    return {
        "events": trace.events,
        "slices": len(trace.slices),
        "activities": int(np.isin(trace.slices.kind, [int(kind) for kind in GPU_WORK]).sum()),
        "kept": sum(column_bytes(getattr(trace, part.name)) for part in fields(trace) if part.name != "cache"),
    }


def column_bytes(value: Any) -> int:
    """Bytes of the columns in a part of a trace; strings and what is read from the file later have none."""
    import numpy as np

    if isinstance(value, np.ndarray):
        return value.nbytes
    if is_dataclass(value):
        return sum(column_bytes(getattr(value, part.name)) for part in fields(value))
    if isinstance(value, Mapping):
        return sum(map(column_bytes, value.values()))
    if isinstance(value, (list, tuple)) and not (value and isinstance(value[0], str)):
        return sum(map(column_bytes, value))
    return 0


def load_within_limit(path: str, limit: str) -> Figures:
    """The same with a limit in bytes to the memory that the process may take for data (RLIMIT_DATA)."""
    resource.setrlimit(resource.RLIMIT_DATA, (int(limit), int(limit)))
    return load_with_tracetui(path)


def load_with_orjson(path: str) -> Figures:
    """The whole file as dictionaries, without the garbage collector."""
    import orjson

    gc.disable()
    documents: list[Any] = []

    def work() -> Figures:
        with open(path, "rb") as file:
            documents.append(orjson.loads(file.read()))
        return {}

    figures = measured(work)
    document = documents[0]
    events = document["traceEvents"] if isinstance(document, dict) else document
    activities = sum(event.get("ph") == "X" and event.get("cat") in GPU_CATEGORIES for event in events)
    return {**figures, "events": len(events), "activities": activities}


def build_panes(path: str) -> Figures:
    """Seconds for each pane of a loaded trace, built in order, as the app builds them."""
    from tracetui.drawing.timeline.raster import TimelineIndex
    from tracetui.panes import PANES
    from tracetui.reading.load import load

    trace = load(path)
    figures: Figures = {}
    started = time.perf_counter()
    TimelineIndex(trace)
    figures["lanes"] = [time.perf_counter() - started, len(trace.slices)]
    for pane in PANES.values():
        started = time.perf_counter()
        table = pane.build(trace)
        figures[pane.name] = [time.perf_counter() - started, len(table)]
    return figures


def build_pane(path: str, name: str) -> Figures:
    """One pane of a trace that is ready for use, and of which nothing else has been asked."""
    from tracetui.linking.links import links
    from tracetui.linking.steps import steps
    from tracetui.panes import PANES
    from tracetui.reading.load import load

    trace = load(path)
    links(trace)
    steps(trace)
    return measured(lambda: {"rows": len(PANES[name].build(trace))})


def build_each(path: str) -> Figures:
    """CPU seconds to load a trace, and of the lanes and each pane where nothing else has been asked of it."""
    from tracetui.drawing.timeline.raster import TimelineIndex
    from tracetui.linking.links import links
    from tracetui.linking.steps import steps
    from tracetui.panes import PANES
    from tracetui.reading.load import load

    def spent(work: Callable[[], object]) -> float:
        started = time.process_time()
        work()
        return time.process_time() - started

    loaded: list[Trace] = []
    figures = {"load": spent(lambda: loaded.append(load(path)))}
    (trace,) = loaded
    figures["links"] = spent(lambda: (links(trace), steps(trace)))
    known = dict(trace.cache)
    makers: dict[str, Callable[[Trace], object]] = {"lanes": TimelineIndex}
    for name, make in {**makers, **{name: pane.build for name, pane in PANES.items()}}.items():
        trace.cache.clear()
        trace.cache.update(known)
        figures[name] = spent(partial(make, trace))
    return figures


MEASUREMENTS: dict[str, Callable[..., Figures]] = {
    "tracetui": load_with_tracetui,
    "limited": load_within_limit,
    "orjson": load_with_orjson,
    "panes": build_panes,
    "pane": build_pane,
    "growth": build_each,
}

if __name__ == "__main__":
    print(json.dumps(MEASUREMENTS[sys.argv[1]](*sys.argv[2:])))
