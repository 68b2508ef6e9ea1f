"""Copies and fills by the driver (F1): the name says from where to where."""

from __future__ import annotations

import re

from tracetui.analysis.names.decoded import Decoded
from tracetui.analysis.names.family import Family
from tracetui.analysis.names.text import Name

_COPY = re.compile(r"Memcpy (\w)\w*to(\w)\w* \((\w+) -> (\w+)\)$")
_FILL = re.compile(r"Memset \((\w+)\)$")
_PLACES = {"H": "host", "D": "device", "P": "peer", "A": "array"}
_ROCM_COPY = re.compile(r"(?:Copy|hipMemcpy)(Device|Host)To(Device|Host)(?:Async)?$")
_ROCM_KERNELS = {
    "__amd_rocclr_copyBuffer": ("memcpy", "copy"),
    "__amd_rocclr_copyBufferAligned": ("memcpy", "copy"),
    "__amd_rocclr_copyBufferRect": ("memcpy", "copy"),
    "__amd_rocclr_fillBuffer": ("memset", "fill"),
    "__amd_rocclr_fillBufferAligned": ("memset", "fill"),
    "FillBuffer": ("memset", "fill"),
    "CopyBuffer": ("memcpy", "copy"),
}
_PAGEABLE_IN = "Pageable: the copy is staged by the driver, and the call returns when the host buffer is free again."
_PAGEABLE_OUT = "Pageable: staged and synchronous, the CPU waits for the stream."


def memory(name: Name) -> Decoded | None:
    """Decode `Memcpy HtoD (Pageable -> Device)`, `Memset (Device)` and what ROCm calls them."""
    found = _COPY.match(name.raw)
    if found is not None:
        return _copy(*found.groups())
    if _FILL.match(name.raw):
        return Decoded(family=Family.COPY, sort="memset", op="fill", library="driver", short=name.raw)
    found = _ROCM_COPY.match(name.raw)
    if found is not None:
        op = f"{found[1][0]}2{found[2][0]}"
        return Decoded(family=Family.COPY, sort="memcpy", op=op, library="ROCm runtime", vendor="AMD")
    if name.base in _ROCM_KERNELS:
        sort, op = _ROCM_KERNELS[name.base]
        return Decoded(family=Family.COPY, sort=sort, op=op, library="ROCm runtime", vendor="AMD")
    return None


def _copy(source: str, target: str, source_memory: str, target_memory: str) -> Decoded:
    memories = {source_memory.lower(), target_memory.lower()}
    warnings: tuple[str, ...] = ()
    if "pageable" in memories:
        warnings = (_PAGEABLE_OUT if target == "H" else _PAGEABLE_IN,)
    return Decoded(
        family=Family.COPY,
        sort="memcpy",
        op=f"{source}2{target}",
        library="driver",
        flags=tuple(sorted(memories & {"pageable", "pinned", "managed"})),
        warnings=warnings,
        short=f"Memcpy {source}to{target} ({source_memory} -> {target_memory})",
        sentence=f"A copy from {_PLACES.get(source, source)} to {_PLACES.get(target, target)} memory.",
    )
