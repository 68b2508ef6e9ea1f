"""Turns a log of torch.compile (`TORCH_TRACE`) into the JSON of a trace while it is read: a wrapping like gzip.

A line of the log is an entry, an object of JSON behind the time and the process; its payload follows in lines behind a
tab, and has a checksum. The phases that torch records as Chrome events become slices on a thread for each compilation,
and what it says beside them (the user's stack, reasons, caches, generated code) instants of the category
`COMPILE_FACTS` with arguments. Nothing larger than `MAX_PAYLOAD_BYTES` is held. What cannot be read is left out and
counted.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from tracetui.model.recorded import COMPILE_FACTS, COMPILE_PHASES, WHOLE_COMPILATION
from tracetui.reading.unpacking import Reader
from tracetui.text import clean

UNNAMED = "outside of compilations"
"""Thread of the phases that belong to no compilation."""
MAX_PAYLOAD_BYTES = 1 << 23
"""Maximum bytes of a line, and of the payload of an entry."""
MAX_COMPILATIONS = 50_000
"""Compilations that have a thread of their own."""
MAX_STRINGS = 100_000
"""Maximum names of files that are kept, to which stacks refer by number."""
MAX_TEXT = 20_000
"""Characters of a text that are kept, but for generated code."""
MAX_FRAMES = 50
"""Frames of a stack that are kept, the innermost ones."""
MAX_PHASES = 200_000
"""Maximum phases that are remembered, so that one which comes again is seen."""
MAX_KINDS, MAX_KIND, MAX_NAMED_KINDS = 100, 60, 5
"""Maximum kinds of other entries that are counted, characters of each, and kinds that are named."""
MAX_HELD = 1000
"""Entries that wait for one that knows the year; then they go without."""
_CHUNK = 1 << 18
_HEADER = re.compile(
    rb"(?:\[rank\d{1,6}\]:)?[VDIWECF](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{1,6}) (\d{1,18}) "
    rb"\S{1,4096}:\d{1,9}\] (\{.*)"
)
_METRICS = (
    *("co_name", "co_filename", "co_firstlineno", "entire_frame_compile_time_s", "duration_us", "is_forward"),
    *("backend_compile_time_s", "inductor_compile_time_s"),
    *("fail_type", "fail_reason", "fail_user_frame_filename", "fail_user_frame_lineno", "restart_reasons"),
    *("recompile_reason", "cudagraph_skip_reason", "guard_count", "graph_op_count", "has_guarded_code"),
    *("compile_id", "start_time", "start_time_us"),
)
"""Keys of `compilation_metrics` that are kept; the settings of torch are some 30 KB more."""
_CACHE = re.compile(r"\w{1,40}_cache_(?:hit|miss|bypass)")
_BREAKS, _RECOMPILES, _CODE = "dynamo_graph_break_reason", "recompile_reasons", "inductor_output_code"
_FOLDERS = re.compile(r".*[/\\]", re.DOTALL)
_FIRST_PHASE = "dynamo"

Entry = dict[str, Any]


@dataclass
class _Compilation:
    """A compilation of which entries have come."""

    thread: str
    runs: int = 1
    """Number of the compilations with the same id: after a reset torch counts from 0 again."""
    start: float | None = None
    has_phases: bool = False
    is_done: bool = False


class _OpenEntry:
    """An entry whose payload is read."""

    def __init__(self, head: re.Match[bytes], entry: Entry) -> None:
        self.head, self.entry = head, entry
        self.payload = bytearray()
        self.is_large = False
        self._checksum = hashlib.md5(usedforsecurity=False)
        # True for an entry whose payload is read.
        name = about.get("name") if isinstance(about := entry.get("artifact"), dict) else None
        is_artifact = isinstance(name, str) and (name in (_BREAKS, _RECOMPILES) or bool(_CACHE.fullmatch(name)))
        self._is_wanted = self.is_used = "chromium_event" in entry or _CODE in entry or is_artifact
        self._before = b""

    def add(self, line: bytes) -> None:
        """Append a line."""
        line = self._before + line
        self._checksum.update(line)
        self._before = b"\n"
        if self._is_wanted:
            self.payload += line
            if len(self.payload) > MAX_PAYLOAD_BYTES:
                self._is_wanted, self.is_large = False, True
                self.payload.clear()

    @property
    def is_whole(self) -> bool:
        """True where the payload has the checksum that the entry names, if it names one."""
        return bool(self.entry.get("has_payload", self._checksum.hexdigest()) == self._checksum.hexdigest())


class TorchLogReader:
    """The bytes of a trace, made of those of a log."""

    def __init__(self, raw: Reader) -> None:
        self.damage: str | None = None
        self.remark = ""
        self._others = Counter[str]()
        """Kinds of entries that belong to no compilation."""
        self._raw = raw
        self._pending = memoryview(b"")
        self._pieces = self._json()
        self._is_open = False
        """True once the last line came, where it has no end, and for the last entry."""
        self._foreign = self._invalid = self._unmatched = self._large = 0
        self._compilations: dict[tuple[int, str], _Compilation] = {}
        self._phases: set[tuple[int, bytes]] = set()
        """Digests of phases by process: an entry may stand in the log again, under another id in front of it."""
        self._again: set[tuple[int, str]] = set()
        """Ids in front of entries whose compilation is in the log already."""
        self._strings: dict[tuple[int, int], str] = {}
        self._processes: dict[int, str] = {}
        """Names of the processes: the rank is part of it once the process group is there."""
        self._year_us: float | None = None
        """From the times in front of the lines, which lack the year and the zone, to those of the phases."""
        self._held: list[Entry] = []

    def readinto(self, buffer: memoryview) -> int:
        """Fill the buffer from its start; returns how much, 0 at the end."""
        while not self._pending:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._pending = memoryview(piece)
        count = min(len(self._pending), len(buffer))
        buffer[:count] = self._pending[:count]
        self._pending = self._pending[count:]
        return count

    def _json(self) -> Iterator[bytes]:
        before = b'{"traceEvents": [\n'
        for event in self._events():
            yield before + orjson.dumps(event)
            before = b",\n"
        yield (before if before.startswith(b"{") else b"") + b"\n]}\n"
        parts = (
            (self._foreign, "{} of the log {is} no entry of torch.compile", "line"),
            (self._invalid, "{} {is} no valid JSON", "entry"),
            (self._unmatched, "{} {has} a text that does not match its checksum (cut off, or mixed up)", "entry"),
            (self._large, f"{{}} {{is}} longer than {MAX_PAYLOAD_BYTES >> 20} MiB", "entry"),
        )
        words = [_count_words(count, text, noun) for count, text, noun in parts if count]
        self.remark = f"{'; '.join(words)}: left out." if words else ""
        if before.startswith(b"{") and self._others:
            kinds = ", ".join(f"{count:,} {clean(kind)}" for kind, count in self._others.most_common(MAX_NAMED_KINDS))
            self.remark = f"Its entries are of something else: {kinds}. {self.remark}".rstrip()

    # Lines and entries.

    def _lines(self) -> Iterator[bytes]:
        """The lines without their ends; one that is too long is empty."""
        buffer, rest, is_long = memoryview(bytearray(_CHUNK)), bytearray(), False
        while count := self._raw.readinto(buffer) or 0:
            first, *more = bytes(buffer[:count]).split(b"\n")
            rest += first
            if len(rest) > MAX_PAYLOAD_BYTES:
                rest.clear()
                is_long = True
            if more:
                self._large += is_long
                yield b"" if is_long else bytes(rest)
                yield from more[:-1]
                rest, is_long = bytearray(more[-1]), False
        self.damage, self._is_open = getattr(self._raw, "damage", None), bool(rest) or is_long
        if self._is_open:
            yield bytes(rest)

    def _entries(self) -> Iterator[tuple[re.Match[bytes], Entry, bytes]]:
        """Head, object and payload of each entry, the payload empty where nothing is made of it."""
        open_entry: _OpenEntry | None = None
        for line in self._lines():
            if line.startswith(b"\t"):
                self._foreign += open_entry is None
                if open_entry is not None:
                    open_entry.add(line[1:])
                continue
            if not (head := _HEADER.fullmatch(line.removesuffix(b"\r"))):
                self._foreign += bool(line.strip()) and not self._is_open
                self._note_end(bool(line))
                continue
            if open_entry is not None:
                yield from self._checked(open_entry)
            try:
                open_entry = _OpenEntry(head, orjson.loads(head[8]))
            except orjson.JSONDecodeError:
                self._invalid += not self._is_open
                self._note_end(True)
                open_entry = None
        if open_entry is not None:
            self._is_open = True
            yield from self._checked(open_entry)

    def _checked(self, each: _OpenEntry) -> Iterator[tuple[re.Match[bytes], Entry, bytes]]:
        if each.is_large:
            self._large += 1
        elif each.is_whole or not each.is_used:
            self._note_end(not each.is_whole)
            yield each.head, each.entry, bytes(each.payload)
        else:
            self._unmatched += not self._is_open
            self._note_end(True)

    def _note_end(self, is_cut: bool) -> None:
        """Take note that the last line has no end, of which nothing can be made."""
        if self._is_open and is_cut and self.damage is None:
            self.damage = "its last entry stops before its end"

    # Events.

    def _events(self) -> Iterator[Entry]:
        for head, entry, payload in self._entries():
            month, day, hour, minute, second = (int(head[number]) for number in range(1, 6))
            try:
                moment = datetime(2000, month, day, hour, minute, second, tzinfo=UTC).timestamp()
            except ValueError:
                self._invalid += 1
                continue
            moment = 1e6 * moment + int(head[6].ljust(6, b"0"))
            for event in self._of_entry(int(head[7]), moment, entry, payload):
                if event.pop("is_of_line", False):
                    self._held.append(event)
                else:
                    if self._year_us is None:
                        self._year_us = event["ts"] - moment
                    yield event
            if self._held and (self._year_us is not None or len(self._held) > MAX_HELD):
                yield from self._released()
        yield from self._released()

    def _released(self) -> Iterator[Entry]:
        """The events that have the times of their lines, with those of the phases where they are known."""
        self._year_us = self._year_us or 0.0
        for event in self._held:
            if "ts" in event:
                event["ts"] += self._year_us
            yield event
        self._held.clear()

    def _of_entry(self, pid: int, moment: float, entry: Entry, payload: bytes) -> Iterator[Entry]:
        rank = f", rank {entry['rank']}" if isinstance(entry.get("rank"), int) else ""
        if (pid not in self._processes or (rank and not self._processes[pid])) and (
            "chromium_event" in entry or _id_of(entry)
        ):
            self._processes[pid] = rank
            args = {"name": f"torch.compile{rank}"}
            yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": args, "is_of_line": True}
        if "str" in entry:
            match entry["str"]:
                case [str(text), int(number)] if len(self._strings) < MAX_STRINGS:
                    self._strings[pid, number] = text[:MAX_TEXT]
            return
        if "chromium_event" in entry:
            yield from self._phase(pid, entry, payload)
            return
        key = _id_of(entry)
        if not key and len(self._others) < MAX_KINDS:
            self._others[next(iter(entry), "")[:MAX_KIND]] += 1
        if not key or (pid, key) in self._again:
            return
        if isinstance(start := entry.get("dynamo_start"), dict):
            yield from self._start(pid, key, moment, start)
        elif isinstance(metrics := entry.get("compilation_metrics"), dict):
            args = {name: _cut(metrics[name]) for name in _METRICS if metrics.get(name) not in (None, [])}
            mine = self._compilation(pid, key)
            if metrics.get("is_forward") is not False:
                mine.is_done = True
                if not mine.has_phases and mine.start is not None:
                    yield self._slice(pid, mine, moment)
            yield self._instant(pid, key, moment, "compilation_metrics", args)
        elif isinstance(about := entry.get(_CODE), dict):
            args = {"file": _cut(about.get("filename")), "code": payload.decode("utf-8", "replace")}
            yield self._instant(pid, key, moment, "output_code", args)
        elif isinstance(about := entry.get("artifact"), dict) and payload:
            yield from self._artifact(pid, key, moment, str(about.get("name")), payload.decode("utf-8", "replace"))

    def _phase(self, pid: int, entry: Entry, payload: bytes) -> Iterator[Entry]:
        """A Chrome event, on the thread of its compilation."""
        try:
            event = orjson.loads(payload)
            name, phase, time = event["name"], event["ph"], float(event["ts"])
        except (orjson.JSONDecodeError, TypeError, ValueError, KeyError, OverflowError):
            self._invalid += 1
            return
        args = event["args"] if isinstance(event.get("args"), dict) else {}
        given = args.get("compile_id")
        key = given if isinstance(given, str) and given not in ("None", "") else _id_of(entry)
        thread, begins = UNNAMED, name == _FIRST_PHASE and phase == "B"
        digest = pid, hashlib.md5(payload, usedforsecurity=False).digest()
        if begins:
            change = self._again.add if digest in self._phases else self._again.discard
            change((pid, _id_of(entry)))
        if digest in self._phases:
            return
        if len(self._phases) < MAX_PHASES:
            self._phases.add(digest)
        if key:
            mine = self._compilation(pid, key[:100], begins)
            mine.has_phases = True
            thread = mine.thread
        yield {
            "ph": phase if isinstance(phase, str) else "i",
            "name": str(name)[:MAX_TEXT],
            "cat": COMPILE_PHASES,
            "ts": time,
            **({"dur": event["dur"]} if "dur" in event else {}),
            "pid": pid,
            "tid": thread,
            "args": args,
        }

    def _start(self, pid: int, key: str, moment: float, start: Entry) -> Iterator[Entry]:
        mine = self._compilation(pid, key, begins=True)
        mine.start, stack = moment if mine.start is None else mine.start, start.get("stack")
        frames = [
            f"{self._strings.get((pid, name), '?') if isinstance(name, int) else name}:{frame.get('line')} in "
            f"{frame.get('name')}"
            for frame in (stack if isinstance(stack, list) else [])[-MAX_FRAMES:]
            if isinstance(frame, dict)
            for name in [frame.get("filename")]
        ]
        if frames:
            place, _, function = frames[-1].rpartition(" in ")
            label = f"{mine.thread} {function} ({_FOLDERS.sub('', place)})"
            about = {"ph": "M", "name": "thread_name", "pid": pid, "tid": mine.thread, "args": {"name": label}}
            yield about | {"is_of_line": True}
        yield self._instant(pid, key, moment, "dynamo_start", {"stack": _cut("\n".join(frames))})

    def _artifact(self, pid: int, key: str, moment: float, name: str, text: str) -> Iterator[Entry]:
        if name == _BREAKS:
            yield self._instant(pid, key, moment, "graph_break", {"reason": _cut(text)})
        elif name == _RECOMPILES:
            yield self._instant(pid, key, moment, "recompile", {"reason": _cut(_joined(text))})
        elif _CACHE.fullmatch(name):
            try:
                about = orjson.loads(text)
            except orjson.JSONDecodeError:
                about = None
            args = (
                {each: _cut(about[each]) for each in ("key", "cache_bypass_reason") if each in about}
                if isinstance(about, dict)
                else {}
            )
            yield self._instant(pid, key, moment, name, args)

    def _instant(self, pid: int, key: str, moment: float, name: str, args: Entry) -> Entry:
        thread = self._compilation(pid, key).thread
        event = {"ph": "i", "s": "t", "name": name, "cat": COMPILE_FACTS, "ts": moment, "pid": pid, "tid": thread}
        return event | {"args": args, "is_of_line": True}

    def _slice(self, pid: int, mine: _Compilation, end: float) -> Entry:
        """A compilation of a log that has no phases."""
        start = end if mine.start is None else mine.start
        event = {"ph": "X", "name": WHOLE_COMPILATION, "cat": COMPILE_PHASES, "ts": start, "dur": max(end - start, 0)}
        return event | {"pid": pid, "tid": mine.thread, "args": {}, "is_of_line": True}

    def _compilation(self, pid: int, key: str, begins: bool = False) -> _Compilation:
        """The compilation with an id, another one where that is done and the id begins again."""
        mine = self._compilations.get((pid, key))
        if mine is None:
            mine = _Compilation(key)
            if len(self._compilations) < MAX_COMPILATIONS:
                self._compilations[pid, key] = mine
        elif begins and mine.is_done:
            runs = mine.runs + 1
            mine = self._compilations[pid, key] = _Compilation(f"{key} ({runs})", runs)
        return mine


def _joined(text: str) -> str:
    """The reasons of a recompilation, a line for each: torch writes one as text, several as a list."""
    try:
        reasons = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return "\n".join(map(str, reasons)) if isinstance(reasons, list) else text


def _id_of(entry: Entry) -> str:
    """The compile id as torch writes it, `0/1` or `!0/0/1`; empty where there is none."""
    outer, frame, version = (entry.get(key) for key in ("compiled_autograd_id", "frame_id", "frame_compile_id"))
    numbers = [each for each in (outer, frame, version) if isinstance(each, int)]
    if not numbers or (isinstance(frame, int) != isinstance(version, int)):
        return ""
    return ("!" if isinstance(outer, int) else "") + "/".join(map(str, numbers))


def _cut(value: Any) -> Any:
    """A value of which a text, or each of a list, is not longer than `MAX_TEXT`."""
    if isinstance(value, str):
        return value[:MAX_TEXT]
    if isinstance(value, list):
        return [str(each)[:MAX_TEXT] for each in value[:MAX_FRAMES]]
    return value if isinstance(value, (int, float, bool)) else None


def _count_words(count: int, text: str, noun: str) -> str:
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    verbs = {"is": "is", "has": "has"} if count == 1 else {"is": "are", "has": "have"}
    return text.format(f"{count:,} {noun if count == 1 else plural}", **verbs)
