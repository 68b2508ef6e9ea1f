"""From a kernel's name to its parts: families of names in a fixed order, the first match counts (section 4.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from tracetui.kernel_names.attention import attention, flash
from tracetui.kernel_names.cask import cudnn, sass, xmma
from tracetui.kernel_names.collectives import collective
from tracetui.kernel_names.cub import cub
from tracetui.kernel_names.cublas import cublas, nvjet
from tracetui.kernel_names.cutlass import cutlass, cutlass_template
from tracetui.kernel_names.decoded import Decoded, Family
from tracetui.kernel_names.inductor import inductor
from tracetui.kernel_names.library import library_of
from tracetui.kernel_names.native import native
from tracetui.kernel_names.others import by_words, memory, user_kernel
from tracetui.kernel_names.purpose import purpose_of
from tracetui.kernel_names.rocm import rocm, tensile
from tracetui.kernel_names.text import ParsedName, name_parts
from tracetui.kernel_names.trtllm import trtllm
from tracetui.kernel_names.wording import cut, sentence_of, short_of
from tracetui.model.trace import Kind

_BY_KIND = {
    Kind.CPU_OP: Family.OP,
    Kind.ANNOTATION: Family.ANNOTATION,
    Kind.GPU_ANNOTATION: Family.ANNOTATION,
    Kind.RUNTIME: Family.RUNTIME,
    Kind.SYNC: Family.RUNTIME,
    Kind.GRAPH_EVENT: Family.RUNTIME,
    Kind.GRAPH_HOST: Family.RUNTIME,
    Kind.PYTHON: Family.PYTHON,
    Kind.MEMCPY: Family.COPY,
    Kind.MEMSET: Family.COPY,
    Kind.OVERHEAD: Family.OVERHEAD,
    Kind.BOOKKEEPING: Family.OVERHEAD,
}
_AFTER: tuple[Callable[[ParsedName], Decoded | None], ...] = (
    flash,
    attention,
    nvjet,
    trtllm,
    cutlass,
    cutlass_template,
    xmma,
    sass,
    cublas,
    tensile,
    rocm,
    cudnn,
    native,
    cub,
    user_kernel,
)


@lru_cache(maxsize=16384)
def decode(name: str, kind: Kind = Kind.KERNEL, custom_ops: frozenset[str] = frozenset()) -> Decoded:
    """Decode the name of a kernel, copy or fill; never raises, whatever the text.

    Slices that run on no device have only a family. `custom_ops` are base names of operators that the program
    registered.
    """
    parts = name_parts(name)
    if kind in (Kind.MEMCPY, Kind.MEMSET):
        found = memory(parts) or _transfer(kind)
    elif kind != Kind.KERNEL:
        found = Decoded(family=_BY_KIND.get(kind, Family.OTHER), operation=kind.name.lower().replace("_", " "))
        return replace(found, short=cut(name), sentence="")
    else:
        found = _kernel(parts, custom_ops)
    found = _completed(found, parts)
    return replace(found, short=cut(found.short or short_of(found, parts)), sentence=sentence_of(found, parts))


def _completed(decoded: Decoded, parts: ParsedName) -> Decoded:
    """The same with its library, where that follows from the rest of the name, and its purpose."""
    library, likely = library_of(decoded, parts)
    decoded = replace(decoded, library=library)
    purpose, serving = purpose_of(decoded, parts)
    inferred = decoded.inferred - {"library"} | ({"library"} if likely else set())
    return replace(decoded, purpose=purpose, serving=serving, inferred=inferred)


def _kernel(parts: ParsedName, custom_ops: frozenset[str]) -> Decoded:
    if decoded := memory(parts):
        return decoded
    # Before collectives: a kernel that Inductor fused to one is named after it and sends nothing itself.
    if decoded := inductor(parts, custom_ops):
        return decoded
    if decoded := collective(parts):
        return decoded
    # Nothing but PyTorch's own kernels live in this namespace, and they are most names of an eager trace.
    if parts.path.startswith("at::") and (decoded := native(parts)):
        return decoded
    for family in _AFTER:
        if decoded := family(parts):
            return decoded
    return by_words(parts)


def _transfer(kind: Kind) -> Decoded:
    """A copy or fill whose name does not tell its direction."""
    return Decoded(family=Family.COPY, operation="memcpy" if kind == Kind.MEMCPY else "memset", library="driver")
