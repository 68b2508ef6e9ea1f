"""What health doubts is said beside the times that it touches."""

from __future__ import annotations

from tests.support.build import Event, kernel, launch, make_trace, op, step
from tests.support.comparing import tutorial
from tests.support.comparing.played import eager, played, said, trace_of
from tests.support.traces import loaded
from tracetui.comparing.side import side
from tracetui.comparing.statement import warning_sentences
from tracetui.health.link_checks import CheckSeverity
from tracetui.linking.step_sources import with_steps
from tracetui.model.trace import Kind, Trace

PAST = "work that runs past others"


def endless(us: int) -> Trace:
    """Two steps of four kernels, the first of which seems to last so long."""
    events = []
    for number in (1, 2):
        begin = 1_000_000 * number
        events += [step(number, begin, 900_000)]
        for place in range(4):
            at = begin + 10_000 * (place + 1)
            events += [op("aten::mul", at, 9_000), launch(at + 1_000, 2_000, 10 * number + place)]
            long = place == 0 and number == 1
            events += [kernel("k", at + 4_000, 1000 * us if long else 5_000, correlation=10 * number + place)]
    return make_trace(events)


def test_an_impossible_duration_is_said_before_the_times():
    lines = said(endless(300), endless(5))
    assert lines[0] == (
        f"Warning about A (health): {PAST} (1 of 8). A stream runs one after another, so it cannot have taken "
        "that long: GPU time is too high, gaps are missing."
    )
    assert lines[1].startswith("GPU")
    assert said(endless(5), endless(300))[0].startswith("Warning about B (health)")
    assert not any("Warning about" in line for line in said(endless(5), endless(6)))


def test_a_doubt_about_another_part_is_not_said():
    trace = endless(300)
    assert any(PAST in line for line in said(trace, endless(5), "1", "1"))
    assert not any(PAST in line for line in said(trace, endless(5), "2", "2"))


def framed(trace_events: list[Event]) -> Trace:
    """With as many Python frames as slow a program."""
    return make_trace([*trace_events, *(Event("train.py(3): f", 10 * n, 5, Kind.PYTHON) for n in range(40))])


def test_python_frames_of_both_are_said_last():
    lines = said(framed(played(eager(), eager())), framed(played(eager(3), eager(3))))
    assert lines[-1].startswith("Warning about A and B (health): python frames (40 of ")
    assert lines[0].startswith("GPU time")
    alone = said(framed(played(eager(), eager())), trace_of(eager(3), eager(3)))
    assert "Python frames were recorded only in A, which makes its CPU slower." in alone
    assert not any("Warning about" in line for line in alone)


def test_what_touches_nothing_that_is_compared_is_not_said():
    # These traces describe no device: without peak rates times are as good as ever.
    a, b = side(tutorial.mlp()), side(trace_of(eager(), eager()))
    assert not list(warning_sentences(a, b, CheckSeverity.DOUBT))
    assert not list(warning_sentences(a, b, CheckSeverity.WRONG))


def test_the_real_one(shared_trace):
    wrong = loaded(shared_trace("edge/e17_impossible_kernel_duration.json"))
    right = loaded(shared_trace("d16_b300_tiny.json.gz"))
    # Guessed steps are a doubt of their own.
    wrong, right = with_steps(wrong, "none"), with_steps(right, "none")
    assert said(wrong, right)[0].startswith(f"Warning about A (health): {PAST} (1 of 42). ")
    assert not any("Warning about" in line for line in said(right, right, "all", ""))
