"""Datagrams of Kineto: what it sends is read, what is none is not, and answers have the layout that it expects."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetui.opening.attach_listener import Question, Registration, answer_to, read_datagram


def datagram(kind, content):
    return struct.pack("=Q32s", len(content), kind) + content


# As torch 2.13 sent it: kinds, how many process ids, job, its own id and that of its shell.
ASKS = datagram(b"req", struct.pack("=iiq2i", 3, 2, 0, 8589, 8500))


def test_a_question_names_its_process_and_whether_it_is_free():
    assert read_datagram(ASKS) == Question(8589, True)
    assert read_datagram(datagram(b"req", struct.pack("=iiqi", 1, 1, 0, 7))) == Question(7, False)


def test_a_registration_names_its_process():
    assert read_datagram(datagram(b"ctxt", struct.pack("=iiq", 0, 8589, 12))) == Registration(8589)


@pytest.mark.parametrize("length", range(len(ASKS)))
def test_a_cut_datagram_is_none(length):
    assert read_datagram(ASKS[:length]) is None


@pytest.mark.parametrize("count", (0, -1, 3, 2**31 - 1))
def test_a_wrong_number_of_process_ids_is_none(count):
    assert read_datagram(datagram(b"req", struct.pack("=iiq2i", 3, count, 0, 8589, 8500))) is None


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_none(data):
    assert read_datagram(data) is None or isinstance(read_datagram(data), (Registration, Question))


def test_an_answer_has_size_type_and_content():
    size, kind, content = struct.unpack("=Q32s5s", answer_to(Question(1, True), "A=1\n\n"))
    assert (size, kind.rstrip(b"\0"), content) == (5, b"req", b"A=1\n\n")
    assert answer_to(Question(1, True)) == datagram(b"req", b"")
    assert answer_to(Registration(1)) == datagram(b"ctxt", struct.pack("=i", 1))
