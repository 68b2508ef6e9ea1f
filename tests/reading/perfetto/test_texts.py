"""Texts as numbers: equal bytes have equal numbers, also where hashes are equal and bytes are not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetui.reading.perfetto import wire
from tracetui.reading.perfetto.wire import FEW, MessageBytes, TextNumbers, decimals

some_texts = st.lists(st.binary(max_size=20) | st.binary(min_size=250, max_size=260), min_size=1, max_size=30)


def numbered(words: list[bytes]) -> tuple[list[int], list[bytes]]:
    """The numbers of words that stand one behind the other, and the words in the order of their numbers."""
    known: list[bytes] = []
    numbers = TextNumbers(lambda raw: known.append(raw) or len(known) - 1)  # type: ignore[func-returns-value]
    end = np.cumsum([len(word) for word in words], dtype=np.int64)
    start = end - np.array([len(word) for word in words], np.int64)
    return numbers.of(MessageBytes(b"".join(words)), start, end).tolist(), known


@given(some_texts)
def test_numbers_lead_back_to_the_texts(words: list[bytes]) -> None:
    for many in (words, words * (FEW // len(words) + 2)):
        numbers, known = numbered(many)
        assert [known[number] for number in numbers] == many
        assert len(known) == len(set(words))


@given(some_texts)
def test_texts_of_the_same_hash_are_told_apart(words: list[bytes]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wire, "_hashes", lambda data, start, length: np.zeros(len(start), np.uint64))
        many = words * (FEW // len(words) + 2)
        numbers, known = numbered(many)
    assert [known[number] for number in numbers] == many


@given(st.lists(st.binary(max_size=20) | st.integers(0, 10**20).map(lambda value: str(value).encode()), max_size=20))
def test_only_texts_of_digits_are_numbers(words: list[bytes]) -> None:
    end = np.cumsum([len(word) for word in words], dtype=np.int64)
    start = end - np.array([len(word) for word in words], np.int64)
    found = decimals(MessageBytes(b"".join(words)), start, end, -7).tolist()
    assert found == [int(word) if word.isdigit() and len(word) <= wire.MAX_DIGITS else -7 for word in words]
