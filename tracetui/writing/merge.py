"""The ranks of a run as one trace: processes named and ordered by rank, ids kept apart, all times on one clock.

One rank is read at a time, block by block; of a part of a run one rank's trace is in memory at a time.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from itertools import chain, count
from typing import Any

import msgspec
import numpy as np

from tracetui.errors import UsageError
from tracetui.frozen import frozen
from tracetui.model.recorded import rank_process_name, whole_number
from tracetui.ranks.rank_runs import MAX_BEGIN_GAP_NS
from tracetui.ranks.rank_set import RankSet
from tracetui.reading.decode import decoded
from tracetui.reading.load import RawEvents, load
from tracetui.reading.source import open_source
from tracetui.reading.store import Store
from tracetui.text import clean
from tracetui.writing.cut import Cut
from tracetui.writing.output import BATCH, Sink, object_around, write_array
from tracetui.writing.selection import Wanted

# Events of one rank rewritten so that they stand beside those of others in one file: ids, times and names.
#
# What a viewer joins by id (launch and kernel, operator and kernel, both ends of an arrow, forward and backward) gets
# numbers of the rank's own; processes and devices get new numbers, threads and streams stay within these. Times are
# moved by whole nanoseconds, and everything else stays the bytes that it was.

IDS_PER_RANK = 10**10
"""Ids of each rank: the third rank's correlation 12 is 20000000012."""
PROCESSES_PER_RANK = 1000
"""Distance of the sort indices of one rank from those of the next; new numbers of processes begin here, too."""
SHARED_PROCESSES = ("Spans", "Traces", "")
"""Processes of the profiler itself, which are known by these names: ranks have threads of their own in them."""
_JOINING = {
    "correlation": False,
    "External id": False,
    "external id": False,
    "Sequence number": False,
    "Fwd thread id": True,
    "Record function id": True,
    "Python id": True,
    "Python parent id": True,
}
"""Args by which events are joined, and whether 0 stands for none."""
_DEVICES = ("device", "Device Id")
_HAS_IDS = re.compile("|".join(f'"{key}"' for key in (*_JOINING, *_DEVICES)).encode())
_PROCESS_METADATA = ("process_name", "process_labels", "process_sort_index")
_WHOLE = re.compile(rb"-?\d{1,18}")
_TIME = re.compile(rb'"?(-?)(\d{1,18})(?:\.(\d{1,3})0*)?"?')
_CPU = 0
"""`Device Type` of memory of the host."""

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encode = msgspec.json.encode
Fields = dict[str, msgspec.Raw]


@frozen(eq=True)
class RankClock:
    """Offset and drift that turn the times of a rank into those of the merged file."""

    offset: int
    """Ns that are added to every time of the file."""
    drift: float = 0.0
    """Share by which its clock runs fast; 0 where none is proven."""
    origin: int = 0
    """Moment of its own times, in ns, at which the offset holds."""

    def moved(self, moment: int) -> int:
        """A time of the rank's file in the merged one, both in ns."""
        return moment + self.offset - (round(self.drift * (moment - self.origin)) if self.drift else 0)


class RankEvents:
    """Rewrites the events of one rank."""

    def __init__(self, index: int, rank: int, host: str | None, clock: RankClock, numbers: Iterator[int]) -> None:
        """`index` counts the ranks of the merged file, whose processes get the next of `numbers`."""
        self._index, self._rank, self._host, self._clock, self._numbers = index, rank, host, clock, numbers
        self._processes: dict[bytes, bytes] = {}
        self._process_args: dict[bytes, dict[str, Any]] = {}
        self._devices: set[bytes] = set()
        self._long_ids: dict[int, int] = {}

    def rewritten(self, events: Iterable[bytes]) -> Iterator[bytes]:
        """The events as they go into the merged file, without those that name processes: see `process_metadata`."""
        for event in events:
            try:
                fields = _fields.decode(event)
            except msgspec.MsgspecError:
                # No object, hence no event.
                continue
            if self._take_process_metadata(fields):
                continue
            self._set_process(fields)
            self._set_times(fields)
            self._set_ids(fields)
            yield _encode(fields)

    def process_metadata(self) -> Iterator[bytes]:
        """Events that name and order the processes: by rank, and within a rank as in its file."""
        order = sorted(self._processes, key=lambda raw: (self._sort_index(raw), raw))
        for position, raw in enumerate(order):
            args, pid = self._process_args.get(raw, {}), msgspec.Raw(self._processes[raw])
            name, label = (value if isinstance(value := args.get(key), str) else "" for key in ("name", "labels"))
            label = label or (f"GPU {raw.decode()}" if raw in self._devices else "")
            process = rank_process_name(self._rank, self._host, _text(raw), name, label)
            sort_index = self._index * PROCESSES_PER_RANK + min(position, PROCESSES_PER_RANK - 1)
            for event, args in (
                ("process_name", {"name": process}),
                ("process_sort_index", {"sort_index": sort_index}),
            ):
                yield _encode({"ph": "M", "name": event, "pid": pid, "tid": 0, "args": args})

    def devices(self, metadata: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The entries of `deviceProperties` of those devices that something ran on, under their new numbers."""
        entries = metadata.get("deviceProperties")
        for entry in entries if isinstance(entries, list) else []:
            number = whole_number(entry.get("id")) if isinstance(entry, dict) else None
            new = self._processes.get(str(number).encode())
            if new is not None:
                yield entry | {"id": int(new)}

    def stack_frames(self, metadata: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        """The frames of call stacks, under ids of the rank's own."""
        frames = metadata.get("stackFrames")
        for key, frame in frames.items() if isinstance(frames, dict) else ():
            if isinstance(frame, dict) and "parent" in frame:
                frame = frame | {"parent": self._text_id(str(frame["parent"]))}
            yield self._text_id(str(key)), frame

    def _take_process_metadata(self, fields: Fields) -> bool:
        """Keep the args of an event that names or orders a process; False for other events."""
        if bytes(fields.get("ph", b"")) != b'"M"':
            return False
        name = decoded(bytes(fields.get("name", b"null")))
        args = decoded(bytes(fields["args"])) if "args" in fields else None
        if name not in _PROCESS_METADATA or not isinstance(args, dict):
            return False
        raw = _id_bytes(fields.get("pid"))
        if _text(raw) not in SHARED_PROCESSES:
            self._process_args.setdefault(raw, {}).update(args)
        return True

    def _sort_index(self, raw: bytes) -> float:
        index = self._process_args.get(raw, {}).get("sort_index")
        return float(index) if isinstance(index, int | float) else 0.0

    def _set_process(self, fields: Fields) -> None:
        """Put the event into a process of its rank."""
        if "pid" not in fields and "ts" not in fields:
            return
        pid, tid = _id_bytes(fields.get("pid")), _id_bytes(fields.get("tid"))
        if _text(pid) in SHARED_PROCESSES:
            fields["tid"] = msgspec.Raw(_encode(f"rank {self._rank} {_text(tid)}".rstrip()))
            return
        new = self._process(pid)
        fields["pid"] = msgspec.Raw(new)
        if tid == pid:
            # The main thread, which has the number of its process.
            fields["tid"] = msgspec.Raw(new)

    def _process(self, raw: bytes) -> bytes:
        if raw not in self._processes:
            self._processes[raw] = str(next(self._numbers)).encode()
        return self._processes[raw]

    def _set_times(self, fields: Fields) -> None:
        start = _nanoseconds(fields.get("ts"))
        if start is None:
            return
        moved = self._clock.moved(start)
        fields["ts"] = msgspec.Raw(_microseconds(moved))
        length = _nanoseconds(fields.get("dur")) if self._clock.drift else None
        if length is not None:
            # The end moves with the same drift, so that slices stay inside of those around them.
            fields["dur"] = msgspec.Raw(_microseconds(self._clock.moved(start + length) - moved))

    def _set_ids(self, fields: Fields) -> None:
        for key in ("id", "bind_id", "sf", "esf"):
            if key in fields:
                fields[key] = self._id(bytes(fields[key]), key in ("sf", "esf"))
        if "id2" in fields and isinstance(double := decoded(bytes(fields["id2"])), dict):
            ids = {key: self._text_id(str(value)) for key, value in double.items()}
            fields["id2"] = msgspec.Raw(_encode(ids))
        if "args" in fields and _HAS_IDS.search(memoryview(fields["args"])):
            self._set_args(fields)

    def _set_args(self, fields: Fields) -> None:
        try:
            args = _fields.decode(fields["args"])
        except msgspec.MsgspecError:
            return
        for key, is_none_at_zero in _JOINING.items():
            raw = bytes(args[key]) if key in args else b""
            if _WHOLE.fullmatch(raw) and not (is_none_at_zero and int(raw) <= 0):
                args[key] = msgspec.Raw(str(self._rank_id(int(raw))).encode())
        for key in _DEVICES:
            raw = bytes(args[key]) if key in args else b""
            if raw.isdigit() and whole_number(decoded(bytes(args.get("Device Type", b"1")))) != _CPU:
                self._devices.add(raw)
                args[key] = msgspec.Raw(self._process(raw))
        fields["args"] = msgspec.Raw(_encode(args))

    def _id(self, raw: bytes, is_text: bool) -> msgspec.Raw:
        if is_text or not _WHOLE.fullmatch(raw):
            return msgspec.Raw(_encode(self._text_id(_text(raw))))
        return msgspec.Raw(str(self._rank_id(int(raw))).encode())

    def _text_id(self, text: str) -> str:
        return f"{self._rank}:{text}"

    def _rank_id(self, number: int) -> int:
        """A number that no other rank has."""
        if abs(number) >= IDS_PER_RANK // 2:
            number = self._long_ids.setdefault(number, IDS_PER_RANK - 1 - len(self._long_ids))
        return number + self._index * IDS_PER_RANK if number >= 0 else number - self._index * IDS_PER_RANK


def _id_bytes(raw: msgspec.Raw | None) -> bytes:
    """A process or thread id as bytes: `7` and `"7"` are the same."""
    value = b"0" if raw is None else bytes(raw)
    inner = value[1:-1]
    return inner if value[:1] == b'"' and inner.isdigit() else value


def _text(raw: bytes) -> str:
    """A JSON value as text, itself where it is one."""
    value = decoded(raw)
    return value if isinstance(value, str) else raw.decode("utf-8", "replace")


def _nanoseconds(raw: msgspec.Raw | None) -> int | None:
    """A time in microseconds as whole ns, None for what is no time."""
    if raw is None:
        return None
    text = bytes(raw)
    if match := _TIME.fullmatch(text):
        value = int(match[2]) * 1000 + int((match[3] or b"").ljust(3, b"0"))
        return -value if match[1] else value
    try:
        number = Decimal(text.strip(b'"').decode())
    except (InvalidOperation, UnicodeDecodeError):
        return None
    return round(number * 1000) if number.is_finite() and abs(number) < 10**18 else None


def _microseconds(ns: int) -> bytes:
    """Whole ns as microseconds with three decimals."""
    sign, size = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{size // 1000}.{size % 1000:03d}".encode()


MANIFEST = "perfetto_manifest.json"
"""Name of the manifest in an archive; Perfetto from version 58 on knows it by its content."""
HEAD_NS = 60 * 10**9
"""Time 0 of the merged file lies this many ns before the first work, in whole seconds: nothing stands before it."""
EVERYTHING = Wanted()


@dataclass
class Merge:
    """A merge, chosen and not yet written."""

    ranks: RankSet
    wanted: Wanted = EVERYTHING
    """Steps, or a range of time from the start of the earliest rank."""
    numbers: Sequence[int] | None = None
    """Ranks that are written, None for all."""
    notes: list[str] = field(default_factory=list)
    """Sentences that a reader of the file must know; complete once it is written."""

    def __post_init__(self) -> None:
        """Raises: UsageError for a rank that is not there."""
        absent = sorted(set(self.numbers or ()) - set(self.ranks.ranks))
        if absent:
            there = f"{self.ranks.ranks[0]} to {self.ranks.ranks[-1]}" if len(self.ranks) > 1 else self.ranks.ranks[0]
            raise UsageError(f"There is no trace of rank {', '.join(map(str, absent))}: there are {there}.")

    @property
    def base_ns(self) -> int:
        """Time 0 of the file, in ns as the clock of the first rank shows it."""
        return (self.ranks.origin_ns - HEAD_NS) // 10**9 * 10**9

    @property
    def indices(self) -> list[int]:
        """Positions in `ranks` of those that are written."""
        return [index for index, rank in enumerate(self.ranks.ranks) if self.numbers is None or rank in self.numbers]

    def write(self, sink: Sink, progress: Callable[[int, int], None] = lambda done, total: None) -> int:
        """Write the file and return the number of events; `progress` gets the ranks written and all ranks.

        Raises: UsageError where nothing is left; TraceError for a file that cannot be read any more.
        """
        keys: dict[str, Any] = {"deviceProperties": [], "ranks": []}
        events = self._events(keys, progress)
        first = next(events, None)
        if first is None:
            raise UsageError("No rank has anything in what was asked for.")
        head = {"schemaVersion": 1, "displayTimeUnit": "ms", "baseTimeNanoseconds": self.base_ns}
        sink.write(object_around(head)[0])
        count = write_array(sink, chain([first], events))
        # The keys behind the events of the files are known by now.
        sink.write(b"," + msgspec.json.encode(keys)[1:] + b"\n")
        return count

    def write_archive(self, sink: Sink, progress: Callable[[int, int], None] = lambda done, total: None) -> int:
        """Write the ranks' own traces and a manifest for Perfetto with the offsets of their clocks; returns how many.

        Raises: UsageError for a trace of 2 GiB and more; TraceError for a file that cannot be read any more.
        """
        names = {index: f"rank{self.ranks.ranks[index]}_trace.json" for index in self.indices}
        with tempfile.TemporaryFile() as spool:
            with zipfile.ZipFile(spool, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr(zipfile.ZipInfo(MANIFEST), msgspec.json.encode(self._manifest(names)))
                for position, (index, name) in enumerate(names.items()):
                    progress(position, len(names))
                    self._add_whole(archive, index, name)
            spool.seek(0)
            while block := spool.read(BATCH):
                sink.write(block)
        progress(len(names), len(names))
        return len(names)

    def _manifest(self, names: dict[int, str]) -> dict[str, Any]:
        """The manifest of some files: a machine each, and the times of all on the clock of one of them."""
        clocks = {}
        for index in names:
            clocks[index], remark = self._clock(index)
            self.notes += [remark] if remark else []
            if clocks[index].drift:
                ppm = clocks[index].drift * 1e6
                self.notes.append(
                    f"Rank {self.ranks.ranks[index]} drifts by {ppm:.0f} ppm, which a manifest cannot say."
                )
        # What is moved to before the start of the reference is lost: the one that begins first is it.
        reference = min(names, key=lambda index: clocks[index].offset)
        files = []
        for index, name in names.items():
            host = self.ranks.hosts[index]
            machine = f"rank {self.ranks.ranks[index]}" + (f" · {clean(host)}" if host else "")
            entry: dict[str, Any] = {"path": name, "machine": {"name": machine}}
            if index != reference:
                offset = clocks[index].offset - clocks[reference].offset
                entry["clocks"] = {"sync_to": {"file": names[reference]}, "offset_ns": offset}
            files.append(entry)
        return {"perfetto_manifest": {"version": 1, "files": files}}

    def _add_whole(self, archive: zipfile.ZipFile, index: int, name: str) -> None:
        """Add the unwrapped trace of a rank to an archive."""
        buffer, size = memoryview(bytearray(BATCH)), 0
        info = zipfile.ZipInfo(name)
        info.compress_type = zipfile.ZIP_DEFLATED
        source = open_source(self.ranks.run.files[index].path)
        with contextlib.closing(source), archive.open(info, "w") as member:
            while count := source.readinto(buffer):
                size += count
                if size > zipfile.ZIP64_LIMIT:
                    rank = self.ranks.ranks[index]
                    raise UsageError(f"The trace of rank {rank} has over 2 GiB: merge it into a file .json.gz instead.")
                member.write(buffer[:count])
            if source.damage:
                self.notes.append(f"Rank {self.ranks.ranks[index]} is written up to its end: it {source.damage}.")

    def _events(self, keys: dict[str, Any], progress: Callable[[int, int], None]) -> Iterator[bytes]:
        # Small numbers look like those of devices.
        numbers, indices = count(PROCESSES_PER_RANK), self.indices
        for position, index in enumerate(indices):
            progress(position, len(indices))
            rank, host = self.ranks.ranks[index], self.ranks.hosts[index]
            clock, remark = self._clock(index)
            events = RankEvents(position, rank, host, clock, numbers)
            metadata: dict[str, Any] = {}
            blocks = self._whole(index, metadata) if self.wanted.everything else self._part(index, metadata)
            for block in blocks:
                yield from events.rewritten(block)
            yield from events.process_metadata()
            keys["deviceProperties"] += events.devices(metadata)
            frames = dict(events.stack_frames(metadata))
            if frames:
                keys.setdefault("stackFrames", {}).update(frames)
            keys["ranks"].append(self._rank_entry(index, metadata))
            self.notes += [remark] if remark else []
        progress(len(indices), len(indices))

    def _whole(self, index: int, metadata: dict[str, Any]) -> Iterator[list[bytes]]:
        """All events of a rank; fills `metadata` with the keys beside them."""
        raw = RawEvents(self.ranks.run.files[index].path)
        yield from raw
        if raw.damage:
            self.notes.append(f"Rank {self.ranks.ranks[index]} is written up to its end: it {raw.damage}.")
        metadata.update(raw.metadata)

    def _part(self, index: int, metadata: dict[str, Any]) -> Iterator[Iterator[bytes]]:
        """The events of a rank that were asked for; fills `metadata` likewise."""
        trace = load(self.ranks.run.files[index].path)
        try:
            cut = Cut(trace, self._own_wanted(index, trace.origin_ns))
        except UsageError as error:
            self.notes.append(f"Rank {self.ranks.ranks[index]} has nothing of it: {error}")
            return
        yield cut.events()
        assert isinstance(trace.store, Store), "it was read from a file"
        metadata.update(trace.store.container.metadata)

    def _own_wanted(self, index: int, origin: int) -> Wanted:
        """The range that was asked for, on the rank's own clock from the start of its own trace."""
        if self.wanted.window is None:
            return self.wanted
        clock, _ = self._clock(index)
        base = self.ranks.summaries[index].header.base_ns or 0
        start = self.ranks.origin_ns - self.base_ns - clock.moved(origin - base)
        low, high = (None if each is None else each + start for each in self.wanted.window)
        return Wanted(window=(low, high))

    def _clock(self, index: int) -> tuple[RankClock, str]:
        """The clock of a rank, and a sentence where its times are a guess."""
        clocks, summary, rank = self.ranks.clocks, self.ranks.summaries[index], self.ranks.ranks[index]
        base, host = summary.header.base_ns or 0, int(clocks.host[index])
        if clocks.is_known[host]:
            drift, origin = float(clocks.drift[host]), int(clocks.origin[host])
            return RankClock(base - int(clocks.shift[host]) - self.base_ns, drift, origin - base), ""
        known = clocks.is_known[clocks.host]
        starts = clocks.common(
            np.flatnonzero(known), np.array([each.window[0] for each in self.ranks.summaries])[known]
        )
        first = int(starts.min())
        apart = summary.window[0] - first
        if abs(apart) <= MAX_BEGIN_GAP_NS:
            remark = f"Nothing bounds the clock of rank {rank}: its times stand as they are."
            return RankClock(base - self.base_ns), remark
        remark = f"Nothing bounds the clock of rank {rank}, which is far from the others': it begins where they begin."
        return RankClock(base - self.base_ns - apart), remark

    def _rank_entry(self, index: int, metadata: dict[str, Any]) -> dict[str, Any]:
        """The entry of a rank in the merged file: its source, the shift of its clock, and the keys of its own file."""
        clocks, host = self.ranks.clocks, int(self.ranks.clocks.host[index])
        error = float(clocks.error[host])
        merged = ("deviceProperties", "stackFrames", "traceEvents")
        return {
            "rank": self.ranks.ranks[index],
            "file": self.ranks.shown_path(self.ranks.run.files[index].path),
            "host": self.ranks.hosts[index],
            "clock_shift_ns": int(clocks.shift[host]) if clocks.is_known[host] else None,
            "clock_error_ns": None if np.isnan(error) else round(error),
            "clock_drift_ppm": float(clocks.drift[host]) * 1e6,
            "metadata": {key: value for key, value in metadata.items() if key not in merged},
        }
