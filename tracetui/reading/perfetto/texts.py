"""Texts that occur again and again in a trace as numbers: each different one is looked at once per block."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tracetui.model.intervals import Bool, Int64
from tracetui.reading.perfetto.wire import FEW, MessageBytes

MAX_HASHED = 256
"""Bytes of a text beyond which it is looked up by itself."""
MAX_HASHES = 1 << 16
"""Hashes beyond which those of earlier blocks are forgotten, as texts hardly repeat."""
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)
_MASKS = np.array([(1 << 8 * count) - 1 for count in range(8)] + [(1 << 64) - 1], np.uint64)
"""Masks of the lowest bytes of a word, by their count."""
MAX_DIGITS = 18
"""Digits of a whole number that surely fits 64 bits."""


class TextNumbers:
    """Numbers texts that stand in messages; equal bytes have equal numbers."""

    def __init__(self, number_of: Callable[[bytes], int]) -> None:
        """`number_of` gives the number of a text that was not met before."""
        self._number_of = number_of
        self._known: dict[bytes, int] = {}
        self._hashes = np.empty(0, np.uint64)
        """Those that were met, ascending."""

    def of(self, data: MessageBytes, start: Int64, end: Int64) -> NDArray[np.int32]:
        """The numbers of the texts at some spans."""
        numbers = np.empty(len(start), np.int32)
        length = end - start
        short = np.flatnonzero(length <= MAX_HASHED)
        if len(short) <= FEW:
            short = np.empty(0, np.int64)
            alone = np.arange(len(start))
        else:
            alone = np.flatnonzero(length > MAX_HASHED)
        if len(short):
            begin, size = start[short], length[short]
            index = self._index_of(_hashes(data, begin, size))
            # The first text of each hash stands for the others.
            first = np.zeros(len(self._hashes), np.int64)
            first[index[::-1]] = np.arange(len(index))[::-1]
            present = np.flatnonzero(np.bincount(index, minlength=len(first)))
            rows = first[present]
            spans = zip(begin[rows].tolist(), (begin + size)[rows].tolist(), strict=True)
            known = np.zeros(len(first), np.int32)
            known[present] = [self._one(data.text(*span)) for span in spans]
            numbers[short] = known[index]
            # Different texts may have the same hash.
            same = _are_equal(data, begin, size, first[index])
            alone = np.concatenate([alone, short[~same]])
        for row in alone.tolist():
            numbers[row] = self._one(data.text(int(start[row]), int(end[row])))
        return numbers

    def _index_of(self, hashes: NDArray[np.uint64]) -> Int64:
        """The index of each hash among those that were met; new ones are added to them."""
        if len(self._hashes) > MAX_HASHES:
            self._hashes = self._hashes[:0]
        index = np.searchsorted(self._hashes, hashes)
        new = index == len(self._hashes)
        inside = np.flatnonzero(~new)
        new[inside] = self._hashes[index[inside]] != hashes[inside]
        if new.any():
            self._hashes = np.union1d(self._hashes, hashes[new])
            index = np.searchsorted(self._hashes, hashes)
        return index

    def _one(self, text: bytes) -> int:
        number = self._known.get(text)
        if number is None:
            number = self._known[text] = self._number_of(text)
        return number


def _hashes(data: MessageBytes, start: Int64, length: Int64) -> NDArray[np.uint64]:
    hashes = (length.view(np.uint64) + np.uint64(1)) * _FACTOR
    rows, at, left = np.arange(len(start)), start, length
    while len(rows):
        word = data.words[at] & _MASKS[np.minimum(left, 8)]
        mixed = (hashes[rows] ^ word) * _FACTOR
        hashes[rows] = mixed ^ (mixed >> _SHIFT)
        more = np.flatnonzero(left > 8)
        rows, at, left = rows[more], at[more] + 8, left[more] - 8
    return hashes


def _are_equal(data: MessageBytes, start: Int64, length: Int64, other: Int64) -> Bool:
    """Which texts equal that of another row, byte for byte."""
    same: Bool = length == length[other]
    rows = np.flatnonzero(same & (other != np.arange(len(start))) & (length > 0))
    at, other_at, left = start[rows], start[other[rows]], length[rows]
    while len(rows):
        mask = _MASKS[np.minimum(left, 8)]
        differs = ((data.words[at] ^ data.words[other_at]) & mask) != 0
        same[rows[differs]] = False
        more = np.flatnonzero((left > 8) & ~differs)
        rows, at, other_at, left = rows[more], at[more] + 8, other_at[more] + 8, left[more] - 8
    return same


def decimals(data: MessageBytes, start: Int64, end: Int64, missing: int) -> Int64:
    """Texts of digits as whole numbers; `missing` for what is no whole number from 0 on."""
    length = end - start
    value = np.zeros(len(start), np.int64)
    good = (length > 0) & (length <= MAX_DIGITS)
    rows = np.flatnonzero(good)
    offset = 0
    while len(rows):
        digit = data.bytes[start[rows] + offset].astype(np.int64) - ord("0")
        good[rows[(digit < 0) | (digit > 9)]] = False
        value[rows] = value[rows] * 10 + digit
        offset += 1
        rows = rows[length[rows] > offset]
    return np.where(good, value, missing)
