"""Findings about inference servers: each where it speaks, and beside it where one condition is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.build import Event, annotation, kernel, launch, make_trace
from tests.support.paths import SHARED
from tests.support.serving import ATTENTION, GEMM, Served, decode, served
from tests.support.traces import given_traces, loaded
from tracetui.findings import Finding, finding_list
from tracetui.findings.scope import Severity, program
from tracetui.model.trace import Trace

US = 1_000


def only(trace: Trace, id: str) -> Finding | None:
    found = [each for each in finding_list(trace) if each.id == id]
    assert len(found) <= 1
    return found[0] if found else None


def scheduling(count: int) -> list[Event]:
    """What a scheduler does between decodes that begin every 100 µs."""
    return [annotation("schedule: next", (100 * index + 40) * US, 55 * US) for index in range(count - 1)]


def test_decodes_with_pauses_between_them() -> None:
    finding = only(served([decode(index) for index in range(6)], scheduling(6)), "idle-between-decodes")
    assert finding is not None
    assert finding.title == "The GPU waits 30.0 µs between two decodes, 30 % of the time per token"
    assert "medians of 5 decodes" in finding.evidence
    assert "60.0 µs lie between two, 20.0 µs of it with an idle GPU (scheduling 75 %)" in finding.evidence
    assert (finding.cost, finding.severity) == (None, Severity.MAJOR)


def test_decodes_whose_pauses_are_short_or_few_or_unnamed() -> None:
    # The kernels of each decode end 4 µs before those of the next begin.
    close = [replace(each, kernels=[(GEMM, each.start + 20, 96)]) for each in (decode(index) for index in range(6))]
    assert only(served(close), "idle-between-decodes") is None
    assert only(served([decode(index) for index in range(3)]), "idle-between-decodes") is None
    unnamed = [replace(decode(index), name="execute_new_0_cached_4") for index in range(6)]
    assert only(served(unnamed), "idle-between-decodes") is None
    training = [replace(decode(index), name=f"ProfilerStep#{index}") for index in range(6)]
    assert only(served(training), "idle-between-decodes") is None


def pieces(launches: int, idle: bool) -> Trace:
    """Decodes of several graph launches of 20 µs each, whose kernels leave the GPU idle meanwhile, or not."""
    events: list[Event] = []
    number = 0
    for index in range(5):
        at = 1_000 * index
        events.append(annotation("step[DECODE bs=8]", at * US, 500 * US))
        for each in range(launches):
            number += 1
            call = at + 10 + 25 * each
            events.append(launch(call * US, 20 * US, number, "cudaGraphLaunch"))
            start = call + 21 if idle else at + 200 + 25 * each
            events += [
                kernel(name, (start + 2 * node) * US, 2 * US, correlation=number)
                for node, name in enumerate((GEMM, ATTENTION))
            ]
    return make_trace(events)


def test_graph_launches_that_hold_up_decodes() -> None:
    finding = only(pieces(16, idle=True), "graph-launches")
    assert finding is not None
    assert "80 graph launches in 5 decodes, 16 each, of 20.0 µs" in finding.evidence
    # Behind the first kernels of a decode, the GPU waits for the whole of 15 calls of 20 µs.
    assert "idle for 1.50 ms during them" in finding.title


def test_graph_launches_that_hold_up_nothing() -> None:
    assert only(pieces(16, idle=False), "graph-launches") is None
    assert only(pieces(1, idle=True), "graph-launches") is None


def interrupted(requests: int, name: str = "execute_context_2(4096)_generation_0(0)", length: int = 900) -> Trace:
    """Four decodes, a step of two new requests, and four decodes of some requests."""
    prefill = Served(name, 400, 40, [(GEMM, 420, length)])
    late = [decode(index, requests=requests, at=400 + length + 50) for index in range(4)]
    return served([*(decode(index, requests=4) for index in range(4)), prefill, *late])


def test_a_prefill_that_holds_up_requests_in_generation() -> None:
    finding = only(interrupted(5), "prefill-interrupts")
    assert finding is not None
    # The decode before ends at 390 µs, the one behind at 1,440 µs.
    assert finding.title == (
        "Prefills hold up requests in generation: 1.05 ms until their next token instead of 100.0 µs"
    )
    assert "1 time a prefill ran" in finding.evidence
    assert "held up 3 requests or more" in finding.evidence
    assert (finding.severity, finding.cost) == (Severity.MINOR, None)


def test_prefills_that_hold_up_nobody() -> None:
    # All requests behind it may be its own.
    assert only(interrupted(2), "prefill-interrupts") is None
    # It decodes too.
    assert only(interrupted(6, "execute_context_2(4096)_generation_4(4)"), "prefill-interrupts") is None
    # It is as short as a decode.
    assert only(interrupted(5, length=20), "prefill-interrupts") is None
    # Nobody says how many requests it has.
    assert only(interrupted(5, "step[EXTEND]"), "prefill-interrupts") is None


def batches(*each: tuple[int, int]) -> Trace:
    """Decodes of so many requests that take so many µs."""
    return served(
        [
            replace(decode(index, 1000, requests=requests), kernels=[(GEMM, 1000 * index + 20, us)])
            for index, (requests, us) in enumerate(each)
        ]
    )


def test_decodes_that_cost_as_much_whatever_their_batch():
    finding = only(batches((1, 101), (4, 104), (8, 108)), "decode-batch")
    assert finding is not None and finding.severity == Severity.NOTE
    assert finding.title.startswith("A larger batch costs decodes little: 93 % of a decode of 8 requests")
    assert "100.0 µs and 1.0 µs for each request, by 3 decodes of 3 batches from 1 to 8" in finding.evidence
    # Where the batch makes the time, where there are two batches, and where no line fits.
    assert only(batches((1, 60), (4, 90), (8, 130)), "decode-batch") is None
    assert only(batches((1, 101), (8, 108)), "decode-batch") is None
    assert only(batches((1, 100), (4, 200), (8, 101)), "decode-batch") is None


OF_TRAINING = ("DataLoader", "FSDP", "DistributedDataParallel", "backward", "gradient", "optimizer", "losses")


@pytest.mark.parametrize("name", given_traces("inference/i*.json.gz", "d20*"))
def test_no_server_is_told_to_train_otherwise(name) -> None:
    for finding in finding_list(loaded(SHARED / name)):
        assert not [word for word in OF_TRAINING if word in finding.advice], finding.id


def test_advice_for_servers_and_for_other_programs():
    copies = [launch(5_000_000, 500, 90), kernel(GEMM, 5_001_000, 1_000, correlation=90)]
    assert program(served([decode(0)], copies)).serves
    assert not program(make_trace(copies)).serves
    # A server's step in a program that trains, or loads data, makes it no server.
    for name in ("Optimizer.step#SGD.step", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
        assert not program(served([decode(0)], [annotation(name, 0, 100)])).serves
