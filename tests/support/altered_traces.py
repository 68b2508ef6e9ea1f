"""Real traces whose meaning is changed at random: the JSON can be read, and hardly anything in it fits.

`altered(original, seed)` is always the same trace for a seed: some events of a real trace in a row, changed in one to
three of the ways in `ALTERATIONS`. For files whose bytes are damaged there is `tests/fuzz/mutations.py`.

`python -m tests.support.altered_traces --count 3000 --seed 1` tries more of them than the tests do.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import orjson

from tests.support.invariants import broken, some_steps
from tests.support.paths import SAMPLES, SHARED
from tests.support.traces import loaded
from tracetui.comparing.side import side
from tracetui.comparing.statement import Comparison
from tracetui.drawing.text import export
from tracetui.errors import TraceError
from tracetui.model.intervals import Part, TimeRange
from tracetui.model.table import Column, Table, TextKind
from tracetui.model.trace import Trace
from tracetui.panes import PANES, BuiltPane
from tracetui.ranks.stretches import summarise_trace
from tracetui.reading.load import load
from tracetui.ui.trace.slice_description import chain_of, describe

Event = dict[str, Any]

MAX_EVENTS = 1000
"""Maximum events that are taken of a trace, before some of the alterations double them."""
MAX_BYTES = 4_000_000
"""Maximum size of a file that is altered, packed as it is."""
MANY_BYTES = 40_000_000
"""Maximum size of its text."""
ODD_VALUES: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 7, 2**31, 2**53 + 1, 2**63, 10**30, -(10**30), 0.5, 1e-300, 1e300, float("nan"),
    float("inf"), "", "0", "7", "x", "N/A", "-", "1,2", [], [1], [[]], [[1, 2], [3]], ["x", None], {}, {"a": 1}, [True],
)  # fmt: skip
"""What stands where something else is expected."""
IDS = ("correlation", "External id", "external id", "device", "stream", "graph id", "graph node id", "Ev Idx", "Seq")
TAKEN_FOR_GRANTED = (
    "In msg nelems", "Out msg nelems", "Group size", "dtype", "Collective name", "Process Group Name",
    "Process Group Ranks", "Process Group Description", "Rank", "Src Rank", "Dst Rank", "Seq", "Input Dims",
    "Input type", "Input Strides", "Concrete Inputs", "grid", "block", "registers per thread", "shared memory",
    "warps per SM", "blocks per SM", "est. achieved occupancy %", "bytes", "Bytes", "Total Allocated", "Total Reserved",
    "Addr", "Device Id", "Device Type", "Sequence number", "Fwd thread id", "Python id", "Python parent id",
    "Python module id", "Call stack", "kernel_file", "num_warps", "finished", "annotation", "Record function id",
    "memory bandwidth (GB/s)", "queued", "context", "wait_on_stream", "kernel", "name", "original stream",
)  # fmt: skip
"""Args that some analysis reads."""


MAX_CPU_SECONDS = 2.0
"""Maximum CPU time of a pane with its text, for each `MEASURED_EVENTS` events that were begun."""
MEASURED_EVENTS = 3000
HANG_SECONDS = 20
"""CPU time after which a pane is given up."""
NO_NUMBER = re.compile(r"(?<![\w.(])[-+]?(?:nan|inf)(?![\w.:(])")
PERCENT = re.compile(r"(?<!~)\b([\d,]+(?:\.\d+)?) %")
OWN_WORDS = (TextKind.WORD, TextKind.PROSE, TextKind.REMARK)


class Hang(BaseException):
    """Something runs far longer than it may; no `except Exception` catches it."""


@dataclass(frozen=True)
class Original:
    """A real trace: what stands beside its events, its metadata events, and its other events by time."""

    name: str
    beside: dict[str, Any]
    metadata: list[Event]
    events: list[Event]


def originals() -> list[Path]:
    """The samples, and the small traces beside the checkout where they are there."""
    folders = [SAMPLES, SHARED, *(SHARED / name for name in ("crashes", "inference", "pftrace", "puzzlers", "pairs"))]
    paths = [path for folder in folders for end in ("*.json", "*.json.gz") for path in sorted(folder.glob(end))]
    return [path for path in paths if path.stat().st_size <= MAX_BYTES and _is_trace(path)]


def _is_trace(path: Path) -> bool:
    return path.name not in {"expected.json", "findings.json", "families.json", "names.json"}


@lru_cache(maxsize=4)
def read(path: Path) -> Original | None:
    """A trace in a file, None where it is too large or no JSON."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if len(data) > MANY_BYTES:
        return None
    try:
        whole = _decoded(data)
    except ValueError:
        return None
    beside = {} if isinstance(whole, list) else {key: whole[key] for key in whole if key != "traceEvents"}
    events = whole if isinstance(whole, list) else whole.get("traceEvents", [])
    metadata = [event for event in events if event.get("ph") == "M"]
    timed = sorted((each for each in events if each.get("ph") != "M" and _is_number(each.get("ts"))), key=_start)
    return Original(path.name, beside, metadata, timed)


def _decoded(data: bytes) -> Any:
    """The value of JSON text, which may hold NaN."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return json.loads(data)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _start(event: Event) -> float:
    return float(event["ts"])


def altered(original: Original, seed: int) -> tuple[bytes, list[str]]:
    """The trace of a seed as JSON, and by what alterations it was made."""
    random = Random(f"{original.name} {seed}")
    first = random.randrange(max(len(original.events) - MAX_EVENTS // 3, 1))
    part = original.events[first : first + random.choice((5, 60, 300, MAX_EVENTS))]
    events: list[Event] = json.loads(json.dumps(part))
    beside: dict[str, Any] = json.loads(json.dumps(original.beside))
    metadata = json.loads(json.dumps(original.metadata[:2000]))
    names = random.sample(sorted(ALTERATIONS), random.choice((1, 1, 2, 3)))
    for name in names:
        events = ALTERATIONS[name](events, random)
    if random.random() < 0.2:
        names.append("devices")
        alter_devices(beside, random)
    return json.dumps({**beside, "traceEvents": [*metadata, *events]}).encode(), names


def _some(events: Iterable[Event], random: Random) -> list[Event]:
    """All of the events, or at random a half or a tenth of them."""
    share = random.choice((1.0, 0.5, 0.1))
    return [event for event in events if random.random() <= share]


def _category(events: list[Event], random: Random) -> list[Event]:
    """The events of one category, at random some or all of them."""
    chosen = random.choice(sorted({str(event.get("cat")) for event in events}) or [""])
    return _some((event for event in events if str(event.get("cat")) == chosen), random)


def _args(event: Event) -> dict[str, Any]:
    args = event.setdefault("args", {})
    return args if isinstance(args, dict) else {}


def _without(events: list[Event], dropped: Iterable[Event]) -> list[Event]:
    gone = {id(event) for event in dropped}
    return [event for event in events if id(event) not in gone]


def _is_gpu(event: Event) -> bool:
    return str(event.get("cat")).casefold() in {"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"}


def _is_launch(event: Event) -> bool:
    return str(event.get("cat")).casefold() in {"cuda_runtime", "cuda_driver", "runtime", "mtia_runtime"}


def drop_category(events: list[Event], random: Random) -> list[Event]:
    """Leave out the events of a category, or some of them."""
    return _without(events, _category(events, random))


def drop_launches(events: list[Event], random: Random) -> list[Event]:
    """Leave out the calls that launch, or some of them."""
    return _without(events, _some(filter(_is_launch, events), random))


def drop_operators(events: list[Event], random: Random) -> list[Event]:
    """Leave out the operators of a thread."""
    mine = [event for event in events if str(event.get("cat")).casefold() in {"cpu_op", "operator"}]
    thread = random.choice(mine).get("tid") if mine else None
    return _without(events, (event for event in mine if event.get("tid") == thread))


def drop_any(events: list[Event], random: Random) -> list[Event]:
    """Leave out one event in two: what begins has no end, and what ends no begin."""
    return [event for event in events if random.random() < 0.5]


def keep_gpu(events: list[Event], random: Random) -> list[Event]:
    """Leave out everything but what ran on the GPU."""
    return [event for event in events if _is_gpu(event)]


def equal_times(events: list[Event], random: Random) -> list[Event]:
    """Let the events of a category, a lane or the trace begin at the same time and last as long."""
    chosen = random.choice((events, _category(events, random)))
    if chosen:
        moment = random.choice(chosen)["ts"]
        lasts = random.choice((0, 1, 1000, None))
        for event in chosen:
            event["ts"] = moment
            if lasts is not None and "dur" in event:
                event["dur"] = lasts
    return events


def zero_durations(events: list[Event], random: Random) -> list[Event]:
    """Let the events of a category, or all, last no time or a thousandth of what can be counted."""
    lasts = random.choice((0, 0.0, 1e-06, 0.0004))
    for event in random.choice((events, _category(events, random), [*filter(_is_gpu, events)])):
        if "dur" in event:
            event["dur"] = lasts
    return events


def odd_durations(events: list[Event], random: Random) -> list[Event]:
    """Let some events last very long, less than nothing, or no number."""
    for event in _category(events, random)[:20]:
        event["dur"] = random.choice((-1, -5.5, 10**9, 10**13, "12", None, 1e15, True))
    return events


def late_times(events: list[Event], random: Random) -> list[Event]:
    """Move a category in time: kernels run before they are launched, children outside of what called them."""
    by = random.choice((-1, 1)) * random.choice((0.001, 1, 50, 5000, 10**7))
    for event in _category(events, random):
        event["ts"] = event["ts"] + by
    return events


def long_chain(events: list[Event], random: Random) -> list[Event]:
    """Let each event of a category begin within the one before and outlast it, or end with it, on one lane."""
    chosen = _category(events, random)
    inward = random.random() < 0.5
    for index, event in enumerate(chosen):
        event["ts"] = chosen[0]["ts"] + index
        event["dur"] = 2 * (len(chosen) - index) if inward else len(chosen)
        event["pid"], event["tid"] = chosen[0].get("pid"), chosen[0].get("tid")
    return events


def odd_ids(events: list[Event], random: Random) -> list[Event]:
    """Put another value where an id stands, the same or a new one for each event."""
    key, value = random.choice(IDS), random.choice(ODD_VALUES)
    for event in _some((event for event in events if key in _args(event)), random):
        _args(event)[key] = value if random.random() < 0.5 else random.choice(ODD_VALUES)
    return events


def mixed_ids(events: list[Event], random: Random) -> list[Event]:
    """Deal the values of an id anew among the events that have it, or give all of them one."""
    key = random.choice(IDS)
    chosen = [event for event in events if key in _args(event)]
    values = [_args(event)[key] for event in chosen]
    random.shuffle(values)
    for event, value in zip(chosen, values if random.random() < 0.5 else values[:1] * len(values), strict=True):
        _args(event)[key] = value
    return events


def odd_args(events: list[Event], random: Random) -> list[Event]:
    """Put values of any type where the args of a category say something."""
    for event in _category(events, random):
        args = _args(event)
        for key in list(args):
            if random.random() < 0.3:
                args[key] = random.choice(ODD_VALUES)
    return events


def more_args(events: list[Event], random: Random) -> list[Event]:
    """Add args that some analysis reads, of any type, to events of any kind."""
    keys = random.sample(TAKEN_FOR_GRANTED, 8)
    for event in _category(events, random):
        for key in keys:
            if random.random() < 0.5:
                _args(event)[key] = random.choice(ODD_VALUES)
    return events


def no_args(events: list[Event], random: Random) -> list[Event]:
    """Take the args away from the events of a category, or put something else in their place."""
    value: Any = random.choice((None, {}, [], "x", 5))
    for event in _category(events, random):
        event["args"] = value
    return events


def collectives(events: list[Event], random: Random) -> list[Event]:
    """Make some kernels collectives with args of any type, and let some streams be more than one."""
    for event in _some(filter(_is_gpu, events), random):
        event["name"] = random.choice(
            ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "ncclDevKernel_SendRecv", "ncclKernel_AllGather_RING_LL")
        )
        for key in TAKEN_FOR_GRANTED[:12]:
            _args(event)[key] = random.choice((*ODD_VALUES, "allreduce", "send", "Float", 8, 1024))
    return events


def odd_lanes(events: list[Event], random: Random) -> list[Event]:
    """Put the events of a category on another lane, or on one of a name that is no name."""
    pid, tid = random.choice(ODD_VALUES), random.choice(ODD_VALUES)
    other = random.choice(events) if events else {}
    to = random.choice(((pid, tid), (other.get("pid"), other.get("tid")), (other.get("pid"), tid)))
    for event in _category(events, random):
        event["pid"], event["tid"] = to
    return events


def one_lane(events: list[Event], random: Random) -> list[Event]:
    """Put everything that is not on a GPU on one thread, or everything on the GPU on one stream."""
    on_gpu = random.random() < 0.5
    chosen = [event for event in events if _is_gpu(event) is on_gpu]
    for event in chosen:
        event["pid"], event["tid"] = chosen[0].get("pid"), chosen[0].get("tid")
    return events


def captures(events: list[Event], random: Random) -> list[Event]:
    """Let calls begin or end captures of graphs, instantiate and launch them, in any order."""
    names = ("cudaStreamBeginCapture", "cudaStreamEndCapture", "cudaGraphLaunch", "cudaGraphInstantiate")
    for event in _some(filter(_is_launch, events), random):
        event["name"] = random.choice(names)
        if random.random() < 0.3:
            _args(event)["graph id"] = random.choice(ODD_VALUES)
    return events


def waits(events: list[Event], random: Random) -> list[Event]:
    """Let calls wait for the GPU."""
    names = ("cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize", "cudaStreamWaitEvent")
    for event in _some(filter(_is_launch, events), random):
        event["name"] = random.choice(names)
    return events


def odd_steps(events: list[Event], random: Random) -> list[Event]:
    """Add steps that lie in one another, are empty, occur twice, overlap, or last no time."""
    timed = [event for event in events if "dur" in event and _is_number(event["dur"])]
    if not timed:
        return events
    low, high = timed[0]["ts"], max(event["ts"] + event["dur"] for event in timed)
    lanes = [(event.get("pid"), event.get("tid")) for event in random.choices(timed, k=2)]
    for _ in range(random.choice((1, 2, 3, 8, 40))):
        start = random.uniform(low, high) if random.random() < 0.8 else low
        dur = random.choice((0, 0.001, (high - low) / 10, high - low, 2 * (high - low)))
        number = random.choice((0, 1, 2, 3, 10**25, -1))
        pid, tid = random.choice(lanes)
        category = random.choice(("user_annotation", "user_annotation", "gpu_user_annotation", "cpu_op"))
        name = random.choice(
            (f"ProfilerStep#{number}", f"ProfilerStep#{number}", "execute_context_1(8)_generation_0()")
        )
        new: Event = {
            "ph": "X",
            "cat": category,
            "name": name,
            "pid": pid,
            "tid": tid,
            "ts": start,
            "dur": dur,
            "args": {},
        }
        events += [new] * random.choice((1, 1, 2))
    return events


def twice(events: list[Event], random: Random) -> list[Event]:
    """Merge the trace with itself, as it is, later, or as another process of the same ids."""
    by, pid = random.choice((0, 0.5, 10**5)), random.choice((0, 1000))
    again = json.loads(json.dumps(events))
    for event in again:
        event["ts"] = event["ts"] + by
        if pid and isinstance(event.get("pid"), int):
            event["pid"] += pid
    return [*events, *again]


def doubled(events: list[Event], random: Random) -> list[Event]:
    """Let the events of a category occur twice, each beside itself, with its ids."""
    again = _category(events, random)
    return [*events, *json.loads(json.dumps(again))]


def swapped_times(events: list[Event], random: Random) -> list[Event]:
    """Deal the starts of the events of a category anew among them, or those of two events."""
    chosen = _category(events, random)
    if random.random() < 0.5:
        chosen = random.sample(chosen, min(2, len(chosen)))
    starts = [event["ts"] for event in chosen]
    random.shuffle(starts)
    for event, start in zip(chosen, starts, strict=True):
        event["ts"] = start
    return events


def another_device(events: list[Event], random: Random) -> list[Event]:
    """Call one device by the number of another one or by a new one, in its events or in their args only."""
    devices = sorted({event["pid"] for event in filter(_is_gpu, events) if isinstance(event.get("pid"), int)})
    old, new = random.choice(devices or [0]), random.choice((*devices, 7))
    where = random.choice((("pid",), ("args",), ("pid", "args")))
    for event in filter(_is_gpu, events):
        if event.get("pid") == old:
            if "pid" in where:
                event["pid"] = new
            if "args" in where:
                _args(event)["device"] = new
    return events


def many_devices(events: list[Event], random: Random) -> list[Event]:
    """Spread what ran on the GPU over several, of which some have no description."""
    for event in filter(_is_gpu, events):
        device = random.choice((0, 1, 9))
        event["pid"] = _args(event)["device"] = device
    return events


def other_names(events: list[Event], random: Random) -> list[Event]:
    """Deal the names of the events anew: kernels are called as operators, and calls as steps."""
    names = [event.get("name") for event in events]
    random.shuffle(names)
    for event, name in zip(events, names, strict=True):
        event["name"] = name
    return events


def other_kinds(events: list[Event], random: Random) -> list[Event]:
    """Put the events of a category in another one."""
    kinds = (
        "kernel",
        "gpu_memcpy",
        "cpu_op",
        "cuda_runtime",
        "python_function",
        "user_annotation",
        "cuda_sync",
        "x",
        5,
    )
    kind = random.choice(kinds)
    for event in _category(events, random):
        event["cat"] = kind
    return events


def as_they_are(events: list[Event], random: Random) -> list[Event]:
    """Change nothing: events in a row lack what came before and after them."""
    return events


def alter_devices(beside: dict[str, Any], random: Random) -> None:
    """Change what stands beside the events: no devices, devices without numbers, or odd ranks."""
    if random.random() < 0.3:
        beside.pop("deviceProperties", None)
    for device in beside.get("deviceProperties") or []:
        for key in list(device):
            if random.random() < 0.3:
                device[key] = random.choice(ODD_VALUES)
    if random.random() < 0.3:
        beside["distributedInfo"] = {
            key: random.choice(ODD_VALUES) for key in ("backend", "rank", "world_size", "pg_count", "pg_config")
        }
    for key in list(beside):
        if random.random() < 0.1:
            beside[key] = random.choice(ODD_VALUES)


ALTERATIONS: dict[str, Callable[[list[Event], Random], list[Event]]] = {
    each.__name__: each
    for each in (
        another_device,
        as_they_are,
        captures,
        collectives,
        doubled,
        drop_any,
        drop_category,
        drop_launches,
        drop_operators,
        equal_times,
        keep_gpu,
        late_times,
        long_chain,
        many_devices,
        mixed_ids,
        more_args,
        no_args,
        odd_args,
        odd_durations,
        odd_ids,
        odd_lanes,
        odd_steps,
        one_lane,
        other_kinds,
        other_names,
        swapped_times,
        twice,
        waits,
        zero_durations,
    )
}
"""Ways of changing what a trace says, by name."""


TURNS = 4
"""Ways of looking at a trace of which a quick run takes one for each: groupings, a step, a range, a comparison."""


def faults_of(data: bytes, turns: Sequence[int] = range(TURNS)) -> list[str]:
    """What is wrong with the trace in some bytes: exceptions, time, numbers that are none, shares above the whole
    without a mark, and invariants that do not hold. Empty for a file that is refused in a sentence.

    Every pane is made of each trace, and beside that what the `turns` say.
    """
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        file.write(data)
        file.flush()
        try:
            with _limit():
                trace = load(file.name)
        except TraceError:
            return []
        low, high = trace.window
        every: tuple[Callable[[], Iterator[str]], ...] = (
            lambda: (fault for pane in PANES.values() for by in pane.groups for fault in _pane(trace, pane, by)),
            lambda: _panes_of(trace, some_steps(trace)[-1:]),
            lambda: _panes_of(trace, [TimeRange(low + (high - low) // 4, high - (high - low) // 4)]),
            lambda: _compared(trace),
        )
        return [*_panes_of(trace, [None]), *(each for turn in turns for each in every[turn]()), *_beside_panes(trace)]


def _panes_of(trace: Trace, parts: Iterable[Part | None]) -> Iterator[str]:
    for part in parts:
        for pane in PANES.values():
            yield from _pane(trace, pane, None, part)


def _pane(trace: Trace, pane: BuiltPane, by: str | None, part: Part | None = None) -> Iterator[str]:
    where = f"{pane.name}{'' if by is None else f' by {by}'}{'' if part is None else f' of {part}'}"
    begin = time.process_time()
    try:
        with _limit():
            table = pane.build(trace, part, by)
            if part is None:
                export.render(table, trace, pane.name, "table")
    except (Exception, Hang):
        yield f"{where}: {traceback.format_exc(limit=-3)}"
        return
    took = time.process_time() - begin
    yield from (f"{where}: {failure}" for failure in table.failures)
    if took > MAX_CPU_SECONDS * max(1, -(-len(trace.slices) // MEASURED_EVENTS)):
        yield f"{where}: {took:.1f} s of CPU for {len(trace.slices):,} slices"
    for fault in (*(each for column in table.columns for each in _column(column)), *_words(table)):
        yield f"{where}: {fault}"


def _column(column: Column) -> Iterator[str]:
    if column.values.dtype.kind == "f":
        if np.isinf(column.values.astype(np.float64)).any():
            yield f"{column.name} is infinite"
        marked = np.zeros(len(column), bool) if column.doubtful is None else column.doubtful
        values = column.values.astype(np.float64)
        if column.unit == "%" and ((values > 100) & ~marked).any():
            yield f"{column.name} is {np.nanmax(values):,} % without a mark"
    elif column.strings is not None and column.spec.text in OWN_WORDS:
        for number in np.unique(column.values).tolist():
            yield from _text(column.name, column.strings[number]) if number >= 0 else ()


def _words(table: Table) -> Iterator[str]:
    yield from _text("note", table.note)
    yield from _text("headline", table.headline)
    if "unit" in table and "number" in table:
        facts = ((table["unit"].cell(row), table["number"].cell(row)) for row in range(len(table)))
        yield from (f"a fact of {number} %" for unit, number in facts if unit == "%" and float(number or 0) > 100)


def _text(name: str, text: str) -> Iterator[str]:
    if NO_NUMBER.search(text) or any(float(share.replace(",", "")) > 100 for share in PERCENT.findall(text)):
        yield f"{name}: {text}"


def _beside_panes(trace: Trace) -> Iterator[str]:
    """The invariants, the summary of the rank, and the details of some slices."""
    try:
        with _limit():
            yield from broken(trace)
            summarise_trace(trace)
            for row in range(0, len(trace.slices), len(trace.slices) // 20 + 1):
                describe(trace, row, chain_of(trace, row), 100)
    except (Exception, Hang):
        yield traceback.format_exc(limit=-3)


@lru_cache
def _sample() -> Trace:
    """A trace without a GPU, beside which every other one stands."""
    return loaded(SAMPLES / "mlp_eager_cpu.json.gz")


def _compared(trace: Trace) -> Iterator[str]:
    """What is wrong with the sentences and the tables of a comparison with a sample; changes may be above 100 %."""
    try:
        with _limit():
            compared = Comparison(side(trace), side(_sample()))
            tables = (compared.totals, compared.kernels, compared.ops)
            columns = [each for table in tables for each in table.columns if not each.name.startswith("change_pct")]
            found = [fault for sentence in compared.sentences for fault in _text("sentence", sentence)]
            found += [*compared.failures.sentences, *(fault for column in columns for fault in _column(column))]
    except (Exception, Hang):
        found = [traceback.format_exc(limit=-3)]
    yield from (f"comparison: {fault}" for fault in found)


@contextmanager
def _limit() -> Iterator[None]:
    """End what is within once it has taken `HANG_SECONDS` of CPU, however busy the machine is."""

    def give_up(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, HANG_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def tried(each: int, seed: int, paths: Sequence[Path], quick: bool = False) -> Iterator[tuple[str, list[str]]]:
    """So many altered traces of each original that can be read: which one it is, and what is wrong with it."""
    for path in paths:
        original = read(path)
        if original is None:
            continue
        for number in range(seed, seed + each):
            data, names = altered(original, number)
            turns = [number % TURNS] if quick else range(TURNS)
            yield f"{original.name} {number} ({', '.join(names)})", faults_of(data, turns)


def main() -> int:
    """Try some and print what is wrong; 1 where something is."""
    parser = argparse.ArgumentParser(description="Make every pane of traces whose meaning is changed at random.")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="look at each as the full tier does")
    arguments = parser.parse_args()
    warnings.simplefilter("error")
    paths, begin = [path for path in originals() if read(path) is not None], time.process_time()
    count = failed = 0
    for name, faults in tried(-(-arguments.count // len(paths)), arguments.seed, paths, arguments.quick):
        count, failed = count + 1, failed + bool(faults)
        if faults:
            print(name, *faults, sep="\n    ", flush=True)
    took = (time.process_time() - begin) / count
    print(f"{failed:,} of {count:,} altered traces have faults; {took:.2f} s of CPU each")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
