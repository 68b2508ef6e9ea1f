"""Opens a Perfetto trace: its blocks become columns, and these the parts of a trace that JSON is read into."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tracetui.errors import NoEvents
from tracetui.model.intervals import Int64
from tracetui.model.recorded import MAX_AMOUNT, MAX_TIME_NS, TORCH_PFTRACE
from tracetui.model.table import NULL
from tracetui.model.trace import GPU_WORK, NO_ID, EventStore, Kind, Quality, Trace
from tracetui.reading.chrome import TraceParts, assemble, no_events, note_events, note_layout, note_times, trace_of
from tracetui.reading.columns import Collector, combined
from tracetui.reading.decode import NO_NAME
from tracetui.reading.load_progress import PER_EVENT
from tracetui.reading.perfetto.other_events import Labels, OtherEvents, Use, pair_events
from tracetui.reading.perfetto.packet_collector import PacketCollector
from tracetui.reading.perfetto.packets import PacketReader
from tracetui.reading.perfetto.recognition import PACKET_KINDS
from tracetui.reading.perfetto.schemas import InternedField, PacketField
from tracetui.reading.perfetto.sequences import NO_TIME
from tracetui.reading.perfetto.store import CopyRules, PacketStore
from tracetui.reading.perfetto.tracks import OVERHEAD_PID
from tracetui.reading.source import Source
from tracetui.reading.spans import TRACK_PHASE
from tracetui.reading.store import FileBlocks, MemoryBlocks
from tracetui.reading.torch import kind_of

# Collected packets to the columns that JSON traces are read into: pairs, names, lanes, links and arguments.

OVERHEAD, SYNC, KERNEL = "overhead", "cuda_sync", "kernel"
_CATEGORIES = {
    "Kernel": KERNEL,
    "Memcpy": "gpu_memcpy",
    "Memset": "gpu_memset",
    "Annotation": "gpu_user_annotation",
    "EventRecord": "graph_event_node",
    "HostNode": "graph_host_node",
}
"""Categories of a JSON trace by the names of torch's render stages."""
_LANE = re.compile(r"\[0*(\d+)\] *(.*)")
"""The name of a queue: the number of the lane, and what it is called."""
_LABELS = ("name", "name_iid", "category", "category_iid")
REGISTERS, SHARED = "registers_per_thread", "shared_mem_dynamic"
MAX_NAMED = 6
"""Maximum kinds of packets that a sentence names where none is shown."""
MAX_DURATION_NS = MAX_TIME_NS // 2
"""A longer duration is none: its end would be beyond every time."""
DEPENDENCY = "ac2g"
"""Category and name of the arrows between nodes of a graph, as torch's JSON has them."""
FIRST_DEPENDENCY = 1 << 40
"""Id of the first one; those of launches are smaller."""


class Assembly:
    """Fills a collector with what was read of the packets."""

    def __init__(self, packets: PacketCollector) -> None:
        self._packets = packets
        self._collector: Collector = packets.collector
        self._labels = Labels(packets)
        self._pairs = np.empty(0, np.int32), np.empty(0, np.int32)
        self.ends = np.empty(0, np.int64), np.empty(0, np.int64)
        """Numbers of packets that begin slices, ascending, and of those that end them and have arguments."""
        self.rules = CopyRules()
        """The parts of the file that belong together."""
        self.is_from_torch = False
        """True if torch's encoder wrote the file: by its clocks, and by flags on begins alone."""

    def fill(self, store: EventStore) -> None:
        """Give everything to the collector; the columns of the packets are given up.

        Raises: TraceError when the file has changed since it was read.
        """
        self._packets.times.settle()
        calls = self._track_slices()
        stages = self._stage_slices(calls)
        for columns in (calls, stages):
            names = ("start", "dur", "name", "key", "correlation", "external", "event")
            kept = columns["start"] != NO_TIME
            self._collector.slices.add(**{name: columns[name][kept] for name in names})
        others = OtherEvents(self._packets, self._labels, store)
        others.fill()
        self.rules = self._rules(others)
        self._packets.tracks.name_lanes(self._collector.naming)
        self._add_counters()

    def _rules(self, others: OtherEvents) -> CopyRules:
        """The parts of the file that belong together."""
        begins, ends = (np.concatenate(both) for both in zip(self._pairs, others.pairs, strict=True))
        order = np.argsort(begins, kind="stable")
        return CopyRules(
            begins[order],
            ends[order],
            others.sums,
            self._packets.times.adds_up,
            self._packets.needed_packets(),
            self._packets.damaged_packets(),
        )

    def _timed(self, time: Int64, event: Int64) -> Int64:
        """Times on the clock of the file, `NO_TIME` where packets have none; these are counted."""
        converted, has_time = self._packets.times.convert(time, event)
        self._collector.quality.dropped += int(np.count_nonzero(~has_time))
        return converted

    def _track_slices(self) -> dict[str, Int64]:
        """Slices out of begins and ends."""
        events, quality = self._packets.track_events, self._collector.quality
        sides = {name: events.sides.take(name, "i8") for name in ("time", "event", "track", "sequence", "state")}
        sides |= {name: events.sides.take(name, "?") for name in ("begins", "has_args", "needs_state")}
        sides["begin"] = np.cumsum(sides["begins"]) - 1
        sides["time"] = self._timed(sides["time"], sides["event"])
        kept = sides["time"] != NO_TIME
        if not kept.all():
            sides = {name: values[kept] for name, values in sides.items()}
        time, event, track, state, is_begin = (sides[name] for name in ("time", "event", "track", "state", "begins"))
        # Flags on begins alone are a sign of torch only where the clocks are set as torch sets them.
        needs_state = sides["needs_state"] if self._packets.times.wall_base else np.ones(len(time), bool)
        self.is_from_torch = bool(self._packets.times.wall_base and (needs_state == is_begin).all())
        pairs = pair_events(sides["sequence"], track, time, is_begin, needs_state)
        quality.unfinished += len(pairs.open)
        quality.unmatched_ends += len(pairs.stray)
        self._keep_ends(event, pairs.begin, pairs.end, sides["has_args"])
        self._pairs = event[pairs.begin].astype(np.int32), event[pairs.end].astype(np.int32)
        row = np.concatenate([pairs.begin, pairs.open])
        # All begins of a group stand before its ends: a file of torch that is cut off tells nothing of their lengths.
        unfinished = time if self.is_from_torch else _last_times(track, time)
        end = np.concatenate([time[pairs.end], unfinished[pairs.open]])
        order = np.argsort(row)
        row, end = row[order], end[order]
        # Among the begins alone.
        begin = sides["begin"][row]
        columns = {name: events.begins.take(name, "i8")[begin] for name in ("correlation", "external")}
        columns |= {"start": time[row], "dur": end - time[row], "event": event[row]}
        use = Use(state[row], event[row])
        label = {name: events.begins.take(name, "i8")[begin] for name in _LABELS}
        columns["name"] = self._labels.names(label["name"], label["name_iid"], use)
        texts, category = self._labels.categories(label["category"], label["category_iid"], use)
        columns["key"] = self._thread_keys(texts, category, track[row], event[row])
        self._keep_op_arguments()
        return columns

    def _keep_ends(self, event: Int64, begin: Int64, end: Int64, has_args: NDArray[np.bool_]) -> None:
        has_value = has_args[end]
        begins, ends = event[begin[has_value]], event[end[has_value]]
        order = np.argsort(begins)
        self.ends = begins[order], ends[order]

    def _thread_keys(self, categories: list[str], category: Int64, track: Int64, event: Int64) -> Int64:
        """The collector's keys of slices on threads and other tracks, and of waits on streams."""
        syncs = self._packets.track_events.syncs
        pairs, inverse = np.unique(category << 32 | track, return_inverse=True)
        keys = []
        for pair in pairs.tolist():
            text, number = categories[pair >> 32], pair & 0xFFFFFFFF
            owner = self._packets.tracks.owner(number)
            if owner.pid == OVERHEAD_PID and not text:
                keys.append(self._collector.keys["X", OVERHEAD, -1, owner.tid])
            else:
                keys.append(self._labels.key("X", text, number))
        key = np.array(keys, np.int64)[inverse] if len(keys) else np.empty(0, np.int64)
        waiting, device, stream = syncs.take("event", "i8"), syncs.take("device", "i8"), syncs.take("stream", "i8")
        rows = np.searchsorted(event, waiting)
        for row, gpu, lane in zip(rows.tolist(), device.tolist(), stream.tolist(), strict=True):
            if row < len(event) and gpu != NULL:
                key[row] = self._collector.keys["X", SYNC, gpu, lane if lane != NULL else -1]
        return key

    def _keep_op_arguments(self) -> None:
        events, table = self._packets.track_events, self._collector.arguments.ops
        texts = np.array([table.text_number(text) for text in events.texts] + [-1], np.int32)
        table.keep(
            {
                "event": events.ops.take("event", "i4"),
                "Sequence number": events.ops.take("sequence", "i8"),
                "Fwd thread id": events.ops.take("forward", "i8"),
                "Input Dims": texts[events.ops.take("dims", "i8")],
                "Input type": texts[events.ops.take("types", "i8")],
            }
        )

    def _stage_slices(self, calls: dict[str, Int64]) -> dict[str, Int64]:
        """Slices out of render stages."""
        gathered = self._packets.stages.stages
        event, state = gathered.take("event", "i8"), gathered.take("state", "i8")
        interned = self._packets.interned
        texts = interned.values(InternedField.GPU_SPECIFICATIONS)
        kinds, queues = self._packets.stages.kinds, self._packets.stages.queues
        rows = {}
        for name, listed_here, first in (("stage", kinds, len(texts)), ("queue", queues, len(texts) + len(kinds))):
            row = interned.find(InternedField.GPU_SPECIFICATIONS, state, event, gathered.take(f"{name}_iid", "i8"))
            number = gathered.take(name, "i8")
            listed = (row < 0) & (number >= 0) & (number < len(listed_here))
            rows[name] = np.where(listed, number + first, row)
        stage, queue = rows["stage"], rows["queue"]
        is_compute = np.array([*interned.is_compute, *([False] * (len(kinds) + len(queues) + 1))], bool)
        kinds = [*texts, *kinds, *queues]
        kernel_iid = gathered.take("kernel_iid", "i8")
        has_kernel = (kernel_iid != 0) | is_compute[stage]
        columns = {
            "start": self._timed(gathered.take("time", "i8"), event),
            "dur": self._durations(gathered.take("dur", "i8")),
            "event": event,
            "external": np.full(len(event), NO_ID, np.int64),
        }
        columns["name"] = self._stage_names(kinds, stage, kernel_iid, Use(state, event))
        columns["key"] = self._stage_keys(kinds, gathered.take("gpu", "i8"), queue, stage, has_kernel)
        identity = gathered.take("id", "i8")
        columns["correlation"] = self._correlations(gathered.take("correlation", "i8"), state, identity, calls)
        self._add_dependencies(columns, state, identity)
        self._keep_work_arguments(columns["key"], event)
        return columns

    def _stage_names(self, kinds: list[str], stage: Int64, kernel_iid: Int64, use: Use) -> Int64:
        """Numbers of the names of stages: interned, their own, of the kernel, of the host's function, of their kind."""
        gathered, names, interned = self._packets.stages.stages, self._collector.names, self._packets.interned
        name = np.array([names[text] for text in kinds] + [names[NO_NAME]], np.int64)[stage]
        kernel = interned.find(InternedField.KERNELS, use.state, use.event, kernel_iid)
        known = [names[text] for text in interned.values(InternedField.KERNELS)]
        name = np.where(kernel >= 0, np.array([*known, 0], np.int64)[kernel], name)
        for own in (gathered.take("function", "i8"), gathered.take("name", "i8")):
            name = np.where(own >= 0, own, name)
        name_iid = gathered.take("name_iid", "i8")
        given = interned.find(InternedField.EVENT_NAMES, use.state, use.event, name_iid)
        return np.where(given >= 0, self._labels.names(np.full(len(stage), -1, np.int64), name_iid, use), name)

    def _durations(self, given: Int64) -> Int64:
        """Durations, 0 where they cannot be true."""
        bad = (given < 0) | (given > MAX_DURATION_NS)
        self._collector.quality.negative += int(np.count_nonzero(bad))
        return np.where(bad, 0, given)

    def _stage_keys(
        self, kinds: list[str], gpu: Int64, queue: Int64, stage: Int64, has_kernel: NDArray[np.bool_]
    ) -> Int64:
        """The collector's keys of what ran on lanes of GPUs."""
        _, first, inverse = np.unique(combined(gpu, queue, stage, has_kernel), return_index=True, return_inverse=True)
        keys = []
        for row in first.tolist():
            text = kinds[stage[row]] if stage[row] >= 0 else ""
            lane = kinds[queue[row]] if queue[row] >= 0 else ""
            category = _CATEGORIES.get(text) or (KERNEL if has_kernel[row] else text)
            device, queue_name = int(gpu[row]), lane or f"queue {int(queue[row])}"
            if kind_of(category) is Kind.OTHER:
                # Graphics: no activity of the GPU that analyses count.
                keys.append(self._collector.keys[TRACK_PHASE, category, f"GPU {device}", queue_name])
            else:
                keys.append(self._collector.keys["X", category, device, self._stream(device, lane)])
        return np.array(keys, np.int64)[inverse] if len(keys) else np.empty(0, np.int64)

    def _stream(self, device: int, name: str) -> str:
        """The thread of a lane of a GPU, which is then known by its name: `[07] stream 7` is stream 7."""
        match = _LANE.fullmatch(name)
        thread, title = (match[1], match[2].strip()) if match else (name, name)
        if title:
            self._collector.naming.read(device, thread, "thread_name", {"name": title})
        return thread

    def _correlations(self, given: Int64, state: Int64, identity: Int64, calls: dict[str, Int64]) -> Int64:
        """The correlation of each stage; where it has none, that of the call that says it submitted the stage."""
        submitted = self._packets.track_events.submissions
        event, its_state, its_id = (submitted.take(name, "i8") for name in ("event", "state", "id"))
        bare = np.flatnonzero((given == NO_ID) | (given == 0))
        if not len(event) or not len(bare):
            return given
        match = _index_of((its_state, its_id), (state[bare], identity[bare]))
        linked, call_event = bare[match >= 0], event[match[match >= 0]]
        call = np.searchsorted(calls["event"], call_event)
        fits = (call < len(calls["event"])) & (identity[linked] != 0)
        linked, call = linked[fits], call[fits]
        nameless = np.unique(call[(calls["correlation"][call] == NO_ID) | (calls["correlation"][call] == 0)])
        highest = max(int(given.max(initial=0)), int(calls["correlation"].max(initial=0)))
        calls["correlation"][nameless] = highest + 1 + np.arange(len(nameless))
        correlation = given.copy()
        correlation[linked] = calls["correlation"][call]
        return correlation

    def _add_dependencies(self, columns: dict[str, Int64], state: Int64, identity: Int64) -> None:
        """Arrows from the end of a stage to the start of one that waited for it; they are no launches."""
        waits = self._packets.stages.waits
        event, its_state, its_id = (waits.take(name, "i8") for name in ("event", "state", "id"))
        if not len(event):
            return
        match = _index_of((state, identity), (its_state, its_id))
        later = np.searchsorted(columns["event"], event)
        good = (match >= 0) & (later < len(columns["event"]))
        earlier, later = match[good], later[good]
        number = np.arange(len(earlier)) + FIRST_DEPENDENCY
        name = np.full(len(earlier), self._collector.names[DEPENDENCY], np.int64)
        texts = list(self._collector.keys)
        for phase, row, time in (
            ("s", earlier, columns["start"][earlier] + columns["dur"][earlier]),
            ("f", later, columns["start"][later]),
        ):
            keys, inverse = np.unique(columns["key"][row], return_inverse=True)
            mapped = [self._collector.keys[phase, DEPENDENCY, *texts[key][2:]] for key in keys.tolist()]
            key = np.array(mapped, np.int64)[inverse] if len(mapped) else np.empty(0, np.int64)
            self._collector.flows.add(time=time, name=name, key=key, id=number, event=columns["event"][row])

    def _keep_work_arguments(self, key: Int64, event: Int64) -> None:
        """Grid, block, registers, shared memory and bytes of kernels, copies and fills."""
        stages, table = self._packets.stages, self._collector.arguments.work
        kinds = self._collector.key_kinds()[key] if len(key) else np.empty(0, np.uint8)
        rows = np.flatnonzero(np.isin(kinds, GPU_WORK))
        texts = np.array([table.text_number(text) for text in stages.dimensions] + [-1], np.int32)
        registers, shared = self._figures(event)
        # What is 0 is left out of a launch.
        has_launch = stages.stages.take("has_launch", "?") & (kinds == Kind.KERNEL)
        shared[has_launch & (shared == NULL)] = 0
        columns = {
            "registers per thread": registers,
            "shared memory": shared,
            "est. achieved occupancy %": np.full(len(event), NULL, np.int64),
            "bytes": _amounts(stages.stages.take("bytes", "i8")),
            "grid": texts[stages.stages.take("grid", "i8")],
            "block": texts[stages.stages.take("block", "i8")],
        }
        chosen = {name: values[rows] for name, values in columns.items()}
        table.keep({"event": event[rows].astype(np.int32)} | chosen)

    def _figures(self, event: Int64) -> tuple[Int64, Int64]:
        """Registers and dynamic shared memory of each stage, NULL where it has none."""
        figures, interned = self._packets.stages.figures, self._packets.interned
        of_event, state = figures.take("event", "i8"), figures.take("state", "i8")
        value = figures.take("value", "i8")
        name = interned.find(InternedField.ARG_NAMES, state, of_event, figures.take("name_iid", "i8"))
        texts = np.array([*interned.values(InternedField.ARG_NAMES), ""], object)[name]
        columns = []
        for wanted in (REGISTERS, SHARED):
            rows = np.flatnonzero(texts == wanted)
            column = np.full(len(event), NULL, np.int64)
            column[np.searchsorted(event, of_event[rows])] = value[rows]
            columns.append(_amounts(column))
        return columns[0], columns[1]

    def _add_counters(self) -> None:
        """Series out of the samples of counters."""
        gathered, interned = self._packets.gpu_counters.samples, self._packets.interned
        time, event = gathered.take("time", "i8"), gathered.take("event", "i8")
        time = self._timed(time, event)
        value, counter = gathered.take("value", "f8"), gathered.take("counter", "i8")
        state, iid = gathered.take("state", "i8"), gathered.take("descriptor_iid", "i8")
        descriptor = interned.find(InternedField.COUNTER_DESCRIPTORS, state, event, iid)
        descriptors = interned.values(InternedField.COUNTER_DESCRIPTORS)
        inline, device = gathered.take("inline", "i8"), gathered.take("gpu", "i8")
        descriptor = np.where((descriptor < 0) & (inline >= 0), inline + len(descriptors), descriptor)
        descriptors = [*descriptors, *self._packets.gpu_counters.descriptors]
        kept = time != NO_TIME
        time, event, value, counter, descriptor, device = (
            column[kept] for column in (time, event, value, counter, descriptor, device)
        )
        _, inverse = np.unique(combined(descriptor, counter, device), return_inverse=True)
        order = np.argsort(inverse, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(inverse[order])) + 1) if len(order) else []:
            described = descriptors[descriptor[rows[0]]] if descriptor[rows[0]] >= 0 else None
            identity = int(counter[rows[0]])
            gpu, name = (described.gpu, described.names.get(identity)) if described else (0, None)
            gpu = int(device[rows[0]]) if device[rows[0]] >= 0 else gpu
            self._collector.counters.extend(
                f"GPU {gpu} Counters", name or f"counter {identity}", time[rows], value[rows], event[rows]
            )


def _amounts(values: Int64) -> Int64:
    """Numbers that are added up, NULL for those that cannot be true."""
    return np.where((values >= 0) & (values <= MAX_AMOUNT), values, NULL)


def _last_times(track: Int64, time: Int64) -> Int64:
    """For every event the last time of its track, at which an open begin is closed."""
    if not len(track):
        return time
    last = np.full(int(track.max()) + 1, np.iinfo(np.int64).min)
    np.maximum.at(last, track, time)
    return last[track]


def _index_of(keys: tuple[Int64, Int64], wanted: tuple[Int64, Int64]) -> Int64:
    """The first row of a pair of columns that equals each wanted pair; -1 where none does."""
    number = combined(*(np.concatenate(both) for both in zip(keys, wanted, strict=True)))
    count = len(keys[0])
    index = np.full(int(number.max(initial=-1)) + 1, -1, np.int64)
    index[number[:count][::-1]] = np.arange(count)[::-1]
    return index[number[count:]]


def load_perfetto(source: Source, tell: Callable[[str, int], None], cancelled: Callable[[], bool]) -> Trace:
    """Read a trace whose content is Perfetto's; `tell` hears the stage and the number of packets so far.

    Raises: NoEvents, NotATrace.
    """
    quality = Quality()
    packets = PacketCollector(Collector(quality, source.label))
    collector = packets.collector
    store = PacketStore(
        FileBlocks(source.path) if source.rereadable and source.path else MemoryBlocks(), packets.interned
    )
    reader = PacketReader(source, cancelled)
    try:
        for block in reader:
            first = collector.events
            states = packets.add(block)
            store.add(block, first, states)
            tell("reading", collector.events)
            if cancelled():
                break
    finally:
        store.finish()
    quality.partial = cancelled()
    reader.layout.dropped += packets.damaged + reader.unpacker.damaged
    reader.layout.examples += packets.offenders
    note_layout(quality, reader.layout, source)
    packets.note_contents(reader.unpacker.bomb)
    source.budget.check(PER_EVENT * collector.events)
    note_events(quality, collector)
    tell("pairing", collector.events)
    assembly = Assembly(packets)
    assembly.fill(store)
    if packets.tracks.has_tree_names:
        quality.not_shown.pop(PACKET_KINDS[PacketField.PROCESS_TREE], None)
    parts = assemble(collector, quality, {}, lambda stage: tell(stage, collector.events))
    note_times(quality)
    if len(parts.slices) + len(parts.instants) + len(parts.counters) == 0:
        reason = no_events(source, collector, reader.layout)
        if quality.not_shown and not quality.is_part and not quality.partial:
            kinds = ", ".join(f"{kind} {count:,}" for kind, count in list(quality.not_shown.items())[:MAX_NAMED])
            reason = f"{source.label} holds nothing that tracetui shows ({kinds}): ui.perfetto.dev shows it."
        raise NoEvents(reason)
    if parts.is_torch and assembly.is_from_torch:
        quality.format_losses = TORCH_PFTRACE
    store.join_ends(*_joined(assembly.ends, parts.ends))
    begins, ends = _joined((assembly.rules.begins.astype(np.int64), assembly.rules.ends.astype(np.int64)), parts.ends)
    store.rules = replace(assembly.rules, begins=begins.astype(np.int32), ends=ends.astype(np.int32))
    return _trace(source, collector, parts, packets, store)


def _joined(pairs: tuple[Int64, Int64], others: tuple[Int64, Int64]) -> tuple[Int64, Int64]:
    """Two sets of begins and their ends in one, by the begins."""
    begins, ends = (np.concatenate(both) for both in zip(pairs, others, strict=True))
    order = np.argsort(begins, kind="stable")
    return begins[order], ends[order]


def _trace(
    source: Source, collector: Collector, parts: TraceParts, packets: PacketCollector, store: PacketStore
) -> Trace:
    form = "PyTorch profiler, Perfetto" if parts.is_torch else "Perfetto"
    times = packets.times
    return replace(
        trace_of(source, collector, parts, store, form),
        origin_us=(parts.origin - times.wall_base) / 1000,
        origin_ns=times.wall_time(parts.origin),
    )
