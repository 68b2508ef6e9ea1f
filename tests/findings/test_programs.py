"""What is said of programs whose cause is known, because they are simulated; each beside one that differs in little."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from tests.support.build import make_trace
from tests.support.findings import one
from tests.support.invariants import broken
from tests.support.simulation import ADDITION, ALL_REDUCE, H100, PRODUCT, V100, Simulation
from tracetui.findings import Severity, finding_list, findings
from tracetui.model.trace import Kind, Trace

Program = Callable[[], Simulation]


def busy() -> Simulation:
    """Large products, launched sooner than they run, and one wait a step."""
    program = Simulation()

    def step(index: int) -> None:
        program.copy("Memcpy HtoD (Pinned -> Device)", 50.0, 1 << 20)
        for _ in range(20):
            program.layer()
        program.wait()

    program.steps(5, step)
    return program


def one_value_a_step() -> Simulation:
    """A loss that is read once a step, when the GPU is busy."""
    program = Simulation()

    def step(index: int) -> None:
        for _ in range(20):
            program.layer()
        program.item()

    program.steps(5, step)
    return program


def a_value_an_element() -> Simulation:
    """A value that is read after every small kernel."""
    program = Simulation()

    def step(index: int) -> None:
        for _ in range(200):
            program.add(5.0)
            program.item()
            program.work(15.0)

    program.steps(4, step)
    return program


def loads_in_process() -> Simulation:
    """A DataLoader without workers, after a wait for the GPU."""
    program = Simulation()

    def batch() -> None:
        for _ in range(4):
            program.op("aten::stack", us=2_000.0)

    def step(index: int) -> None:
        program.note("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", batch)
        for _ in range(15):
            program.layer()
        program.wait()

    program.steps(4, step)
    return program


def loads_beside_the_gpu() -> Simulation:
    """A DataLoader whose time lies under GPU activity."""
    program = Simulation()

    def step(index: int) -> None:
        for _ in range(40):
            program.layer()
        program.note("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", lambda: program.work(3_000.0))

    program.steps(4, step)
    return program


def small_kernels() -> Simulation:
    """Kernels that take less time than their launches."""
    program = Simulation()

    def step(index: int) -> None:
        for _ in range(150):
            program.add(3.0)

    program.steps(5, step)
    return program


def single_precision(product: str) -> Program:
    """Products in fp32, with kernels of a name, on a GPU without TF32."""

    def make() -> Simulation:
        program = Simulation(V100)

        def step(index: int) -> None:
            for _ in range(20):
                program.layer(product=product, dtype="float")

        program.steps(4, step)
        return program

    return make


def copies(kind: str, blocking: bool) -> Program:
    """A large copy to the GPU before every step."""

    def make() -> Simulation:
        program = Simulation()

        def step(index: int) -> None:
            program.op(
                "aten::copy_",
                lambda: program.copy(f"Memcpy HtoD ({kind} -> Device)", 4_000.0, 64 << 20, blocking=blocking),
            )
            for _ in range(30):
                program.layer()
            program.wait()

        program.steps(4, step)
        return program

    return make


def starts_up() -> Simulation:
    """The first product initialises its library."""
    program = Simulation()

    def first() -> None:
        program.call("cudaFree", 900_000.0)
        program.kernel(PRODUCT, 300.0)

    program.op("aten::mm", first)
    for _ in range(20):
        program.layer()
    return program


def allocates() -> Simulation:
    """Memory is full: the cache is flushed and filled again in every step but the first."""
    program = Simulation()

    def again() -> None:
        program.wait("cudaDeviceSynchronize")
        program.call("cudaFree", 900.0)
        program.call("cudaFree", 700.0)
        program.call("cudaMalloc", 1_200.0)

    def step(index: int) -> None:
        for number in range(20):
            program.layer()
            if index and number % 5 == 0:
                program.op("aten::empty", again)

    program.steps(5, step)
    return program


def saves_once() -> Simulation:
    """One step writes a checkpoint."""
    program = Simulation()

    def step(index: int) -> None:
        for _ in range(20):
            program.layer()
        program.wait()
        if index == 3:
            program.note("save_checkpoint", lambda: program.work(40_000.0))

    program.steps(7, step)
    return program


def computes_in_python() -> Simulation:
    """Six milliseconds in the middle of every step without an operator."""
    program = Simulation()

    def step(index: int) -> None:
        for _ in range(20):
            program.layer()
        program.wait()
        program.work(6_000.0)
        for _ in range(5):
            program.layer()

    program.steps(5, step)
    return program


def stands_still() -> Simulation:
    """Operators of a microsecond that take milliseconds now and then."""
    chance, program = random.Random(1), Simulation()
    names = ["empty", "view", "transpose", "as_strided", "empty_like", "slice", "permute", "detach"]

    def step(index: int) -> None:
        for _ in range(40):
            program.layer(60.0)
            stalls = chance.random() < 0.06
            program.op(f"aten::{chance.choice(names)}", us=chance.uniform(5_000, 20_000) if stalls else 2.0)

    program.steps(6, step)
    return program


def replays(pause: float = 0.0) -> Program:
    """Graph replays with the same pause before three of their nodes."""
    nodes = [
        (PRODUCT, 50.0, 1.0) if number % 3 == 0 else (ADDITION, 8.0, pause if number % 20 == 10 else 1.0)
        for number in range(60)
    ]

    def make() -> Simulation:
        program = Simulation()

        def step(index: int) -> None:
            program.replay(nodes)
            program.wait()

        program.steps(6, step)
        return program

    return make


def gradients(beside: bool) -> Program:
    """All-reduces of gradients, beside the products or after them."""

    def make() -> Simulation:
        program = Simulation()

        def reduce() -> None:
            program.kernel(ALL_REDUCE, 700.0, 20, blocks=24, after=program.free[7])

        def step(index: int) -> None:
            for number in range(24):
                program.layer()
                if beside and number in (4, 9, 14, 19):
                    program.op("c10d::allreduce_", reduce)
            if not beside:
                for _ in range(4):
                    program.op("c10d::allreduce_", reduce)
                program.call("cudaStreamWaitEvent", 2.0)
                program.free[7] = program.free[20]

        program.steps(4, step)
        return program

    return make


def evaluates(every: int) -> Program:
    """Steps of which some run an evaluation behind the training."""

    def make() -> Simulation:
        program = Simulation()

        def step(index: int) -> None:
            for _ in range(20):
                program.layer()
            program.item()
            if index % every == every - 1:
                for _ in range(40):
                    program.layer()
                program.item()

        program.steps(12, step)
        return program

    return make


def allocates_under_a_busy_gpu() -> Simulation:
    """Memory is taken in the first steps, which last as long as the others on the GPU."""
    program = Simulation()

    def step(index: int) -> None:
        for number in range(15):
            program.layer()
            if index < 2 and number % 3 == 0:
                program.op("aten::empty", lambda: program.call("cudaMalloc", 700.0))

    program.steps(8, step)
    return program


def stacks_on_the_cpu() -> Simulation:
    """Operators of the CPU make the batch before every step, in no loader that is known."""
    program = Simulation()

    def step(index: int) -> None:
        for _ in range(10):
            program.op("aten::stack", us=700.0)
        for _ in range(15):
            program.layer()
        program.wait()

    program.steps(6, step)
    return program


def loses_first_nodes(us: float) -> Program:
    """Graph replays whose first node takes a time and is not recorded."""

    def make() -> Simulation:
        program = Simulation()
        nodes = [(ADDITION, us, 1.0), *[(PRODUCT, 40.0, 1.0)] * 30]

        def step(index: int) -> None:
            program.replay(nodes, lost=frozenset([0]))
            program.wait()

        program.steps(8, step)
        return program

    return make


def loads_modules(call: str) -> Program:
    """Every kernel of the first step needs a call that takes milliseconds."""

    def make() -> Simulation:
        program = Simulation()

        def launch(number: int, is_first: bool) -> None:
            if is_first:
                program.call(call, 3_000.0)
            program.kernel(f"{PRODUCT}{number}", 200.0)

        def step(index: int) -> None:
            for number in range(10):
                program.op("aten::mm", partial(launch, number, index == 0))
            program.wait()

        program.steps(4, step)
        return program

    return make


SAID: list[tuple[Program, dict[str, Severity]]] = [
    (a_value_an_element, {"host-sync": Severity.MAJOR}),
    (loads_in_process, {"data-loading": Severity.MAJOR}),
    (small_kernels, {"launch-overhead": Severity.MAJOR}),
    (single_precision("volta_sgemm_128x64_tn"), {"fp32-math": Severity.MAJOR}),
    (copies("Pageable", blocking=True), {"pageable-copy": Severity.MAJOR}),
    (copies("Pinned", blocking=False), {"exposed-copy": Severity.MAJOR}),
    (starts_up, {"start-up": Severity.MAJOR}),
    (allocates, {"allocator": Severity.MAJOR}),
    (saves_once, {"outlier-step": Severity.MAJOR}),
    (computes_in_python, {"long-gap-without-op": Severity.MAJOR}),
    (stands_still, {"stalled-thread": Severity.MAJOR}),
    (replays(pause=400.0), {"unrecorded-graph-work": Severity.NOTE}),
    (gradients(beside=False), {"exposed-communication": Severity.MAJOR}),
    (evaluates(every=4), {"outlier-step": Severity.MAJOR}),
    (loads_modules("cuModuleLoadData"), {"start-up": Severity.MAJOR}),
    (stacks_on_the_cpu, {"launch-overhead": Severity.MAJOR}),
    (loses_first_nodes(900.0), {"unrecorded-graph-work": Severity.NOTE}),
]
IDLE = {
    "data-loading",
    "start-up",
    "allocator",
    "outlier-step",
    "launch-overhead",
    "host-sync",
    "long-gap-without-op",
    "stalled-thread",
    "dependency",
    "unrecorded-graph-work",
}
"""Findings about idle time."""
SILENT: list[tuple[Program, set[str]]] = [
    (busy, {*IDLE, "pageable-copy", "exposed-copy", "fp32-math", "low-waves", "exposed-communication", "untrusted"}),
    (one_value_a_step, {*IDLE, "pageable-copy"}),
    (loads_beside_the_gpu, IDLE),
    (a_value_an_element, {"pageable-copy", "data-loading", "stalled-thread", "long-gap-without-op", "dependency"}),
    (loads_in_process, IDLE - {"data-loading"}),
    (small_kernels, IDLE - {"launch-overhead"} | {"low-waves", "fp32-math"}),
    (single_precision("volta_dgemm_128x64_tn"), {"fp32-math", *IDLE}),
    (single_precision("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_tn"), {"fp32-math"}),
    (copies("Pinned", blocking=False), {"pageable-copy", "host-sync", "launch-overhead"}),
    (copies("Pageable", blocking=True), {*IDLE, "exposed-copy"}),
    (starts_up, IDLE - {"start-up"}),
    (allocates, IDLE - {"allocator"}),
    (saves_once, {"cold-step", "data-loading", "stalled-thread", "host-sync", "launch-overhead"}),
    (computes_in_python, IDLE - {"long-gap-without-op"}),
    (stands_still, IDLE - {"stalled-thread", "outlier-step"}),
    (replays(), {"dependency", "unrecorded-graph-work", "stalled-thread"}),
    (replays(pause=400.0), {"dependency", "launch-overhead"}),
    (gradients(beside=True), {"small-collectives", "low-waves", *IDLE}),
    (gradients(beside=False), {"small-collectives", "low-waves", *IDLE}),
    (evaluates(every=2), {"cold-step", *IDLE}),
    (loads_modules("cuModuleLoadData"), IDLE - {"start-up"}),
    (evaluates(every=4), IDLE - {"outlier-step"}),
    (allocates_under_a_busy_gpu, {"cold-step", *IDLE}),
    (stacks_on_the_cpu, IDLE - {"launch-overhead"}),
    (loses_first_nodes(900.0), {"dependency", "launch-overhead"}),
    (loses_first_nodes(5.0), {"unrecorded-graph-work", "dependency"}),
    (single_precision("cutlass_80_tensorop_d884gemm_64x64_16x4_nt_align1"), {"misaligned-gemm", "fp32-math"}),
]
"""Programs and what may not be said of them with a weight above a note."""


def _name(program: object) -> str:
    return getattr(program, "__qualname__", "").split(".")[0]


EVERY = dict.fromkeys(program for program, _ in [*SAID, *SILENT])
PROGRAMS = [pytest.param(each, marks=[pytest.mark.full] * (number % 5 > 0)) for number, each in enumerate(EVERY)]
"""Each, a fifth of them in the quick tier."""


@pytest.mark.parametrize(("program", "said"), SAID, ids=[_name(program) for program, _ in SAID])
@pytest.mark.full
def test_the_cause_of_a_simulated_program_is_said_with_its_weight(program, said):
    weights = {finding.id: finding.severity for finding in finding_list(program().trace())}
    assert {name: weights.get(name, Severity.NOTE - 1) >= weight for name, weight in said.items()} == dict.fromkeys(
        said, True
    ), weights


@pytest.mark.parametrize(("program", "silent"), SILENT, ids=[_name(program) for program, _ in SILENT])
@pytest.mark.full
def test_nothing_false_is_said_of_a_simulated_program(program, silent):
    every = finding_list(program().trace())
    assert {
        finding.id: finding.title for finding in every if finding.severity > Severity.NOTE and finding.id in silent
    } == {}


@pytest.mark.parametrize("program", PROGRAMS, ids=_name)
@pytest.mark.full
def test_the_invariants_hold_of_a_simulated_program(program):
    assert list(broken(program().trace())) == []


def half_compiled(share: int) -> Simulation:
    """Small kernels, some of every ten launched by compiled code."""
    program = Simulation()

    def step(index: int) -> None:
        for number in range(150):
            if number % 10 < share:
                program.note("Torch-Compiled Region: 0/0", lambda: program.add(3.0))
            else:
                program.add(3.0)

    program.steps(3, step)
    return program


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0, "torch.compile, a larger batch"),
        (3, "Compiled code launches 30 % of the kernels"),
        (8, "compiled, not graphed"),
    ],
)
def test_advice_on_launches_knows_how_much_is_compiled(share, words):
    advice = one(half_compiled(share).trace(), "launch-overhead").advice
    assert words in advice


def test_steps_that_are_alike_are_outliers_together():
    finding = one(evaluates(every=4)().trace(), "outlier-step")
    assert finding.title.startswith("Steps 3, 7 and 11 are not like the others: ")
    assert "cudaMemcpyAsync" not in finding.evidence


def test_operators_of_the_cpu_in_long_gaps_are_no_matter_of_launches():
    finding = one(stacks_on_the_cpu().trace(), "launch-overhead")
    assert finding.title.startswith("The CPU launches late, busy with other work in gaps of a millisecond and more: ")
    assert "longest in aten::stack" in finding.evidence
    assert "torch.compile" not in finding.advice


def ahead(program: Program, us: float) -> Trace:
    """What is recorded of a program where the clock of the GPU is ahead of that of the CPU."""
    made = program()
    made.wait("cudaDeviceSynchronize")
    on_gpu = (Kind.KERNEL, Kind.MEMCPY)
    moved = [
        replace(event, start=event.start + round(1000 * us)) if event.kind in on_gpu else event for event in made.events
    ]
    return make_trace(moved, [H100])


@pytest.mark.parametrize("us", [-20.0, 20.0, 2_000.0])
@pytest.mark.parametrize("program", [small_kernels, a_value_an_element, busy], ids=_name)
@pytest.mark.full
def test_the_clock_of_the_gpu_moves_no_weight(program, us):
    true = {each.id: each.severity for each in finding_list(program().trace())}
    other = {each.id: each.severity for each in finding_list(ahead(program, us)) if each.id != "untrusted"}
    assert other == true


def without_launches(program: Program) -> Trace:
    """What is recorded of a program where calls of the runtime are missing."""
    made = program()
    made.trace()
    return make_trace([event for event in made.events if event.kind != Kind.RUNTIME], [V100])


@pytest.mark.parametrize("pause", [False, True])
def test_kernels_without_launch_record_cost_their_time_where_they_follow_at_once(pause):
    def make() -> Simulation:
        program = Simulation(V100)

        def step(index: int) -> None:
            for _ in range(20):
                program.op("aten::mm", lambda: program.kernel("volta_sgemm_128x64_tn", 300.0))
                if pause:
                    program.wait()

        program.steps(4, step)
        return program

    weights = {finding.id: finding.severity for finding in finding_list(without_launches(make))}
    # The last kernel of all has none behind it.
    assert weights["fp32-math"] == (Severity.NOTE if pause else Severity.MAJOR)


@pytest.mark.parametrize("lost", ["last", "first"])
def test_kernels_that_the_recording_did_not_wait_for_are_a_note_and_lost_ones_are_not(lost):
    made = busy()
    made.wait("cudaDeviceSynchronize")
    on_gpu = [event for event in made.events if event.kind in (Kind.KERNEL, Kind.MEMCPY)]
    kept = on_gpu[:155] if lost == "last" else on_gpu[50:]
    trace = make_trace([event for event in made.events if event not in on_gpu or event in kept], [H100])
    finding = one(trace, "untrusted")
    assert finding.severity == (Severity.NOTE if lost == "last" else Severity.MAJOR)
    assert ("the recording ended before the kernels of 49 launches ran" in finding.evidence) == (lost == "last")


def test_idle_time_of_unknown_cause_comes_before_what_saves_less():
    headline = findings(without_launches(small_kernels)).headline
    assert headline is not None
    assert headline.startswith("What the GPU waited for is not in the trace: GPU idle 81 %")
    headline = findings(small_kernels().trace()).headline
    assert headline is not None
    assert headline.startswith("Launch overhead: ")
