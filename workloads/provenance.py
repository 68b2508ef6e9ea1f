"""What a recorded trace says of itself, so that it explains itself later and comparisons can be labelled."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from workloads.api import Prepared, Value, Workload
from workloads.devices import Target, describe, driver_version
from workloads.request import Request


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
