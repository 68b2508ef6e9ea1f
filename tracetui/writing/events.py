"""Events with every name that is a user's own replaced by a stand-in: the same for the same name, and no way back.

Stand-ins are made with a secret, so that a name cannot be found by trying likely ones; whoever has the secret can
make two files with the same stand-ins. Fields that are not listed here are left out.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from tracetui.model.trace import Kind
from tracetui.reading.decode import decoded
from tracetui.reading.torch import kind_of
from tracetui.writing.args import anonymous_args, anonymous_metadata, is_number
from tracetui.writing.kernels import anonymous_kernel
from tracetui.writing.public_names import CATEGORIES, is_call, is_public_name

PREFIX = "anon_"
_LETTERS = "bcdghjkmpqrtvwxz"
"""Sixteen letters of which no word of a kernel's name is made, and no number, which other names differ in."""
_BYTES = 6
"""Of a stand-in: a hundred thousand names have two of the same with a chance of one in fifty thousand."""

_NUMERIC = re.compile(rb'-?\d+(\.\d+)?([eE][-+]?\d+)?|"(0x[0-9a-fA-F]+|-?\d+(\.\d+)?)"|null|true|false')
_TIMES = ("ts", "dur", "tts", "tdur", "flow_in", "flow_out")
_IDS = ("id", "bind_id")
_ONE_LETTER_FIELDS = ("ph", "bp", "s")
_PUBLIC_ID = re.compile(r"|-?\d+|stream \d+|GPU \d+( Counters)?|Spans|Traces|PyTorch Profiler")
_PUBLIC_PROCESS = re.compile(r"(python|pt_main_thread)[\d.]*")
_PUBLIC_LABEL = re.compile(r"CPU|(GPU|XPU|MTIA|HPU|NPU) \d+")
_PUBLIC_THREAD = re.compile(r"stream \d+( *context| \(sync\))? *|thread -?\d+( \((python[\d.]*|pt_\w+)?\))?")
_NUMBERED_THREAD = re.compile(r"thread -?\d+")
_PUBLIC_LANES = {
    "process_name": _PUBLIC_PROCESS,
    "process_labels": _PUBLIC_LABEL,
    "thread_name": _PUBLIC_THREAD,
}
_METADATA_TEXTS = {"process_name": "name", "process_labels": "labels", "thread_name": "name"}
_FLOWS = (b"s", b"t", b"f")
_SORT_INDEXES = ("process_sort_index", "thread_sort_index")
_FRAME = re.compile(r"(?P<file>.+)\((?P<line>\d+)\): (?P<function>.+)", re.DOTALL)
_PARTLY_PUBLIC = (
    (re.compile(r"(autograd::engine::evaluate_function: )(.+)()", re.DOTALL), True),
    (re.compile(r"(Optimizer\.(?:step|zero_grad)#)(.+)(\.(?:step|zero_grad))", re.DOTALL), False),
    (re.compile(r"(## Call CompiledFxGraph )(\w+)( ##)"), False),
    (re.compile(r"((?:nccl|gloo|mpi|ucc|xccl|hccl):)(.+)()", re.DOTALL), False),
)
"""Names of which only a part is a user's own, and whether that part may be a public name as well."""

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encode = msgspec.json.encode


class Anonymizer:
    """Replaces the names that are a user's own by stand-ins, with one secret for all of a file."""

    def __init__(self, secret: bytes) -> None:
        self._key = hashlib.blake2b(secret, digest_size=32).digest()
        self._stand_ins: dict[str, str] = {}
        self._names: dict[tuple[bytes, Kind], bytes] = {}
        self._categories: dict[bytes, tuple[bytes, str]] = {}

    def stand_in(self, text: str) -> str:
        """The stand-in for a text; the empty text stays."""
        if text and text not in self._stand_ins:
            digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=_BYTES, key=self._key).hexdigest()
            self._stand_ins[text] = PREFIX + "".join(_LETTERS[int(digit, 16)] for digit in digest)
        return self._stand_ins[text] if text else text

    def name(self, text: str, kind: Kind) -> str:
        """The name of a slice without what is a user's own."""
        if kind in (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET):
            return anonymous_kernel(text, self.stand_in)
        if kind == Kind.PYTHON:
            return self._frame(text)
        if (kind == Kind.RUNTIME and is_call(text)) or is_public_name(text):
            return text
        for pattern, may_be_public in _PARTLY_PUBLIC:
            if found := pattern.fullmatch(text):
                inner = self.name(found[2], kind) if may_be_public else self.stand_in(found[2])
                return f"{found[1]}{inner}{found[3]}"
        # A generated kernel lends its name to the operator that launches it.
        return anonymous_kernel(text, self.stand_in) if text.isidentifier() else self.stand_in(text)

    def events(self, events: Iterable[bytes]) -> Iterator[bytes]:
        """The same events without what is a user's own."""
        for event in events:
            try:
                fields = _fields.decode(event)
            except msgspec.MsgspecError:
                # No object, hence no event.
                continue
            yield _encode(self._anonymous_event(fields))

    def metadata(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """The keys beside the events without what is a user's own."""
        return anonymous_metadata(metadata)

    def _anonymous_event(self, fields: Mapping[str, msgspec.Raw]) -> dict[str, Any]:
        shown: dict[str, Any] = {}
        for key in _ONE_LETTER_FIELDS:
            if key in fields and len(text := bytes(fields[key])) == 3:
                shown[key] = msgspec.Raw(text)
        phase = bytes(fields.get("ph", b""))[1:2]
        anonymous_category, category = self._category(bytes(fields.get("cat", b'""')))
        if "cat" in fields:
            shown["cat"] = msgspec.Raw(anonymous_category)
        for key in ("pid", "tid"):
            if key in fields:
                shown[key] = self._id_of_lane(bytes(fields[key]))
        if "name" in fields:
            kind = kind_of(category, _plain_text(fields.get("pid")))
            shown["name"] = msgspec.Raw(self._name(bytes(fields["name"]), kind, phase))
        for key in _TIMES:
            if key in fields and _NUMERIC.fullmatch(bytes(fields[key])):
                shown[key] = fields[key]
        self._add_ids(fields, shown)
        if "args" in fields:
            shown["args"] = msgspec.Raw(self._args(fields, phase))
        return shown

    def _name(self, raw: bytes, kind: Kind, phase: bytes) -> bytes:
        """A name as JSON; that of metadata is one of few, or replaced."""
        cached = self._names.get((raw, kind)) if phase != b"M" else None
        if cached is None:
            text = _text(raw)
            if phase in _FLOWS and text in CATEGORIES:
                return raw
            if phase == b"M":
                return _encode(text if text in (*_METADATA_TEXTS, *_SORT_INDEXES) else self.stand_in(text))
            cached = self._names[raw, kind] = _encode(self.name(text, kind))
        return cached

    def _category(self, raw: bytes) -> tuple[bytes, str]:
        """A category without what is a user's own, as JSON, and as it is."""
        known = self._categories.get(raw)
        if known is None:
            text = _text(raw)
            parts = [part if part.strip().lower() in CATEGORIES else self.stand_in(part) for part in text.split(",")]
            known = self._categories[raw] = _encode(",".join(parts)), text
        return known

    def _id_of_lane(self, raw: bytes) -> msgspec.Raw:
        """A process or thread id: numbers and the profiler's own words stay."""
        if _NUMERIC.fullmatch(raw):
            return msgspec.Raw(raw)
        text = _text(raw)
        return msgspec.Raw(raw if _PUBLIC_ID.fullmatch(text.strip()) else _encode(self.stand_in(text)))

    def _add_ids(self, fields: Mapping[str, msgspec.Raw], shown: dict[str, Any]) -> None:
        for key in _IDS:
            if key in fields:
                shown[key] = self._id(bytes(fields[key]))
        if "scope" in fields:
            shown["scope"] = self.stand_in(_text(bytes(fields["scope"])))
        double = decoded(bytes(fields["id2"])) if "id2" in fields else None
        if isinstance(double, dict):
            ids = {key: _encode(value) for key, value in double.items() if key in ("local", "global")}
            shown["id2"] = {key: self._id(value) for key, value in ids.items()}

    def _id(self, raw: bytes) -> msgspec.Raw:
        return msgspec.Raw(raw if _NUMERIC.fullmatch(raw) else _encode(self.stand_in(_text(raw))))

    def _args(self, fields: Mapping[str, msgspec.Raw], phase: bytes) -> bytes:
        if phase == b"M":
            return self._metadata_args(_text(bytes(fields.get("name", b'""'))), bytes(fields["args"]))
        if phase == b"C":
            return self._counter_args(bytes(fields["args"]))
        return anonymous_args(bytes(fields["args"]), self.stand_in, lambda name: anonymous_kernel(name, self.stand_in))

    def _metadata_args(self, name: str, raw: bytes) -> bytes:
        """What metadata says about a process or a thread."""
        args = decoded(raw)
        if not isinstance(args, dict):
            return b"{}"
        if name in _SORT_INDEXES:
            return _encode({key: value for key, value in args.items() if key == "sort_index" and is_number(value)})
        key = _METADATA_TEXTS.get(name, "")
        text = args.get(key)
        if not isinstance(text, str):
            return b"{}"
        return _encode({key: self._lane_name(name, text)})

    def _lane_name(self, name: str, text: str) -> str:
        if _PUBLIC_LANES[name].fullmatch(text.strip()) or not text.strip():
            return text
        numbered = _NUMBERED_THREAD.match(text) if name == "thread_name" else None
        return f"{numbered[0]} ({self.stand_in(text)})" if numbered else self.stand_in(text)

    def _counter_args(self, raw: bytes) -> bytes:
        """The series of a counter, whose names are a user's own."""
        try:
            series = _fields.decode(raw)
        except msgspec.MsgspecError:
            return b"{}"
        return _encode({self.stand_in(key): value for key, value in series.items() if _NUMERIC.fullmatch(bytes(value))})

    def _frame(self, text: str) -> str:
        """A Python frame with stand-ins for file, function and module; that it is one stays to be seen."""
        if found := _FRAME.fullmatch(text):
            function = f"{found['line']}: {found['function']}"
            return f"{self.stand_in(found['file'])}.py(0): {self.stand_in(function)}"
        if text.startswith("nn.Module: "):
            return f"nn.Module: {self.stand_in(text)}"
        return f"<built-in {self.stand_in(text)}>" if text.startswith("<built-in ") else self.stand_in(text)


def _plain_text(raw: msgspec.Raw | None) -> str:
    return "" if raw is None else _text(bytes(raw))


def _text(raw: bytes) -> str:
    """A JSON value as text, itself where it is one."""
    value = decoded(raw)
    return value if isinstance(value, str) else raw.decode("utf-8", "replace")
