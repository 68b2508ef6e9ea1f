"""A decoded name as a label of at most 40 characters, and as a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from tracetui.kernel_names.decoded import (
    LAYOUT_CONVERSION,
    MAX_SHORT_NAME,
    OPERAND_CONVERSION,
    Decoded,
    Meaning,
    cpp_type,
    meaning_of,
    spelled,
)
from tracetui.kernel_names.text import ParsedName, call
from tracetui.text import lazy_pattern

# Which parts of a kernel's name tell what it does: the function's own name, else what it was instantiated for.
#
# Namespaces come last, the innermost first, because forks of a library rename the outer ones.

_MAX_DEPTH = 4
"""Maximum templates around the type that names what a generic kernel runs."""

_MAX_PARTS = 24
"""Maximum types and maximum namespaces of a name that are looked at."""

_GENERIC = {
    *("kernel", "device", "global", "static", "main", "entry", "kentry", "agent", "trampoline", "wrapper", "template"),
    *("run", "impl", "launch", "launcher", "invoke", "call", "operator", "lambda", "func", "function"),
    *("enable", "for", "to", "or", "later", "family", "sm", "x", "k", "v"),
    *("cuda", "hip", "gpu", "triton", "tilelang", "tl", "jit"),
}
"""Words that say nothing about what a kernel does."""

_CUTE_DSL = lazy_pattern(
    r"kernel_cutlass_(?P<function>\w*?)(?:_object_at_\w*|_(?:tensor(?:ptr|0)|TiledMMA|TiledCopy|CopyAtom|Swizzle|Layout)\w*"
    r"|_\d+)?$"
)
_SIGNATURE = lazy_pattern(r"_0(?:de|[dce])?(?:\d+(?:de|[dce])?)+$")
"""Suffix that Triton 2 appends to a function: each argument's number, with letters for its alignment."""
_CLASS = lazy_pattern(r"[A-Z][A-Za-z0-9]*$")
_PLAIN = frozenset({"true", "false", "void", "nullptr", "NoneType"})
"""Template arguments that are no names."""
_IDENTIFIER = lazy_pattern(r"[A-Za-z_]\w*(?:::\w+)*")
_CONFIG = lazy_pattern(r"^wrapped_(\w+)_config$")
_FUNCTOR = lazy_pattern(r"(?:Functor|Ops?|Func)$")


def is_generic(word: str) -> bool:
    """True where a function's name says nothing: `Kernel2`, `device_kernel`, `kentry`."""
    parts = spelled(word).strip("_").split("_")
    known = all(part in _GENERIC or part.isdecimal() for part in parts)
    return known and any(len(part) > 1 and part in _GENERIC for part in parts)


def cute_dsl_function(base: str) -> str | None:
    """The class or function of `kernel_cutlass_kernel_quackrmsnormRMSNorm_object_at__...`, None for other names.

    CuTe DSL writes module and class without the points between them, so that only the class is readable.
    """
    match = _CUTE_DSL.match(base)
    if match is None:
        return None
    function = match["function"].removeprefix("kernel_")
    named = _CLASS.search(function)
    return named[0] if named else function.strip("_")


def function_of(name: ParsedName) -> str:
    """The last word of a name without the signature that older Triton appends: `matmul_kernel_0d1d2de` is a matmul."""
    return _SIGNATURE.sub("", name.base) if name.text.isidentifier() else name.base


def instantiations(name: ParsedName) -> Iterator[str]:
    """The types for which a generic kernel was instantiated, outermost first, each before its namespaces."""
    yield from islice(_type_words(name.arguments, _MAX_DEPTH), _MAX_PARTS)


def _namespaces(name: ParsedName) -> Iterator[str]:
    """The telling namespaces of a function, the innermost first."""
    spaces = reversed(name.path.split("::")[:-1])
    return (part for part in islice(spaces, _MAX_PARTS) if not is_generic(part))


def _type_words(arguments: tuple[str, ...], depth: int) -> Iterator[str]:
    for argument in arguments:
        match = _IDENTIFIER.match(argument)
        if match is None or cpp_type(argument) is not None or match[0] in _PLAIN:
            continue
        parts = match[0].split("::")
        if is_generic(parts[-1]):
            if depth and argument.startswith("<", match.end()):
                yield from _type_words(call(argument)[1], depth - 1)
        else:
            yield parts[-1]
        yield from reversed(parts[1:-1])


def meaning(name: ParsedName) -> Meaning | None:
    """The meaning of the most telling part of a name with a known word, None where no part has one."""
    for part in _telling(name):
        found = meaning_of(part)
        if found is not None:
            return found
    return None


def _telling(name: ParsedName) -> Iterator[str]:
    function = cute_dsl_function(name.base)
    if function is not None:
        yield function
        match = _CUTE_DSL.match(name.base)
        yield match["function"] if match else ""
        yield "gemm" if "_TiledMMA_" in name.base else ""
        return
    own = function_of(name)
    generic = is_generic(own)
    if generic:
        yield from instantiations(name)
    else:
        yield own
    yield from _namespaces(name)
    if not generic:
        yield from (part for part in instantiations(name) if _FUNCTOR.search(part))


def label(name: ParsedName) -> str:
    """The name to show: the function's own, for a generic one that of what it runs, else its namespace."""
    function = cute_dsl_function(name.base)
    if function is not None:
        return function if function and not is_generic(function) else "unnamed CuTe kernel"
    own = function_of(name)
    if own and not is_generic(own):
        return own
    parts = [*(part for part in instantiations(name) if not is_generic(part)), *_namespaces(name)]
    # rocPRIM's kernels are all called alike and told apart by `wrapped_scan_config` and the like.
    known = (_CONFIG.sub(r"\1", part) for part in parts if meaning_of(part) is not None)
    shown = "unnamed kernel" if own.lower() in ("kernel", "void") else own or name.text or name.raw
    return next(known, next(iter(parts), shown))


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
_COMMON_NOUNS = {"driver": "the driver", "ROCm runtime": "the ROCm runtime"}
"""Libraries that a sentence names with an article."""
_NOUNS = {
    "gemm": "matrix product (GEMM)",
    "gemv": "matrix-vector product (GEMV)",
    "convolution": "convolution",
    "attention": "attention kernel",
    "gemm helper": "helper kernel of a GEMM",
    "convolution helper": "helper kernel of a convolution",
    "dot": "dot product",
    "solve": "triangular solve",
    "blas": "vector operation",
    "norm": "normalisation",
    "pytorch": "PyTorch kernel of an unlisted kind",
    "reduction": "reduction",
    "persistent reduction": "reduction that keeps each row in one block",
    "pointwise": "elementwise operation",
    "copy": "copy of elements",
    "gather": "gather",
    "scatter": "scatter",
    "transpose": "transposition",
    LAYOUT_CONVERSION: "conversion between NCHW and NHWC",
    OPERAND_CONVERSION: "conversion of the type of an operand",
    "kv cache": "write to a KV cache",
    "rope": "rotary embedding",
    "activation": "activation",
    "quantisation": "quantisation",
    "routing": "routing of tokens to experts",
    "sampling": "sampling of tokens",
    "indices": "computation of indices",
    "random": "kernel with random numbers",
    "collective": "collective",
    "send/recv": "send or receive",
    "optimizer": "step of an optimizer over many tensors",
    "foreach": "operation over many tensors at once",
    "fused": "generated kernel",
    "split scan": "generated scan",
    "rnn": "step of a recurrent network",
    "memset": "memory fill",
    "memcpy": "memory copy",
    "loss": "loss",
    "sort": "sort",
    "unknown": "kernel",
}


def short_of(decoded: Decoded, name: ParsedName) -> str:
    """The label of at most 40 characters, with `…` where something was cut."""
    if decoded.library and decoded.library.startswith("Inductor"):
        return cut(_fused(decoded))
    if "operation" in decoded.inferred:
        return cut(_named(decoded, name))
    if decoded.operation in ("gemm", "convolution"):
        return cut(_product(decoded))
    if decoded.operation == "attention":
        return cut(_attention(decoded))
    if decoded.operation == "gemv":
        side = {"transposed": "T", "not transposed": "N"}.get(decoded.op or "")
        return cut(" ".join(part for part in ("GEMV", decoded.dtype, side) if part))
    if decoded.operation in ("collective", "send/recv"):
        return cut(_collective(decoded))
    if decoded.op and decoded.operation != "unknown":
        return cut(_operation(decoded))
    return cut(_named(decoded, name))


def _named(decoded: Decoded, name: ParsedName) -> str:
    """The kernel's own name and the type of its elements."""
    return label(name) + (f"<{decoded.dtype}>" if decoded.dtype else "")


def cut(text: str) -> str:
    """A label of the maximum length."""
    text = " ".join(text.split()) or "?"
    return text if len(text) <= MAX_SHORT_NAME else text[: MAX_SHORT_NAME - 1] + "…"


def _types(decoded: Decoded) -> str | None:
    """`bf16`, or `f16→f32` where the output differs, or `bf16*f4` where the operands do."""
    if decoded.a is None:
        return decoded.out
    operands = f"{decoded.a}*{decoded.b}" if decoded.b and decoded.b != decoded.a else decoded.a
    differs = decoded.out and decoded.out != decoded.a and "out" not in decoded.inferred and decoded.a != "tf32"
    return f"{operands}→{decoded.out}" if differs else operands


def _product(decoded: Decoded) -> str:
    convolution = decoded.operation == "convolution"
    tail = [decoded.layout.upper() if decoded.layout else None]
    if decoded.epilogue:
        tail.append("+" + "+".join(decoded.epilogue))
    if decoded.split_k:
        tail.append("split-K")
    if decoded.op in ("grouped", "depth 1", "few columns", "skinny", "large depth"):
        tail.append(decoded.op)
    if decoded.warnings and decoded.align is not None:
        tail.append(f"align{decoded.align}")
    if convolution and "Winograd" in decoded.flags:
        tail.append("Winograd")
    way = _abbreviated(decoded.op or "") if convolution else ""
    size = "x".join(map(str, decoded.tile))
    known = [part for part in ("conv" if convolution else "GEMM", way, _types(decoded), size, *tail) if part]
    if len(known) == 1 and decoded.op:
        return f"{known[0]} {decoded.op}"
    # What distinguishes least goes first where the label is too long.
    while len(" ".join(known)) > MAX_SHORT_NAME and len(known) > 4:
        known.pop()
    return " ".join(known)


def _abbreviated(op: str) -> str:
    for word, brief in _DIRECTIONS:
        op = op.replace(word, brief)
    return op


def _attention(decoded: Decoded) -> str:
    brand = _ATTENTION_LABELS.get(decoded.library or "", "attn")
    parts = [brand, _abbreviated(decoded.op or ""), f"d{decoded.head}" if decoded.head else "", decoded.a or ""]
    parts.append("causal" if "causal" in decoded.flags else "")
    return " ".join(part for part in parts if part)


def _collective(decoded: Decoded) -> str:
    library = (decoded.library or "").split(" (")[0]
    operation = next(
        (flag for flag in decoded.flags if flag in ("sum", "prod", "minmax", "premulsum", "sumpostdiv")), ""
    )
    brand = {"NCCL": "NCCL", "RCCL": "NCCL", "DeepEP": "DeepEP", "NVSHMEM": "NVSHMEM", "expert parallelism": "EP"}.get(
        library, ""
    )
    op = decoded.op or ""
    kind = decoded.a if brand != "DeepEP" else None
    return " ".join(part for part in ("" if op.startswith(brand.lower()) else brand, op, kind, operation) if part)


def _operation(decoded: Decoded) -> str:
    """`add<bf16> vec4`, `copy<bf16> strided`, `mean<f32> reduce`, `cub RadixSortOnesweep<i64>`."""
    kind = decoded.dtype
    if decoded.operation in ("copy", OPERAND_CONVERSION) and decoded.a and decoded.out and decoded.a != decoded.out:
        kind = f"{decoded.a}→{decoded.out}"
    brand = f"{decoded.library} " if decoded.library in ("cub", "thrust") else ""
    how = [word for flag, word in _ACCESS.items() if flag in decoded.flags]
    if decoded.tile:
        how.append("x".join(map(str, decoded.tile)))
    if decoded.vector and decoded.operation != "softmax":
        how.append(f"vec{decoded.vector}")
    if decoded.operation == "reduction" and decoded.library == "PyTorch":
        how.append("reduce")
    if decoded.operation in ("foreach", "optimizer"):
        how.append("foreach")
    return " ".join([f"{brand}{decoded.op}" + (f"<{kind}>" if kind else ""), *how])


def _fused(decoded: Decoded) -> str:
    """`fused(addmm,gelu,view)`, without views and then cut where it is too long; its number at the end."""
    start = _FUSED.get(decoded.operation, "fused")
    number = f" #{decoded.index}" if decoded.index is not None else ""
    if not decoded.fused_ops:
        text = f"({decoded.unknown[0]})" if decoded.unknown else ""
        return f"{start}{text}"[: MAX_SHORT_NAME - len(number)] + number
    room = MAX_SHORT_NAME - len(start) - len(number) - 2
    ops = list(decoded.fused_ops)
    if len(",".join(ops)) > room:
        telling = [op for op in ops if op not in _VIEWS] or ops
        ops = telling if len(telling) == len(ops) else [*telling, "…"]
    while len(",".join(ops)) > room and len(ops) > 1:
        ops = [*(ops[:-2] if ops[-1] == "…" else ops[:-1]), "…"]
        if ops == ["…"]:
            ops = [decoded.fused_ops[0][: room - 1] + "…"]
    text = ",".join(ops)
    return f"{start}({text if len(text) <= room else text[: room - 1] + '…'}){number}"


_INFERRED = {
    "a": "type of the input",
    "b": "type of the second input",
    "acc": "type of the accumulator",
    "out": "type of the output",
    "op": "operation",
    "arch": "architecture",
    "align": "alignment",
    "columns_first": "order of the sides of the tile",
    "flags": "further properties",
}
"""Name of a field of `Decoded` in a sentence, where that is not its name."""


def sentence_of(decoded: Decoded, name: ParsedName) -> str:
    """The decoded name in a sentence, with its warnings, what is inferred and what is not understood."""
    parts = [decoded.sentence or f"{_subject(decoded, name)}{_details(decoded)}.", *map(_as_sentence, decoded.warnings)]
    inferred = sorted(field for field in decoded.inferred if decoded.confidence(field) == "inferred")
    likely = [_INFERRED.get(field, field.replace("_", " ")) for field in inferred]
    if likely:
        parts.append(f"Likely, not certain: {', '.join(likely)}.")
    if decoded.unknown:
        parts.append(f"Not understood: {', '.join(decoded.unknown)}.")
    return " ".join(parts)


def _as_sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith(".") else text + "."


def _subject(decoded: Decoded, name: ParsedName) -> str:
    if decoded.operation == "unknown":
        return "A kernel with an unknown name"
    noun = _NOUNS.get(decoded.operation, decoded.operation)
    kind = _types(decoded)
    words = " ".join(part for part in (kind, noun) if part)
    if decoded.op and decoded.op not in (decoded.operation, name.base, *noun.split()):
        words += f" ({decoded.op})"
    library = _COMMON_NOUNS.get(decoded.library or "", decoded.library)
    # "An f32" and "an 8-bit", by how they are spoken.
    article = "An" if words[:1] in "aeioAEIO8" or words[:2] in ("f1", "f3", "f4", "f6", "f8") else "A"
    return f"{article} {words}" + (f" by {library}" if library else "")


def _details(decoded: Decoded) -> str:
    """All further properties of the name, as a list."""
    details = []
    if decoded.fused_ops:
        details.append(f"from {', '.join(decoded.fused_ops)}")
    if decoded.tile:
        details.append(
            f"tiles of {decoded.tile[0]}x{decoded.tile[1]} {_unit(decoded)}" if len(decoded.tile) > 1 else ""
        )
        if len(decoded.tile) > 2:
            details.append(
                f"heads of {decoded.tile[2]}" if decoded.operation == "attention" else f"{decoded.tile[2]} along K"
            )
    if decoded.head and len(decoded.tile) < 3:
        details.append(f"heads of {decoded.head}")
    if decoded.stages:
        details.append(f"{decoded.stages} stage{'s' if decoded.stages > 1 else ''}")
    if any(size > 1 for size in decoded.cluster):
        details.append(f"clusters of {'x'.join(map(str, decoded.cluster))}")
    if decoded.warps:
        details.append(f"{decoded.warps} warp{'s' if decoded.warps > 1 else ''}")
    if decoded.threads:
        details.append(f"{decoded.threads} threads")
    if decoded.vector:
        details.append(f"{decoded.vector} elements at once")
    if decoded.acc and decoded.acc != decoded.a:
        details.append(f"accumulates in {decoded.acc}")
    if decoded.instruction:
        details.append(f"instruction {decoded.instruction}")
    if decoded.arch:
        details.append(f"built for {decoded.arch}")
    clauses = [", ".join(part for part in details if part)]
    clauses.extend(_clauses(decoded))
    text = "; ".join(part for part in clauses if part)
    return f": {text}" if text else ""


def _unit(decoded: Decoded) -> str:
    if decoded.operation == "attention":
        return "(queries x keys)"
    order = {True: " (columns x rows)", False: " (rows x columns)", None: ""}
    return f"outputs{order[decoded.columns_first]}"


def _clauses(decoded: Decoded) -> list[str]:
    clauses = []
    if decoded.layout:
        product = decoded.operation in ("gemm", "gemv")
        clauses.append(_LAYOUTS.get(decoded.layout, decoded.layout.upper()) if product else decoded.layout.upper())
    if decoded.split_k:
        clauses.append("K is split over blocks (split-K)")
    if decoded.epilogue:
        clauses.append(f"{' and '.join(decoded.epilogue)} added")
    if decoded.flags:
        clauses.append(", ".join(decoded.flags))
    units = "Matrix Cores" if decoded.vendor == "AMD" else "Tensor Cores"
    if decoded.tensor_core and decoded.operation in ("gemm", "convolution", "attention"):
        clauses.append(f"on {units}")
    elif decoded.tensor_core is False and decoded.operation in ("gemm", "convolution"):
        clauses.append(f"without {units}")
    return clauses
