"""Properties of a side besides its measures: how it ran, on which devices, and how it was recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracetui.comparing.calls import calls
from tracetui.comparing.measures import measures
from tracetui.comparing.op_names import COMPILE, is_generated
from tracetui.comparing.side import CAPTURE, STEP, Side
from tracetui.devices.descriptions import device_names
from tracetui.idle.verdict import typical_verdict, verdict
from tracetui.linking.groups import distinct
from tracetui.linking.steps import steps
from tracetui.model.trace import Kind

RECORDED = ("device", "dtype", "seed", "cold", "warm_seconds", "shapes", "stack", "memory")
"""Recording options that two recordings should share; how the program was compiled is what is compared."""
THREADS = "threads"
"""A further such option, of the process."""


@dataclass(frozen=True)
class Traits:
    """Properties of a side."""

    name: str
    part_kind: str
    """Kind of the parts: `step`, `run` or `capture`."""
    parts: int
    verdict: str | None
    """The verdict on its median part; None where there is none."""
    compiled_parts: int
    """Number of parts in which torch.compile generated some of what ran (R3.51)."""
    graphs: bool
    """Whether CUDA graphs were launched."""
    devices: tuple[str, ...]
    """Names of the GPUs that ran something, where the file names them."""
    torch: str | None
    """Version, where the file says."""
    workload: str | None
    params: Mapping[str, str]
    """Parameters of the workload and recording options, as text."""
    operands: Mapping[str, str]
    """Digests of the weights and inputs, by name."""
    frames: bool
    """Whether Python frames were recorded."""
    cut: bool
    """Whether the file is truncated, or was read in part."""

    @property
    def compiled(self) -> bool:
        """Whether all parts are compiled."""
        return 0 < self.parts == self.compiled_parts


def traits(side: Side) -> Traits:
    """The properties of a side, found once."""
    return side.trace.remember(("traits", side.scope), lambda: _find(side))


def _find(side: Side) -> Traits:
    trace = side.trace
    about = trace.metadata.get("tracetui")
    about = about if isinstance(about, Mapping) else {}
    return Traits(
        side.name,
        side.part_kind,
        len(side),
        _verdict(side),
        _compiled_parts(side),
        bool(np.nansum(measures(side)["graph_launches"].values)),
        tuple(name for name in device_names(trace).values() if name in {device.name for device in trace.devices}),
        _text(about.get("torch")),
        _text(about.get("workload")),
        _params(about),
        _operands(about),
        bool((trace.slices.kind == Kind.PYTHON).any()),
        trace.quality.partial or trace.quality.is_part,
    )


def _verdict(side: Side) -> str | None:
    """The verdict on the trace for a capture, on the median step for steps; None for runs."""
    if side.part_kind == CAPTURE:
        whole = verdict(side.trace)
        return whole.words if whole else None
    if side.part_kind != STEP:
        return None
    mine = np.flatnonzero(np.isin(steps(side.trace).row, side.row))
    typical = typical_verdict(side.trace, mine.tolist())
    return typical.words if typical else None


def _compiled_parts(side: Side) -> int:
    side_calls, (rows, part) = calls(side), side.activities()
    keys = [index for index, key in enumerate(side_calls.keys) if key.kind == COMPILE or is_generated(key.name)]
    name = side.trace.slices.name[rows]
    names = [number for number in distinct(name).tolist() if is_generated(side.trace.names[number])]
    return len(np.union1d(side_calls.part[np.isin(side_calls.key, keys)], part[np.isin(name, names)]))


def _params(about: Mapping[str, Any]) -> dict[str, str]:
    params, options = (about.get(key) for key in ("params", "options"))
    found = dict(params) if isinstance(params, Mapping) else {}
    found |= {key: options[key] for key in RECORDED if key in options} if isinstance(options, Mapping) else {}
    if THREADS in about:
        found[THREADS] = about[THREADS]
    return {str(key): value if isinstance(value, str) else json.dumps(value) for key, value in found.items()}


def _operands(about: Mapping[str, Any]) -> dict[str, str]:
    found = about.get("operands")
    found = found if isinstance(found, Mapping) else {}
    return {str(name): digest for name, digest in found.items() if isinstance(digest, str)}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
