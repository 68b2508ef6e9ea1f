"""Which lane an event belongs on, and what the lanes are called and in which order they stand.

A lane is a process, a thread and a kind of lane. Process and thread are compared as text, because one file may
write the same thread as `"25738"` and as `25738`; the kind comes from the categories on it, because a process id
may be a device index as well (R2.3).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from tracetui.model.rank_process import rank_of_process
from tracetui.model.trace import LaneKind
from tracetui.model.whole_numbers import number_name
from tracetui.reading.decode import text_of

_STREAM = re.compile(r"stream (\d+)$")
_GENERIC_THREAD = re.compile(r"thread -?\d+( \((python\d*(\.\d+)?|pt_main_thread)?\))?$")

LaneKey = tuple[str, str, LaneKind]

_ORDER = {
    LaneKind.CPU: 0,
    LaneKind.ASYNC: 1,
    LaneKind.OVERHEAD: 2,
    LaneKind.GPU_ANNOTATION: 3,
    LaneKind.GPU: 3,
    LaneKind.SYNC: 3,
    LaneKind.BOOKKEEPING: 4,
}
_ON_DEVICE = (LaneKind.GPU_ANNOTATION, LaneKind.GPU, LaneKind.SYNC)


def lane_text(value: Any) -> str:
    """A process or thread id as text; `7`, `7.0`, `"7"` and `"stream 7"` are the same."""
    if type(value) is int:
        return str(value)
    if value is None:
        return "0"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else number_name(value) if not isfinite(value) else repr(value)
    text = value.strip() if isinstance(value, str) else text_of(value)
    stream = _STREAM.match(text)
    return stream[1] if stream else text


@dataclass
class Naming:
    """What metadata events say about processes and threads (section 1.4)."""

    process: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    process_order: dict[str, float] = field(default_factory=dict)
    thread: dict[tuple[str, str], str] = field(default_factory=dict)
    thread_order: dict[tuple[str, str], float] = field(default_factory=dict)

    def read(self, pid: Any, tid: Any, name: str, args: Mapping[str, Any]) -> None:
        """Take in one metadata event."""
        process, thread = lane_text(pid), (lane_text(pid), lane_text(tid))
        text = args.get("name")
        if name == "process_name" and isinstance(text, str):
            self.process[process] = text.strip()
        elif name == "process_labels" and isinstance(args.get("labels"), str):
            self.labels[process] = args["labels"].strip()
        elif name == "process_sort_index" and isinstance(args.get("sort_index"), (int, float)):
            self.process_order[process] = args["sort_index"]
        elif name == "thread_sort_index" and isinstance(args.get("sort_index"), (int, float)):
            self.thread_order[thread] = args["sort_index"]
        elif name == "thread_name" and isinstance(text, str):
            self._name_thread(thread, text.strip().removesuffix(" ()"))

    def _name_thread(self, thread: tuple[str, str], text: str) -> None:
        known = self.thread.get(thread)
        if known is None or _GENERIC_THREAD.match(known) or not _GENERIC_THREAD.match(text):
            self.thread[thread] = text

    def lane_name(self, key: LaneKey) -> str:
        """The lane's own name; never empty."""
        pid, tid, kind = key
        if kind in _ON_DEVICE:
            name = self.thread.get((pid, tid), "").removesuffix("context").strip()
            if not name or _GENERIC_THREAD.match(name):
                name = f"stream {tid}" if tid.lstrip("-").isdigit() else tid
            return f"{name} annotations" if kind is LaneKind.GPU_ANNOTATION else name
        if kind is LaneKind.ASYNC:
            return tid or "async"
        return self.thread.get((pid, tid)) or (f"thread {tid}" if tid.lstrip("-").isdigit() else tid) or "thread"

    def process_name(self, key: LaneKey) -> str:
        """The name of the lane's process, with its id or label."""
        pid, _, kind = key
        label, name = self.labels.get(pid, ""), self.process.get(pid, "")
        if rank_of_process(name) is not None:
            # It holds the id or the label that it had in the file of its rank.
            return name
        if kind in _ON_DEVICE:
            return label if label.startswith(("GPU", "XPU", "MTIA")) else f"GPU {pid}"
        if kind is LaneKind.OVERHEAD:
            return name or "profiler"
        if not pid.lstrip("-").isdigit():
            return name or pid or "process"
        return f"{name or 'process'} {pid}"

    def sort_key(self, key: LaneKey) -> tuple[Any, ...]:
        """Orders lanes as a person reads them: rank by rank, then threads, then the profiler's own, then devices."""
        pid, tid, kind = key
        rank = rank_of_process(self.process.get(pid, ""))
        return (
            float("inf") if kind is LaneKind.BOOKKEEPING else -1 if rank is None else rank,
            _ORDER[kind],
            self.process_order.get(pid, 0),
            _natural(pid),
            self.thread_order.get((pid, tid), 0) if tid != pid else float("-inf"),
            _natural(tid),
            # Annotations stand above the stream that they describe.
            -kind if kind is LaneKind.GPU_ANNOTATION else kind,
        )


def _natural(text: str) -> list[tuple[bool, int, str]]:
    """Sorts numbers inside texts as numbers, and pure numbers first."""
    if text.lstrip("-").isdecimal():
        return [(False, int(text), "")]
    parts = re.split(r"(\d{1,18})", text)
    return [(True, int(part) if part.isdecimal() else 0, part) for part in parts]


class LaneTable:
    """Numbers lanes as they turn up, and finds the one that an event without a kind of its own means."""

    def __init__(self) -> None:
        self.keys: list[LaneKey] = []
        self._numbers: dict[LaneKey, int] = {}

    def number(self, key: LaneKey) -> int:
        """The number of a lane, which is added when it is new."""
        if key not in self._numbers:
            self._numbers[key] = len(self.keys)
            self.keys.append(key)
        return self._numbers[key]

    def nearest(self, pid: Any, tid: Any, prefer: LaneKind = LaneKind.CPU) -> int:
        """The lane of a process and thread: of the preferred kind, else any that exists, else a new one."""
        process, thread = lane_text(pid), lane_text(tid)
        for kind in (
            prefer,
            LaneKind.CPU,
            LaneKind.GPU,
            LaneKind.SYNC,
            LaneKind.GPU_ANNOTATION,
            LaneKind.OVERHEAD,
            LaneKind.ASYNC,
        ):
            found = self._numbers.get((process, thread, kind))
            if found is not None:
                return found
        return self.number((process, thread, prefer))
