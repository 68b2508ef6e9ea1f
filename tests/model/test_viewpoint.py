import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetui.errors import UsageError
from tracetui.model.viewpoint import Viewpoint, read_view_string, view_string


@pytest.mark.parametrize(
    ("text", "viewpoint"),
    [
        ("s3/kernels/e1234@12.5us+250us", Viewpoint(3, "kernels", 1234, -1, 12_500.0, 250_000.0)),
        ("s3/k42@12us", Viewpoint(3, None, -1, 42, 12_000.0, None)),
        ("@1.5ms", Viewpoint(start_ns=1_500_000.0)),
        ("e7", Viewpoint(event=7)),
        ("s2/gaps/g7", Viewpoint(2, "gaps", 7, is_gap=True)),
        ("", Viewpoint()),
        ("by=train/s2/ops", Viewpoint(2, "ops", steps_by="train")),
    ],
)
def test_a_view_string_names_a_place(text: str, viewpoint: Viewpoint) -> None:
    assert read_view_string(text) == viewpoint


def test_a_place_survives_being_written() -> None:
    for is_gap in (False, True):
        viewpoint = Viewpoint(15, "views", 99, -1, 123_456.0, 2_000.0, is_gap=is_gap)
        assert read_view_string(view_string(viewpoint)) == viewpoint


@pytest.mark.parametrize("text", ["s3/%", "s3@12", "s3/k4x@1us"])
def test_what_is_no_view_string_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        read_view_string(text)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_steps_of_any_name_are_read_back(name: str) -> None:
    viewpoint = Viewpoint(1, "steps", 7, start_ns=5.0, length_ns=10.0, steps_by=name)
    assert read_view_string(view_string(viewpoint)) == viewpoint


@given(st.text())
def test_any_text_is_a_view_or_is_refused(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert isinstance(view_string(read_view_string(text)), str)


PARTS = (
    "s",
    "e",
    "g",
    "k",
    "all",
    "by=",
    "range=",
    "/",
    "@",
    "+",
    "us",
    "ms",
    "12",
    "1e9",
    "9" * 400,
    "-1",
    ".",
    "%1b",
    "%",
    "\x1b[2J",
    "٣",
)


@given(st.lists(st.sampled_from(PARTS), max_size=12).map("".join))
def test_any_parts_are_a_view_or_are_refused(text: str) -> None:
    with contextlib.suppress(UsageError):
        view = read_view_string(text)
        assert isinstance(view_string(view), str)
        for number in (view.step, view.event, view.kernel):
            assert number is None or number < 10**18
