"""The cell differ alone: what it writes shows the same cells as what Textual writes, and less of it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from rich.color import Color
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.geometry import Region
from textual.strip import Strip

from tests.support.terminal.cells import Terminal, differing
from tracetui.ui.base.cell_differ import CellDiffer, Pen, _parsed, _shortest

COLUMNS, ROWS = 30, 4
TEXTS = st.one_of(
    st.text("ab▇│ ", min_size=1, max_size=12),
    st.integers(1, 25).map(" ".__mul__),
    # Those of which pyte has the same opinion as rich.
    st.sampled_from(["漢字", "🙂", "e\u0301a", "שלום", "a\u00a0b", "ﬀ", "𝄞"]),
)
COLOURS = st.one_of(
    st.none(),
    st.integers(0, 255).map(Color.from_ansi),
    st.sampled_from([Color.default(), Color.from_rgb(1, 2, 3), Color.from_rgb(250, 2, 3)]),
)
FLAGS = ("bold", "dim", "italic", "underline", "reverse", "strike", "blink")
STYLES = st.builds(
    lambda colour, background, flags: Style(color=colour, bgcolor=background) + Style.parse(" ".join(flags)),
    COLOURS,
    COLOURS,
    st.sets(st.sampled_from(FLAGS), max_size=2).map(sorted),
)
SEGMENTS = st.tuples(TEXTS, st.one_of(st.none(), STYLES)).map(lambda pair: Segment(*pair))


def strips(width):
    """Strips of a width."""
    return st.lists(SEGMENTS, max_size=6).map(lambda segments: Strip(segments).adjust_cell_length(width))


@st.composite
def walks(draw):
    """Cuts of each row, and updates of whole screens or some parts of rows."""
    cuts = [sorted({0, COLUMNS, *draw(st.lists(st.integers(1, COLUMNS - 1), max_size=2))}) for _ in range(ROWS)]
    pool = {width: draw(st.lists(strips(width), min_size=2, max_size=3)) for width in
            {b - a for row in cuts for a, b in pairwise(row)}}  # fmt: skip

    def chops():
        return [{a: draw(st.sampled_from(pool[b - a])) for a, b in pairwise(row)} for row in cuts]

    def update():
        if draw(st.booleans()):
            return LayoutUpdate([chop.values() for chop in chops()], Region(0, 0, COLUMNS, ROWS))
        spans = [(y, *sorted(draw(st.lists(st.integers(0, COLUMNS), min_size=2, max_size=2, unique=True))))
                 for y in sorted(draw(st.sets(st.integers(0, ROWS - 1), min_size=1)))]  # fmt: skip
        # A part of a row is never cut within a character that is two cells wide.
        spans = [(y, min(c for c in cuts[y][::-1] if c <= a), min(c for c in cuts[y] if c >= b)) for y, a, b in spans]
        return ChopsUpdate(chops(), spans, [row[1:] for row in cuts])

    return [
        (update(), draw(st.sampled_from(["write", "write", "hold", "forget"]))) for _ in range(draw(st.integers(1, 6)))
    ]


@settings(phases=[Phase.reuse, Phase.generate])
@given(walks(), st.sampled_from(["truecolor", "256", "standard"]), st.booleans())
def test_cells_are_those_that_textual_writes(walk, colours, can_erase_colour):
    """Also where frames in between were not written, and where the differ forgot what is shown."""
    console = Console(color_system=colours, force_terminal=True)
    differ = CellDiffer(console, can_erase_colour)
    theirs, ours = Terminal(COLUMNS, ROWS), Terminal(COLUMNS, ROWS)
    for update, what in walk:
        theirs.write(update.render_segments(console))
        differ.apply(update, COLUMNS, ROWS)
        if what == "forget":
            ours = Terminal(COLUMNS, ROWS)
            differ.invalidate()
        if what != "hold":
            ours.write(differ.difference())
            assert not differing(theirs, ours), update.render_segments(console)
    ours.write(differ.difference())
    assert not differing(theirs, ours)
    assert differ.difference() == ""


def test_a_blank_rest_is_erased_from_behind_a_wide_character():
    """The place of its second cell is the number of the pen of blanks."""
    differ, terminal = CellDiffer(Console(color_system="256"), True), Terminal(COLUMNS, 1)
    parts = [Strip([Segment("漢")]), Strip([Segment(" " * (COLUMNS - 2))])]
    differ.apply(LayoutUpdate([parts], Region(0, 0, COLUMNS, 1)), COLUMNS, 1)
    written = differ.difference()
    assert written.endswith("\x1b[1;3H\x1b[K"), written
    terminal.write(written)
    assert [cell[0] for cell in terminal.cells()[0][:3]] == ["漢", "", " "]


def strip(text, style=None):
    """A row in one style, or of segments."""
    segments = [Segment(text, style)] if isinstance(text, str) else text
    return Strip(segments).adjust_cell_length(COLUMNS)


def written(*rows, columns=COLUMNS, can_erase_colour=True, differ=None):
    """What is written to get from each of some screens of one row to the next."""
    differ = differ or CellDiffer(Console(color_system="256", force_terminal=True), can_erase_colour)
    found = []
    for row in rows:
        differ.apply(LayoutUpdate([[row]], Region(0, 0, COLUMNS, 1)), columns, 1)
        found.append(differ.difference())
    return found


RED, ON_BLUE = Style(color="red"), Style(bgcolor="blue")


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ("abc", "abc", ""),
        ("abc", "abd", "\x1b[1;3Hd"),
        ("xabcd", "yabcz", "\x1b[1Hyabcz"),
        ("x" + "a" * 20 + "d", "y" + "a" * 20 + "z", "\x1b[1Hy\x1b[20Cz"),
        ("a" * 20, "", "\x1b[1H\x1b[K"),
        ("a" * 20 + "b" * 10, " " * 20 + "b" * 10, "\x1b[1H\x1b[20X"),
        ("a" * 20 + "b" * 10, "c" + " " * 18 + "dd" + "b" * 9, "\x1b[1Hc\x1b[18X\x1b[18Cdd"),
    ],
    ids=["nothing", "a cell", "over a short gap", "beyond a long gap", "the rest", "to a text", "within"],
)
def test_little_is_written(before, after, text):
    assert written(strip(before), strip(after))[1] == text


def test_a_background_is_erased_only_where_the_terminal_does_so():
    rows = strip("a" * COLUMNS, ON_BLUE), strip("", ON_BLUE)
    plain = strip([Segment(" " * COLUMNS, ON_BLUE)])
    assert written(rows[0], plain)[1] == "\x1b[1H\x1b[44m\x1b[K\x1b[m"
    assert written(rows[0], plain, can_erase_colour=False)[1] == f"\x1b[1H\x1b[44m{' ' * COLUMNS}\x1b[m"


def test_the_colour_of_text_is_no_difference_on_a_space_but_reverse_video_is():
    assert written(strip(" " * COLUMNS), strip([Segment(" " * COLUMNS, RED)]))[1] == ""
    reversed_ = strip([Segment(" " * COLUMNS, Style(reverse=True))])
    assert written(strip(" " * COLUMNS), reversed_)[1] == f"\x1b[1H\x1b[7m{' ' * COLUMNS}\x1b[m"


def test_pens_are_written_as_differences():
    row = strip(
        [
            Segment("a", RED),
            Segment(" ", ON_BLUE),
            Segment("b", RED + ON_BLUE),
            Segment("c" * 27, Style(bold=True) + RED),
        ]
    )
    assert written(row)[0] == f"\x1b[1H\x1b[31ma\x1b[44m b\x1b[1;49m{'c' * 27}\x1b[m"


@given(STYLES, STYLES)
def test_a_pen_is_reached_from_any_other(before, after):
    first, then = (_parsed(Strip.render_ansi(style, style_system)) for style, style_system in ((before, 3), (after, 3)))
    one, other = Terminal(3, 1), Terminal(3, 1)
    one.write(f"{_shortest(Pen(), first)}{_shortest(first, then)}x")
    other.write(f"\x1b[{Strip.render_ansi(after, 3)}mx")
    assert not differing(one, other)


@pytest.mark.parametrize("uneven", ["👩\u200d👩\u200d👧", "✔\ufe0f", "🇩🇪", "x\u200by"])
def test_what_stands_right_of_characters_of_uncertain_width_is_placed_again(uneven):
    """Whatever cells the terminal gave them."""
    rows = [
        [Strip([Segment(text)]).adjust_cell_length(20), Strip([Segment("right")]).adjust_cell_length(10)]
        for text in ("before", uneven)
    ]
    differ = CellDiffer(Console(color_system="256", force_terminal=True), True)
    terminal = Terminal(COLUMNS, 1)
    for row in rows:
        differ.apply(LayoutUpdate([row], Region(0, 0, COLUMNS, 1)), COLUMNS, 1)
        text = differ.difference()
        terminal.write(text)
    assert "\x1b[1;21Hright" in text
    assert "".join(cell[0] for cell in terminal.cells()[0][20:25]) == "right"
    # Nothing is written while it stays.
    assert written(rows[1][0], differ=differ)[0] == ""


def test_a_link_is_written_as_textual_writes_it():
    linked = strip([Segment("here", Style(link="https://example.com"))])
    assert "\x1b]8;id=" in written(linked)[0]
    assert written(linked, linked)[1] == ""


def test_another_size_writes_everything_again():
    differ = CellDiffer(Console(color_system="256", force_terminal=True), True)
    first = written(strip("abc"), differ=differ)[0]
    assert written(strip("abc"), columns=COLUMNS - 1, differ=differ)[0].startswith(first[:8])
    # Rows and cells beyond the screen are not written.
    differ.apply(LayoutUpdate([[strip("x")], [strip("y")]], Region(0, 0, COLUMNS, 2)), COLUMNS - 1, 1)
    assert "y" not in differ.difference()


def test_stretches_that_are_gone_are_not_kept(monkeypatch):
    monkeypatch.setattr("tracetui.ui.base.cell_differ.MAX_STRETCHES", 4)
    differ = CellDiffer(Console(color_system="256", force_terminal=True), True)
    terminal = Terminal(COLUMNS, 1)
    for number in range(20):
        terminal.write(written(strip(f"漢{number}"), differ=differ)[0])
        assert terminal.screen.display[0].replace("漢", "").strip() == str(number)
    assert len(differ._stretches) == len(differ._written_whole) <= 4


def test_half_of_a_surrogate_pair_is_written_whole():
    """The driver replaces it; any other character of the row is no harm."""
    row = [Strip([Segment("a\ud800")]).adjust_cell_length(20), Strip([Segment("right")]).adjust_cell_length(10)]
    differ = CellDiffer(Console(color_system="256", force_terminal=True), True)
    differ.apply(LayoutUpdate([row], Region(0, 0, COLUMNS, 1)), COLUMNS, 1)
    text = differ.difference()
    assert "a\ud800" in text and "\x1b[1;21Hright" in text


def test_a_part_of_a_row_lies_over_what_was_wanted_before_it_also_where_neither_was_written():
    """In the order in which they came, however they overlap."""
    differ = CellDiffer(Console(color_system="256", force_terminal=True), True)
    terminal = Terminal(COLUMNS, 1)

    def want(text, x):
        chops = ChopsUpdate([{x: Strip([Segment(text)])}], [(0, x, x + len(text))], [[x + len(text)]])
        differ.apply(chops, COLUMNS, 1)

    differ.apply(LayoutUpdate([[strip("a" * COLUMNS)]], Region(0, 0, COLUMNS, 1)), COLUMNS, 1)
    for text, x in (("bbbb", 2), ("cccc", 4), ("bbbb", 2), ("dd", 7)):
        want(text, x)
    terminal.write(differ.difference())
    assert terminal.screen.display[0].startswith("aabbbbcdda")
