"""Generated matrix products of TensorRT-LLM and FlashInfer: `bmm_Bfloat16_E2m1E2m1_Fp32_t128x8x512_s5_...` (F17)."""

from __future__ import annotations

import re

from tracetui.kernel_names.decoded import Decoded, Family
from tracetui.kernel_names.text import ParsedName
from tracetui.lazy_pattern import lazy_pattern

_TYPE = r"(?:Mx)?(?:Bfloat16|Fp16|Fp32|E4m3|E5m2|E3m2|E2m3|E2m1|Int4|Int8|UInt4|UInt8)"
_NAME = lazy_pattern(
    rf"(?P<kind>bmm|gemm)[A-Za-z]*_(?P<out>{_TYPE})_(?P<a>{_TYPE})(?P<b>{_TYPE})?(?:_cast{_TYPE})?_(?P<acc>Fp32|Fp16|Int32)"
    r"(?P<rest>(?:_\w+)?)$"
)
_TYPES = {
    "Bfloat16": "bf16",
    "Fp16": "f16",
    "Fp32": "f32",
    "E4m3": "f8e4m3",
    "E5m2": "f8e5m2",
    "E2m1": "f4e2m1",
    "MxE2m1": "mxfp4",
    "Int4": "i4",
    "Int8": "i8",
    "UInt4": "u4",
    "UInt8": "u8",
    "Int32": "i32",
}
_TILE = lazy_pattern(r"_t(\d+)x(\d+)x(\d+)")
_STAGES = lazy_pattern(r"_s(\d{1,3})(?=_|$)")
_INSTRUCTION = lazy_pattern(r"_m(\d+x\d+x\d+)")
_CLUSTER = lazy_pattern(r"_(?:cga|c)(\d+)x(\d+)x(\d+)")
_LAYOUT = lazy_pattern(r"_([TN]{2})(?=_|$)")
_ARCH = lazy_pattern(r"_sm(\d+[af]?)(?=_|$)")
_SPLIT = lazy_pattern(r"_splitK(\d*)")
_ACTIVATION = lazy_pattern(r"_(swiGlu|geGlu|relu2|silu|gelu|identity)(?=_|$)")


def trtllm(name: ParsedName) -> Decoded | None:
    """Decode a generated product by the types, tile and options in its name; None for a name outside of the grammar."""
    match = _NAME.match(name.base)
    if match is None:
        return None
    rest = match["rest"]
    tile, cluster, stages = _TILE.search(rest), _CLUSTER.search(rest), _STAGES.search(rest)
    instruction, layout, arch = _INSTRUCTION.search(rest), _LAYOUT.search(rest), _ARCH.search(rest)
    split, activation = _SPLIT.search(rest), _ACTIVATION.search(rest)
    types = [match[part] for part in ("out", "a", "b")]
    flags = [flag for flag, state in _flags(match["kind"], rest, types).items() if state]
    a, b = _element(match["a"]), _element(match["b"] or match["a"])
    return Decoded(
        family=Family.GEMM,
        operation="gemm",
        library="TensorRT-LLM",
        vendor="NVIDIA",
        arch=f"sm{arch[1]}" if arch else None,
        a=a,
        b=b,
        acc=_element(match["acc"]),
        out=_element(match["out"]),
        tile=tuple(map(int, tile.groups())) if tile else (),
        cluster=tuple(map(int, cluster.groups())) if cluster else (),
        stages=int(stages[1]) if stages else None,
        instruction=instruction[1] if instruction else None,
        layout=layout[1].lower() if layout else None,
        split_k=split[1] not in ("", "1") if split else None,
        epilogue=(activation[1].lower(),) if activation and activation[1] != "identity" else (),
        tensor_core=True,
        flags=tuple(flags),
        inferred=frozenset({"layout", "cluster", "tensor_core"}),
    )


def _flags(kind: str, rest: str, types: list[str | None]) -> dict[str, bool]:
    return {
        "batched": kind == "bmm",
        "transposed output": "_transOut" in rest,
        "persistent": re.search(r"_sch(?:ed)?P", rest) is not None,
        "MX block scales": any(kind and kind.startswith("Mx") for kind in types),
    }


def _element(text: str) -> str | None:
    return _TYPES.get(text) or _TYPES.get(text.removeprefix("Mx"))
