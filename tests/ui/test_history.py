from dataclasses import replace

from tracetui.model.viewpoint import Viewpoint
from tracetui.ui.trace.navigator import History, Marks

A, B = Viewpoint(1, "kernels", 10), Viewpoint(2, "kernels", 20)


def test_empty_history_leads_nowhere() -> None:
    assert History().back(A) is None


def test_back_returns_the_last_place_first() -> None:
    history = History()
    history.leave(A)
    history.leave(B)
    assert history.back(Viewpoint(3)) == B
    assert history.back(B) == A


def test_leaving_the_same_place_twice_counts_once() -> None:
    history = History()
    history.leave(A)
    history.leave(A)
    assert history.viewpoints == [A]


def test_back_from_a_jump_to_another_part_alone_returns_to_the_part() -> None:
    history = History()
    from_list = replace(A, part="list")
    history.leave(from_list)
    history.leave(A)
    assert history.viewpoints == [from_list]
    assert history.back(replace(A, part="lanes")) == from_list
    history.leave(from_list)
    assert history.back(from_list) is None
    history.leave(A)
    assert history.back(replace(A, part="lanes")) is None


def test_back_skips_where_one_already_is() -> None:
    history = History()
    history.leave(A)
    history.leave(B)
    assert history.back(B) == A


def test_a_second_mark_of_an_event_removes_the_first() -> None:
    marks = Marks()
    assert marks.toggle(A, "gemm")
    assert not marks.toggle(Viewpoint(1, "ops", 10, start_ns=5.0), "gemm")
    assert marks.marks == []


def test_the_gap_before_an_event_is_marked_beside_the_event() -> None:
    marks = Marks()
    assert marks.toggle(A, "gemm")
    assert marks.toggle(Viewpoint(1, "gaps", 10, is_gap=True), "gap before gemm")
    assert not marks.toggle(A, "gemm")
    assert [mark.title for mark in marks.marks] == ["gap before gemm"]


def test_stretches_of_time_are_marked_side_by_side() -> None:
    marks = Marks()
    assert marks.toggle(Viewpoint(start_ns=1.0), "a stretch")
    assert marks.toggle(Viewpoint(start_ns=2.0), "a stretch")
    assert len(marks.marks) == 2
