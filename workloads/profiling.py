"""The profiled loop: a schedule, an annotation around each step, and what the trace says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workloads.api import Prepared
from workloads.devices import Target
from workloads.events import encode
from workloads.reporter import Reporter
from workloads.request import Options

if TYPE_CHECKING:
    from torch.profiler import profile

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
