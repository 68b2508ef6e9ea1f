"""One block of events, `[{...},{...}]`, to typed objects that live until their columns are made.

A block is decoded into typed structs, where fields have other types into the same ones with fields of any type,
which are settled. One that is not valid JSON is left to `json_repair`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tracetui.errors import TraceError
from tracetui.model.intervals import Int64
from tracetui.model.recorded import number_name
from tracetui.model.table import NULL
from tracetui.model.trace import BEGINNING, NO_ID
from tracetui.reading import json_repair

# What the collector asks of the events of a block, whether they were read as objects or scanned as columns.

MAX_TIME_US = 3e15
"""Microseconds from 0 beyond which a time or a duration is none: sums of three still fit 64 bits in ns."""
NO_TIME = np.iinfo(np.int64).min
"""Stands for a time that an event does not have."""
RELATIVE_LIMIT_US = 9e12
"""Below this a float64 of microseconds still tells nanoseconds apart (R0.2)."""


SCOPES = {"g": 2, "p": 1}
"""Numbers of how far an instant is to be seen: everywhere, or in its process; its thread has 0."""


class Ids(dict[Any, int]):
    """Numbers values in the order in which they turn up."""

    def __missing__(self, value: Any) -> int:
        number = self[value] = len(self)
        return number


class SliceNumbers(NamedTuple):
    """Numbers of slices, one entry for each."""

    dur: NDArray[np.float64]
    """Microseconds, NaN for none."""
    correlation: Int64
    external: Int64


def whole_times(micros: NDArray[np.float64], exact: Callable[[], Int64]) -> Int64:
    """Times in whole ns, `NO_TIME` where there is none; `exact` is asked where float64 does not tell them apart."""
    bad = ~(np.abs(micros) < MAX_TIME_US)
    micros = np.where(bad, 0, micros)
    whole = np.floor(micros)
    fraction = micros - whole
    far = np.abs(micros) >= RELATIVE_LIMIT_US
    if (far & (fraction != 0)).any():
        times = exact().copy()
    else:
        times = whole.astype(np.int64) * 1000 + np.rint(fraction * 1000).astype(np.int64)
    times[bad] = NO_TIME
    return times


Number = int | float | str | None

MAX_LOOSE = 1 << 22
"""Bytes of a block with fields of other types: of numbers and texts alone, its objects take thirty times as much."""
MAX_VALUES = 1000
"""Values that are no objects in a block of events."""

NAN = math.nan
NO_NAME = "[No name]"


NO_TEXT = msgspec.Raw()
"""Stands for a text that an event has not."""


class Args(Struct, gc=False, frozen=True):
    """The ids that join events, and what `arguments` keeps; every other argument stays in the file."""

    external: Number = msgspec.field(name="External id", default=NO_ID)
    correlation: Number = NO_ID
    sequence: Number = msgspec.field(name="Sequence number", default=NULL)
    forward_thread: Number = msgspec.field(name="Fwd thread id", default=NULL)
    dims: msgspec.Raw = msgspec.field(name="Input Dims", default=NO_TEXT)
    old_dims: msgspec.Raw = msgspec.field(name="Input dims", default=NO_TEXT)
    types: msgspec.Raw = msgspec.field(name="Input type", default=NO_TEXT)
    registers: Number = msgspec.field(name="registers per thread", default=NULL)
    shared: Number = msgspec.field(name="shared memory", default=NULL)
    occupancy: Number = msgspec.field(name="est. achieved occupancy %", default=NULL)
    bytes: Number = NULL
    grid: msgspec.Raw = NO_TEXT
    block: msgspec.Raw = NO_TEXT
    address: Number = msgspec.field(name="Addr", default=NULL)
    allocated: Number = msgspec.field(name="Bytes", default=NULL)
    total_allocated: Number = msgspec.field(name="Total Allocated", default=NULL)
    total_reserved: Number = msgspec.field(name="Total Reserved", default=NULL)
    device_type: Number = msgspec.field(name="Device Type", default=NULL)
    device: Number = msgspec.field(name="Device Id", default=NULL)


NO_ARGS = Args()
_NAMES = tuple((field.name, field.encode_name, field.type is msgspec.Raw) for field in msgspec.structs.fields(Args))
"""Attribute of `Args`, its name in the file, and whether it is kept as JSON."""


class Event(Struct, gc=False):
    """The fields that every event is asked for; a field that is not there keeps its default."""

    name: str | None = NO_NAME
    ph: str = ""
    cat: str | None = ""
    pid: Number = None
    tid: Number = None
    ts: Number = NAN
    dur: Number = NAN
    id: Number = None
    s: str | None = None
    args: Args | str | int | float | bool | list[Any] | None = NO_ARGS


def _of_any_type(struct: type[Struct], **types: Any) -> Any:
    """The same struct with fields of any type, but for what stays JSON and for the given types."""
    fields = [
        (
            field.name,
            types.get(field.name, msgspec.Raw if field.type is msgspec.Raw else Any),
            msgspec.field(name=field.encode_name, default=field.default),
        )
        for field in msgspec.structs.fields(struct)
    ]
    return msgspec.defstruct(f"Loose{struct.__name__}", fields, gc=False)


LooseArgs = _of_any_type(Args)
LooseEvent = _of_any_type(Event, args=LooseArgs | str | int | float | bool | list[Any] | None)
"""An event of which fields have other types than a trace's; `settled` makes an `Event` of it."""
_EVENT_FIELDS = {field.name for field in msgspec.structs.fields(Event)} - {"args"}


def is_empty(event: Event) -> bool:
    """Tell whether an event has no field that it is asked for, as `{}` and null."""
    return (
        event.ph == ""
        and event.name == NO_NAME
        and event.pid is None
        and event.tid is None
        and not isinstance(event.ts, str)
        and event.ts != event.ts
        and event.args is NO_ARGS
    )


_strict = msgspec.json.Decoder(list[Event])
_loose = msgspec.json.Decoder(list[LooseEvent | str | int | float | bool | list[Any] | None])  # type: ignore[valid-type]
object_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
"""Decodes an object without making its values."""
_generic = msgspec.json.Decoder()
_raw = msgspec.json.Decoder(list[msgspec.Raw])


class _Sample(Struct, gc=False, forbid_unknown_fields=True):
    """The args of a sample of a GPU's counter: one value under an empty key."""

    value: float = msgspec.field(name="")


_samples = msgspec.json.Decoder(list[_Sample])


@cache
def _decoder_of_field(name: str) -> msgspec.json.Decoder[Any]:
    fields = [("value", msgspec.Raw, msgspec.field(name=name, default=NO_TEXT))]
    struct = msgspec.defstruct("OneField", fields, gc=False)
    return msgspec.json.Decoder(list[struct])  # type: ignore[valid-type]


def field_json(block: bytes | bytearray | memoryview, name: str) -> list[bytes] | None:
    """A field of every event of a block as it stands in it, empty for none; None where that is not valid JSON."""
    try:
        return [bytes(event.value) for event in _decoder_of_field(name).decode(block)]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def sample_values(args: list[bytes]) -> list[float] | None:
    """The values under the empty key of the args of some events; None where one of them has other args."""
    try:
        samples = _samples.decode(b"[" + b",".join(args) + b"]")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return [sample.value for sample in samples] if len(samples) == len(args) else None


class Malformed(Exception):
    """A block is not a JSON array."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.end = end_of_value(message)
        """Index at which the array ended, when other bytes follow it."""
        self.unclosed = "truncated" in message
        """True if something that was opened is not closed, as in the middle of an event."""


def decode_events(block: bytes | bytearray | memoryview) -> list[Event]:
    """The events of a block that is valid JSON.

    Raises: Malformed, with `end` when a complete array is followed by other bytes.
    """
    try:
        try:
            return _strict.decode(block)
        except msgspec.ValidationError:
            if len(block) > MAX_LOOSE:
                raise Malformed("odd types") from None
            events = _loose.decode(block)
            others = [event for event in events if not isinstance(event, LooseEvent)]
            # Arrays, or many values that are no objects, are left to the tolerant path.
            if len(others) > MAX_VALUES or any(isinstance(other, list) for other in others):
                raise Malformed("no array of events") from None
            return list(map(settled, events))
    except msgspec.DecodeError as error:
        raise Malformed(str(error)) from None
    except UnicodeDecodeError:
        return decode_events(_as_utf8(bytes(block)))
    except RecursionError:
        raise Malformed("nested too deeply") from None


def decode_objects(block: bytes, is_tolerant: bool) -> list[dict[str, Any]]:
    """Every event of a block in full, in the order and number in which loading counted them.

    Raises: TraceError when the bytes are not those that were loaded.
    """
    if is_tolerant:
        return json_repair.parse(block).events
    try:
        items = decoded(block)
    except msgspec.DecodeError as error:
        raise TraceError(f"The file's events cannot be read again ({error}): open it anew.") from error
    return [item if isinstance(item, dict) else {} for item in items]


def decode_raw(block: bytes, is_tolerant: bool) -> list[bytes]:
    """The bytes of every event of a block, in the order and number in which loading counted them.

    They are valid JSON and those of the file, but for what was read leniently (a block that is not valid JSON is
    written anew) and for bytes that are not UTF-8.
    Raises: TraceError when the bytes are not those that were loaded.
    """
    if is_tolerant:
        return [encoded(item) for item in json_repair.parse(block).events]
    try:
        try:
            block.decode()
        except UnicodeDecodeError:
            block = _as_utf8(block)
        return [bytes(item) for item in _raw.decode(block)]
    except msgspec.DecodeError as error:
        raise TraceError(f"The file's events cannot be read again ({error}): open it anew.") from error


def encoded(value: Any) -> bytes:
    """The JSON of what was read leniently; numbers that JSON has not become their names (`"NaN"`)."""
    return msgspec.json.encode(_with_named_numbers(value))


def _with_named_numbers(value: Any) -> Any:
    # As deep as the decoder went, which is bounded.
    if isinstance(value, dict):
        return {key: _with_named_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_named_numbers(item) for item in value]
    return number_name(value) if isinstance(value, float) and not math.isfinite(value) else value


def decoded(data: bytes) -> Any:
    """The value of JSON text, whose bytes need not be UTF-8 and whose numbers need not fit.

    Raises: msgspec.DecodeError when it is not JSON.
    """
    try:
        return _generic.decode(data)
    except UnicodeDecodeError:
        return decoded(_as_utf8(data))
    except msgspec.ValidationError:
        # A number out of range, as 1e999: infinite here, as it is to the standard library.
        return json.loads(data, parse_int=_integer)


def _integer(digits: str) -> int | float:
    """A number of any length; one of more digits than Python turns into an integer is infinite."""
    try:
        return int(digits)
    except ValueError:
        return float(digits)


class EventReader:
    """The events of one block, each of which is only decoded when it is asked for.

    Raises: TraceError when the bytes are not those that were loaded.
    """

    def __init__(self, block: bytes, is_tolerant: bool) -> None:
        self._raw = _raw_events(block, is_tolerant)
        self._objects = [] if self._raw else decode_objects(block, is_tolerant)

    def event(self, row: int) -> dict[str, Any]:
        """An event in full; empty where the block has no such row or it is no object."""
        if row >= len(self._raw):
            return self._objects[row] if row < len(self._objects) else {}
        item = decoded(bytes(self._raw[row]))
        return item if isinstance(item, dict) else {}


def _raw_events(block: bytes, is_tolerant: bool) -> list[msgspec.Raw]:
    """The events of a block as they stand in it, none of one that was read leniently."""
    try:
        return [] if is_tolerant else _raw.decode(block)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return []


def located(block: bytes, rows: Sequence[int], is_tolerant: bool) -> list[tuple[int, str]]:
    """Offset in the block, and the beginning, of the given events; none of a block that was read leniently."""
    unreadable: list[tuple[int, str]] = []
    # A block with nothing to locate, which nearly every one is, is not decoded once more.
    raw = _raw_events(block, is_tolerant) if rows else []
    least, counted = 0, 0
    for row in sorted(rows) if raw else []:
        least += sum(len(memoryview(item)) for item in raw[counted:row])
        counted = row
        text = bytes(raw[row])
        unreadable.append((block.find(text, least), text[:BEGINNING].decode(errors="replace")))
    return unreadable


def exact_times(block: bytes, is_tolerant: bool) -> list[int | None]:
    """The `ts` of every event in whole nanoseconds, from its decimal digits (R0.2); None where there is none."""
    raw = None if is_tolerant else field_json(block, "ts")
    texts: list[Any] = [text.decode() for text in raw or ()]
    texts = texts or [event.get("ts") for event in decode_objects(block, is_tolerant)]
    return [_nanoseconds(text) for text in texts]


def _nanoseconds(text: Any) -> int | None:
    try:
        time = Decimal(str(text).strip('"'))
        # Comparing first: a million digits would be written out.
        return int((time * 1000).to_integral_value()) if abs(time) < MAX_TIME_US else None
    except (InvalidOperation, ValueError, OverflowError):
        return None


def settled(event: Any) -> Event:
    """An event with every field of the type that columns need: numbers where numbers belong, else its default."""
    if not isinstance(event, (Event, LooseEvent)):
        return Event()
    args = event.args
    has_args = args is not NO_ARGS and isinstance(args, (Args, LooseArgs))
    return Event(
        name=NO_NAME if event.name is None else text_of(event.name),
        ph=text_of(event.ph or ""),
        cat=text_of(event.cat) if event.cat is not None else "",
        pid=_lane_id(event.pid),
        tid=_lane_id(event.tid),
        ts=number_of(event.ts),
        dur=number_of(event.dur),
        id=_lane_id(event.id),
        s=event.s if isinstance(event.s, str) else None,
        args=_settled_args(args) if has_args else NO_ARGS,
    )


def _settled_args(args: Any) -> Args:
    given = ((attribute, getattr(args, attribute), is_text) for attribute, _, is_text in _NAMES)
    fields: dict[str, Any] = {name: value if is_text else integer_of(value) for name, value, is_text in given}
    return Args(**fields)


def event_of_object(item: dict[str, Any]) -> Event:
    """The event that was read as an object, as from text that was repaired."""
    event = LooseEvent(**{name: item[name] for name in _EVENT_FIELDS & item.keys()})
    if isinstance(args := item.get("args"), dict):
        event.args = LooseArgs(
            **{
                attribute: msgspec.Raw(msgspec.json.encode(args[name])) if is_text else args[name]
                for attribute, name, is_text in _NAMES
                if name in args
            }
        )
    return settled(event)


def number_of(value: Any) -> float:
    """A finite number, also one written as text (R1.2); NaN when there is none."""
    if isinstance(value, bool) or value is None:
        return NAN
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return NAN
    return number if math.isfinite(number) else NAN


def integer_of(value: Any) -> int:
    """An id that fits 64 bits, NO_ID otherwise."""
    if isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) < value < 1 << 63:
        return value
    number = number_of(value)
    return int(number) if abs(number) < 1 << 63 else NO_ID


def text_of(value: Any) -> str:
    """Text as it is, anything else as JSON would write it."""
    return value if isinstance(value, str) else encoded(value).decode()


def _lane_id(value: Any) -> Number:
    if isinstance(value, float) and not math.isfinite(value):
        return number_name(value)
    return value if isinstance(value, (int, float, str)) or value is None else text_of(value)


def _as_utf8(block: bytes) -> bytes:
    """The same bytes with `?` for each that is not UTF-8, so that offsets stay true."""
    return block.decode("utf-8", "surrogateescape").encode("utf-8", "replace")


def end_of_value(message: str) -> int | None:
    """Index behind a value and blanks that other bytes follow, out of the decoder's complaint about these."""
    marker = "trailing characters (byte "
    start = message.find(marker)
    # The decoder counts the first byte that does not belong.
    return None if start < 0 else int(message[start + len(marker) :].rstrip(")")) - 1


# What events of each phase are to a trace: slices, ends of flows, instants and so on.

SLICE, FLOW, INSTANT, PAIR, ASYNC, COUNTER, META, IGNORED, UNKNOWN = range(9)
"""Classes of phases; `scanner.c` knows the numbers of slices and of instants."""
_CLASS_OF_PHASE = (
    {"X": SLICE, "C": COUNTER, "M": META}
    | dict.fromkeys("stf", FLOW)
    | dict.fromkeys("iIRNOD", INSTANT)
    | dict.fromkeys("BE", PAIR)
    | dict.fromkeys("bneSTpF", ASYNC)
    | dict.fromkeys("PVvc()", IGNORED)
)
_INSTANT_CATEGORY = "cpu_instant_event"
"""Category of instants, also where torch 2.14 writes them as slices until the end of the recording (R2.16)."""
CLASS_OF_LETTER = np.array([_CLASS_OF_PHASE.get(chr(letter), UNKNOWN) for letter in range(256)], np.uint8)
"""The class of every phase by the first byte of its text."""


def class_of(phase: str, category: str | None) -> int:
    """The class of an event's phase; the category tells instants that are written as slices."""
    number = _CLASS_OF_PHASE.get(phase[:1], UNKNOWN)
    return INSTANT if number == SLICE and category == _INSTANT_CATEGORY else number
