"""The profiled loop: a schedule, an annotation around each step, and what the trace says of itself.

What a recorded trace says of itself, so that it explains itself later and comparisons can be labelled.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workloads.api import Prepared, Value, Workload
from workloads.recording.devices import Target, describe, driver_version
from workloads.recording.events import encode
from workloads.recording.options import Options
from workloads.recording.reporter import Reporter
from workloads.recording.request import Request

if TYPE_CHECKING:
    from torch.profiler import profile


def about(
    request: Request,
    workload: Workload,
    params: Mapping[str, Value],
    prepared: Prepared,
    target: Target,
    settled: Mapping[str, Any],
    operands: Mapping[str, str],
) -> dict[str, Any]:
    """The entry `tracetui` of a trace; `settled` are options by what they turned out to be, `operands` digests."""
    return {
        "workload": workload.name,
        "variant": request.variant or None,
        "label": prepared.label,
        "params": dict(params),
        "options": {**asdict(request.options), **settled},
        "seed": request.options.seed,
        "argv": list(request.argv),
        **machine(target),
        "flops_per_step": prepared.flops,
        "bytes_per_step": prepared.bytes,
        "operands": dict(operands),
    }


def machine(target: Target) -> dict[str, Any]:
    """What it ran on: device, versions, threads."""
    import torch

    return {
        "device": target.device,
        "gpu": describe(target),
        "driver": driver_version() if target.kind == "cuda" else None,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
    }


METADATA_KEY = "tracetui"
"""The top-level key of a trace under which it says how it was recorded."""


def annotated_step(prepared: Prepared) -> None:
    """One iteration inside its annotation."""
    from torch.profiler import record_function

    with record_function(prepared.label):
        prepared.step()


def load_profiler() -> None:
    """Import what the profiler would import inside its first step; never open a session for that.

    An empty session before the real one leaves collection dead on some versions of CUDA and ROCm.
    """
    import torch._inductor  # noqa: F401


def new_profiler(target: Target, options: Options, shapes: bool) -> profile:
    """A profiler as the options want it; nothing is recorded yet."""
    from torch.profiler import profile, schedule

    return profile(
        activities=target.activities,
        schedule=schedule(wait=options.wait, warmup=options.warmup, active=options.active, repeat=1),
        record_shapes=shapes,
        profile_memory=options.memory,
        with_stack=options.stack,
    )


def record_steps(
    profiler: profile, prepared: Prepared, options: Options, about: Mapping[str, Any], reporter: Reporter
) -> None:
    """Run the schedule; afterwards the profiler can be exported, once."""
    text = as_text(about)
    first_active = options.wait + options.warmup
    with profiler:
        for number in range(options.steps):
            annotated_step(prepared)
            if number == first_active:
                # After the step, so as not to look like its start.
                explain(profiler, text)
            profiler.step()
            reporter.progress(number + 1, options.steps)


def as_text(about: Mapping[str, Any]) -> str:
    """What a trace says of itself, for `explain`; made before the recording, of which it would be a part."""
    return encode(about)


def explain(profiler: profile, text: str) -> None:
    """Put what a trace says of itself into it; the profiler takes it only while it records."""
    profiler.add_metadata_json(METADATA_KEY, text)


def table(profiler: profile, is_gpu: bool) -> str:
    """Torch's own sums per name, most time first, with whole names; call it after `export`."""
    sums: str = profiler.key_averages().table(
        sort_by="self_device_time_total" if is_gpu else "self_cpu_time_total",
        row_limit=-1,
        max_name_column_width=None,
    )
    return sums


def export(profiler: profile, raw: Path) -> None:
    """Write the profiler's file. It reports no failure: look at the file."""
    profiler.export_chrome_trace(str(raw))
