"""Rules that could not be run on a trace, because what they judge by was not recorded."""

from __future__ import annotations

from collections.abc import Iterator

from tracetui.devices.descriptions import device_index
from tracetui.devices.generation import generation
from tracetui.devices.limits import peaks_of, units_of
from tracetui.findings.finding import Finding, Severity
from tracetui.findings.precision import fp32_rows
from tracetui.findings.scope import Scope
from tracetui.model.quantities import counted

NO_SHAPES = "no shapes of inputs were recorded (record_shapes=True)"
NO_DEVICE = "the file does not describe the GPU (--device names it)"
NO_PEAKS = "the peak rates of this GPU are not known"
ADVICE = {
    NO_SHAPES: "Record with record_shapes=True.",
    NO_DEVICE: "Name the GPU with --device.",
    NO_PEAKS: "Name one like it with --device.",
}
SUBJECTS = {
    "uneven-kernels": "calls that take longer than their like",
    "far-from-roofline": "distance from the limits of the GPU",
    "small-batch-products": "products of few rows",
    "gather": "weights copied per token",
    "batchable-products": "products that could be one",
    "low-waves": "grids smaller than the GPU",
    "fp32-math": "precision of products",
}
"""What each of these rules is about."""
NEEDING_SHAPES = ("uneven-kernels", "far-from-roofline", "small-batch-products", "gather", "batchable-products")
"""Rules that compare calls with equal shapes, or compute work from shapes."""


def unjudged(scope: Scope) -> list[tuple[str, str]]:
    """Rules about GPU activity that could not be run, each with the reason; empty in a trace without kernels."""
    if len(scope.computing) == 0:
        return []
    has_shapes = scope.program.has_shapes
    reasons = [] if has_shapes else [(rule, NO_SHAPES) for rule in NEEDING_SHAPES]
    if len(fp32_rows(scope)) and generation(scope.trace).has_fp16_tensor_cores is None:
        reasons.append(("fp32-math", NO_DEVICE))
    return reasons + _lacking_device(scope, has_shapes)


def _lacking_device(scope: Scope, has_shapes: bool) -> list[tuple[str, str]]:
    """Rules that need to know the number of multiprocessors or the peak rates of the GPU."""
    trace = scope.trace
    used = set(device_index(trace, scope.computing).tolist())
    devices = [trace.devices[index] for index in used if index >= 0]
    is_described = -1 not in used
    lacking = [] if is_described and all(map(units_of, devices)) else [("low-waves", NO_DEVICE)]
    if has_shapes and not (is_described and all(map(peaks_of, devices))):
        reason = NO_PEAKS if is_described and not lacking else NO_DEVICE
        lacking += [("far-from-roofline", reason), ("small-batch-products", reason)]
    return lacking


def not_judged(scope: Scope) -> Iterator[Finding]:
    """Rules that could not be run on this trace, and why, in one note."""
    missing = unjudged(scope)
    if not missing:
        return
    reasons = list(dict.fromkeys(reason for _, reason in missing))
    lists = [", ".join(SUBJECTS.get(rule, rule) for rule, why in missing if why == reason) for reason in reasons]
    if len(reasons) > 1:
        lists = [f"{subjects}: {reason}" for subjects, reason in zip(lists, reasons, strict=True)]
    yield Finding(
        "not-judged",
        Severity.NOTE,
        f"{counted(len({rule for rule, _ in missing}), 'rule')} could not be run: {', and '.join(reasons)}",
        "; ".join(lists),
        " ".join(ADVICE[reason] for reason in reasons),
        int(scope.computing[0]),
    )
