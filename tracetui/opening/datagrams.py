"""The datagrams between Kineto, the recorder inside a PyTorch process, and the program that asks it for traces.

A process that was started with KINETO_USE_DAEMON=1 sends one about every five seconds and takes its answer for the
configuration of a trace; an empty one means that none is wanted. It waits 50 ms for the answer and looks for it again
with the next question. The structures are those of libkineto's `ipcfabric`, in the machine's byte order: a size, a type
of 32 bytes, then the content. Nothing here opens a socket.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

SERVER_NAME = "dynolog"
"""The name under which Kineto looks for the program that it asks."""
POLL_SECONDS = 5.0
"""Seconds between two questions of a process."""

_HEADER = struct.Struct("=Q32s")
_CONTENT = struct.Struct("=iiq")
"""Of a registration: GPU, process id, job id. Of a question: kinds of recordings, number of process ids, job id."""
_ACTIVITIES = 2
"""The bit of the kinds of recordings that stands for traces: it is missing while one is being taken."""
_MAX_ANCESTORS = 1024


@dataclass(frozen=True, slots=True)
class Registration:
    """A process with a GPU says that it is there."""

    pid: int
    """The process id as the process itself knows it, which another namespace numbers differently."""


@dataclass(frozen=True, slots=True)
class Question:
    """A process asks whether a trace of it is wanted."""

    pid: int
    """As in a registration."""
    is_free: bool
    """Whether it could take one: false while it is taking a trace already."""


def read_datagram(data: bytes) -> Registration | Question | None:
    """What a process says; None for bytes that are no such datagram."""
    if len(data) < _HEADER.size + _CONTENT.size:
        return None
    size, padded = _HEADER.unpack_from(data)
    content = data[_HEADER.size :]
    if size != len(content):
        return None
    first, second, _ = _CONTENT.unpack_from(content)
    match padded.partition(b"\0")[0]:
        case b"ctxt":
            return Registration(second)
        case b"req" if 0 < second <= _MAX_ANCESTORS and size == _CONTENT.size + 4 * second:
            # Its own process id stands before those of its ancestors.
            (pid,) = struct.unpack_from("=i", content, _CONTENT.size)
            return Question(pid, bool(first & _ACTIVITIES))
    return None


def answer_to(message: Registration | Question, configuration: str = "") -> bytes:
    """The datagram that answers: for a registration how many processes there are, else a configuration or nothing."""
    if isinstance(message, Registration):
        return _HEADER.pack(4, b"ctxt") + struct.pack("=i", 1)
    content = configuration.encode()
    return _HEADER.pack(len(content), b"req") + content
