"""The rule about streams that run one after another."""

from __future__ import annotations

from dataclasses import replace

from tests.support.build import launch
from tests.support.devices import A100
from tests.support.findings import ids, one
from tests.support.gpu_programs import Work, queued

SMALL = {"grid": [20, 1, 1], "block": [256, 1, 1], "registers per thread": 32, "shared memory": 0}
LEFT = Work("left_kernel", 50_000, args=SMALL)
RIGHT = replace(LEFT, name="right_kernel", stream="stream 9")


def test_independent_small_kernels_of_two_streams_could_overlap():
    finding = one(queued([LEFT, RIGHT] * 20, [A100]), "serialised-streams")
    assert finding.title.startswith("Kernels of 2 streams run one after another although nothing orders them")
    assert finding.evidence.startswith("39 kernels started only when")
    assert finding.cost == 20 * 50_000, "one stream beside the other"


def test_one_stream_is_ordered():
    assert "serialised-streams" not in ids(queued([LEFT, replace(RIGHT, stream="stream 7")] * 20, [A100]))


def test_events_order_streams():
    waits = [launch(1_000 * i + 700, 50, 1_000 + i, name="cudaStreamWaitEvent") for i in range(20)]
    assert "serialised-streams" not in ids(queued([LEFT, RIGHT] * 20, [A100], waits))


def test_few_events_order_long_chains():
    chains = [*[LEFT] * 5, *[RIGHT] * 5] * 25
    assert "serialised-streams" in ids(queued(chains, [A100]))
    waits = [launch(5_000 * i + 700, 50, 1_000 + i, name="cudaStreamWaitEvent") for i in range(25)]
    assert "serialised-streams" not in ids(queued(chains, [A100], waits))


def test_kernels_that_fill_the_device_leave_no_room():
    full = {**SMALL, "grid": [400, 1, 1]}
    assert "serialised-streams" not in ids(queued([replace(LEFT, args=full), replace(RIGHT, args=full)] * 20, [A100]))


def test_few_changes_of_stream_are_no_evidence():
    assert "serialised-streams" not in ids(queued([LEFT, RIGHT] * 4, [A100]))
