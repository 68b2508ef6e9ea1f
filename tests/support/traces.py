"""Traces that are read once for the tests that follow each other."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import SAMPLES, SHARED
from tracetui.files import is_url
from tracetui.model.trace import Trace
from tracetui.opening import kept_traces
from tracetui.opening.cache_folder import TraceIdentity, identity_of
from tracetui.reading.load import load
from tracetui.reading.load_progress import LoadProgress

_read_file = kept_traces.read_file


@lru_cache(maxsize=8)
def _read(path: str, identity: TraceIdentity) -> Trace:
    return _read_file(path, None, None)


def read_once(
    path: str, progress: Callable[[LoadProgress], None] | None, cancelled: Callable[[], bool] | None
) -> Trace:
    """A trace without results; what is no plain file is read as it is."""
    identity = None if is_url(path) else identity_of(path)
    return _read_file(path, progress, cancelled) if identity is None else replace(_read(path, identity), cache={})


@lru_cache(maxsize=8)
def loaded(path: Path) -> Trace:
    """The trace of a file that no test writes, with the results of analyses that earlier tests asked for.

    A test that alters how a trace is read or analysed reads one of its own.
    """
    return load(str(path))


FEW = frozenset(
    {
        "d08_b200_cuda13_ep_moe.json",  # collectives, a step
        "d09_rtx3090_compile_triton.json",  # compiled, no step
        "d10_cudagraph_stack.json",  # graphs and frames
        "d12_cpu_only_resnet18.json",  # no GPU
        "d14_viztracer_multiprocess.json",  # of another profiler
        "d16_b300_tiny.json.gz",
        "d21_a100_nccl_3steps.json.gz",  # steps
        "d23_mi300x_normalization.json.gz",  # ROCm
        "fusion_mwe_trace.json.gz",
        "more_small_kernels.json.gz",  # the old schema
        "different_priority_streams.json.gz",  # trimmed by hand
        "i01_mi300x_vllm_decode_full_graph.json.gz",  # inference
        "i02_mi300x_sglang_decode_nested.json.gz",
        "fusion_mwe_trace.pftrace.gz",
        "generic.pftrace",
        "graph_counters.pftrace.gz",
        "rank0_trace.json.gz",  # two sets of ranks
    }
)
"""Names of given traces of each kind."""
WITHOUT_GPU = (
    "d12_cpu_only_resnet18.json", "d13_mtia_456k_events.json.gz", "d14_viztracer_multiprocess.json",
    "d15_chrome_all_phases.json.gz",
)  # fmt: skip
NO_TRACES = ("expected.json", "findings.json", "families.json", "names.json", "truth.json", "README.md")
MANY_BYTES = 1_000_000


def given_traces(
    *patterns: str,
    without: Container[str] = (),
    rest: pytest.MarkDecorator = pytest.mark.nightly,
    samples: bool = False,
) -> list[Any]:
    """Parameters: paths below `SHARED` of the traces that match, and of the samples if asked for.

    A few of each kind, small odd files and samples are of the tier of their test; the others have the mark `rest`.
    """
    files = sorted({path for pattern in patterns for path in SHARED.glob(pattern) if path.is_file()})
    made = []
    for path in files:
        if path.name not in NO_TRACES and path.name not in without:
            is_odd = path.parent.name in ("crashes", "edge") and path.stat().st_size < MANY_BYTES
            name = path.relative_to(SHARED).as_posix()
            made.append(pytest.param(name, marks=() if path.name in FEW or is_odd else rest))
    if not made:
        made = [pytest.param("", marks=pytest.mark.skipif(True, reason="needs the traces beside the checkout"))]
    return made + [pytest.param(str(path), id=path.name) for path in sorted(SAMPLES.glob("*.json.gz")) if samples]
