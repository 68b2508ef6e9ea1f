"""What the format of a file cannot hold, so that it is absent whatever was recorded."""

from __future__ import annotations

from enum import Enum, auto


class Loss(Enum):
    """One thing that a format leaves out or changes."""

    MEMORY_EVENTS = auto()
    """Events of the allocator."""
    DEVICE_PROPERTIES = auto()
    """Names and properties of devices."""
    HEADER = auto()
    """Rank, world size, versions and options of the profiler."""
    FORWARD_ARROWS = auto()
    """Arrows from operators of the forward pass to those of the backward pass."""
    COPY_DIRECTIONS = auto()
    """Direction of copies and the kind of memory on each side."""
    STATIC_SHARED_MEMORY = auto()
    """The part of a kernel's shared memory that is known when it is compiled."""
    OCCUPANCY_ESTIMATES = auto()
    """The profiler's own estimate of a kernel's occupancy, and the operator's id on GPU activity."""
    FREQUENT_CALLS = auto()
    """Frequent runtime calls that launch nothing, and most driver calls."""
    STREAM_OVERLAPS = auto()
    """Activities of one stream that overlap: each is cut where the next begins."""
    ANNOTATION_TIMES = auto()
    """Annotations of the GPU as they were recorded: they are made anew, a nanosecond wider at each end."""
    GPU_PROCESSES = auto()
    """Processes of GPU activity: those given are of the program that wrote the file."""


TORCH_PFTRACE = frozenset(Loss)
"""What torch's encoder of Perfetto files leaves out."""
