"""The simulated traces by name: what is to be seen in each, how they compare, and how they are written.

A trace says in its file name and in its metadata that it is simulated, and has what the recorder would have written of
the workload, so that its lesson and its expectations are looked up as in a recording.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from tracetui_workloads.registry import built_in

from tracetui.demo import figures, steps
from tracetui.demo.program import Program
from tracetui.files import whole_file
from tracetui.frozen import frozen

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
        partial(steps.matmul_add, 64),
        figures.PART_1,
        "Overhead-bound: in each step the GPU computes for 7.7 of 92 µs and waits for a launch in the others.",
        "7 findings, 3 idle time",
    ),
    "matmul_add_64_cold": Demo(
        "matmul_add",
        "matmul_add",
        partial(steps.matmul_add, 64, is_cold=True),
        figures.PART_1,
        "The first step is cold: 228 µs pass before its first operator, 5 µs in the others.",
        "7 findings, 8 steps",
        "cold",
        options={"cold": True},
    ),
    "matmul_add_4096": Demo(
        "matmul_add",
        "matmul_add",
        partial(steps.matmul_add, 4096),
        figures.PART_1,
        "Compute-bound: larger matrices keep the GPU busy. The same kernel takes 580 µs, and once 3.2 ms.",
        "8 steps, 2 kernels",
        params={"size": 4096},
    ),
    "linear": Demo(
        "linear",
        "linear_fwd",
        steps.linear,
        figures.PART_2,
        "One kernel: its epilogue adds the bias. aten::t before aten::addmm has no time on the GPU.",
        "I lesson, 2 2 2 operators without GPU time",
    ),
    "mlp": Demo(
        "mlp",
        "mlp_fwd",
        steps.mlp,
        figures.PART_2,
        "Five kernels, three of them GEMMs of two tiles, of which down_proj is 10 % faster; cuBLAS asks for the "
        "occupancy of the GEMMs only.",
        "2 kernels, I lesson",
    ),
    "mlp_compile": Demo(
        "mlp",
        "mlp_fwd",
        steps.mlp_compile,
        figures.PART_2,
        "Four kernels: gelu and the multiplication are one of Triton, and the GEMMs are the same.",
        "2 kernels, I lesson",
        "compile",
        options={"compile": True},
    ),
    "split_stack": Demo(
        "split_stack",
        "split_stack",
        steps.split_stack,
        figures.PUZZLER,
        "36 small kernels: the GPU is idle for nine tenths, as each ends before the next is launched.",
        "3 idle time, 7 findings",
    ),
    "combined": Demo(
        "combined",
        "combined",
        steps.combined,
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
