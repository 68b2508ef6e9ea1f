"""The Triton kernels compiled for GPUs that are not here: prints a JSON object of cases and complaints.

`python -m tests.support.workloads.kernel_compiles CASE...` compiles some of the cases.
The interpreter accepts what the compiler refuses, for example names that it looks up in the annotations of a kernel.
"""

from __future__ import annotations

import json
import re
import sys
from functools import partial
from typing import Any

from tests.support.workloads.kernel_results import complaints_of

TENSOR_CORES = {80: "mma.sync", 90: "wgmma", 100: "tcgen05"}
"""The instruction for products, by compute capability."""

CASES = {
    f"{kernel} {dtype} {capability}": (kernel, dtype, capability)
    for kernel in ("geglu_forward", "geglu_packed_forward", "geglu_backward", "gateup_forward")
    for dtype, capability in (("bf16", 80), ("bf16", 90), ("bf16", 100), ("fp16", 90))
}
SMOKE = "geglu_forward bf16 90"
"""The case that takes least: products are compiled for every choice of tiles."""


def compile_case(kernel: str, dtype: str, capability: int) -> None:
    """The kernel compiles, and products run on tensor cores."""
    from tracetui_workloads.programs import geglu_kernels

    if kernel == "gateup_forward":
        for tiles in (each for each in geglu_kernels.CANDIDATES if each.least <= capability):
            kernel_of_tiles = geglu_kernels.gateup_persistent if tiles.is_persistent else geglu_kernels.gateup_forward
            cut = {"ROWS": tiles.rows, "COLUMNS": tiles.columns, "DEPTH": tiles.depth, "GROUP": tiles.group}
            options = {"num_warps": tiles.warps, "num_stages": tiles.stages}
            found = assembly(kernel_of_tiles, cut, options, dtype, capability)
            assert ("cp.async.bulk" in found) == tiles.is_persistent
            assert TENSOR_CORES[capability] in found
            registers, spilled = registers_of(found)
            print(f"{dtype} sm_{capability} {tiles}: {registers} registers, {spilled} bytes spilled", file=sys.stderr)
            assert spilled == 0, f"{tiles} spills {spilled} bytes"
    else:
        # Four elements of 32 bits are the widest load there is.
        found = assembly(
            getattr(geglu_kernels, kernel), {"BLOCK": geglu_kernels.BLOCK}, {"num_warps": 4}, dtype, capability
        )
        assert "ld.global.v4.b32" in found, found[:500]


def assembly(kernel: Any, constants: dict[str, int], options: dict[str, int], dtype: str, capability: int) -> str:
    """The PTX for a GPU, for tensors and sizes that are multiples of 16."""
    from triton import compile
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kinds = {name: kind_of(name, constants, dtype) for name in kernel.arg_names}
    signature = {name: "constexpr" if name in constants else kind for name, kind in kinds.items()}
    aligned = {
        (i,): [["tt.divisibility", 16]]
        for i, name in enumerate(kernel.arg_names)
        if name not in constants and not name.endswith("_desc")
    }
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=aligned)
    ptx: str = compile(source, target=GPUTarget("cuda", capability, 32), options=options).asm["ptx"]
    return ptx


def kind_of(name: str, constants: dict[str, int], dtype: str) -> str:
    """The type of an argument: a pointer, a descriptor of tiles, or a size."""
    if name.endswith("_ptr"):
        return f"*{dtype}"
    if not name.endswith("_desc"):
        return "i32"
    rows = constants["ROWS" if name in ("x_desc", "out_desc") else "COLUMNS"]
    columns = constants["COLUMNS" if name == "out_desc" else "DEPTH"]
    return f"tensordesc<{dtype}[{rows},{columns}]>"


def registers_of(ptx: str) -> tuple[int, int]:
    """Registers of a thread, and bytes that it spills to memory, as the assembler of Triton's package tells."""
    import subprocess
    import tempfile
    from pathlib import Path

    import triton

    assembler = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas-blackwell"
    target = re.search(r"\.target (sm_\w+)", ptx)
    assert target is not None
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(ptx)
        file.flush()
        words = [str(assembler), "-v", f"--gpu-name={target[1]}", file.name, "-o", "/dev/null"]
        told = subprocess.run(words, capture_output=True, text=True, check=True).stderr
    registers, spilled = re.search(r"Used (\d+) registers", told), re.search(r"(\d+) bytes spill stores", told)
    assert registers is not None and spilled is not None, told
    return int(registers[1]), int(spilled[1])


if __name__ == "__main__":
    print(json.dumps(complaints_of({name: partial(compile_case, *CASES[name]) for name in sys.argv[1:]})))
