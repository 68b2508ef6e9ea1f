"""The profiled loop: a schedule, an annotation around each step, and the metadata of the recording.

The metadata is written into the trace, so that the trace can be understood later and comparisons can be labelled.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracetui_workloads.api import Prepared, Value, Workload
from tracetui_workloads.recording.devices import Target, describe, driver_version
from tracetui_workloads.recording.events import encode
from tracetui_workloads.recording.options import Options
from tracetui_workloads.recording.reporter import Reporter
from tracetui_workloads.recording.request import Request

if TYPE_CHECKING:
    from torch.profiler import profile


def recording_metadata(
    request: Request,
    workload: Workload,
    params: Mapping[str, Value],
    prepared: Prepared,
    target: Target,
    resolved: Mapping[str, Any],
    operands: Mapping[str, str],
) -> dict[str, Any]:
    """The entry `tracetui` of a trace; `resolved` holds the actual values of automatic options, `operands` digests."""
    return {
        "workload": workload.name,
        "variant": request.variant or None,
        "label": prepared.label,
        "params": dict(params),
        "options": {**asdict(request.options), **resolved},
        "seed": request.options.seed,
        "argv": list(request.argv),
        **machine_metadata(target),
        "flops_per_step": prepared.flops,
        "bytes_per_step": prepared.bytes,
        "operands": dict(operands),
    }


def machine_metadata(target: Target) -> dict[str, Any]:
    """The machine's part of the metadata: device, versions, threads."""
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
"""The top-level key of a trace that holds the metadata of the recording."""


def annotated_step(prepared: Prepared) -> None:
    """Run one iteration inside its annotation."""
    from torch.profiler import record_function

    with record_function(prepared.label):
        prepared.step()


def load_profiler() -> None:
    """Import the modules that the profiler would otherwise import during its first step.

    No profiler session is opened for that: after an empty session some versions of CUDA and ROCm record nothing.
    """
    import torch._inductor  # noqa: F401


def new_profiler(target: Target, options: Options, shapes: bool) -> profile:
    """A profiler with the given options; it has not started to record."""
    from torch.profiler import profile, schedule

    return profile(
        activities=target.activities,
        schedule=schedule(wait=options.wait, warmup=options.warmup, active=options.active, repeat=1),
        record_shapes=shapes,
        profile_memory=options.memory,
        with_stack=options.stack,
    )


def record_steps(profiler: profile, prepared: Prepared, options: Options, text: str, reporter: Reporter) -> None:
    """Run all steps of the schedule; afterwards the profiler can be exported once.

    `text` is a placeholder for the metadata, some of which is known only after the recording.
    """
    first_active = options.wait + options.warmup
    with profiler:
        for number in range(options.steps):
            annotated_step(prepared)
            if number == first_active:
                # After the step, because the call takes time that would otherwise count as the start of the step.
                add_metadata(profiler, text)
            profiler.step()
            reporter.progress(number + 1, options.steps)


def metadata_text(metadata: Mapping[str, Any]) -> str:
    """The metadata as text for `add_metadata`; encoded before the recording, which would otherwise include it."""
    return encode(metadata)


def add_metadata(profiler: profile, text: str) -> None:
    """Add the metadata to the trace; the profiler accepts it only while it records."""
    profiler.add_metadata_json(METADATA_KEY, text)


def table(profiler: profile, is_gpu: bool) -> str:
    """Torch's table of sums per name, longest self time first, with full names; call it after `export`."""
    sums: str = profiler.key_averages().table(
        sort_by="self_device_time_total" if is_gpu else "self_cpu_time_total",
        row_limit=-1,
        max_name_column_width=None,
    )
    return sums


def export(profiler: profile, raw: Path) -> None:
    """Write the profiler's file; the profiler reports no error, so the file must be checked afterwards."""
    profiler.export_chrome_trace(str(raw))
