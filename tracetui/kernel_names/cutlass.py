"""CUTLASS kernels by name, 3.x (F6) and 2.x (F7), and CUTLASS kernels whose name is the C++ template.

Templates (grouped products of PyTorch, convolutions of cuDNN) follow no naming scheme: tile, types and stages are
searched where the library's templates have them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tracetui.kernel_names.decoded import (
    ACCUMULATORS,
    BRIEF,
    CONVOLUTIONS,
    RELU_CAPABLE,
    Decoded,
    Family,
    brief_type,
    cpp_type,
    misalignment,
    shape_of,
    sizes,
    types_in,
)
from tracetui.kernel_names.text import ParsedName, template_of
from tracetui.kernel_names.wording import meaning
from tracetui.text import lazy_pattern

_WRAPPERS = frozenset({"Kernel", "Kernel2", "device_kernel"})
_MAINLOOP = lazy_pattern(r"Mainloop(?P<sm>Sm\d+)(?P<words>\w*)<(?P<stages>\d{1,3})\b")
_CUTE_SHAPE = lazy_pattern(r"tuple<[\w:]*?(?:C|Int)<(\d+)>, [\w:]*?(?:C|Int)<(\d+)>, [\w:]*?(?:C|Int)<(\d+)>")
_SHAPE = lazy_pattern(r"GemmShape<(\d+), (\d+), (\d+)>")
_ATOM = lazy_pattern(r"SM\d+_MMA_(\w+)|SM\d+_(\d+x\d+x\d+)_")
_CONVOLUTION = lazy_pattern(r"Conv[23]d(Fprop|Dgrad|Wgrad)")
_PRODUCT = lazy_pattern(r"\w*Gemm\w*")
_CONVOLUTIONS = {"Fprop": "forward", "Dgrad": "dgrad", "Wgrad": "wgrad"}
_WORDS = (
    ("WarpSpecialized", "warp specialised"),
    ("Pingpong", "pingpong"),
    ("Cooperative", "cooperative"),
    ("2SM", "2-SM"),
    ("StreamK", "stream-k"),
)


def cutlass_template(name: ParsedName) -> Decoded | None:
    """Decode `cutlass::device_kernel<...GemmUniversal<...>>` and `cutlass::Kernel<...ImplicitGemmConvolution<...>>`."""
    text = name.text
    if name.base not in _WRAPPERS or "cutlass" not in text:
        return None
    found = meaning(name)
    if found is not None and found.family != Family.GEMM:
        return None
    if "ReduceSplitK" in text:
        return _reduction(name)
    if "CollectiveMma" in text or "machete::" in text:
        return _third_template(name)
    if "GemmShape<" in text or "Gemm" in text or "Convolution" in text:
        return _second_template(name)
    return None


def _library(name: ParsedName, version: str) -> str:
    return f"CUTLASS {version}" + (" in cuDNN" if "cudnn" in name.path else "")


def _reduction(name: ParsedName) -> Decoded:
    types = types_in(name.text)
    return Decoded(
        family=Family.GEMM,
        operation="gemm helper",
        library=_library(name, "2.x"),
        vendor="NVIDIA",
        op="split-K reduce",
        a=types[0] if types else None,
        tensor_core=False,
        inferred=frozenset({"a"}),
    )


def _third_template(name: ParsedName) -> Decoded:
    text = name.text
    loop, shapes = _MAINLOOP.search(text), _CUTE_SHAPE.findall(text)
    numbers = [tuple(map(int, shape)) for shape in shapes[:4]]
    tile = next((shape for shape in numbers if max(shape) >= 16), ())
    cluster = next((shape for shape in numbers if 0 < max(shape) < 16), ())
    parts = template_of(text, "CollectiveMma")
    operands = [kind for kind in map(cpp_type, parts) if kind][:2]
    is_machete = "machete::" in text
    if is_machete:
        operands = _machete_operands(text)
    atom = _ATOM.search(text)
    atom_types = types_in(text[atom.start() : atom.start() + 400]) if atom else []
    # After the operands an atom names what it accumulates in; a mainloop's own list stops before.
    acc = atom_types[2] if atom and atom[1] and len(atom_types) > 2 else None
    return Decoded(
        family=Family.GEMM,
        operation="gemm",
        library="Machete" if is_machete else _library(name, "3.x"),
        vendor="NVIDIA",
        arch=loop["sm"].lower() if loop else "sm90" if is_machete else None,
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
        short=_called("Machete", operands, tile) if is_machete else "",
    )


_SUBBYTE = lazy_pattern(r"integer_subbyte<(?P<bits>\d), (?:(?P<bias>\d+), )?(?P<signed>true|false|[01])>")
_SHORT_SUBBYTE = lazy_pattern(r"\b(?:vllm_)?(?P<sign>u?)int(?P<bits>[1-8])(?:b\d*)?_t\b")
_ACTIVATIONS = lazy_pattern(r"cutlass::(?:bfloat16_t|half_t|float_e4m3_t|float_e5m2_t)|\bsigned char\b|\bint8_t\b")


def _machete_operands(text: str) -> list[str]:
    """Types of activations and weights. Machete multiplies transposed: weights come first in its template."""
    text = text[text.index("machete::") :]
    long, short, activations = _SUBBYTE.search(text), _SHORT_SUBBYTE.search(text), _ACTIVATIONS.search(text)
    weights = None
    if long is not None:
        weights = f"{'i' if long['signed'] in ('true', '1') else 'u'}{long['bits']}"
    elif short is not None:
        weights = f"{short['sign'] or 'i'}{short['bits']}"
    return [kind for kind in (cpp_type(activations[0]) if activations else None, weights) if kind]


# Marlin: GEMMs of activations by weights of few bits. Their types are template arguments, as numbers in which vLLM
# packs a `ScalarType`: bits of exponent and of mantissa, sign, bias, no infinities, and how NaN is written.

_SCALAR_ID = lazy_pattern(r"^(?:\(long(?: long)?\))?(\d{13,19})[lL]*$")
_SCALARS = {(8, 7): "bf16", (5, 10): "f16", (4, 3): "f8e4m3", (5, 2): "f8e5m2", (2, 1): "f4e2m1"}
"""Names of float types by the bits of exponent and mantissa."""


def marlin(name: ParsedName) -> Decoded | None:
    """Decode `marlin::Marlin<a, weights, out, ...>`, of older builds `marlin::Marlin<bfloat16, weights, ...>`."""
    if name.base != "Marlin":
        return None
    kinds = [scalar_type(int(match[1])) for each in name.arguments if (match := _SCALAR_ID.match(each.strip()))]
    spelled_out = [kind for kind in map(cpp_type, name.arguments[:1]) if kind]
    types = [kind for kind in (*spelled_out, *kinds) if kind]
    return Decoded(
        family=Family.GEMM,
        operation="gemm",
        library="Marlin",
        vendor="NVIDIA",
        op="experts" if "moe" in name.path else None,
        a=types[0] if types else None,
        b=types[1] if len(types) > 1 else None,
        out=types[2] if len(types) > 2 and not spelled_out else None,
        tensor_core=True,
        short=_called("Marlin", types[:2]),
    )


def _called(library: str, operands: Sequence[str], tile: tuple[int, ...] = ()) -> str:
    """A short name: `Machete bf16*u4 128x64x64`."""
    return " ".join(filter(None, (library, "*".join(operands), "x".join(map(str, tile)))))


def scalar_type(packed: int) -> str | None:
    """The type that vLLM packs into a number; None for a number that is none."""
    exponent, mantissa, is_signed = packed & 0xFF, packed >> 8 & 0xFF, bool(packed >> 16 & 1)
    if packed >> 50 > 2 or exponent > 15 or mantissa > 64 or not exponent + mantissa:
        return None
    if exponent:
        return _SCALARS.get((exponent, mantissa)) if mantissa else f"ue{exponent}m0"
    return f"{'i' if is_signed else 'u'}{mantissa + is_signed}"


def _second_template(name: ParsedName) -> Decoded:
    text = name.text
    shapes = [tuple(map(int, shape)) for shape in _SHAPE.findall(text)]
    convolution = _CONVOLUTION.search(text)
    word = _PRODUCT.search(text)
    types = [kind for kind in types_in(text) if kind not in ("i32", "i64", "bool")]
    op = word[0] if word and not shapes else None
    if "GemmGrouped" in text:
        op = "grouped"
    is_convolution = convolution is not None or "Convolution" in text
    return Decoded(
        family=Family.GEMM,
        operation="convolution" if is_convolution else "gemm",
        library=_library(name, "2.x"),
        vendor="NVIDIA",
        op=_CONVOLUTIONS[convolution[1]] if convolution else op,
        a=types[0] if types else None,
        tile=shapes[0] if shapes else (),
        instruction="x".join(map(str, shapes[-1])) if len(shapes) > 2 else None,
        tensor_core=True if "TensorOp" in text else None,
        flags=("optimized iterator",) if "Optimized" in text else (),
        inferred=frozenset({"a", "tile", "instruction", "op"}),
    )


_THIRD = lazy_pattern(
    r"cutlass3x_sm(?P<sm>\d+[af]?)_(?P<kind>(?:sp|bs|bssp)?tensorop|simt)_(?P<letter>[a-z]{0,2}?)(?P<instr>\d+x\d+x\d+)?"
    rf"(?P<core>(?:gemm|fprop|dgrad|wgrad)(?:_grouped|_planar\w+?)?)_(?P<a>\w*?(?:{BRIEF}))_(?P<b>\w*?(?:{BRIEF}))"
    rf"_(?P<acc>{BRIEF})_(?P<c>{BRIEF}|void)_(?P<d>{BRIEF}|void)(?P<shapes>(?:_\d+x\d+x\d+){{1,2}})_(?P<stages>\d+)"
    r"_(?P<layout>[nt]{2,3})_align(?P<align>\d+)(?P<rest>\w*)"
)
_SECOND = lazy_pattern(
    rf"cutlass(?:_(?P<cc>\d+))?_(?P<wmma>wmma_)?(?P<kind>tensorop|simt)_(?:(?P<out>{BRIEF})_)?"
    r"(?P<letter>g?[shdiczq])(?P<instr>\d{3,6})?(?P<core>gemm|fprop|dgrad|wgrad|deconv)(?P<words>(?:_[a-z]+)*?)"
    rf"(?:_(?P<a>{BRIEF}))?_(?P<m>\d+)x(?P<n>\d+)(?:_(?P<k>\d+)x(?P<stages>\d+))?(?:_(?P<layout>[nt]{{2}}|nhwc|nchw)(?=_|\W|$))?"
    r"(?P<more>(?:_[a-z]+)*?)(?:_align(?P<align>\d+)(?P<rest>\w*)|(?=\W|$))"
)
_CLASSES = {
    "tensorop": (),
    "simt": (),
    "sptensorop": ("sparse",),
    "bstensorop": ("block scaled",),
    "bssptensorop": ("block scaled", "sparse"),
}
_SUFFIXES = (
    ("_warpspecialized", "warp specialised"),
    ("_pingpong", "pingpong"),
    ("_cooperative", "cooperative"),
    ("_fp8_fastaccum", "fast fp8 accumulation"),
    ("_epi_tma", "TMA epilogue"),
    ("_epi_nosmem", "epilogue without shared memory"),
    ("_stream_k", "stream-k"),
    ("_1sm", "1-SM"),
    ("_2sm", "2-SM"),
    ("_o_vs16", "output scales of 16"),
    ("_bias_f32_relu", RELU_CAPABLE),
    ("_bias_bf16_relu", RELU_CAPABLE),
    ("_bias_f16_relu", RELU_CAPABLE),
)
_KNOWN_WORDS = {
    "relu": RELU_CAPABLE,
    "optimized": "optimized iterator",
    "analytic": "analytic iterator",
    "fixed": "fixed channels",
    "few": "few channels",
    "unity": "unit stride",
    "splitk": "split-K",
}
_COMPANIONS = {"channels", "stride"}


def cutlass(name: ParsedName) -> Decoded | None:
    """Decode a name of the CUTLASS library, bare or wrapped in `cutlass::Kernel2<...>`."""
    if "cutlass" not in name.text:
        return None
    match = _THIRD.search(name.text)
    if match is not None:
        return _third(match)
    match = _SECOND.search(name.text)
    return _second(match, name) if match is not None else None


def _third(match: re.Match[str]) -> Decoded:
    rest, flags = match["rest"], list(_CLASSES[match["kind"]])
    epilogue = ("bias",) if "_bias" in rest else ()
    for suffix, flag in _SUFFIXES:
        if suffix in rest:
            rest = rest.replace(suffix, "", 1)
            flags.append(flag)
    rest = rest.replace("_bias", "", 1)
    shapes = match["shapes"].strip("_").split("_")
    scaled = [kind.rsplit("x", 1)[0] for kind in (match["a"], match["b"]) if "x" in kind]
    a, b = (brief_type(kind.rsplit("x", 1)[-1]) for kind in (match["a"], match["b"]))
    align = int(match["align"])
    return Decoded(
        family=Family.GEMM,
        operation="convolution" if match["core"] in CONVOLUTIONS else "gemm",
        library="CUTLASS 3.x",
        vendor="NVIDIA",
        arch=f"sm{match['sm']}",
        op=CONVOLUTIONS.get(match["core"], "grouped" if "grouped" in match["core"] else None),
        a=a,
        b=b,
        acc=brief_type(match["acc"]),
        out=brief_type(match["d"]),
        tile=sizes(shapes[0]) if len(shapes) == 2 else (),
        columns_first=True if match["core"].startswith("gemm") else None,
        cluster=sizes(shapes[-1]),
        stages=int(match["stages"]) or None,
        instruction=match["instr"],
        layout=match["layout"][:2],
        align=align,
        split_k=None,
        epilogue=epilogue,
        tensor_core=match["kind"] != "simt",
        flags=(*flags, *(f"scales {scale}" for scale in dict.fromkeys(scaled))),
        warnings=misalignment(align if match["kind"] != "simt" else None),
        unknown=tuple(word for word in rest.split("_") if word),
        inferred=frozenset({"columns_first"}),
    )


def _second(match: re.Match[str], name: ParsedName) -> Decoded:
    letter, tensor = match["letter"], match["kind"] == "tensorop"
    acc = ACCUMULATORS.get(letter[-1])
    a = brief_type(match["a"]) or ("tf32" if tensor and acc == "f32" else acc)
    words = [word for word in f"{match['words']}{match['more']}{match['rest'] or ''}".split("_") if word]
    flags = [_KNOWN_WORDS[word] for word in words if word in _KNOWN_WORDS]
    if letter.startswith("g"):
        flags.append("Gaussian complex")
    align = int(match["align"]) if match["align"] else None
    tile = (int(match["m"]), int(match["n"]), *([int(match["k"])] if match["k"] else []))
    convolution = match["core"] in CONVOLUTIONS
    likely = {"columns_first"} | ({"a", "b"} if not match["a"] and tensor and acc != "f32" else set())
    return Decoded(
        family=Family.GEMM,
        operation="convolution" if convolution else "gemm",
        library="CUTLASS 2.x" + (" in cuDNN" if "cudnn" in name.path else ""),
        vendor="NVIDIA",
        arch=f"sm{match['cc']}" if match["cc"] else None,
        op=CONVOLUTIONS.get(match["core"]),
        a=a,
        b=a,
        acc=acc,
        out=brief_type(match["out"]) or acc,
        tile=tile,
        columns_first=None if convolution else True,
        stages=int(match["stages"]) if match["stages"] else None,
        instruction=shape_of(match["instr"]),
        layout=match["layout"],
        align=align,
        split_k=True if "splitk" in words else None,
        tensor_core=tensor,
        flags=tuple(flags),
        warnings=misalignment(align if tensor else None),
        unknown=tuple(word for word in words if word not in _KNOWN_WORDS and word not in _COMPANIONS),
        inferred=frozenset(likely),
    )
