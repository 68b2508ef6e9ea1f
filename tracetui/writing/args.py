"""Arguments and metadata without what is a user's own: which keys stay, and which values.

Numbers, shapes and types stay. Every other argument, and all metadata that is not listed here, is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tracetui.reading.decode import decoded
from tracetui.writing.public_names import is_public_text

_ARGUMENTS = """
    External id|external id|correlation|device|context|stream|queued|priority|channel|channel_type|cbid|cid|kind
    Op count
    grid|block|registers per thread|shared memory|blocks per SM|warps per SM|est. achieved occupancy %|occupancy
    bytes|size|memory bandwidth (GB/s)|fromDevice|inDevice|toDevice|fromContext|inContext|toContext|src|dst|ptr
    hsa_queue
    Input Dims|Input dims|Input Strides|Input type|Concrete Inputs|Sequence number|Fwd thread id|Ev Idx
    Record function id|Profiler Event Index|Trace iteration|finished|Python id|Python parent id|Python module id
    Python thread|Device Type|Device Id|Addr|Bytes|Total Allocated|Total Reserved|graph id|graph node id
    original_stream|annotated_stream
    cuda_sync_kind|wait_on_stream|wait_on_cuda_event_record_corr_id|wait_on_cuda_event_id|event_id
    num_warps|num_stages|Collective name|dtype|In msg nelems|Out msg nelems|Group size|In split size|Out split size
    Rank|Src Rank|Dst Rank|Seq|Global rank start|Global rank stride|Is asynchronized op
"""
ARGUMENTS = frozenset(key.strip() for line in _ARGUMENTS.strip().splitlines() for key in line.split("|"))
"""Arguments that stay."""
KERNEL = "kernel"
"""The argument in which a launch call of ROCm names its kernel."""

_FLAG_TEXT = """
    schemaVersion cupti_version cuda_runtime_version cuda_driver_version hip_runtime_version hip_driver_version
    roctracer_version rocprofiler_version with_stack with_flops with_modules record_shapes profile_memory
    baseTimeNanoseconds
"""
_FLAGS = frozenset(_FLAG_TEXT.split())
_RANKS = frozenset({"rank", "world_size", "pg_count"})

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


def anonymous_args(raw: bytes, stand_in: Callable[[str], str], kernel_name: Callable[[str], str]) -> bytes:
    """The arguments of an event that may stay; those that are numbers are the bytes that they were."""
    try:
        fields = _fields.decode(raw)
    except msgspec.MsgspecError:
        return b"{}"
    shown: dict[str, Any] = {}
    for key, value in fields.items():
        if key in ARGUMENTS:
            shown[key] = value if b'"' not in bytes(value) else _anonymous_value(key, decoded(bytes(value)), stand_in)
        elif key == KERNEL:
            name = decoded(bytes(value))
            if isinstance(name, str):
                shown[key] = kernel_name(name)
    return msgspec.json.encode(shown)


def _anonymous_value(key: str, value: Any, stand_in: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return value if is_public_text(value) else stand_in(value)
    if isinstance(value, list):
        return [_anonymous_value(key, item, stand_in) for item in value]
    if isinstance(value, dict):
        # The only argument with keys of its own that the profiler writes.
        return (
            {name: _anonymous_value("", item, stand_in) for name, item in value.items()} if key == "occupancy" else {}
        )
    return value


def anonymous_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The keys beside the events that may stay: what was recorded with, and the devices."""
    shown = {key: value for key, value in metadata.items() if key in _FLAGS and is_number(value)}
    devices = metadata.get("deviceProperties")
    if isinstance(devices, list):
        shown["deviceProperties"] = [_device(entry) for entry in devices if isinstance(entry, dict)]
    if metadata.get("displayTimeUnit") in ("ms", "ns"):
        shown["displayTimeUnit"] = metadata["displayTimeUnit"]
    ranks = metadata.get("distributedInfo")
    if isinstance(ranks, dict):
        kept = {key: value for key, value in ranks.items() if key in _RANKS and is_number(value)}
        if ranks.get("backend") in ("nccl", "gloo", "mpi", "ucc"):
            kept["backend"] = ranks["backend"]
        shown["distributedInfo"] = kept
    return shown


def _device(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key in ("name", "vendor") or is_number(value)}


def is_number(value: Any) -> bool:
    """Whether a value of JSON is one, or true or false."""
    return isinstance(value, (int, float))
