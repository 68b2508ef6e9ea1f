"""The Triton kernels compiled for GPUs that are not here: prints a JSON object of cases and complaints.

`python -m tests.support.workloads.kernel_compiles CASE...` compiles some of the cases.
The interpreter accepts what the compiler refuses, for example names that it looks up in the annotations of a kernel.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import Any

from tests.support.workloads.kernel_results import complaints_of

TENSOR_CORES = {80: "mma.sync", 90: "wgmma"}
"""The instruction for products, by compute capability."""

CASES = {
    f"{kernel} {dtype} {capability}": (kernel, dtype, capability)
    for kernel in ("geglu_forward", "geglu_backward", "gateup_forward")
    for dtype in ("bf16", "fp16")
    for capability in TENSOR_CORES
}
ONE_OF_EACH = tuple(case for case, (_, dtype, capability) in CASES.items() if (dtype, capability) == ("bf16", 90))
"""A case for each kernel."""


def compile_case(kernel: str, dtype: str, capability: int) -> None:
    """The kernel compiles, and products run on tensor cores."""
    from workloads.programs.kernels import gateup, geglu

    if kernel == "gateup_forward":
        tiles = gateup.CANDIDATES[0]
        cut = {"ROWS": tiles.rows, "COLUMNS": tiles.columns, "DEPTH": tiles.depth, "GROUP": tiles.group}
        options = {"num_warps": tiles.warps, "num_stages": tiles.stages}
        assert TENSOR_CORES[capability] in assembly(gateup.gateup_forward, cut, options, dtype, capability)
    else:
        # Four elements of 32 bits are the widest load there is.
        found = assembly(getattr(geglu, kernel), {"BLOCK": geglu.BLOCK}, {"num_warps": 4}, dtype, capability)
        assert "ld.global.v4.b32" in found, found[:500]


def assembly(kernel: Any, constants: dict[str, int], options: dict[str, int], dtype: str, capability: int) -> str:
    """The PTX for a GPU, for tensors and sizes that are multiples of 16."""
    from triton import compile
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kinds = {name: f"*{dtype}" if name.endswith("_ptr") else "i32" for name in kernel.arg_names}
    signature = {name: "constexpr" if name in constants else kind for name, kind in kinds.items()}
    aligned = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(kernel.arg_names) if name not in constants}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=aligned)
    ptx: str = compile(source, target=GPUTarget("cuda", capability, 32), options=options).asm["ptx"]
    return ptx


if __name__ == "__main__":
    print(json.dumps(complaints_of({name: partial(compile_case, *CASES[name]) for name in sys.argv[1:]})))
