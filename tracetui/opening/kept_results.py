"""Which results of analyses are kept with a trace: those that the first picture needs, and that take long to find.

They must rest on the file alone. Where the user has chosen steps, a device or captures of graphs, nothing is kept, and
of what was kept only that is taken which none of these changes.
"""

from __future__ import annotations

from typing import Any

from tracetui.devices.descriptions import ALL_DEVICES
from tracetui.devices.kernel_work import KernelWork
from tracetui.devices.roofline import Roofline
from tracetui.errors import AnalysisFailed
from tracetui.health.checks import Doubt
from tracetui.idle.cause_words import Cause
from tracetui.idle.exposure import Exposure
from tracetui.idle.gpu_spans import GpuSpans
from tracetui.idle.idleness import DeviceOrder, Idleness
from tracetui.idle.verdict import Verdict
from tracetui.idle.waits import Queueing
from tracetui.linking.autograd import Autograd
from tracetui.linking.captures import Captures
from tracetui.linking.frames import Frames, ModulePaths
from tracetui.linking.graph_dependencies import Dependencies
from tracetui.linking.graph_nodes import GraphMatch, GraphNodes
from tracetui.linking.lanes import LaneNumbers
from tracetui.linking.links import Links
from tracetui.linking.recorded_steps import NamedSteps, ProfilerSteps
from tracetui.linking.replays import Replays
from tracetui.linking.step_kinds import StepKinds
from tracetui.linking.step_names import StepName
from tracetui.linking.steps import Steps
from tracetui.memory.allocator import Allocator
from tracetui.model.graph_recording import GraphRecording
from tracetui.model.time_range import TimeRange
from tracetui.model.trace import Trace

RESULT_CLASSES = (
    *(Allocator, Autograd, Captures, Cause, Dependencies, DeviceOrder, Doubt, Exposure, Frames, GpuSpans, GraphMatch),
    *(GraphNodes, GraphRecording, Idleness, KernelWork, LaneNumbers, Links, ModulePaths, NamedSteps, ProfilerSteps),
    *(Queueing, Replays, Roofline, StepKinds, StepName, Steps, Verdict),
)
"""Classes of the results."""
_OF_THE_FILE = frozenset(
    {
        "autograd",
        "calls named",
        "captures",
        "disorderly lanes",
        "frames",
        "lane numbers",
        "links",
        "module paths",
        "op rows",
        "profiler steps",
        "replays",
    }
)
"""The words under which a trace remembers results that nothing changes, whatever the user chooses."""
_AS_RECORDED = frozenset(
    {
        "GPU activities by step",
        "active streams",
        "activity counts",
        "activities past others",
        "allocator",
        "asynchronous",
        "clock skew",
        "counts",
        "device order",
        "doubtful checks",
        "doubt",
        "exposure",
        "flush",
        "functions",
        "gaps before",
        "graph dependencies",
        "graph nodes",
        "has graph marks",
        "idle rows",
        "idleness",
        "kernel devices",
        "kernel work",
        "launches of activities",
        "memory curves",
        "named steps",
        "names of steps",
        "names with one step",
        "parsed shapes",
        "partial steps",
        "picture",
        "queueing",
        "roofline",
        "step exposure",
        "step kinds",
        "step spans",
        "step verdicts",
        "steps",
        "steps of GPU work",
        "trace span",
        "verdict",
        "view rows",
    }
)
"""The words of other results."""


def kept_results(trace: Trace) -> dict[Any, Any]:
    """The results to keep that are known by now."""
    if not is_as_recorded(trace):
        return {}
    # Another thread may add to them meanwhile.
    known = list(trace.cache.items())
    wanted = _OF_THE_FILE | _AS_RECORDED
    return {
        key: result
        for key, result in known
        if _word(key) in wanted and not _is_of_range(key) and not isinstance(result, AnalysisFailed)
    }


def of_the_file(results: dict[Any, Any]) -> dict[Any, Any]:
    """The results among those kept that nothing changes."""
    return {key: result for key, result in results.items() if _word(key) in _OF_THE_FILE}


def is_as_recorded(trace: Trace) -> bool:
    """Whether a trace is what the file says and nothing else."""
    return (
        trace.chosen_steps is None
        and not trace.graph_recordings
        and not trace.graph_scopes
        and all(device.id != ALL_DEVICES for device in trace.devices)
    )


def _is_of_range(key: Any) -> bool:
    """Whether a result is about a range of time that the user has drawn."""
    return isinstance(key, tuple) and any(isinstance(part, TimeRange) for part in key)


def _word(key: Any) -> Any:
    return key[0] if isinstance(key, tuple) else key
