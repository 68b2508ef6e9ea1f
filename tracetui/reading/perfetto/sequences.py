"""The base of the packets of a sequence: the state that a packet uses, and what was interned in it before.

A writer numbers its texts anew for each sequence, and again whenever it clears the state of the sequence: the same
number then means something else. Where packets were lost a clear may have been among them, so that a new state begins
as well.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, NamedTuple

import numpy as np

from tracetui.model.intervals import Bool, Int64
from tracetui.reading.perfetto.schemas import INTERNED_DATA, InternedField
from tracetui.reading.perfetto.wire import SPAN, DamagedMessage, Field, MessageBytes, fields_of, read_fields


class States(NamedTuple):
    """The state that each packet uses."""

    number: Int64
    """Number of the state, from 0; those of different sequences differ."""
    is_known: Bool
    """True if the state was begun by a clear, so that nothing of it is missing."""


def sequence_states(sequence: Int64, clears: Bool, loses: Bool) -> States:
    """The states of packets in the order of the file: their sequences, whether each clears, whether some were lost.

    A packet that clears uses the new state.
    """
    count = len(sequence)
    order = np.argsort(sequence, kind="stable")
    begins = (clears | loses)[order]
    first = np.diff(sequence[order], prepend=sequence[order[:1]] - 1) != 0
    number_in_order = np.cumsum(begins | first) - 1
    opening = np.flatnonzero(begins | first)
    known = clears[order][opening][number_in_order] if count else np.empty(0, bool)
    number, is_known = np.empty(count, np.int64), np.empty(count, bool)
    number[order], is_known[order] = number_in_order, known
    return States(number, is_known)


def latest(keys: Int64, positions: Int64, wanted_keys: Int64, wanted_positions: Int64) -> Int64:
    """For every wanted key the row of its last entry at or before a position, -1 where there is none.

    Keys and positions are not negative.
    """
    if len(keys) == 0 or len(wanted_keys) == 0:
        return np.full(len(wanted_keys), -1, np.int64)
    order = np.lexsort((np.arange(len(keys)), positions, keys))
    keys, positions = keys[order], positions[order]
    span = int(max(positions.max(), wanted_positions.max())) + 1
    distinct, dense = np.unique(keys, return_inverse=True)
    wanted = np.minimum(np.searchsorted(distinct, wanted_keys), len(distinct) - 1)
    row = np.searchsorted(dense * span + positions, wanted * span + wanted_positions, side="right") - 1
    has = (row >= 0) & (keys[row] == wanted_keys)
    return np.where(has, order[row], -1)


class InternedEntries:
    """Entries of one kind that packets refer to by number, each with the state and the packet it stands in."""

    def __init__(self, states: Int64, positions: Int64, iids: Int64) -> None:
        """`positions` are the packets of the entries, `states` the states of these."""
        self._states, self._positions = states, positions
        self._iids, self._dense = np.unique(iids, return_inverse=True)

    def find(self, states: Int64, positions: Int64, iids: Int64) -> Int64:
        """For each number used in a packet the row of the entry that it means, -1 where there is none."""
        if len(self._iids) == 0:
            return np.full(len(iids), -1, np.int64)
        dense = np.minimum(np.searchsorted(self._iids, iids), len(self._iids) - 1)
        size = len(self._iids)
        row = latest(self._states * size + self._dense, self._positions, states * size + dense, positions)
        row[self._iids[dense] != iids] = -1
        return row


# What holds for the packets of a sequence that do not say it themselves: their clock and their track.

NO_DEFAULT = -1
"""Stands where a sequence says nothing."""


class Default(NamedTuple):
    """The state that a packet sets for those behind it."""

    clock: int = 0
    track: int = NO_DEFAULT
    """The uuid of a track, with a sign."""


def read_default(data: MessageBytes, start: int, end: int) -> Default:
    """The defaults in a packet.

    Raises: DamagedMessage.
    """
    clock, track = 0, NO_DEFAULT
    for number, wire, value, behind in fields_of(data.raw, start, end):
        if number == 58 and wire != SPAN:
            clock = value & 0xFFFFFFFF
        elif number == 11 and wire == SPAN:
            for field in fields_of(data.raw, value, behind):
                if field.number == 11 and field.wire != SPAN:
                    track = field.value - (1 << 64) if field.value >> 63 else field.value
    return Default(clock, track)


class SequenceDefaults:
    """The defaults of the states of sequences, block by block."""

    def __init__(self) -> None:
        self._known: dict[int, Default] = {}

    def of(self, state: Int64, defaults_by_row: dict[int, Default]) -> tuple[Int64, Int64]:
        """Clock and track of the packets of the next block, given their states and the rows that say something.

        The clock is 0 and the track `NO_DEFAULT` where nothing is said.
        """
        clock, track = np.zeros(len(state), np.int64), np.full(len(state), NO_DEFAULT, np.int64)
        if not defaults_by_row and not self._known:
            return clock, track
        carried = [(int(each), self._known[int(each)]) for each in np.unique(state) if int(each) in self._known]
        keys = np.array([each for each, _ in carried] + [int(state[row]) for row in defaults_by_row], np.int64)
        positions = np.array([0] * len(carried) + [row + 1 for row in defaults_by_row], np.int64)
        defaults = [default for _, default in carried] + list(defaults_by_row.values())
        row = latest(keys, positions, state, np.arange(len(state)) + 1)
        has = row >= 0
        clock[has] = np.array([default.clock for default in defaults], np.int64)[row[has]]
        track[has] = np.array([default.track for default in defaults], np.int64)[row[has]]
        for index, default in defaults_by_row.items():
            self._known[int(state[index])] = default
        return clock, track


# What packets name by number: interned texts and descriptors, with the state of the sequence that they belong to.

CATEGORY_FIELD, COMPUTE = 4, 2
"""The field of an entry of a GPU specification with its category, and the category of computations."""
UNITS = {
    1: "bit", 2: "kbit", 3: "Mbit", 4: "Gbit", 5: "Tbit", 6: "Pbit", 7: "B", 8: "kB", 9: "MB", 10: "GB", 11: "TB",
    12: "PB", 13: "Hz", 14: "kHz", 15: "MHz", 16: "GHz", 17: "THz", 18: "PHz", 19: "ns", 20: "us", 21: "ms", 22: "s",
    23: "min", 24: "h", 25: "vertices", 26: "pixels", 27: "triangles", 28: "mW", 29: "W", 30: "kW", 31: "J", 32: "V",
    33: "A", 34: "C", 35: "F", 36: "K", 37: "%", 38: "primitives", 39: "fragments", 40: "instructions",
}  # fmt: skip
"""Units of the counters of GPUs by number."""
_TEXT_AT = {InternedField.KERNELS: 3}
"""The field with the text of an entry, if not 2."""


class RunningStates:
    """The states of the packets of a file, block by block."""

    def __init__(self) -> None:
        self._of_sequence: dict[int, int] = {}
        self._is_known: list[bool] = []

    def of(self, sequence: Int64, clears: Bool, loses: Bool) -> States:
        """The states of the packets of the next block; numbers go on from block to block."""
        here = sequence_states(sequence, clears, loses)
        if not len(sequence):
            return here
        first = np.unique(here.number, return_index=True)[1]
        begins = (clears | loses)[first].tolist()
        numbers = []
        for each, is_begun, is_known in zip(
            sequence[first].tolist(), begins, here.is_known[first].tolist(), strict=True
        ):
            if is_begun or each not in self._of_sequence:
                self._of_sequence[each] = len(self._is_known)
                self._is_known.append(is_known)
            numbers.append(self._of_sequence[each])
        number = np.array(numbers, np.int64)[here.number]
        return States(number, np.array(self._is_known, bool)[number])


class Interned:
    """The entries of a file, by kind."""

    def __init__(self) -> None:
        self._states: dict[int, list[int]] = {}
        self._positions: dict[int, list[int]] = {}
        self._iids: dict[int, list[int]] = {}
        self._values: dict[int, list[Any]] = {}
        self._entries: dict[int, InternedEntries] = {}
        self._by_number: dict[int, dict[tuple[int, int], list[int]]] = {}
        """Rows of entries by state and number, once `text` was asked for one of their kind."""
        self.is_compute: list[bool] = []
        """For each GPU specification whether it is of the category of computations."""

    def add(self, data: MessageBytes, start: Int64, end: Int64, position: Int64, state: Int64) -> Bool:
        """Take in the interned data of some packets, and return which of them are damaged."""
        fields = read_fields(data, start, end, INTERNED_DATA)
        for kind in INTERNED_DATA.fields:
            spans = fields.repeated(kind)
            for row, first, last in zip(spans.row.tolist(), spans.start.tolist(), spans.end.tolist(), strict=True):
                try:
                    iid, value = _entry(data, kind, first, last)
                except DamagedMessage:
                    continue
                self._states.setdefault(kind, []).append(int(state[row]))
                self._positions.setdefault(kind, []).append(int(position[row]))
                self._iids.setdefault(kind, []).append(iid)
                self._values.setdefault(kind, []).append(value)
                if kind == InternedField.GPU_SPECIFICATIONS:
                    # The category of a GPU specification.
                    values = [
                        field.value for field in fields_of(data.raw, first, last) if field.number == CATEGORY_FIELD
                    ]
                    self.is_compute.append((values[-1] if values else 0) == COMPUTE)
        return fields.damaged

    def find(self, kind: int, state: Int64, position: Int64, iid: Int64) -> Int64:
        """The rows in `values` of what packets name, -1 where it is unknown or the number is 0."""
        if kind not in self._entries:
            columns = (self._states, self._positions, self._iids)
            self._entries[kind] = InternedEntries(*(np.array(each.get(kind, []), np.int64) for each in columns))
        row = self._entries[kind].find(state, position, iid)
        return np.where(iid != 0, row, -1)

    def text(self, kind: int, state: int, position: int, iid: int) -> str:
        """The text that one packet means by a number, empty where it is unknown: quick for many of them."""
        entries = self._by_number.get(kind)
        if entries is None:
            entries = self._by_number[kind] = {}
            keys = zip(self._states.get(kind, []), self._iids.get(kind, []), strict=True)
            for row, key in enumerate(keys):
                entries.setdefault(key, []).append(row)
        rows = entries.get((state, iid - (1 << 64) if iid >> 63 else iid), [])
        positions = self._positions.get(kind, [])
        at = bisect_right(rows, position, key=positions.__getitem__) - 1
        return str(self._values[kind][rows[at]]) if at >= 0 and iid else ""

    def values(self, kind: int) -> list[Any]:
        """Texts of a kind; of counter descriptors the GPU and the names of its counters by id."""
        return self._values.get(kind, [])


def _entry(data: MessageBytes, kind: int, start: int, end: int) -> tuple[int, Any]:
    """The number and the value of an entry.

    Raises: DamagedMessage.
    """
    iid, value = 0, CounterDescriptor() if kind == InternedField.COUNTER_DESCRIPTORS else ""
    for field in fields_of(data.raw, start, end):
        if field.number == 1 and field.wire != SPAN:
            iid = field.value - (1 << 64) if field.value >> 63 else field.value
        elif isinstance(value, CounterDescriptor):
            value.read(data, field)
        elif field.wire == SPAN and (field.number == _TEXT_AT.get(kind, 2) or (field.number == 2 and not value)):
            value = data.text(field.value, field.end).decode("utf-8", "replace")
    return iid, value


class CounterDescriptor:
    """The counters of a GPU: their names by id, with their units in brackets."""

    def __init__(self) -> None:
        self.gpu = 0
        self.names: dict[int, str] = {}

    def read(self, data: MessageBytes, field: Field) -> None:
        """Take in a field of an interned descriptor.

        Raises: DamagedMessage.
        """
        if field.number == 3 and field.wire != SPAN:
            self.gpu = field.value
        elif field.number == 2 and field.wire == SPAN:
            self.read_specs(data, field.value, field.end)

    def read_specs(self, data: MessageBytes, start: int, end: int) -> None:
        """Take in a descriptor itself.

        Raises: DamagedMessage.
        """
        for spec in fields_of(data.raw, start, end):
            if spec.number == 1 and spec.wire == SPAN:
                self._read_spec(data, spec)

    def _read_spec(self, data: MessageBytes, spec: Field) -> None:
        number, name = 0, ""
        units: dict[int, list[str]] = {7: [], 8: []}
        for field in fields_of(data.raw, spec.value, spec.end):
            if field.number == 1 and field.wire != SPAN:
                number = field.value
            elif field.number == 2 and field.wire == SPAN:
                name = data.text(field.value, field.end).decode("utf-8", "replace")
            elif field.number in units and field.wire != SPAN:
                units[field.number].append(UNITS.get(field.value, "?"))
        unit = "/".join("*".join(part) for part in units.values() if part)
        # A rate of nothing is none.
        self.names[number] = f"{name} ({unit})" if units[7] and not name.endswith(")") else name
