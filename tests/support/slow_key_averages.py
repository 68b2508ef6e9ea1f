"""torch's `key_averages()` from the events of a file, one object per event, rule by rule (3(d)).

Written after `torch/autograd/profiler.py` and `profiler_util.py` of torch 2.13, and sharing nothing with the analyses.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.slow import slow_events, slow_nesting

OPS = {"cpu_op", "operator"}
ANNOTATIONS = {"user_annotation", "gpu_user_annotation"}
WORK = {"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"}
DEVICE = WORK | {"gpu_user_annotation", "cuda_sync", "cuda_event"}
CALLS = {"cuda_runtime", "cuda_driver", "runtime"}
CPU = OPS | CALLS | {"user_annotation", "overhead"}
DROPPED = {
    "[memory]",
    "[OutOfMemory]",
    "profiler::_record_function_enter",
    "profiler::_record_function_enter_new",
    "profiler::_record_function_exit",
    "aten::is_leaf",
    "aten::output_nr",
    "aten::_version",
}


@dataclass(eq=False)
class Event:
    """One event as torch holds it; times in ns."""

    name: str
    category: str
    thread: tuple[str, str]
    start: int
    end: int
    id: int
    linked: int
    shapes: str
    parent: Event | None = None
    children: list[Event] = field(default_factory=list)
    kernels: list[int] = field(default_factory=list)

    @property
    def on_device(self) -> bool:
        return self.category in DEVICE

    @property
    def asynchronous(self) -> bool:
        return self.category == "user_annotation" and self.name.startswith(("nccl:", "gloo:"))

    @property
    def total(self) -> int:
        return 0 if self.on_device else self.end - self.start

    @property
    def own(self) -> int:
        if self.asynchronous:
            return 0
        return self.total - sum(child.total for child in self.children)

    def device(self) -> int:
        if self.on_device:
            return self.end - self.start
        return sum(self.kernels) + sum(child.device() for child in self.children)

    def own_device(self) -> int:
        return self.device() - sum(child.device() for child in self.children)


Row = tuple[int, int, int, int, int]
"""Calls, self CPU, CPU total, self device, device total."""


@dataclass
class SlowTable:
    """Rows by (name, on a device, annotation, shapes), in torch's order, and the sums below them in ns."""

    rows: dict[tuple[str, bool, bool, str], Row]
    self_cpu: int
    self_device: int


def slow_key_averages(path: Path, frames: bool = False, by_shape: bool = False) -> SlowTable:
    """The table of a file written by the PyTorch profiler."""
    raw = slow_events(path)
    wanted = CPU | DEVICE | ({"python_function"} if frames else set())
    slices = [event for event in raw if event.get("ph") == "X" and event.get("cat", "").lower() in wanted]
    trusted = _names_ops(slices)
    events = _read(slices, _links(slices) if trusted else _links_by_containment(slices))
    front = {event.id: event for event in events if event.category in OPS | {"user_annotation"} and event.id > 0}
    home = _home(events)
    for event in events:
        owner = front.get(event.linked)
        if event.category in CALLS and owner is not None:
            event.thread = owner.thread
        elif event.category in CALLS | {"overhead"}:
            event.thread = home
        if event.on_device and event.category != "gpu_user_annotation" and owner is not None:
            owner.kernels.append(event.end - event.start)
    for event in events:
        if trusted and event.category in CALLS and event.linked not in front and event.id in front:
            event.kernels = list(front[event.id].kernels)
    _build_tree([event for event in events if not event.on_device and not event.asynchronous])
    return _sum(_without_repeats(events), by_shape)


def _read(slices: list[dict[str, Any]], links: dict[int, int]) -> list[Event]:
    """The slices that count, in order of time (3(d).1 to 3(d).4); `links` by place."""
    events = []
    for number, event in enumerate(slices):
        name, category, args = event["name"], event["cat"].lower(), event.get("args", {})
        if name in DROPPED:
            continue
        start, dur = _ns(event["ts"]), max(_ns(event["dur"]), 0)
        if category == "gpu_user_annotation":
            start, dur = start + 1, max(dur - 2, 0)
        name = "ProfilerStep*" if name.startswith("ProfilerStep#") else name
        own = args.get("correlation", 0) if category in CALLS else _external(event)
        thread = (str(event["pid"]), str(event["tid"]))
        dims = args.get("Input Dims") or args.get("Input dims") or []
        shapes = str([[] if any(isinstance(size, list) for size in sizes) else sizes for sizes in dims])
        events.append(Event(name, category, thread, start, start + dur, own, links[number], shapes))
    return sorted(events, key=lambda event: (event.start, -event.end))


def _ns(microseconds: float) -> int:
    """Whole ns, also of a time since 1970, which a float does not hold times 1000 (R0.2)."""
    whole = int(microseconds)
    return whole * 1000 + round((microseconds - whole) * 1000)


def _external(event: dict[str, Any]) -> int:
    args = event.get("args", {})
    return int(args.get("External id", args.get("external id", 0)))


def _names_ops(slices: list[dict[str, Any]]) -> bool:
    """Whether `External id` of GPU work is that of an op (R3.7)."""
    work = [event for event in slices if event["cat"].lower() in WORK and _external(event) > 0]
    strange = sum(_external(event) == event["args"].get("correlation") for event in work)
    return bool(work) and 2 * strange <= len(work)


def _links(slices: list[dict[str, Any]]) -> dict[int, int]:
    """The id of the op to which each slice is linked, 0 for none."""
    linkable = CALLS | DEVICE - {"gpu_user_annotation"}
    return {n: _external(event) if event["cat"].lower() in linkable else 0 for n, event in enumerate(slices)}


def _links_by_containment(slices: list[dict[str, Any]]) -> dict[int, int]:
    """The same where ids are the profiler's own: calls by the op around them, work by its call."""
    found = dict.fromkeys(range(len(slices)), 0)
    lanes = defaultdict(list)
    for number, event in enumerate(slices):
        if event["cat"].lower() in OPS | CALLS and not event["name"].startswith("ProfilerStep#"):
            start = _ns(event["ts"])
            lanes[event["pid"], event["tid"]].append((start, -start - max(_ns(event["dur"]), 0), number))
    of_call: dict[int, int] = {}
    for lane in lanes.values():
        lane.sort()
        numbers = [number for *_, number in lane]
        nesting = slow_nesting([0] * len(lane), [start for start, *_ in lane], [-end for _, end, _ in lane], 2000)
        for place, number in enumerate(numbers):
            if slices[number]["cat"].lower() in OPS:
                continue
            above = nesting.parent[place]
            while above >= 0 and slices[numbers[above]]["cat"].lower() not in OPS:
                above = nesting.parent[above]
            found[number] = _external(slices[numbers[above]]) if above >= 0 else 0
            of_call[slices[number]["args"].get("correlation", 0)] = found[number]
    for number, event in enumerate(slices):
        if event["cat"].lower() in WORK:
            found[number] = of_call.get(event["args"].get("correlation", 0), 0)
    return found


def _home(events: list[Event]) -> tuple[str, str]:
    """The thread that stopped the profiler: that of the steps, else the main one, else the busiest."""
    steps, ops = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for event in events:
        if event.category in OPS | {"user_annotation"}:
            ops[event.thread] += 1
            steps[event.thread] += event.name == "ProfilerStep*"
    return max(ops, key=lambda thread: (steps[thread], thread[0] == thread[1], ops[thread]), default=("", ""))


def _build_tree(events: list[Event]) -> None:
    """Rule 7, a stack for each thread."""
    stacks: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for event in events:
        stack = stacks[event.thread]
        while stack:
            top = stack[-1]
            if event.start >= top.end or event.end > top.end:
                stack.pop()
                continue
            top.children.append(event)
            event.parent = top
            break
        stack.append(event)


def _without_repeats(events: list[Event]) -> list[Event]:
    """Rule 8, until nothing changes."""
    while True:
        kept = []
        for event in events:
            parent = event.parent
            if parent is None or parent.name != event.name or len(parent.children) != 1:
                kept.append(event)
                continue
            parent.children, parent.kernels = event.children, event.kernels
            for child in event.children:
                child.parent = parent
        if len(kept) == len(events):
            return events
        events = kept


def _sum(events: list[Event], by_shape: bool) -> SlowTable:
    """Rules 9 to 11."""
    rows: dict[tuple[str, bool, bool, str], Row] = {}
    for event in events:
        key = (event.name, event.on_device, event.category in ANNOTATIONS, event.shapes if by_shape else "")
        old = rows.get(key, (0, 0, 0, 0, 0))
        own = 0 if event.on_device else event.own
        own_device = event.device() if event.on_device else event.own_device()
        new = (1, own, event.total, own_device, event.device())
        a, b, c, d, e = (x + y for x, y in zip(old, new, strict=True))
        rows[key] = (a, b, c, d, e)
    device = sum(row[3] for key, row in rows.items() if key[1] and not key[2])
    return SlowTable(rows, sum(row[1] for row in rows.values()), device)
