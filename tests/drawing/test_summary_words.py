"""The summary in words."""

from __future__ import annotations

import pytest

from tests.support.build import annotation, kernel, launch, make_trace
from tracetui.drawing.text.readable_table import readable, words
from tracetui.panes import PANES


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("gpu_busy_us", "GPU busy"),
        ("gpu_busy_pct", "GPU busy, of the whole time"),
        ("idle_pct", "GPU idle, from the first GPU activity to the last"),
        ("size_bytes", "size"),
        ("cpu_ops", "CPU ops"),
        ("recorded_with", "recorded with"),
    ],
)
def test_keys_are_words(key, text):
    assert words(key) == text


def test_values_have_their_units_and_what_is_not_known_stays_unknown():
    trace = make_trace([launch(0, 5_000, 1), kernel("k", 100_000, 1_900_000, correlation=1)], size_bytes=3 << 20)
    plain = PANES["summary"].build(trace)
    shown = readable(plain)
    facts = {str(row["key"]): row["value"] for row in shown.rows()}
    assert facts["GPU busy"] == "1.90 ms"
    assert facts["GPU busy, of the whole time"] == "95.0 %"
    assert facts["size"] == "3.0 MiB"
    assert facts["kernels"] == "1"
    assert facts["workload"] is None
    assert len(shown) == len(plain)


def test_the_idle_time_of_a_step_is_not_said_to_be_of_the_trace():
    events = [annotation(f"ProfilerStep#{number}", number * 1_000_000, 900_000) for number in (1, 2)]
    for number in (1, 2):
        at = number * 1_000_000
        events += [launch(at, 5_000, number), kernel("k", at + 100_000 * number, 500_000, correlation=number)]
    trace = make_trace(events)
    of_trace, of_step = (
        [str(row["key"]) for row in readable(PANES["summary"].build(trace, part)).rows()] for part in (None, 2)
    )
    assert "GPU idle, from the first GPU activity to the last" in of_trace
    assert (
        "GPU idle, of the step or range" in of_step
        and "GPU idle, from the first GPU activity to the last" not in of_step
    )


def test_every_share_says_what_it_is_of():
    trace = make_trace([launch(0, 5_000, 1), kernel("k", 100_000, 1_900_000, correlation=1)])
    shares = [
        words(str(row["key"])) for row in PANES["summary"].build(trace).rows() if str(row["key"]).endswith("_pct")
    ]
    assert len(shares) == len(set(shares)) > 10
    assert [each for each in shares if each.endswith("share")] == []
