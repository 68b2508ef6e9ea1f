"""The simulated programs, step by step, and their traces by name: what is to be seen in each, and how they are written.

The steps are the operators that PyTorch calls, and the kernels that they launch. Own times of operators are those of a
warm process, about a microsecond for one that only changes shapes and ten to twenty for one that launches; where a
source has a start, a duration or a sum, the CPU is held until then.

A trace says in its file name and in its metadata that it is simulated, and has what the recorder would have written of
the workload, so that its lesson and its expectations are looked up as in a recording.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from tracetui_workloads.registry import built_in

from tracetui.demo import figures
from tracetui.demo.program import LATENCY_US, Kernel, Program, Shapes
from tracetui.files import whole_file
from tracetui.frozen import frozen

STEPS = (2, 3, 4)
"""Numbers of the recorded steps: of five, one is waited for and one warms the profiler up."""
BETWEEN_STEPS_US = 10.0
"""`prof.step()`, from which nothing is recorded."""
SLIGHTLY = (0.97, 1.05)
"""Factors of times of the CPU where no source has them."""
RATHER_CONSTANT = (0.995, 1.005)
"""Factors of times of kernels, whose mean is published."""


def steps_of(program: Program, label: str, forward: Callable[[], None]) -> None:
    """Record the steps, each a run of the forward pass under its label, then wait for the GPU."""
    for number in STEPS:
        program.spend(BETWEEN_STEPS_US)
        with program.annotation(f"ProfilerStep#{number}", 4), program.annotation(label, 4):
            forward()
    program.spend(BETWEEN_STEPS_US)
    program.synchronize()


def launching(program: Program, name: str, kernel: Kernel, shapes: Shapes, us: float, is_gemm: bool = False) -> None:
    """An operator that launches a kernel, which for a product of matrices cuBLAS sizes first."""
    with program.op(name, shapes, us):
        if is_gemm:
            program.query()
            program.spend(3)
        program.launch(kernel)


def transposed(program: Program, weight: list[int]) -> None:
    """A weight as a view with its strides exchanged."""
    with program.op("aten::t", [weight], 1.8), program.op("aten::transpose", [weight, [], []], 1.4):
        program.view("aten::as_strided", [weight, [], [], []], 0.6)


# Part 1: a product of two matrices and an addition.


def matmul_add(size: int, is_cold: bool = False) -> Program:
    """Three steps at size 64 or 4096; the cold ones, where the first call of everything is recorded, at size 64.

    The profiler's buffers shift the lane of the GPU by two milliseconds in the recordings of part 1. This does not: a
    kernel starts as soon as it can.
    """
    program = Program(figures.A100_80GB)
    is_small = size == 64
    products = [figures.MM_64] * 3 if is_small else list(map(figures.mm_4096, figures.MM_4096_US))
    addition = figures.ADD_64 if is_small else figures.ADD_4096
    starts, windows = figures.LABEL_STARTS_US, figures.DEAD_WINDOWS_US
    lengths = [figures.COLD_STEP_US, figures.STEP_US, figures.STEP_US]
    if not is_cold:
        pitch, lengths = starts[2] - starts[1], [figures.STEP_US] * 3
        starts, windows = (starts[0], starts[0] + pitch, starts[0] + 2 * pitch), (*windows[2:], *windows[1:])
    shapes = [[size, size]] * 2
    for number, label, window, length, product in zip(STEPS, starts, windows, lengths, products, strict=True):
        begin = label - 5
        program.reach(begin)
        with program.annotation(f"ProfilerStep#{number}", 0):
            program.reach(label)
            with program.annotation("matmul_add", 0):
                program.reach(label + window)
                with program.op("aten::matmul", shapes, 4):
                    launching(program, "aten::mm", product, shapes, 16, is_gemm=True)
                program.spend(2)
                launching(program, "aten::add", addition, [*shapes, []], 10)
                program.reach(begin + length - 3)
            program.reach(begin + length)
    program.synchronize(least_us=figures.SYNCHRONIZE_US if is_small else figures.SYNCHRONIZE_4096_US)
    return program


# Part 2: a linear layer, and the GeGLU block of three, eager and compiled.


def linear() -> Program:
    """`nn.Linear` with a bias, which the epilogue of the product adds."""
    program = Program(figures.A100_80GB, cpu_varies=SLIGHTLY, gpu_varies=RATHER_CONSTANT)

    def forward() -> None:
        with program.op("aten::linear", [[1024, 32], [64, 32], [64]], 4):
            transposed(program, [64, 32])
            launching(program, "aten::addmm", figures.LINEAR, [[64], [1024, 32], [32, 64], [], []], 22, is_gemm=True)

    steps_of(program, "linear_fwd", forward)
    return program


def mlp() -> Program:
    """gate and up, gelu, the multiplication, down: five kernels."""
    program = Program(figures.A100_80GB, cpu_varies=SLIGHTLY, gpu_varies=RATHER_CONSTANT)
    hidden = [64, 128, figures.HIDDEN]

    def forward() -> None:
        for _ in ("gate", "up"):
            _bias_free_linear(program, figures.GATE_OR_UP, figures.WIDTH, figures.HIDDEN)
        launching(program, "aten::gelu", figures.GELU, [hidden, []], 10)
        launching(program, "aten::mul", figures.MUL, [hidden, hidden], 9)
        _bias_free_linear(program, figures.DOWN, figures.HIDDEN, figures.WIDTH)

    steps_of(program, "mlp_fwd", forward)
    return program


def _bias_free_linear(program: Program, kernel: Kernel, inner: int, outer: int) -> None:
    batch, flat, weight = [64, 128, inner], [figures.TOKENS, inner], [outer, inner]
    with program.op("aten::linear", [batch, weight, []], 3):
        transposed(program, weight)
        with program.op("aten::matmul", [batch, weight[::-1]], 4):
            with program.op("aten::reshape", [batch, []], 1.2):
                program.view("aten::view", [batch, []], 0.8)
            launching(program, "aten::mm", kernel, [flat, weight[::-1]], 14, is_gemm=True)
            program.view("aten::_unsafe_view", [[figures.TOKENS, outer], []], 1.2)


def mlp_compile() -> Program:
    """The block compiled: three bare products, and one kernel of Triton for gelu and the multiplication."""
    program = Program(figures.A100_80GB, cpu_varies=SLIGHTLY, gpu_varies=RATHER_CONSTANT)
    tokens, width, hidden = figures.TOKENS, figures.WIDTH, figures.HIDDEN
    up = [[tokens, width], [width, hidden], [tokens, hidden]]

    def forward() -> None:
        with _compiled(program):
            for _ in ("gate", "up"):
                launching(program, "aten::mm", figures.GATE_OR_UP, up, 14, is_gemm=True)
            with program.op(figures.FUSED.name, [], 6):
                program.launch(figures.FUSED, "cuLaunchKernel")
            down = [[tokens, hidden], [hidden, width], [tokens, width]]
            launching(program, "aten::mm", figures.DOWN, down, 14, is_gemm=True)

    steps_of(program, "mlp_fwd", forward)
    return program


@contextmanager
def _compiled(program: Program) -> Iterator[None]:
    """The slices of torch.compile around what it compiled, as part 2 names them."""
    program.view("TorchDynamo Cache Lookup", [], 22)
    with program.op("Torch-Compiled Region: 0/0", [], 14):
        program.view("AOTDispatcher Runtime Wrapper Prologue", [], 5)
        # The hash of a graph that was never compiled.
        with program.annotation(f"## Call CompiledFxGraph f{'simulated' * 5} ##", 18):
            yield


# The puzzler: sixteen tensors, and the same as one.


def split_stack() -> Program:
    """Layer norm and tanh of sixteen tensors, then their concatenation and a linear layer: 36 kernels."""
    program = _puzzler()

    def forward() -> None:
        with program.op("aten::split", [[figures.PIECES * 1024 * 256], [], []], 6):
            for _ in range(figures.PIECES):
                with program.op("aten::narrow", [], 0.8), program.op("aten::slice", [], 0.8):
                    program.view("aten::as_strided", [], 0.4)
        first = 0.0
        for piece in range(figures.PIECES):
            program.view("aten::view", [[1024 * 256], []], 1)
            begun = _norm(program, figures.SMALL_NORM, [1024, 256], first + piece * figures.PAIR_US)
            first = first or begun
            after = first + piece * figures.PAIR_US + figures.TANH_AFTER_US
            _launching_at(program, "aten::tanh", figures.SMALL_TANH, [[1024, 256]], after)
        starts = {name: first + us for name, us in figures.SPLIT_END_US.items()}
        with program.op("aten::stack", [[], []], 12):
            _launching_at(program, "aten::cat", figures.CAT, [[], []], starts["cat"])
            program.view("aten::view", [[16384, 256], []], 1)
        _head(program, starts)

    steps_of(program, "split_stack", forward)
    return program


def combined() -> Program:
    """Layer norm and tanh of one tensor, then a linear layer: 5 kernels."""
    program = _puzzler()
    shape = [figures.PIECES, 1024, 256]

    def forward() -> None:
        program.view("aten::view", [[figures.PIECES * 1024 * 256], []], 1)
        first = _norm(program, figures.LARGE_NORM, shape, 0)
        starts = {name: first + us for name, us in figures.COMBINED_US.items()}
        _launching_at(program, "aten::tanh", figures.LARGE_TANH, [shape], starts["tanh"])
        _head(program, starts)

    steps_of(program, "combined", forward)
    return program


def _puzzler() -> Program:
    # In whole microseconds a kernel that waited starts two after the one before.
    return Program(figures.A100_40GB, cpu_varies=SLIGHTLY, dtype="float", gap_us=2.0)


def _norm(program: Program, kernel: Kernel, shape: list[int], start: float) -> float:
    """A layer norm whose kernel starts at a time, or as soon as it can; returns when it starts on an idle stream."""
    with program.op("aten::layer_norm", [shape, [], [], [], []], 4):
        with program.op("aten::native_layer_norm", [shape, [], [], []], 9):
            for _ in range(3):
                program.view("aten::empty", [], 2)
            program.reach(start - LATENCY_US)
            begun = program.now + LATENCY_US
            program.launch(kernel)
        for _ in range(2):
            program.view("aten::view", [], 0.6)
    return begun


def _launching_at(program: Program, name: str, kernel: Kernel, shapes: Shapes, start: float) -> None:
    """An operator whose kernel starts at a time on an idle stream."""
    with program.op(name, shapes, 4):
        program.reach(start - LATENCY_US)
        program.launch(kernel)


def _head(program: Program, starts: dict[str, float]) -> None:
    """The linear layer with one column and the relu; the bias is copied, as no epilogue adds it to one column."""
    with program.op("aten::linear", [[figures.PIECES, 1024, 256], [1, 256], [1]], 4):
        program.view("aten::view", [[figures.PIECES, 1024, 256], []], 1)
        transposed(program, [1, 256])
        with program.op("aten::addmm", [[1], [16384, 256], [256, 1], [], []], 4):
            with program.op("aten::expand", [[1], [], []], 1.4):
                program.view("aten::as_strided", [[1], [], [], []], 0.6)
            _launching_at(program, "aten::copy_", figures.BIAS_COPY, [[16384, 1], [16384, 1], []], starts["copy"])
            program.reach(starts["gemv"] - LATENCY_US)
            program.launch(figures.GEMV)
        program.view("aten::view", [[16384, 1], []], 1)
    with program.op("aten::relu", [[figures.PIECES, 1024, 1]], 3):
        _launching_at(program, "aten::clamp_min", figures.RELU, [[figures.PIECES, 1024, 1], []], starts["relu"])


CAPABILITY = "8.0"
OPTIONS = {
    "device": "cuda:0", "compile": False, "backend": "inductor", "mode": "default", "cold": False, "wait": 1,
    "warmup": 1, "active": 3, "shapes": True, "stack": False, "memory": False,
}  # fmt: skip
"""Options of the recorder with which the programs would have been recorded."""


@frozen(eq=True)
class Demo:
    """One simulated trace."""

    workload: str
    label: str
    """The annotation around each forward pass."""
    run: Callable[[], Program]
    source: str
    """The page that published the figures."""
    sees: str
    """What is to be seen, in a sentence or two."""
    keys: str
    """The keys that lead there, each with what it opens."""
    variant: str = "eager"
    params: Mapping[str, int] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


DEMOS = {
    "matmul_add_64": Demo(
        "matmul_add",
        "matmul_add",
        partial(matmul_add, 64),
        figures.PART_1,
        "Overhead-bound: in each step the GPU computes for 7.7 of 92 µs and waits for a launch in the others.",
        "7 findings, 3 idle time",
    ),
    "matmul_add_64_cold": Demo(
        "matmul_add",
        "matmul_add",
        partial(matmul_add, 64, is_cold=True),
        figures.PART_1,
        "The first step is cold: 228 µs pass before its first operator, 5 µs in the others.",
        "7 findings, 8 steps",
        "cold",
        options={"cold": True},
    ),
    "matmul_add_4096": Demo(
        "matmul_add",
        "matmul_add",
        partial(matmul_add, 4096),
        figures.PART_1,
        "Compute-bound: larger matrices keep the GPU busy. The same kernel takes 580 µs, and once 3.2 ms.",
        "8 steps, 2 kernels",
        params={"size": 4096},
    ),
    "linear": Demo(
        "linear",
        "linear_fwd",
        linear,
        figures.PART_2,
        "One kernel: its epilogue adds the bias. aten::t before aten::addmm has no time on the GPU.",
        "I lesson, 2 2 2 operators without GPU time",
    ),
    "mlp": Demo(
        "mlp",
        "mlp_fwd",
        mlp,
        figures.PART_2,
        "Five kernels, three of them GEMMs of two tiles, of which down_proj is 10 % faster; cuBLAS asks for the "
        "occupancy of the GEMMs only.",
        "2 kernels, I lesson",
    ),
    "mlp_compile": Demo(
        "mlp",
        "mlp_fwd",
        mlp_compile,
        figures.PART_2,
        "Four kernels: gelu and the multiplication are one of Triton, and the GEMMs are the same.",
        "2 kernels, I lesson",
        "compile",
        options={"compile": True},
    ),
    "split_stack": Demo(
        "split_stack",
        "split_stack",
        split_stack,
        figures.PUZZLER,
        "36 small kernels: the GPU is idle for nine tenths, as each ends before the next is launched.",
        "3 idle time, 7 findings",
    ),
    "combined": Demo(
        "combined",
        "combined",
        combined,
        figures.PUZZLER,
        "The same computation in 5 kernels, 8.4 times as fast; the layer norm hides the launch of tanh.",
        "2 kernels",
    ),
}
"""Each demo by name."""

PAIRS = (
    ("mlp", "mlp_compile", "what torch.compile fuses, and how little of the whole that is: 8 %"),
    ("matmul_add_64", "matmul_add_4096", "overhead-bound beside compute-bound"),
    ("split_stack", "combined", "sixteen tensors beside one: launches saved, and a GPU that is filled"),
)
"""Two names that are worth comparing, and why."""


def metadata(name: str) -> dict[str, Any]:
    """Metadata as the recorder would write it, and that nothing was recorded."""
    demo = DEMOS[name]
    workload = built_in(demo.workload)
    return {
        "simulated": True,
        "figures": demo.source,
        "workload": demo.workload,
        "variant": demo.variant,
        "label": demo.label,
        "params": workload.values(demo.params),
        "options": {**OPTIONS, "dtype": workload.dtype, **demo.options},
        "argv": ["tracetui", "demo", name],
        "device": OPTIONS["device"],
        "gpu": {"capability": CAPABILITY},
    }


def file_name(name: str) -> str:
    """The name of the file of a demo, which says that it is simulated."""
    return f"simulated_{name}.json.gz"


def write(name: str, folder: Path) -> Path:
    """Simulate a demo and write its trace into a folder, in place of an earlier one; the same bytes each time.

    Raises: OSError when it cannot be written; then there is no part of it.
    """
    document = DEMOS[name].run().trace({"record_shapes": 1, "tracetui": metadata(name)})
    path = folder / file_name(name)
    # Without its name and the time of writing.
    with whole_file(path) as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
        packed.write(orjson.dumps(document))
    return path
