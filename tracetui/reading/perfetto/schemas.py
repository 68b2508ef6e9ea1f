"""The messages of a Perfetto trace as far as they are read: which fields, by their numbers.

The names are those of `perfetto/trace/*.proto`; field numbers of a message stand in a class of its name.
"""

from __future__ import annotations

from tracetui.reading.perfetto.wire import Schema


class PacketField:
    """Fields of a TracePacket."""

    FTRACE = 1
    PROCESS_TREE = 2
    CLOCK_SNAPSHOT = 6
    TIMESTAMP = 8
    SEQUENCE = 10
    TRACK_EVENT = 11
    INTERNED_DATA = 12
    SEQUENCE_FLAGS = 13
    STATE_CLEARED = 41
    PACKET_DROPPED = 42
    PROCESS_DESCRIPTOR = 43
    THREAD_DESCRIPTOR = 44
    ZLIB_PACKETS = 50
    GPU_COUNTER_EVENT = 52
    GPU_RENDER_STAGE = 53
    CLOCK_ID = 58
    DEFAULTS = 59
    TRACK_DESCRIPTOR = 60
    ZSTD_PACKETS = 133


class EventField:
    """Fields of a TrackEvent."""

    CATEGORY_IIDS = 3
    ANNOTATIONS = 4
    LEGACY = 6
    TYPE = 9
    NAME_IID = 10
    TRACK_UUID = 11
    CATEGORIES = 22
    NAME = 23
    COUNTER = 30
    OLD_FLOWS = 36
    OLD_LAST_FLOWS = 42
    DOUBLE_COUNTER = 44
    FLOWS = 47
    LAST_FLOWS = 48
    CORRELATION = 52
    CORRELATION_TEXT = 53
    CORRELATION_IID = 54
    GPU_CORRELATION = 3000


class LegacyField:
    """Fields of a LegacyEvent: an event as JSON has it."""

    NAME_IID = 1
    PHASE = 2
    DURATION_US = 3
    UNSCOPED_ID = 6
    ID_SCOPE = 7
    LOCAL_ID = 10
    GLOBAL_ID = 11
    INSTANT_SCOPE = 14
    PID = 18
    TID = 19


class AnnotationField:
    """Fields of a DebugAnnotation."""

    NAME_IID = 1
    BOOL = 2
    UINT = 3
    INT = 4
    DOUBLE = 5
    TEXT = 6
    POINTER = 7
    NESTED = 8
    LEGACY_JSON = 9
    NAME = 10
    DICT = 11
    ARRAY = 12
    TEXT_IID = 17


class InternedField:
    """Fields of InternedData."""

    CATEGORIES = 1
    EVENT_NAMES = 2
    ANNOTATION_NAMES = 3
    GPU_SPECIFICATIONS = 24
    TEXT_VALUES = 29
    CORRELATIONS = 43
    COUNTER_DESCRIPTORS = 47
    KERNELS = 1000
    ARG_NAMES = 1001


class StageField:
    """Fields of a GpuRenderStageEvent."""

    EVENT_ID = 1
    DURATION = 2
    QUEUE_NUMBER = 3
    STAGE_NUMBER = 4
    EXTRA_DATA = 6
    SPECIFICATIONS = 7
    GPU = 11
    QUEUE_IID = 13
    STAGE_IID = 14
    NAME = 17
    EVENT_WAIT_IDS = 18
    KERNEL_IID = 19
    NAME_IID = 20
    LAUNCH = 21


BEGIN, END, INSTANT, COUNTER, STATE = range(1, 6)
"""Types of track events."""

PACKET = Schema(
    numbers=(
        PacketField.TIMESTAMP,
        PacketField.SEQUENCE,
        PacketField.SEQUENCE_FLAGS,
        PacketField.STATE_CLEARED,
        PacketField.PACKET_DROPPED,
        PacketField.CLOCK_ID,
    ),
    spans=(
        PacketField.PROCESS_TREE,
        PacketField.PROCESS_DESCRIPTOR,
        PacketField.THREAD_DESCRIPTOR,
        PacketField.DEFAULTS,
        PacketField.ZLIB_PACKETS,
        PacketField.ZSTD_PACKETS,
        PacketField.TRACK_EVENT,
        PacketField.INTERNED_DATA,
        PacketField.CLOCK_SNAPSHOT,
        PacketField.TRACK_DESCRIPTOR,
        PacketField.GPU_RENDER_STAGE,
        PacketField.GPU_COUNTER_EVENT,
    ),
)
TRACK_EVENT = Schema(
    numbers=(
        EventField.TYPE,
        EventField.TRACK_UUID,
        EventField.NAME_IID,
        EventField.COUNTER,
        EventField.DOUBLE_COUNTER,
        EventField.CORRELATION,
        EventField.CORRELATION_IID,
    ),
    spans=(EventField.NAME, EventField.LEGACY, EventField.CORRELATION_TEXT, EventField.GPU_CORRELATION),
    repeated=(EventField.ANNOTATIONS, EventField.CATEGORIES),
    lists=(
        EventField.CATEGORY_IIDS,
        EventField.FLOWS,
        EventField.LAST_FLOWS,
        EventField.OLD_FLOWS,
        EventField.OLD_LAST_FLOWS,
    ),
)
LEGACY_EVENT = Schema(
    numbers=(
        LegacyField.NAME_IID,
        LegacyField.PHASE,
        LegacyField.DURATION_US,
        LegacyField.UNSCOPED_ID,
        LegacyField.LOCAL_ID,
        LegacyField.GLOBAL_ID,
        LegacyField.INSTANT_SCOPE,
        LegacyField.PID,
        LegacyField.TID,
    ),
    spans=(LegacyField.ID_SCOPE,),
)
GPU_CORRELATION = Schema(lists=(1,))
ANNOTATION = Schema(
    numbers=(AnnotationField.INT, AnnotationField.UINT, AnnotationField.DOUBLE),
    spans=(AnnotationField.NAME,),
)
INTERNED_DATA = Schema(
    repeated=(
        InternedField.CATEGORIES,
        InternedField.EVENT_NAMES,
        InternedField.ANNOTATION_NAMES,
        InternedField.TEXT_VALUES,
        InternedField.CORRELATIONS,
        InternedField.GPU_SPECIFICATIONS,
        InternedField.COUNTER_DESCRIPTORS,
        InternedField.KERNELS,
        InternedField.ARG_NAMES,
    )
)
RENDER_STAGE = Schema(
    numbers=(
        StageField.EVENT_ID,
        StageField.DURATION,
        StageField.GPU,
        StageField.QUEUE_IID,
        StageField.STAGE_IID,
        StageField.QUEUE_NUMBER,
        StageField.STAGE_NUMBER,
        StageField.NAME_IID,
        StageField.KERNEL_IID,
    ),
    spans=(StageField.LAUNCH, StageField.NAME, StageField.SPECIFICATIONS),
    repeated=(StageField.EXTRA_DATA,),
    lists=(StageField.EVENT_WAIT_IDS,),
)
EXTRA_DATA = Schema(spans=(1, 2))
"""Name and value."""
LAUNCH = Schema(spans=(1, 2), repeated=(3,))
"""Grid, block and the kernel's figures."""
LAUNCH_ARG = Schema(numbers=(1, 4))
"""Number of the name, and value."""
GPU_COUNTER_EVENT = Schema(numbers=(3, 4), spans=(1,), repeated=(2,))
"""The GPU, the number of the descriptor, a descriptor, and samples."""
COUNTER_SAMPLE = Schema(numbers=(1, 2, 3))
"""Id of the counter, and value: whole, or the bits of a floating point number."""
