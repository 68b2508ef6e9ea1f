"""Digests of runs that were never recorded, and small files of traces whose times are chosen."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tracetui.history.digest import STEP_TIME, Digest, DigestFacts, Summed, Values, values_of
from tracetui.history.series import Run

BASE_NS = 1_700_000_000 * 10**9
"""Start of the first recording."""


def simulated(
    random: np.random.Generator, runs: int, noise: float, factors: Mapping[int, float] | None = None, steps: int = 10
) -> Values:
    """Times of runs with noise between runs and between steps; from each run of `factors` on they are multiplied."""
    summed, level = [], 1.0
    for run in range(runs):
        level = (factors or {}).get(run, level)
        times = 1000 * level * (1 + noise * random.normal()) * (1 + noise * random.normal(size=steps))
        low, high = np.percentile(times, (25, 75))
        scatter = float(high - low)
        summed.append(Summed(float(np.median(times)), scatter, 2.79 * scatter / steps**0.5))
    return values_of(summed, "us")


def run_of_digest(name: str, us: float, number: int = 0, more: Mapping[str, float] | None = None, **facts: Any) -> Run:
    """A run whose steps take `us`; `more` holds further times."""
    measures = {STEP_TIME: us, **(more or {})}
    values = np.array([[each, 0.001 * each, 0.001 * each] for each in measures.values()])
    known = {"program": "p", "device": "GPU", "stepped": "profiler step", "began_ns": BASE_NS + number * 10**9, **facts}
    return Run(name, name, Digest(DigestFacts(**known), dict.fromkeys(measures, "us"), values), number)


def write_trace(path: Path, us: Sequence[int], number: int = 0, ops: int = 2, **own: Any) -> Path:
    """A trace with steps of these lengths in µs, each with some operators; `own` is what `tracetui run` writes."""
    events, at = [], 1000
    for step, length in enumerate(us, 1):
        place = {"ph": "X", "pid": 1, "tid": 1}
        events.append({**place, "cat": "user_annotation", "name": f"ProfilerStep#{step}", "ts": at, "dur": length})
        each = length // (ops + 1)
        for op in range(ops):
            events.append({**place, "cat": "cpu_op", "name": "aten::mm", "ts": at + op * each + 1, "dur": each - 1})
        at += length + 10
    about = {"workload": "w", "torch": "2.13", "threads": 2, **own}
    base = BASE_NS + number * 60 * 10**9
    document = {"schemaVersion": 1, "baseTimeNanoseconds": base, "traceEvents": events, "tracetui": about}
    data = json.dumps(document).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path
