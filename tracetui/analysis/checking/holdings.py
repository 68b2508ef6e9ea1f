"""What a side does not hold, and why: the sentence that an assertion fails with, which says how to record it."""

from __future__ import annotations

from tracetui.analysis.comparing.sides.side import CAPTURE, STEP, Side
from tracetui.analysis.linking.links import links, no_gpu, op_rows
from tracetui.model.trace import Kind

NO_OPS = "There are no operators in it. Record with activities=[ProfilerActivity.CPU, ...]."
NO_SHAPES = "The shapes of the operators behind its GPU work are not known. Record with record_shapes=True."
UNLAUNCHED = (
    "No GPU activity of it has a launch record, so that none belongs to a {part}. Record with "
    "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], or look at the whole capture: TRACE#all."
)


def lacks_gpu(side: Side) -> str:
    """Why nothing is known of the GPU's work in the parts of a side; empty where something is."""
    found = links(side.trace)
    if len(found.gpu) == 0 or side.sort == CAPTURE or len(found.launches):
        return no_gpu(side.trace)
    return UNLAUNCHED.format(part=side.sort)


def lacks_calls(side: Side) -> str:
    """Why nothing is known of calls of the runtime; empty where they were recorded."""
    recorded = len(side.trace.slices.of_kind(Kind.RUNTIME)) or len(links(side.trace).gpu)
    return "" if recorded else no_gpu(side.trace)


def lacks_ops(side: Side) -> str:
    """Why nothing is known of operators; empty where some were recorded."""
    return "" if len(op_rows(side.trace)) else NO_OPS


def whole_or_step(side: Side) -> tuple[int | None, str]:
    """The step that a pane of a trace is asked of, None for the whole; or why it cannot be asked of these parts."""
    if side.scope == "" or side.sort == CAPTURE:
        return None, ""
    if side.sort == STEP and side.scope.isdigit():
        return int(side.scope), ""
    return None, f"It is known of the whole trace and of one step, and not of #{side.scope}."


def parts_of(side: Side) -> str:
    """What the parts of a side are, in words: `5 steps`, `1 run`, `the capture`."""
    if side.sort == CAPTURE:
        return "the capture"
    return f"{len(side):,} {side.sort}{'' if len(side) == 1 else 's'}"
