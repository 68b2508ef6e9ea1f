"""Writes Perfetto files as torch's encoder does: all begins of a group, then all ends in the same order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tests.support.perfetto import writer as w

BASE = 1_790_000_000_000_000_000
"""Time 0 of the files, in ns since 1970."""
PID, TID = 4242, 4243
STAGES = {"Kernel": 1, "Memcpy": 2, "Memset": 3, "Annotation": 4, "EventRecord": 5, "HostNode": 6}
FIGURES = {"registers_per_thread": 1, "shared_mem_dynamic": 2}


@dataclass
class Slice:
    """A slice of a thread; times in ns from the base."""

    name: str
    start: int
    end: int
    category: str = "cpu_op"
    args: Mapping[str, object] = field(default_factory=dict)
    track: int = 2
    submits: tuple[int, ...] = ()
    """Ids of the stages that a call submitted."""


@dataclass
class Stage:
    """Something that ran on a GPU."""

    stage: str
    start: int
    duration: int
    name: str = ""
    lane: str = "[07] stream 7"
    id: int = 0
    gpu: int = 0
    extra: Mapping[str, str] = field(default_factory=dict)
    grid: tuple[int, int, int] | None = None
    figures: Mapping[str, int] = field(default_factory=dict)
    waits: tuple[int, ...] = ()


def value(given: object) -> bytes:
    """The value of a debug annotation."""
    if isinstance(given, bool):
        return w.number(2, given)
    if isinstance(given, int):
        return w.number(4, given)
    if isinstance(given, float):
        return w.double(5, given)
    if isinstance(given, dict):
        return b"".join(w.message(11, w.data(10, key), value(inner)) for key, inner in given.items())
    if isinstance(given, list):
        return b"".join(w.message(12, value(inner)) for inner in given)
    return w.data(6, str(given))


def torch_file(groups: Iterable[Iterable[Slice]], stages: Iterable[Stage] = (), counters: bytes = b"") -> bytes:
    """A whole file: a clock, tracks, interned texts, groups of slices, and what ran on GPUs."""
    groups, stages = [list(group) for group in groups], list(stages)
    names = _numbered([each.name for group in groups for each in group] + [each.name for each in stages if each.name])
    categories = _numbered([each.category for group in groups for each in group if each.category])
    lanes = {lane: 100 + number for number, lane in enumerate(_numbered([each.lane for each in stages]))}
    interned = [w.entry(2, number, name) for name, number in names.items()]
    interned += [w.entry(1, number, name) for name, number in categories.items()]
    interned += [w.entry(24, number, name) for name, number in (STAGES | lanes).items()]
    interned += [w.entry(1001, number, name) for name, number in FIGURES.items()]
    parts = [
        w.packet(w.snapshot({6: BASE, 1: BASE}), time=BASE, sequence=1),
        w.packet(w.process(1, PID, "python")),
        w.packet(w.thread(2, PID, TID, "thread 4243 (python)", parent=1)),
        w.packet(w.process(4, 0x7FFFFFFF, "Overhead")),
        w.packet(w.thread(5, 0x7FFFFFFF, 0, "Overhead", parent=4)),
        w.packet(w.interned(*interned), sequence=1, flags=w.CLEARED),
    ]
    for group in groups:
        parts += [_begin(each, names, categories) for each in group]
        parts += [w.packet(w.event(w.END, each.track), time=BASE + each.end, sequence=1) for each in group]
    parts += [_stage(each, names, lanes) for each in stages]
    return b"".join(parts) + counters


def _numbered(texts: Iterable[str]) -> dict[str, int]:
    return {text: number for number, text in enumerate(dict.fromkeys(texts), start=1)}


def _begin(each: Slice, names: Mapping[str, int], categories: Mapping[str, int]) -> bytes:
    fields = [w.number(3, categories[each.category])] if each.category else []
    if each.submits:
        fields.append(w.message(3000, *(w.number(1, number) for number in each.submits), size=4))
    fields += [w.message(4, w.data(10, key), value(each.args[key]), size=4) for key in sorted(each.args)]
    event = w.event(w.BEGIN, each.track, *fields, iid=names[each.name])
    return w.packet(event, time=BASE + each.start, sequence=1, flags=w.NEEDS_STATE, size=4)


def _stage(each: Stage, names: Mapping[str, int], lanes: Mapping[str, int]) -> bytes:
    fields = [w.number(1, each.id)] if each.id else []
    fields += [w.number(20, names[each.name])] if each.name else []
    fields += [w.number(18, number) for number in each.waits]
    if each.grid is not None:
        sizes = [w.number(number, size) for number, size in enumerate(each.grid, start=1)]
        figures = [w.message(3, w.number(1, FIGURES[name]), w.number(4, size)) for name, size in each.figures.items()]
        fields.append(w.message(21, w.message(1, *sizes), w.message(2, w.number(1, 128)), *figures, size=4))
    fields += [w.message(6, w.data(1, key), w.data(2, text)) for key, text in each.extra.items()]
    return w.stage(
        BASE + each.start, each.duration, *fields, queue=lanes[each.lane], stage_iid=STAGES[each.stage], gpu=each.gpu
    )
