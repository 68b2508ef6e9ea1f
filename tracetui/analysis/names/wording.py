"""A decoded name as a label of at most 40 characters and as a sentence in plain words."""

from __future__ import annotations

from tracetui.analysis.names.decoded import SHORTEST, Decoded
from tracetui.analysis.names.text import Name

_LAYOUTS = {
    "tn": "x @ W.T as in Linear's forward",
    "nn": "a @ b as in mm, or in the gradient of Linear's input",
    "nt": "dY.T @ x as in the gradient of Linear's weight",
    "tt": "both operands transposed",
}
_ATTENTION = (
    ("FlashAttention 2", "FlashAttn"),
    ("FlashAttention 3", "FlashAttn3"),
    ("PyTorch memory-efficient", "MemEffAttn"),
    ("cuDNN", "cuDNN attn"),
    ("Inductor template", "FlexAttn"),
)
_ATTENTION_LABELS = dict(_ATTENTION)
_DIRECTIONS = (("forward", "fwd"), ("backward", "bwd"))
_FUSED = {
    "pointwise": "fused",
    "reduction": "fused red",
    "persistent reduction": "fused per",
    "foreach": "fused for",
    "split scan": "fused scan",
    "fused": "fused",
    "gemm": "GEMM",
    "convolution": "conv",
    "attention": "FlexAttn",
}
_ACCESS = {"scalar": "scalar", "casts": "cast", "strided": "strided", "unrolled": "unrolled"}
_VIEWS = frozenset(
    {"view", "t", "transpose", "permute", "expand", "unsqueeze", "squeeze", "reshape", "slice", "select", "split"}
    | {"_unsafe_view", "clone", "detach", "alias", "as_strided", "unbind"}
)
_NOUNS = {
    "gemm": "matrix product",
    "gemv": "product of a matrix and a vector",
    "convolution": "convolution",
    "attention": "attention kernel",
    "gemm helper": "step around a matrix product",
    "convolution helper": "step around a convolution",
    "dot": "dot product",
    "solve": "triangular solve",
    "blas": "operation on vectors",
    "norm": "normalisation",
    "pytorch": "kernel of PyTorch that no table lists",
    "reduction": "reduction",
    "persistent reduction": "reduction of rows that stay in one block",
    "pointwise": "elementwise operation",
    "copy": "copy of elements",
    "gather": "gather",
    "scatter": "scatter",
    "transpose": "transposition",
    "random": "kernel with random numbers",
    "collective": "collective",
    "send/recv": "send or receive",
    "optimizer": "step of an optimizer over many tensors",
    "foreach": "operation over many tensors at once",
    "fused": "generated kernel",
    "split scan": "generated scan",
    "rnn": "step of a recurrent network",
    "memset": "fill of memory by the driver",
    "memcpy": "copy by the driver",
    "loss": "loss",
    "sort": "sort",
    "unknown": "kernel",
}


def short_of(found: Decoded, name: Name) -> str:
    """The label of at most 40 characters, `…` where something had to go."""
    if found.library and found.library.startswith("Inductor"):
        label = _fused(found)
    elif "sort" in found.inferred:
        label = _named(found, name)
    elif found.sort in ("gemm", "convolution"):
        label = _product(found)
    elif found.sort == "attention":
        label = _attention(found)
    elif found.sort == "gemv":
        label = " ".join(part for part in ("GEMV", found.dtype, _side(found)) if part)
    elif found.sort in ("collective", "send/recv"):
        label = _collective(found)
    elif found.op and found.sort != "unknown":
        label = _operation(found)
    else:
        label = _named(found, name)
    return cut(label)


def _named(found: Decoded, name: Name) -> str:
    """The kernel's own name and the type of its elements."""
    return (name.base or name.text or name.raw) + (f"<{found.dtype}>" if found.dtype else "")


def cut(label: str) -> str:
    """A label that fits."""
    label = " ".join(label.split()) or "?"
    return label if len(label) <= SHORTEST else label[: SHORTEST - 1] + "…"


def _types(found: Decoded) -> str | None:
    """`bf16`, or `f16→f32` where the output differs, or `bf16*f4` where the operands do."""
    if found.a is None:
        return found.out
    operands = f"{found.a}*{found.b}" if found.b and found.b != found.a else found.a
    differs = found.out and found.out != found.a and "out" not in found.inferred and found.a != "tf32"
    return f"{operands}→{found.out}" if differs else operands


def _size(found: Decoded) -> str | None:
    return "x".join(map(str, found.tile)) or None


def _product(found: Decoded) -> str:
    convolution = found.sort == "convolution"
    tail = [found.layout.upper() if found.layout else None]
    if found.epilogue:
        tail.append("+" + "+".join(found.epilogue))
    if found.split_k:
        tail.append("split-K")
    if found.op in ("grouped", "depth 1", "few columns", "skinny", "large depth"):
        tail.append(found.op)
    if found.warnings and found.align is not None:
        tail.append(f"align{found.align}")
    if convolution and "Winograd" in found.flags:
        tail.append("Winograd")
    way = _abbreviated(found.op or "") if convolution else ""
    known = [part for part in ("conv" if convolution else "GEMM", way, _types(found), _size(found), *tail) if part]
    if len(known) == 1 and found.op:
        return f"{known[0]} {found.op}"
    # What distinguishes least goes first where the label is too long.
    while len(" ".join(known)) > SHORTEST and len(known) > 4:
        known.pop()
    return " ".join(known)


def _side(found: Decoded) -> str | None:
    return {"transposed": "T", "not transposed": "N"}.get(found.op or "")


def _abbreviated(op: str) -> str:
    for word, brief in _DIRECTIONS:
        op = op.replace(word, brief)
    return op


def _attention(found: Decoded) -> str:
    label = _ATTENTION_LABELS.get(found.library or "", "attn")
    parts = [label, _abbreviated(found.op or ""), f"d{found.head}" if found.head else "", found.a or ""]
    parts.append("causal" if "causal" in found.flags else "")
    return " ".join(part for part in parts if part)


def _collective(found: Decoded) -> str:
    library = (found.library or "").split(" (")[0]
    operation = next((flag for flag in found.flags if flag in ("sum", "prod", "minmax", "premulsum", "sumpostdiv")), "")
    brand = library if library in ("NCCL", "DeepEP", "NVSHMEM") else ""
    op = found.op or ""
    return " ".join(part for part in ("" if op.startswith(brand.lower()) else brand, op, found.a, operation) if part)


def _operation(found: Decoded) -> str:
    """`add<bf16> vec4`, `copy<bf16> strided`, `mean<f32> reduce`, `cub RadixSortOnesweep<i64>`."""
    kind = found.dtype
    if found.sort == "copy" and found.a and found.out and found.a != found.out:
        kind = f"{found.a}→{found.out}"
    brand = f"{found.library} " if found.library in ("cub", "thrust") else ""
    how = [word for flag, word in _ACCESS.items() if flag in found.flags]
    if found.tile:
        how.append("x".join(map(str, found.tile)))
    if found.vector and found.sort != "softmax":
        how.append(f"vec{found.vector}")
    if found.sort == "reduction" and found.library == "PyTorch":
        how.append("reduce")
    if found.sort in ("foreach", "optimizer"):
        how.append("foreach")
    return " ".join([f"{brand}{found.op}" + (f"<{kind}>" if kind else ""), *how])


def _fused(found: Decoded) -> str:
    """`fused(addmm,gelu,view)`, without views and then cut where it would not fit; its number at the end."""
    label = _FUSED.get(found.sort, "fused")
    number = f" #{found.index}" if found.index is not None else ""
    if not found.fused_ops:
        text = f"({found.unknown[0]})" if found.unknown else ""
        return f"{label}{text}"[: SHORTEST - len(number)] + number
    room = SHORTEST - len(label) - len(number) - 2
    ops = list(found.fused_ops)
    if len(",".join(ops)) > room:
        telling = [op for op in ops if op not in _VIEWS] or ops
        ops = telling if len(telling) == len(ops) else [*telling, "…"]
    while len(",".join(ops)) > room and len(ops) > 1:
        ops = [*(ops[:-2] if ops[-1] == "…" else ops[:-1]), "…"]
        if ops == ["…"]:
            ops = [found.fused_ops[0][: room - 1] + "…"]
    text = ",".join(ops)
    return f"{label}({text if len(text) <= room else text[: room - 1] + '…'}){number}"


def sentence_of(found: Decoded, name: Name) -> str:
    """The decoded name in plain words, with its warnings, what is only likely and what is not understood."""
    parts = [found.sentence or f"{_subject(found, name)}{_details(found)}.", *map(_as_sentence, found.warnings)]
    likely = sorted(field.replace("_", " ") for field in found.inferred if found.confidence(field) == "inferred")
    if likely:
        parts.append(f"Likely, not certain: {', '.join(likely)}.")
    if found.unknown:
        parts.append(f"Not understood: {', '.join(found.unknown)}.")
    return " ".join(parts)


def _as_sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith(".") else text + "."


def _subject(found: Decoded, name: Name) -> str:
    if found.sort == "unknown":
        return "A kernel whose name says nothing that is known here"
    noun = _NOUNS.get(found.sort, found.sort)
    kind = _types(found)
    words = " ".join(part for part in (kind, noun) if part)
    if found.op and found.op not in (found.sort, name.base):
        words += f" ({found.op})"
    return f"{_article(words)} {words}" + (f" by {found.library}" if found.library else "")


def _article(words: str) -> str:
    # "An f32" and "an 8-bit", by how they are spoken.
    return "An" if words[:1] in "aeioAEIO8" or words[:2] in ("f1", "f3", "f4", "f6", "f8") else "A"


def _details(found: Decoded) -> str:
    """Everything that the name states beyond what it is, as a list."""
    told = []
    if found.fused_ops:
        told.append(f"from {', '.join(found.fused_ops)}")
    if found.tile:
        told.append(f"tiles of {found.tile[0]}x{found.tile[1]} {_unit(found)}" if len(found.tile) > 1 else "")
        if len(found.tile) > 2:
            told.append(f"heads of {found.tile[2]}" if found.sort == "attention" else f"{found.tile[2]} deep")
    if found.head and len(found.tile) < 3:
        told.append(f"heads of {found.head}")
    if found.stages:
        told.append(f"{found.stages} stage{'s' if found.stages > 1 else ''}")
    if any(size > 1 for size in found.cluster):
        told.append(f"clusters of {'x'.join(map(str, found.cluster))}")
    if found.warps:
        told.append(f"{found.warps} warp{'s' if found.warps > 1 else ''}")
    if found.threads:
        told.append(f"{found.threads} threads")
    if found.vector:
        told.append(f"{found.vector} elements at once")
    if found.acc and found.acc != found.a:
        told.append(f"accumulates in {found.acc}")
    if found.instruction:
        told.append(f"instruction {found.instruction}")
    if found.arch:
        told.append(f"built for {found.arch}")
    clauses = [", ".join(part for part in told if part)]
    clauses.extend(_clauses(found))
    text = "; ".join(part for part in clauses if part)
    return f": {text}" if text else ""


def _unit(found: Decoded) -> str:
    if found.sort == "attention":
        return "(queries x keys)"
    order = {True: " (columns x rows)", False: " (rows x columns)", None: ""}
    return f"outputs{order[found.columns_first]}"


def _clauses(found: Decoded) -> list[str]:
    clauses = []
    if found.layout:
        product = found.sort in ("gemm", "gemv")
        clauses.append(_LAYOUTS.get(found.layout, found.layout.upper()) if product else found.layout.upper())
    if found.split_k:
        clauses.append("the depth is split over blocks (split-K)")
    if found.epilogue:
        clauses.append(f"{' and '.join(found.epilogue)} added")
    if found.flags:
        clauses.append(", ".join(found.flags))
    if found.tensor_core and found.sort in ("gemm", "convolution", "attention"):
        clauses.append("on matrix units")
    elif found.tensor_core is False and found.sort in ("gemm", "convolution"):
        clauses.append("without matrix units")
    return clauses
