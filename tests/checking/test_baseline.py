"""A trace beside a baseline: what is slower by more than noise is found, and noise alone is not."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.build import make_trace, op, step
from tests.support.checks import cpu_only, outcome, pane, status, work
from tests.support.traces import loaded
from tracetui.checking.report import CheckReport, assertion, beside, report, usual
from tracetui.checking.values import Amount, ExpressionError
from tracetui.comparing.noise import other_steps
from tracetui.comparing.side import side
from tracetui.drawing.text.check_text import outcome_text, render_check
from tracetui.errors import UsageError
from tracetui.model.trace import Device, Trace
from tracetui.reading.load import load

D01 = "d01_v100_torch1.9_6steps_mem_occ.json.gz"
STEADY = work(700, 705, 702, 698, 701)
NOISY = work(700, 500, 900, 600, 800)


def one(new: Trace, old: Trace, text: str, tolerance: str | None = None, strict: bool = False) -> CheckReport:
    return report(side(new), [assertion(text)], side(old), tolerance, strict)


@pytest.mark.parametrize(
    ("new", "old", "tolerance", "expected"),
    [
        (STEADY, STEADY, None, "holds"),
        (work(800, 805, 803, 799, 801), STEADY, None, "fails"),
        (work(600, 605, 603, 599, 601), STEADY, None, "holds"),
        (work(800, 805, 803, 799, 801), STEADY, "20%", "holds"),
        (work(800, 805, 803, 799, 801), STEADY, "10%", "fails"),
        (work(800, 805, 803, 799, 801), STEADY, "0.2ms", "holds"),
        (work(800, 805, 803, 799, 801), STEADY, "10us", "fails"),
        (work(750, 550, 950, 650, 850), NOISY, None, "cannot tell"),
        (work(650, 450, 850, 550, 750), NOISY, None, "cannot tell"),
        (work(750, 550, 950, 650, 850), NOISY, "50%", "holds"),
        (work(750, 550, 950, 650, 850), NOISY, "5%", "cannot tell"),
        (work(720), work(700), None, "cannot tell"),
        (work(720), work(700), "3%", "holds"),
        (work(720), work(700), "2%", "fails"),
        (work(703), work(700), None, "holds"),
        (work(600), work(700), None, "holds"),
        (work(900), work(700), None, "fails"),
    ],
)
def test_not_slower(new, old, tolerance, expected):
    made = one(new, old, "not_slower(dur_us)", tolerance)
    assert made.outcomes[0].status.value == expected
    assert made.passes == (expected != "fails")
    assert one(new, old, "not_slower(dur_us)", tolerance, strict=True).passes == (expected == "holds")
    if expected == "cannot tell":
        assert "--tolerance" in made.outcomes[0].why


def test_counts_are_exact():
    more = work(*[700] * 3)
    fewer = load_without_a_kernel()
    assert status(more, "not_slower(kernels)", baseline=more) == "holds"
    assert status(more, "not_slower(kernels)", baseline=fewer) == "fails"
    assert status(fewer, "not_slower(kernels)", baseline=more) == "holds"


def load_without_a_kernel() -> Trace:
    trace = work(*[700] * 3)
    keep = np.array([trace.name_of(row) != "triton_mul" for row in range(len(trace.slices))])
    from tests.support.build import Event, make_trace
    from tracetui.model.trace import Kind

    lanes = trace.lanes
    slices = trace.slices
    return make_trace(
        [
            Event(
                trace.name_of(row),
                int(slices.start[row]),
                int(slices.dur[row]),
                Kind(int(slices.kind[row])),
                (lanes[slices.lane[row]].pid, lanes[slices.lane[row]].tid),
                int(slices.correlation[row]),
            )
            for row in np.flatnonzero(keep).tolist()
        ]
    )


def test_what_one_side_lacks_is_missing_and_says_which():
    found = outcome(STEADY, "not_slower(kernels)", baseline=cpu_only())
    assert found.status.value == "missing"
    assert found.why.startswith("kernels is not in the baseline: there is no GPU activity in it.")
    found = outcome(cpu_only(), "not_slower(kernels)", baseline=STEADY)
    assert found.why.startswith("kernels is not in this trace")


def test_steps_are_not_compared_with_a_whole_capture():
    made = report(side(STEADY, "all"), [assertion("not_slower(dur_us)")], side(STEADY))
    assert made.outcomes[0].status.value == "missing"
    assert "captures" in made.outcomes[0].why


def test_without_assertions_the_usual_ones_that_one_side_holds():
    texts = [each.text for each in usual(side(STEADY), side(cpu_only()))]
    assert texts == [f"not_slower({name})" for name in ("dur_us", "cpu_us", "gpu_busy_us", "kernels", "launches")]
    assert [each.text for each in usual(side(cpu_only()), side(cpu_only()))] == [
        "not_slower(dur_us)",
        "not_slower(cpu_us)",
    ]


@pytest.mark.parametrize("tolerance", ["5", "0.05", "x", "dur_us", "", "5% + 1", "-5%"])
def test_a_tolerance_has_a_unit(tolerance):
    with pytest.raises(UsageError):
        one(STEADY, STEADY, "not_slower(dur_us)", tolerance)


def test_a_name_given_as_a_word_becomes_an_assertion():
    assert beside('kernel("gemm").total_us').text == 'not_slower(kernel("gemm").total_us)'
    with pytest.raises(ExpressionError):
        beside("dur_us) or (1 == 1")


def edited(path: Path, into: Path, change: Callable[[dict], None]) -> Trace:
    """A real trace with every event changed."""
    document = json.loads(gzip.decompress(path.read_bytes()))
    for event in document["traceEvents"]:
        change(event)
    into.write_text(json.dumps(document))
    return load(str(into))


@pytest.mark.full
def test_a_slower_kernel_of_a_real_trace_is_found_and_its_neighbours_are_not(shared_trace, tmp_path):
    path = shared_trace(D01)
    old = load(str(path))

    def slow_down(event: dict) -> None:
        if event.get("cat") == "Kernel" and "sgemm" in event["name"].lower():
            event["dur"] = event["dur"] * 1.3

    new = edited(path, tmp_path / "slow.json", slow_down)
    for text in (
        "not_slower(kernel('sgemm').total_us)",
        "not_slower(kernel('sgemm').mean_us, 20%)",
        "not_slower(gemm_us)",
    ):
        assert status(new, text, baseline=old) == "fails", text
        assert status(old, text, baseline=new) == "holds", text
    for text in (
        "not_slower(kernel('sgemm').calls)",
        "not_slower(reduction_us)",
        "not_slower(dur_us)",
        "not_slower(kernels)",
    ):
        assert status(new, text, baseline=old) == "holds", text
    assert status(new, "not_slower(kernel('sgemm').total_us, 40%)", baseline=old) == "holds"


@pytest.mark.full
def test_noise_in_a_real_trace_is_never_called_slower(shared_trace, tmp_path):
    path = shared_trace(D01)
    old = load(str(path))
    chance = np.random.default_rng(7)

    def shake(event: dict) -> None:
        if event.get("cat") == "Kernel":
            event["dur"] = round(event["dur"] * chance.uniform(0.99, 1.01), 3)

    new = edited(path, tmp_path / "noisy.json", shake)
    made = report(side(new), usual(side(new), side(old)), side(old))
    assert made.passes, [each for each in made.outcomes if each.status.value == "fails"]


OTHERS = (700, 706, 702, 698, 704)
"""Steps of a file besides the first two: 8 us from the least to the largest."""


@pytest.mark.parametrize(
    ("first", "second", "tolerance", "expected"),
    [
        (720, 700, None, "fails"),
        (709, 700, None, "fails"),
        (707.5, 700, None, "cannot tell"),
        (700, 709, None, "holds"),
        (700, 707.5, None, "cannot tell"),
        (702, 700, None, "holds"),
        (720, 700, "5%", "holds"),
        (709, 700, "1%", "fails"),
        (707.5, 700, "0.1%", "cannot tell"),
    ],
)
def test_of_one_step_on_each_side_the_other_steps_are_the_noise(first, second, tolerance, expected):
    trace = work_of(first, second, *OTHERS)
    made = report(side(trace, "1"), [assertion("not_slower(dur_us)")], side(trace, "2"), tolerance)
    assert made.outcomes[0].status.value == expected
    noise = [piece.value for piece in made.outcomes[0].leaves[0].wanted if isinstance(piece, Amount)][-1]
    assert noise == pytest.approx(8)
    assert "noise 8 µs of other steps" in outcome_text(made.outcomes[0])


def work_of(*micros: float) -> Trace:
    """Steps of durations that need not be whole microseconds."""
    events = [step(number, number * 10**6, round(took * 1000)) for number, took in enumerate(micros, 1)]
    return make_trace([*events, op("aten::mm", 10**6, 1000)])


def test_the_steps_that_are_compared_are_no_measure_of_their_own_noise():
    odd = work_of(900, 500, *OTHERS)
    numbers = [each.side.number.tolist() for each in other_steps(side(odd, "1"), side(odd, "2"))]
    assert numbers == [[3, 4, 5, 6, 7]]
    numbers = [each.side.number.tolist() for each in other_steps(side(odd, "1"), side(work_of(900, 500, *OTHERS), "2"))]
    assert numbers == [[2, 3, 4, 5, 6, 7], [1, 3, 4, 5, 6, 7]]


@pytest.mark.parametrize(("a", "b"), [("", "2"), ("1:2", "2"), ("1", ""), ("all", "all"), ("aten::mm", "aten::mm")])
def test_only_of_single_steps_others_are_asked(a, b):
    trace = work_of(900, 500, *OTHERS)
    assert other_steps(side(trace, a), side(trace, b)) == []


def test_with_few_other_steps_the_noise_is_assumed_and_said_to_be():
    trace = work_of(720, 700, 701, 702)
    assert other_steps(side(trace, "1"), side(trace, "2")) == []
    found = report(side(trace, "1"), [assertion("not_slower(dur_us)")], side(trace, "2")).outcomes[0]
    assert "(noise 35 µs, assumed 5 %)" in outcome_text(found)
    assert "5 % is assumed" in found.why and "--tolerance" in found.why
    assert "assumed" not in outcome_text(
        report(side(trace), [assertion("not_slower(dur_us)")], side(trace)).outcomes[0]
    )


def test_the_noise_of_two_files_is_the_larger():
    calm, restless = work_of(720, *OTHERS), work_of(700, 700, 760, 730, 700)
    found = report(side(calm, "1"), [assertion("not_slower(dur_us)")], side(restless, "1")).outcomes[0]
    assert "noise 60 µs of other steps" in outcome_text(found)


def test_other_steps_of_a_real_trace_against_a_plain_loop(shared_trace):
    trace = loaded(shared_trace(D01))
    durations = {row["step"]: row["dur_us"] for row in pane(trace, "steps") if not row["partial"]}
    first, second, *others = durations
    made = report(side(trace, str(first)), [assertion("not_slower(dur_us)")], side(trace, str(second)))
    kept = [durations[number] for number in others]
    amounts = [piece.value for piece in made.outcomes[0].leaves[0].wanted if isinstance(piece, Amount)]
    assert amounts == [durations[second], pytest.approx(max(kept) - min(kept))]


def on(name: str) -> Trace:
    """A trace of a device."""
    return replace(work(700, 705, 702), devices=(Device(0, name),), cache={})


@pytest.mark.parametrize("form", ["text", "md", "json", "junit"])
def test_other_devices_are_told_in_every_form_before_the_results(form):
    made = report(side(on("V100")), [assertion("not_slower(dur_us)")], side(on("A100")))
    text = render_check(made, form)
    sentence = "Different devices: A100, and V100"
    assert sentence in text
    body = text.index("<system-out>") if form == "junit" else 0
    assert text.index(sentence, body) < text.index("not_slower", body)
    assert made.passes
    alike = report(side(on("V100")), [assertion("not_slower(dur_us)")], side(on("V100")))
    assert "Different" not in render_check(alike, form)


def test_the_sides_are_called_by_what_they_are_here():
    made = report(side(STEADY), [assertion("cpu_ops > 0")], side(cpu_only()))
    assert made.unfair == ("Only this trace ran anything on a GPU: the CPU times measure different things.",)
    made = report(side(STEADY, "all"), [assertion("cpu_ops > 0")], side(STEADY))
    assert made.unfair[0].startswith("A part of the baseline is a step, one of this trace the whole capture")


def test_a_baseline_that_is_the_same_recording_is_said_to_be():
    again = work(700, 705, 702, 698, 701)
    assert report(side(again), [], side(STEADY)).unfair == ("The baseline is the same recording: nothing can differ.",)
    assert report(side(STEADY, "2"), [], side(STEADY, "3")).unfair == ()
    assert report(side(STEADY), []).unfair == ()
