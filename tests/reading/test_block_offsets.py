"""Where blocks stand in a file, and where it is cut off or damaged: bytes counted by hand, beyond the first block too.

Every event here is 38 bytes long, so that a block of 64 holds one and one of 200 holds four or five.
"""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.support.blocks import decoded_blocks, objects_of
from tracetui.errors import NotATrace
from tracetui.reading import blocks
from tracetui.reading.blocks import Block, BlockReader
from tracetui.reading.file_layout import FileLayout
from tracetui.reading.source import open_source

BLOCKS = (64, 200, 1 << 20)
SIZE = 38


def event(number: int) -> str:
    return f'{{"ph":"X","name":"n","ts":{100 + number},"dur":5}}'


EVENTS = [event(number) for number in range(20)]
HEADER, TRAILER = '{"schemaVersion": 1, "traceEvents": ', ', "traceName": "x"}'


@pytest.fixture
def read(tmp_path):
    """A function from bytes and the size of a block to the blocks and the layout."""

    def read_blocks(data: bytes | str, block: int) -> tuple[list[Block], FileLayout]:
        path = tmp_path / "t.json"
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        with closing(open_source(str(path))) as source:
            reader = BlockReader(source, block)
            return decoded_blocks(reader), reader.layout

    return read_blocks


def times(found: list[Block]) -> list[float]:
    return [float(str(each.ts)) - 100 for block in found for each in objects_of(block)]


def test_an_event_is_as_long_as_is_counted_here():
    assert {len(each) for each in EVENTS} == {SIZE}


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("between", [",", ",\n", " , "])
def test_every_block_stands_where_it_says(read, block, between):
    text = HEADER + "[" + between.join(EVENTS) + "]" + TRAILER
    found, layout = read(text, block)
    assert times(found) == list(range(20))
    for piece in found:
        inner = text[piece.offset + 1 : piece.offset + len(piece.data) - 1]
        assert piece.data == f"[{inner}]".encode() and not piece.is_tolerant
    assert found[0].offset == len(HEADER)
    assert (layout.header.decode(), layout.trailer.decode(), layout.between) == (HEADER, TRAILER, [])
    assert (layout.container, layout.is_closed, layout.truncated_at, layout.dropped) == ("object", True, None, 0)


def test_a_block_is_as_full_as_it_can_be(read):
    """Of 200 bytes: a bracket and five events with their commas are 196; the bracket of the next is on the last."""
    found, _ = read("[" + ",".join(EVENTS) + "]", 200)
    assert [len(piece.events) for piece in found] == [5, 5, 5, 5]
    assert [piece.offset for piece in found] == [0, 195, 390, 585]
    assert [len(piece.data) for piece in found] == [196, 196, 196, 196]


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("last", [1, 10, 19])
@pytest.mark.parametrize("kept", [1, 20, 37])
def test_a_file_is_cut_off_where_its_last_event_begins(read, block, last, kept):
    text = HEADER + "[" + ",".join(EVENTS[:last]) + "," + EVENTS[last][:kept]
    found, layout = read(text, block)
    assert times(found) == list(range(last))
    assert layout.truncated_at == len(HEADER) + 1 + last * (SIZE + 1)
    assert (layout.is_within_event, layout.is_closed, layout.dropped) == (True, False, 0)
    # What is whole is read strictly, and the rest holds nothing.
    assert [piece.is_tolerant for piece in found] == [False] * (len(found) - 1) + [True]
    assert not found[-1].events


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("end", ["", ",", ",\n"])
def test_a_file_that_ends_behind_an_event_is_cut_off_at_its_end(read, block, end):
    text = HEADER + "[" + ",".join(EVENTS) + end
    found, layout = read(text, block)
    assert times(found) == list(range(20))
    assert layout.truncated_at == len(text)
    assert (layout.is_within_event, layout.is_closed) == (False, False)


@pytest.mark.parametrize("block", BLOCKS)
def test_an_array_without_its_bracket_is_whole_and_open(read, block):
    found, layout = read("[" + ",".join(EVENTS), block)
    assert (times(found), layout.container) == (list(range(20)), "array")
    assert (layout.truncated_at, layout.is_within_event, layout.is_closed) == (None, False, False)


@pytest.mark.parametrize("block", BLOCKS)
def test_lines_are_closed_unless_one_is_cut(read, block):
    found, layout = read("\n".join(EVENTS), block)
    assert (times(found), layout.container) == (list(range(20)), "lines")
    assert (layout.truncated_at, layout.is_within_event, layout.is_closed) == (None, False, True)
    _, layout = read("\n".join(EVENTS)[:-5], block)
    assert (layout.truncated_at, layout.is_within_event, layout.is_closed) == (19 * (SIZE + 1), True, False)


@pytest.mark.parametrize("block", BLOCKS)
def test_an_object_that_is_never_closed_is_cut_off_behind_its_events(read, block):
    text = HEADER + "[" + ",".join(EVENTS) + "]"
    found, layout = read(text, block)
    assert times(found) == list(range(20))
    assert (layout.truncated_at, layout.is_closed, layout.is_within_event) == (len(text), False, False)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("number", [0, 3, 12, 18])
def test_a_damaged_event_is_told_at_its_byte_and_costs_itself(read, block, number):
    damaged = EVENTS.copy()
    damaged[number] = damaged[number].replace('"n"', '"n ')
    found, layout = read("[" + ",\n".join(damaged) + "]", block)
    assert times(found) == [other for other in range(20) if other != number]
    assert (layout.dropped, len(layout.examples)) == (1, 1)
    assert layout.examples[0][0] == 1 + number * (SIZE + 2)
    assert layout.truncated_at is None
    assert [piece.is_tolerant for piece in found].count(True) >= 1


@pytest.mark.parametrize("block", BLOCKS)
def test_the_mark_of_utf_8_is_no_sign_of_its_own(read, block):
    found, layout = read(b"\xef\xbb\xbf \n[" + ",".join(EVENTS).encode() + b"]", block)
    assert (times(found), layout.container, found[0].offset) == (list(range(20)), "array", 5)


def test_a_long_event_is_read_to_its_end(read):
    """It is 7 blocks long: less than what is taken for damage."""
    long = '{"ph":"X","name":"%s","ts":7,"dur":1}' % ("n" * 1_400)
    found, layout = read("[" + ",".join([*EVENTS[:3], long, *EVENTS[3:]]) + "]", 200)
    assert sum(len(piece.events) for piece in found) == 21
    assert layout.dropped == 0


def test_a_line_of_its_own_begins_with_an_event_however_its_keys_are_ordered(read):
    nested = [f'{{"args":{{"a":1}},"ph":"X","name":"n","ts":{100 + number},"dur":1}}' for number in range(5)]
    found, layout = read("\n".join(nested), 64)
    assert (times(found), layout.container) == ([0, 1, 2, 3, 4], "lines")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"a": 1}', "holds no traceEvents array in 8 bytes"),
        (b"nothing that begins like a trace at all", "'nothing that begins like'"),
    ],
    ids=["no array", "text"],
)
def test_what_holds_no_events_is_named(read, data, words):
    with pytest.raises(NotATrace, match=words):
        read(data, 64)


def test_a_cancelled_reading_ends(tmp_path):
    path = tmp_path / "t.json"
    path.write_text("[" + ",".join(EVENTS) + "]")
    answers = iter([False, False, True])
    with closing(open_source(str(path))) as source:
        found = decoded_blocks(BlockReader(source, 64, lambda: next(answers, True)))
    assert 0 < len(times(found)) < 20


def test_a_block_of_the_usual_size_is_a_mebibyte(read):
    """Some 27,000 events of 39 bytes are in the first: as many as fit in 1,048,576."""
    found, _ = read("[" + ",".join([EVENTS[0]] * 30_000) + "]", blocks.BLOCK)
    assert len(found[0].events) == (1_048_576 - 1) // (SIZE + 1)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("between", ["", "\n", " and \n "])
def test_blocks_of_a_second_trace_stand_where_they_say(read, block, between):
    whole = HEADER + "[" + ",".join(EVENTS) + "]" + TRAILER
    text = whole + between + whole
    found, layout = read(text, block)
    assert times(found) == list(range(20)) * 2
    for piece in found:
        assert piece.data[1:-1] == text[piece.offset + 1 : piece.offset + len(piece.data) - 1].encode()
    second = len(whole + between + HEADER)
    assert second in [piece.offset for piece in found]
    assert (layout.header.decode(), layout.trailer.decode()) == (HEADER, TRAILER)
    assert [part.decode() for part in layout.between] == [TRAILER + between + HEADER]
    assert (layout.is_closed, layout.truncated_at) == (True, None)


@pytest.mark.parametrize("block", BLOCKS)
def test_a_second_trace_that_is_cut_off_is_cut_off_where_its_last_event_begins(read, block):
    whole = "[" + ",".join(EVENTS) + "]"
    found, layout = read(whole + whole[:-5], block)
    assert times(found) == [*range(20), *range(19)]
    assert layout.truncated_at == len(whole) + 1 + 19 * (SIZE + 1)
    assert (layout.is_within_event, layout.is_closed) == (True, False)


@pytest.mark.parametrize("block", BLOCKS)
def test_what_follows_an_array_is_told_at_its_byte(read, block):
    whole = "[" + ",".join(EVENTS) + "]"
    found, layout = read(whole + "\n  and more", block)
    assert times(found) == list(range(20))
    assert [(odd.offset, odd.text) for odd in layout.oddities] == [(len(whole) + 3, "and more")]
    assert (layout.dropped, layout.examples[0][0]) == (1, len(whole) + 3)


@pytest.mark.parametrize("block", BLOCKS)
def test_what_follows_arrays_in_an_array_is_told_at_its_byte(read, block):
    """Such a file ended in an error that is no sentence."""
    text = "[[" + ",".join(EVENTS) + "],[" + ",".join(EVENTS) + "]]"
    found, layout = read(text + " and more", block)
    assert times(found) == list(range(20)) * 2
    assert [odd.offset for odd in layout.oddities] == [1, text.index("],[") + 2, len(text) + 1]
    assert layout.oddities[-1].text == "and more"
    assert read(text, block)[1].dropped == 0


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("number", [1, 7, 18])
def test_a_damaged_line_is_told_at_its_byte_and_costs_itself(read, block, number):
    damaged = EVENTS.copy()
    damaged[number] = damaged[number].replace('"n"', '"n ')
    found, layout = read("\n".join(damaged), block)
    assert times(found) == [other for other in range(20) if other != number]
    assert (layout.container, layout.dropped) == ("lines", 1)
    assert layout.examples[0][0] == number * (SIZE + 1)


def test_what_looks_like_the_end_of_an_event_within_the_last_one_is_passed_over(read):
    """The last comma between braces is within the arguments of the event that is cut off."""
    text = "[" + ",".join(EVENTS[:5]) + ',{"ph":"X","args":{"deep":[{"a":1},{"b":2'
    found, layout = read(text, 1 << 20)
    assert [len(piece.events) for piece in found] == [5, 0]
    assert [piece.is_tolerant for piece in found] == [False, True]
    assert layout.truncated_at == 1 + 5 * (SIZE + 1)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize(
    ("head", "header"),
    [
        ('me":"x"}, ', 'me":"x"},'),  # the bracket of the block is put on the byte in front of the event
        ("some words [", "some words "),
        ('some words {"traceEvents": [', 'some words {"traceEvents": '),
        ("words " * 100 + "[", "words " * 100),
    ],
    ids=["end of an event", "array", "object", "longer than a block"],
)
def test_events_behind_something_else_are_read_from_their_byte_on(read, block, head, header):
    found, layout = read(head + ",".join(EVENTS) + "]", block)
    assert times(found) == list(range(20))
    assert (layout.header.decode(), found[0].offset) == (header, len(header))
    assert [odd.offset for odd in layout.oddities] == [0]


def test_keys_of_megabytes_in_front_of_the_events_are_no_event_on_a_line(read):
    """Longer than what is tried for being one."""
    head = '{"note": "' + "x" * (1 << 22) + '", "traceEvents": '
    found, layout = read(head + "[" + ",".join(EVENTS) + "]}", blocks.BLOCK)
    assert (times(found), layout.container) == (list(range(20)), "object")
    assert (found[0].offset, len(layout.header)) == (len(head), len(head))


@pytest.mark.parametrize("block", [*BLOCKS, 1 << 15])
@pytest.mark.parametrize("comma", [",", ""])
@pytest.mark.parametrize("many", [20, 500])
@pytest.mark.full
def test_a_stray_bracket_behind_few_and_many_events_is_told_at_its_byte(read, block, comma, many):
    """Behind few events the tolerant path reads on beyond it; 500 are 19,500 bytes, and a new array begins behind."""
    first = "[" + ",".join([EVENTS[0]] * many)
    text = first + "]" + comma + ",".join(EVENTS) + "]"
    found, layout = read(text, block)
    assert times(found) == [0] * many + list(range(20))
    # Told is the bracket, or behind many events the first event after it.
    told = len(first + "]" + comma) if many == 500 and block > 1 << 14 else len(first)
    assert [odd.offset for odd in layout.oddities] == [told]
    assert (layout.is_closed, layout.truncated_at, layout.dropped) == (True, None, 0)
    for piece in found:
        assert piece.data[1:-1] == text[piece.offset + 1 : piece.offset + len(piece.data) - 1].encode()


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("number", [0, 18])
def test_keys_behind_a_damaged_array_begin_at_its_bracket(read, block, number):
    """The tolerant path says where the array ends: no byte behind it is lost."""
    damaged = EVENTS.copy()
    damaged[number] = damaged[number].replace('"n"', '"n ')
    found, layout = read(HEADER + "[" + ",\n".join(damaged) + "]" + TRAILER, block)
    assert times(found) == [other for other in range(20) if other != number]
    assert (layout.header.decode(), layout.trailer.decode()) == (HEADER, TRAILER)
    assert (layout.is_closed, layout.truncated_at, layout.dropped, layout.oddities) == (True, None, 1, [])
