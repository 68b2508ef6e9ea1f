"""Tables of an export that are read, and the names of the arguments that their columns become.

Arguments have the names of Kineto's, so that what is shown of a kernel does not depend on the profiler.
"""

from __future__ import annotations

from typing import NamedTuple

KERNELS, COPIES, FILLS = (f"CUPTI_ACTIVITY_KIND_{each}" for each in ("KERNEL", "MEMCPY", "MEMSET"))
GRAPHS, CALLS, WAITS = (f"CUPTI_ACTIVITY_KIND_{each}" for each in ("GRAPH_TRACE", "RUNTIME", "SYNCHRONIZATION"))
NVTX, METRICS, MEMORY = "NVTX_EVENTS", "GPU_METRICS", "CUDA_GPU_MEMORY_USAGE_EVENTS"
STRINGS, PROCESSES, THREADS = "StringIds", "PROCESSES", "ThreadNames"
GPUS, CUDA_DEVICES, METRIC_NAMES = "TARGET_INFO_GPU", "TARGET_INFO_CUDA_DEVICE", "TARGET_INFO_GPU_METRICS"
SESSION, ANALYSIS, MACHINE = "TARGET_INFO_SESSION_START_TIME", "ANALYSIS_DETAILS", "TARGET_INFO_SYSTEM_ENV"
EXPORT, MEMORY_KINDS, DIAGNOSTICS = "META_DATA_EXPORT", "ENUM_CUDA_MEM_KIND", "DIAGNOSTIC_EVENT"


class CallTable(NamedTuple):
    """A table of calls on threads, of which only the name differs."""

    table: str
    category: str
    name: str = "nameId"
    """Column with the id of the name."""


CALL_TABLES = (
    CallTable("CUPTI_ACTIVITY_KIND_OVERHEAD", "overhead"),
    CallTable("PROFILER_OVERHEAD", "overhead"),
    CallTable("OSRT_API", "os_runtime"),
    CallTable("CUDNN_EVENTS", "cudnn"),
    CallTable("CUBLAS_EVENTS", "cublas"),
    CallTable("MPI_P2P_EVENTS", "mpi", "textId"),
    CallTable("MPI_START_WAIT_EVENTS", "mpi", "textId"),
    CallTable("MPI_COLLECTIVES_EVENTS", "mpi", "textId"),
    CallTable("MPI_OTHER_EVENTS", "mpi", "textId"),
)
EVENT_TABLES = (
    KERNELS,
    GRAPHS,
    COPIES,
    FILLS,
    CALLS,
    WAITS,
    NVTX,
    METRICS,
    MEMORY,
    *(each.table for each in CALL_TABLES),
)
"""Tables with a row for each event."""
TABLES = (
    *(*EVENT_TABLES, STRINGS, PROCESSES, THREADS, GPUS, CUDA_DEVICES, METRIC_NAMES, SESSION, ANALYSIS, MACHINE),
    *(EXPORT, MEMORY_KINDS, DIAGNOSTICS),
)
"""All tables that are read."""

_PLACE = {"device": "deviceId", "context": "contextId", "stream": "streamId", "correlation": "correlationId"}
_NODE = {"graph node id": "graphNodeId", "graph id": "graphId"}
_CALL: dict[str, str | tuple[str, ...]] = {"correlation": "correlationId", "return value": "returnValue"}
ARGUMENTS: dict[str, dict[str, str | tuple[str, ...]]] = {
    KERNELS: {
        **_PLACE,
        "grid": ("gridX", "gridY", "gridZ"),
        "block": ("blockX", "blockY", "blockZ"),
        "cluster": ("clusterX", "clusterY", "clusterZ"),
        "registers per thread": "registersPerThread",
        "static shared memory": "staticSharedMemory",
        "dynamic shared memory": "dynamicSharedMemory",
        "local memory per thread": "localMemoryPerThread",
        **_NODE,
    },
    GRAPHS: {**_PLACE, "graph id": "graphId", "executable graph id": "graphExecId"},
    COPIES: {
        **_PLACE,
        "bytes": "bytes",
        "source device": "srcDeviceId",
        "destination device": "dstDeviceId",
        "copies": "copyCount",
        **_NODE,
    },
    FILLS: {**_PLACE, "bytes": "bytes", "value": "value", **_NODE},
    CALLS: _CALL,
    WAITS: {**_PLACE, "event": "eventId"},
    NVTX: {
        "text": "text",
        "category": "category",
        "domain": "domainId",
        "range": "rangeId",
        "unsigned payload": "uint64Value",
        "signed payload": "int64Value",
        "double payload": "doubleValue",
        "payload": "jsonText",
    },
    METRICS: {"value": "value", "metric": "metricId"},
    MEMORY: {**_PLACE, "bytes": "bytes", "address": "address", "operation": "memoryOperationType"},
    "OSRT_API": {"return value": "returnValue", "nesting level": "nestingLevel"},
    **{each.table: {"correlation": "correlationId"} for each in CALL_TABLES if each.table != "OSRT_API"},
}
"""The columns of each argument; of three columns it is a list, of one with nothing in it there is none."""
ABSENT_AT_ZERO = {"graph node id", "graph id", "cluster"}
"""Arguments for which 0 stands where there is nothing."""
