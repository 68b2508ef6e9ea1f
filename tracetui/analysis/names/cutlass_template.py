"""Kernels written with CUTLASS whose name is the C++ template: grouped products of PyTorch, convolutions of cuDNN.

They follow no naming scheme, so tile, types and stages are looked for where the library's templates have them.
"""

from __future__ import annotations

import re

from tracetui.analysis.names.decoded import Decoded
from tracetui.analysis.names.element_types import cpp_type, types_in
from tracetui.analysis.names.family import Family
from tracetui.analysis.names.text import Name, template_of

_WRAPPERS = frozenset({"Kernel", "Kernel2", "device_kernel"})
_MAINLOOP = re.compile(r"Mainloop(?P<sm>Sm\d+)(?P<words>\w*)<(?P<stages>\d{1,3})\b")
_CUTE_SHAPE = re.compile(r"tuple<[\w:]*?(?:C|Int)<(\d+)>, [\w:]*?(?:C|Int)<(\d+)>, [\w:]*?(?:C|Int)<(\d+)>")
_SHAPE = re.compile(r"GemmShape<(\d+), (\d+), (\d+)>")
_ATOM = re.compile(r"SM\d+_MMA_(\w+)|SM\d+_(\d+x\d+x\d+)_")
_CONVOLUTION = re.compile(r"Conv[23]d(Fprop|Dgrad|Wgrad)")
_PRODUCT = re.compile(r"\w*Gemm\w*")
_CONVOLUTIONS = {"Fprop": "forward", "Dgrad": "dgrad", "Wgrad": "wgrad"}
_WORDS = (
    ("WarpSpecialized", "warp specialised"),
    ("Pingpong", "pingpong"),
    ("Cooperative", "cooperative"),
    ("2SM", "2-SM"),
    ("StreamK", "stream-k"),
)


def cutlass_template(name: Name) -> Decoded | None:
    """Decode `cutlass::device_kernel<...GemmUniversal<...>>` and `cutlass::Kernel<...ImplicitGemmConvolution<...>>`."""
    if name.base not in _WRAPPERS or "cutlass" not in name.path:
        return None
    text = name.text
    if "ReduceSplitK" in text:
        return _reduction(name)
    if "CollectiveMma" in text:
        return _third(name)
    if "GemmShape<" in text or "Gemm" in text or "Convolution" in text:
        return _second(name)
    return None


def _library(name: Name, version: str) -> str:
    return f"CUTLASS {version}" + (" in cuDNN" if "cudnn" in name.path else "")


def _reduction(name: Name) -> Decoded:
    types = types_in(name.text)
    return Decoded(
        family=Family.GEMM,
        sort="gemm helper",
        library=_library(name, "2.x"),
        vendor="NVIDIA",
        op="split-K reduce",
        a=types[0] if types else None,
        tensor_core=False,
        inferred=frozenset({"a"}),
    )


def _third(name: Name) -> Decoded:
    text = name.text
    loop, shapes = _MAINLOOP.search(text), _CUTE_SHAPE.findall(text)
    numbers = [tuple(map(int, shape)) for shape in shapes[:4]]
    tile = next((shape for shape in numbers if max(shape) >= 16), ())
    cluster = next((shape for shape in numbers if 0 < max(shape) < 16), ())
    parts = template_of(text, "CollectiveMma")
    operands = [kind for kind in map(cpp_type, parts) if kind][:2]
    atom = _ATOM.search(text)
    atom_types = types_in(text[atom.start() : atom.start() + 400]) if atom else []
    # After the operands an atom names what it accumulates in; a mainloop's own list stops before.
    acc = atom_types[2] if atom and atom[1] and len(atom_types) > 2 else None
    return Decoded(
        family=Family.GEMM,
        sort="gemm",
        library=_library(name, "3.x"),
        vendor="NVIDIA",
        arch=loop["sm"].lower() if loop else None,
        op="grouped" if "GroupProblemShape" in text else None,
        a=operands[0] if operands else None,
        b=operands[-1] if operands else None,
        acc=acc,
        tile=tile,
        cluster=cluster,
        stages=int(loop["stages"]) if loop else None,
        instruction=atom[1] or atom[2] if atom else None,
        tensor_core=True,
        flags=tuple(flag for word, flag in _WORDS if word in text),
        inferred=frozenset({"a", "b", "acc", "tile", "cluster", "stages", "tensor_core"}),
    )


def _second(name: Name) -> Decoded:
    text = name.text
    shapes = [tuple(map(int, shape)) for shape in _SHAPE.findall(text)]
    convolution = _CONVOLUTION.search(text)
    word = _PRODUCT.search(text)
    types = [kind for kind in types_in(text) if kind not in ("i32", "i64", "bool")]
    is_convolution = convolution is not None or "Convolution" in text
    return Decoded(
        family=Family.GEMM,
        sort="convolution" if is_convolution else "gemm",
        library=_library(name, "2.x"),
        vendor="NVIDIA",
        op=_CONVOLUTIONS[convolution[1]] if convolution else word[0] if word and not shapes else None,
        a=types[0] if types else None,
        tile=shapes[0] if shapes else (),
        instruction="x".join(map(str, shapes[-1])) if len(shapes) > 2 else None,
        tensor_core=True if "TensorOp" in text else None,
        flags=("optimized iterator",) if "Optimized" in text else (),
        inferred=frozenset({"a", "tile", "instruction", "op"}),
    )
