"""cub and thrust (F15): scans, sorts, reductions and selections, most of them preceded by occupancy queries."""

from __future__ import annotations

import re

from tracetui.kernel_names.decoded import Decoded, Family
from tracetui.kernel_names.element_types import cpp_type, types_in
from tracetui.kernel_names.text import ParsedName, call
from tracetui.lazy_pattern import lazy_pattern

_DEVICE = lazy_pattern(r"Device(\w+?)(?:Kernel\w*)?$")
_SORTS = (
    ("RadixSort", Family.REDUCTION, "sort"),
    ("MergeSort", Family.REDUCTION, "sort"),
    ("SegmentedSort", Family.REDUCTION, "sort"),
    ("ReduceByKey", Family.REDUCTION, "reduction"),
    ("Scan", Family.REDUCTION, "scan"),
    ("Reduce", Family.REDUCTION, "reduction"),
    ("Histogram", Family.REDUCTION, "histogram"),
    ("Compact", Family.REDUCTION, "select"),
    ("Select", Family.REDUCTION, "select"),
    ("Partition", Family.REDUCTION, "select"),
    ("Unique", Family.REDUCTION, "select"),
    ("RunLength", Family.REDUCTION, "select"),
    ("TopK", Family.REDUCTION, "sort"),
    ("Rle", Family.REDUCTION, "select"),
    ("Memcpy", Family.COPY, "copy"),
    ("Copy", Family.COPY, "copy"),
    ("AdjacentDifference", Family.POINTWISE, "pointwise"),
    ("SegmentedFixup", Family.REDUCTION, "reduction"),
    ("For", Family.POINTWISE, "pointwise"),
    ("Transform", Family.POINTWISE, "pointwise"),
)
_AGENT = lazy_pattern(r"__(\w+?)::(\w+?)Agent")
_OPAQUE = lazy_pattern(r"OpaqueType<(\d+)>")
_POLICY = lazy_pattern(r"policy_hub<([^<>]*(?:<[^<>]*>[^<>]*)*)>|Policy<([^<>]*(?:<[^<>]*>[^<>]*)*)>")
_TILE_STATE = lazy_pattern(r"(?<!\w)ScanTileState<([\w: ]+),")


def cub(name: ParsedName) -> Decoded | None:
    """Decode `cub::DeviceScanKernel<...>` and `thrust::cuda_cub::core::_kernel_agent<...>`."""
    match = _DEVICE.match(name.base)
    # A renamed namespace leaves `DeviceScanKernel`, which is called so nowhere else.
    if match is not None and ("cub" in name.path or _sort_of(match[1])[1] != "cub"):
        return _device(name, match[1])
    agent = _AGENT.search(name.text)
    if name.base == "_kernel_agent" and agent is not None:
        return _thrust(name, agent)
    return None


def _sort_of(word: str) -> tuple[Family, str]:
    return next(((family, sort) for part, family, sort in _SORTS if part in word), (Family.OTHER, "cub"))


def _device(name: ParsedName, word: str) -> Decoded:
    family, sort = _sort_of(word)
    types = _policy_types(name.text)
    value = types[1] if sort == "sort" and len(types) > 1 else None
    return Decoded(
        family=family,
        operation=sort,
        library="cub",
        op=word,
        a=types[0] if types else None,
        b=value,
        tensor_core=False,
        unknown=(word,) if sort == "cub" else (),
        inferred=frozenset({"a", "b"}),
    )


def _policy_types(text: str) -> list[str]:
    """Types of keys and values: those for which the tuning policy was chosen."""
    match = _POLICY.search(text)
    state = _TILE_STATE.search(text)
    if state is not None and cpp_type(state[1]):
        return [cpp_type(state[1]) or ""]
    parts = call(match.group())[1] if match else ()
    types = []
    for part in parts:
        opaque = _OPAQUE.search(part)
        kind = f"{opaque[1]}-byte" if opaque else cpp_type(part)
        if kind:
            types.append(kind)
    return types or types_in(text)[:1]


def _thrust(name: ParsedName, agent: re.Match[str]) -> Decoded:
    family, sort = _sort_of(agent[2])
    fills = "fill" in name.text
    types = types_in(name.text)
    return Decoded(
        family=Family.POINTWISE if sort == "pointwise" or "parallel_for" in agent[1] else family,
        operation="fill" if fills else "pointwise" if "parallel_for" in agent[1] else sort,
        library="thrust",
        op="fill" if fills else agent[2],
        a=types[0] if types else None,
        tensor_core=False,
        inferred=frozenset({"a", "operation"}),
    )
