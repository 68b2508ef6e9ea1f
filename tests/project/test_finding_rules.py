"""The page of findings has every rule of the code, none beside them, and the thresholds that the code has."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import tracetui.findings
from tests.support.paths import ROOT
from tracetui.findings import (
    communication,
    cpu_work,
    fusion,
    gemm,
    idle,
    kernel_times,
    recording,
    roofline,
    training,
)
from tracetui.findings.scope import MIN_SHARES
from tracetui.findings.step_rules import MIN_EXCESS_RATIO, MIN_STEPS
from tracetui.idle import idle_parts, thread_causes, waits
from tracetui.model.quantities import rounded_percent

PAGE = (ROOT / "docs" / "findings.md").read_text()
SECTIONS = dict(re.findall(r"^### `([\w-]+)`\n(.*?)(?=^##)", PAGE, re.MULTILINE | re.DOTALL))
WITHOUT_EVIDENCE = ("not-pytorch", "not-judged", "outlier-step")
"""Rules that say all there is in their title, or are described with another."""


def ids_in_code() -> set[str]:
    """The first argument, where it is a text, of every call that makes a finding."""
    folder = Path(tracetui.findings.__file__).parent
    ids = set()
    for path in folder.glob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and _name(call.func) in ("Finding", "with_cost") and call.args:
                ids |= {each.value for each in ast.walk(call.args[0]) if isinstance(each, ast.Constant)}
    return {each for each in ids if isinstance(each, str)}


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


@pytest.mark.full
def test_every_rule_has_a_section_and_every_section_a_rule():
    assert set(SECTIONS) == ids_in_code()


@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_says_what_the_rule_rests_on(name):
    assert name in WITHOUT_EVIDENCE or "* **Evidence**: " in SECTIONS[name]
    assert SECTIONS[name].strip()


def test_the_weights_are_those_of_the_code():
    words = ", ".join(f"{severity.name.lower()} from {rounded_percent(100 * share)}" for share, severity in MIN_SHARES)
    assert words in " ".join(PAGE.split())


def _percent(share: float) -> str:
    return rounded_percent(100 * share)


def _micros(nanoseconds: int) -> str:
    return f"{nanoseconds / 1000:g} µs"


def _millis(nanoseconds: int) -> str:
    return f"{nanoseconds / 1_000_000:g} ms"


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("start-up", f"more than {_millis(thread_causes.MIN_FIRST_USE_NS)}"),
        ("start-up", f"more than {_millis(thread_causes.MIN_REPEATED_FIRST_USE_NS)}"),
        ("start-up", f"the number {thread_causes.MIN_WARM_STEP} or more"),
        ("start-up", f"{thread_causes.MIN_FIRST_USE_RATIO} times the median"),
        ("start-up", f"at least {_millis(thread_causes.MIN_FIRST_OP_NS)} itself"),
        (
            "start-up",
            f"more than {thread_causes.MIN_FIRST_OP_RATIO} times the median of {thread_causes.MIN_LATER_CALLS} later",
        ),
        (
            "allocator",
            f"at least {_percent(cpu_work.MIN_UNCACHED_SHARE)} of the tensors, and {cpu_work.MIN_UNCACHED_CALLS}",
        ),
        ("allocator", f"at most {_percent(cpu_work.MAX_UNFILLED_SHARE)} of the device"),
        ("allocator", f"{cpu_work.MIN_PINNED_CALLS} and more allocations of pinned memory"),
        ("pageable-copy", f"below {thread_causes.MIN_COPY_BYTES >> 10} KiB"),
        ("exposed-copy", f"at least {_percent(idle.MIN_EXPOSED_COPIES)} of the time"),
        ("exposed-copy", f"below {thread_causes.MIN_COPY_BYTES >> 10} KiB"),
        ("stalled-thread", f"at least {thread_causes.MIN_STALLED_CALLS} calls"),
        ("stalled-thread", f"in {thread_causes.MIN_STALLED_FUNCTIONS} different functions"),
        ("stalled-thread", f"longer than {_millis(thread_causes.MIN_STALL_NS)}"),
        ("stalled-thread", f"{thread_causes.MIN_STALL_RATIO} times the median"),
        ("stalled-thread", f"less than {_micros(thread_causes.MAX_USUAL_NS)}"),
        ("stalled-thread", f"more than {_percent(thread_causes.MAX_STALLED_SHARE)} of its calls"),
        ("peer-wait", f"{_millis(idle_parts.MIN_PEER_WAIT_NS)} and more"),
        ("long-gap-without-op", f"{_millis(idle_parts.MIN_LONG_GAP_NS)} and more"),
        ("launch-overhead", f"gaps below {_millis(idle_parts.MIN_SPLIT_GAP_NS)}"),
        ("unrecorded-graph-work", f"at least {_percent(idle.MIN_UNRECORDED_SHARE)} of the time"),
        ("unrecorded-graph-work", f"{waits.MIN_REPLAYS} at least"),
        ("unrecorded-graph-work", f"less than {_percent(waits.MAX_HOLE_SPREAD)}"),
        ("cold-step", f"at least {MIN_STEPS} whole steps"),
        ("cold-step", f"{MIN_EXCESS_RATIO} times the median"),
        ("exposed-communication", f"{_percent(communication.MIN_EXPOSED_SHARE)} of the time"),
        ("exposed-communication", f"more than {_percent(communication.MIN_HIDDEN_SHARE)} of the time"),
        ("exposed-communication", f"at least {communication.MIN_WAITING_CALLS} collectives of one size"),
        ("exposed-communication", f"a factor of {communication.MIN_WAITING_RATIO} and more"),
        ("small-collectives", f"more than {communication.MIN_SMALL_CALLS} of a kind in a step"),
        ("small-collectives", f"a median below {_micros(communication.MAX_SMALL_NS)}"),
        ("small-collectives", f"more than {communication.MAX_FORWARD_CALLS} of a step are launched before it"),
        ("straggler", f"at least {communication.MIN_SHARED_CALLS} collectives"),
        ("straggler", f"{_percent(communication.MIN_BLAMED_SHARE)} of the waiting"),
        ("straggler", f"{_percent(communication.MIN_TOGETHER_SHARE)} of them at the same time"),
        ("graph-breaks", f"at least {cpu_work.MIN_REGIONS} regions a step"),
        ("compile-preamble", f"more than {cpu_work.MAX_GUARD_RATIO} times their median"),
        ("missing-no-grad", f"at least {training.MIN_ITERATIONS} steps"),
        ("missing-no-grad", f"by {_percent(training.MIN_GROWTH)} together"),
        ("missing-no-grad", "below half of the median" if training.MIN_LAST_GROWTH == 0.5 else "?"),
        ("stack-recording", f"waits for the CPU for {_percent(recording.MIN_CPU_BOUND_SHARE)} of the time"),
        ("launches-missing", f"from {_percent(recording.MIN_MISSING_SHARE)} of the activities"),
        ("misaligned-gemm", f"fewer than {gemm.MIN_ALIGNED_ELEMENTS} elements"),
        ("misaligned-gemm", f"a multiple of {gemm.EVEN_ELEMENTS}"),
        ("small-batch-products", f"at most {gemm.MAX_FEW_ROWS} rows"),
        ("small-batch-products", f"at least {_micros(gemm.MIN_FEW_ROWS_NS)}"),
        ("small-batch-products", f"{_percent(gemm.MIN_BANDWIDTH_SHARE)} of the bandwidth"),
        ("batchable-products", f"at least {gemm.MIN_LOOP_CALLS} times in a row"),
        ("batchable-products", f"at most {_micros(gemm.MAX_LOOP_GEMM_NS)}"),
        ("low-waves", f"at least {_micros(kernel_times.MIN_KERNEL_NS)}"),
        ("low-waves", f"{_percent(kernel_times.MIN_COVERAGE)} of the multiprocessors"),
        ("low-waves", f"at least {_percent(kernel_times.MIN_SHARE_OF_KERNEL_TIME)} of the GPU time"),
        ("unfused-elementwise", f"at least {_percent(fusion.MIN_UNFUSED_SHARE)} of the GPU time"),
        ("unfused-elementwise", "two thirds of the shorter" if fusion.SAVED_SHARE == 2 / 3 else "?"),
        ("far-from-roofline", f"less than {_percent(roofline.FAR_SHARE)}"),
        ("far-from-roofline", f"at least {_micros(roofline.MIN_CALL_NS)}"),
        ("far-from-roofline", f"for more than {_percent(roofline.MAX_SHARED)} of their time"),
        ("serialised-streams", f"more than {_percent(kernel_times.MAX_ORDERED)} of the changes"),
        ("uneven-kernels", f"more than {kernel_times.MIN_UNEVEN_RATIO:g} times the median"),
        ("uneven-kernels", f"at least {kernel_times.MIN_CALLS} equal calls"),
        ("uneven-kernels", f"at least {kernel_times.MIN_VARYING_CALLS} calls the"),
        ("uneven-kernels", f"quartiles lie {_percent(kernel_times.MIN_QUARTILES)} of the median apart"),
        ("uneven-kernels", f"fill {_percent(kernel_times.MIN_FILLED_RANGE)} of their range"),
        ("uneven-kernels", f"calls below {_micros(kernel_times.MIN_VARYING_NS)}"),
        ("uneven-kernels", f"an excess of {_percent(kernel_times.MIN_EXCESS)}"),
        (
            "lower-clock",
            f"at least {kernel_times.MIN_CALLS_AT_CLOCK} calls"
            f" at {_percent(kernel_times.MAX_CLOCK_SHARE)} of the high clock",
        ),
        ("lower-clock", f"(the {kernel_times.HIGH_PERCENTILE}th percentile on that GPU)"),
        ("lower-clock", f"between {kernel_times.IN_STEP[0]:g} and {kernel_times.IN_STEP[1]:g} times that of the clock"),
        ("lower-clock", f"within {_percent(kernel_times.MAX_CLOCK_SPREAD)} of their median"),
        ("tiny-kernels", f"At least {fusion.MIN_RUN_KERNELS} elementwise kernels"),
        ("tiny-kernels", f"below {_micros(fusion.MAX_TINY_NS)}"),
        ("optimizer-loop", f"at least {training.MIN_PARAMETERS} parameters"),
        ("optimizer-loop", f"{_percent(training.MIN_PLAIN_SHARE)} of the kernels"),
        ("serialised-streams", f"at least {kernel_times.MIN_PAIRS} kernels"),
        ("serialised-streams", f"at most {_percent(kernel_times.MAX_OVERLAP)} of their time"),
    ],
)
def test_a_threshold_is_that_of_the_code(rule, words):
    assert words in " ".join(SECTIONS[rule].split())


def test_every_source_is_listed_and_every_listed_one_is_cited():
    rules, _, sources = PAGE.partition("## Sources")
    listed = set(re.findall(r"^(\d+)\. ", sources, re.MULTILINE))
    cited = {number for group in re.findall(r"\[(\d+(?:, \d+)*)\]", rules) for number in group.split(", ")}
    assert cited == listed
