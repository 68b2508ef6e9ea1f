"""Names of CPU slices as they stand in different runs: what belongs to the run itself is taken out.

The machinery of torch.compile numbers its regions and names graphs by a hash; its rows are a kind of their own. A
kernel that it generated has a place in its module behind its name, which moves when the program changes.
"""

from __future__ import annotations

import re
from functools import cache

from tracetui.analysis.names import decode
from tracetui.analysis.operators.views import VIEW_OPS

COMPILE = "compile"
"""The kind of the rows of torch.compile."""

_COMPILE = re.compile(
    r"TorchDynamo |Torch-Compiled Region|AOTDispatcher |## Call CompiledFxGraph|CompiledFxGraph|Pregraph bytecode"
    r"|Compiled Autograd|CompiledFunction(Backward)?$|autograd::engine::evaluate_function: CompiledFunction"
)
_OF_ONE_RUN = (
    (re.compile(r"(## Call CompiledFxGraph) \S+ ##"), r"\1 ##"),
    (re.compile(r"(CompiledFxGraph) [0-9a-z]{20,}"), r"\1"),
    (re.compile(r"(Torch-Compiled Region): \d+/\d+(_\d+)?"), r"\1"),
    (re.compile(r"(CompiledFunction(Backward)?)\d+$"), r"\1"),
)
_GENERATED = re.compile(r"(?:triton_([a-z]{3}_)?fused_|graph_\d+_(?:kernel_)?cpp_fused_|cpp_fused_)(?P<ops>\w+)")
_PLACE = re.compile(r"^(?:graph_\d+_)?(\w*?fused_\w*?[A-Za-z]\w*?)_\d+(?:_\d+d\w*|(?:_?\d+d[\dcde]*))?$")
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")
_ELSEWHERE = frozenset(["mm", "addmm", "bmm", "baddbmm", "_scaled_mm", "convolution", "linear", "matmul", "einsum"])
"""Operators in the name of a generated kernel that merely follows them."""


def is_compile(name: str) -> bool:
    """Whether a slice is machinery of torch.compile; what it generated is not."""
    return _COMPILE.match(name) is not None


def shared_name(name: str) -> str:
    """The name without what differs between two runs of one program."""
    for pattern, kept in _OF_ONE_RUN:
        name = pattern.sub(kept, name)
    return name


def versionless_name(name: str) -> str:
    """The name without what differs between two versions of a program: the place of a kernel, an address."""
    match = _PLACE.match(name)
    return match[1] if match else _ADDRESS.sub("0x", name)


def is_generated(name: str) -> bool:
    """Whether a slice is a kernel that torch.compile wrote, on the GPU or on the CPU."""
    return _GENERATED.match(name) is not None


@cache
def ops_within(name: str) -> frozenset[str]:
    """The operators that a generated kernel does the work of, as `aten::gelu`; none of any other name."""
    match = _GENERATED.match(name)
    if match is None:
        return frozenset()
    # Kernels in C++ are named by the grammar of those in Triton.
    fused = decode(f"triton_{match[1] or 'poi_'}fused_{match['ops']}").fused_ops
    return frozenset(f"aten::{op}" for op in fused if op not in _ELSEWHERE) - VIEW_OPS
