"""Kernel names made short, and the family of work that a slice belongs to.

Names are read by pattern, never looked up, so an unknown one stays as it is, only without its argument list.
A family answers "what kind of work": it chooses a colour and groups sums, and is a guess from the name.
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache

from tracetui.model.trace import Kind

LONGEST = 60
"""Characters of a short name."""


class Family(IntEnum):
    """What sort of work a slice does."""

    GEMM = 0
    """Matrix products and convolutions."""
    ATTENTION = 1
    REDUCTION = 2
    """Sums, norms, softmax, scans."""
    POINTWISE = 3
    COPY = 4
    """Copies, fills by the driver, transposes."""
    COMMUNICATION = 5
    """Collectives between devices."""
    OTHER = 6
    OP = 7
    ANNOTATION = 8
    RUNTIME = 9
    PYTHON = 10
    OVERHEAD = 11


_BY_KIND = {
    Kind.CPU_OP: Family.OP,
    Kind.ANNOTATION: Family.ANNOTATION,
    Kind.GPU_ANNOTATION: Family.ANNOTATION,
    Kind.RUNTIME: Family.RUNTIME,
    Kind.SYNC: Family.RUNTIME,
    Kind.PYTHON: Family.PYTHON,
    Kind.MEMCPY: Family.COPY,
    Kind.MEMSET: Family.COPY,
    Kind.OVERHEAD: Family.OVERHEAD,
    Kind.BOOKKEEPING: Family.OVERHEAD,
}

_BY_NAME = (
    (Family.COMMUNICATION, r"nccl|rccl|nvshmem|all_?reduce|all_?gather|reduce_?scatter|cross_device_reduce"),
    (Family.REDUCTION, r"triton_(red|per|spl)_"),
    (Family.POINTWISE, r"triton_(poi|for)_"),
    (Family.ATTENTION, r"flash|fmha|attention|attn|sdpa"),
    (Family.REDUCTION, r"splitk_?reduce|reducesplitk"),
    (
        Family.GEMM,
        r"(?<!fb)gemm|nvjet|cijk_|matmul|triton_tem_|gemv|winograd|[dw]grad|fprop|conv(?!ert)|scudnn|\bdot_kernel",
    ),
    (
        Family.COPY,
        r"copy_(kernel|device)|copybuffer|copydevice|transpose|nchwtonhwc|nhwctonchw|catarraybatched|convert",
    ),
    (
        Family.REDUCTION,
        r"reduce|softmax|norm|(?<![a-z])bn_|sum_|argm(ax|in)|scan|statistics|welford|gammabeta|histogram",
    ),
    (Family.POINTWISE, r"elementwise|pointwise|functor|triton__?0d|activation|fill|dropout"),
)
_PATTERNS = tuple((family, re.compile(pattern, re.IGNORECASE)) for family, pattern in _BY_NAME)


@lru_cache(maxsize=65536)
def family(name: str, kind: Kind) -> Family:
    """The family of a slice, from its kind and, for kernels, its name."""
    if kind != Kind.KERNEL:
        return _BY_KIND.get(kind, Family.OTHER)
    # Parameter types name other work: a reduction that takes a `cublasGemvTensor` is no matrix product.
    text = name if name.startswith("_Z") else " ".join(_split(_plain(name)))
    for found, pattern in _PATTERNS:
        if pattern.search(text):
            return found
    return Family.OTHER


_PREFIX = re.compile(r"^(?:static |void |(?:typename )?std::enable_if<.*?>::type )+")
_CAST = re.compile(r"\((?:[\w:]*Type(?:_t)?|int|bool|unsigned int|long)\)(?=[\w-])")
_SUFFIX = re.compile(r"(?:\.kd| \[clone [^\]]*\])+$")
_WRAPPERS = re.compile(r"(?:elementwise_kernel\w*|^reduce_kernel|^multi_tensor_apply_kernel|^Kernel2?|^device_kernel)$")
_TYPES = {
    "c10::BFloat16": "bf16",
    "c10::Half": "f16",
    "cutlass::bfloat16_t": "bf16",
    "cutlass::half_t": "f16",
    "float": "f32",
    "double": "f64",
    "long": "i64",
    "int": "i32",
    "bool": "bool",
}
_QUALIFIED = re.compile(r"::|<|\(|^_Z")
"""What only names of C++ have."""
_INTEGERS = ("long", "int", "bool")
_TYPE = re.compile(r"(?<!unsigned )\b(" + "|".join(map(re.escape, _TYPES)) + r")\b")
_LAMBDA = re.compile(r"\{lambda\(([\w:]+)")
_WORK = re.compile(
    r"CUDAFunctor(?:On[A-Z][a-z]+)?_(?P<a>\w+)"
    r"|(?<!\w)(?!BUnary|AUnary|Binary|CUDA|Unary)(?P<b>[A-Z]\w*?)Functor\b"
    r"|(?<!\w)(?!gpu_|unrolled_|vectorized_|reduce_|elementwise_)(?P<c>\w+?)_kernel(?:_impl|_cuda)*\b"
    r"|(?<!\w)(?P<d>\w+?)_functor\b"
    r"|(?<!\w)(?!Reduce)(?P<e>[A-Z]\w*?)Ops\b"
    r"|(?<!\w)(?P<f>[A-Z]\w*?)CUDAKernelImpl\b"
)
_WORD = re.compile(r"[A-Za-z_][\w:]*")


@lru_cache(maxsize=65536)
def short_kernel(name: str) -> str:
    """A kernel's name in at most 60 characters: no namespaces, no parameter list, templates cut down.

    `void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, ...>(...)`
    becomes `add<f32> vectorized_elementwise`.
    """
    text = _plain(name)
    if text.startswith(("Memcpy ", "Memset ")) or not _QUALIFIED.search(text):
        return _cut(text)
    if text.startswith("_Z"):
        return _cut(_mangled(text))
    head, template = _split(text)
    path = head.split("::")
    base = path[-1].strip() or text
    if base == "kernel" and len(path) > 1:
        base = "::".join(path[-2:])
    if _WRAPPERS.search(base) and template:
        return _cut(_unwrapped(base, template))
    return _cut(base + _element_type(template, prefer_floats=True))


def _element_type(template: str, prefer_floats: bool = False) -> str:
    """The type of the elements as `<f32>`, empty where the template does not tell.

    The last lambda was made for that type; without lambdas it is the first argument that is a type. Types of
    indices come first in some libraries, which `prefer_floats` skips; an opaque type hides what it stands for.
    """
    if "OpaqueType" in template:
        return ""
    lambdas = [kind for kind in _LAMBDA.findall(template) if kind in _TYPES]
    if "gpu_kernel_impl" in template:
        # The outermost takes the index of an element.
        lambdas = lambdas[:-1]
    kinds = _TYPE.findall(template)
    if prefer_floats:
        kinds = [kind for kind in kinds if kind not in _INTEGERS] or kinds
    chosen = lambdas[-1] if lambdas else kinds[0] if kinds else None
    return f"<{_TYPES[chosen]}>" if chosen else ""


def _plain(name: str) -> str:
    """The name without return type, anonymous namespaces, casts and the suffixes of compilers."""
    text = _SUFFIX.sub("", _PREFIX.sub("", name.strip()))
    for unreadable in ("(anonymous namespace)::", "<unnamed>::", "::operator()"):
        text = text.replace(unreadable, "")
    return _CAST.sub("", text)


def _split(text: str) -> tuple[str, str]:
    """A qualified name and its outermost, last template arguments; what is in parentheses is dropped."""
    depth, head, template, opened = 0, [], "", 0
    for place, letter in enumerate(text):
        if letter in "<({[":
            if depth == 0:
                if letter == "(":
                    break
                opened = place
            depth += 1
        elif letter in ">)}]" and depth:
            depth -= 1
            if depth == 0:
                template = text[opened + 1 : place]
        elif depth == 0:
            head.append(letter)
    return "".join(head), template


def _unwrapped(base: str, template: str) -> str:
    """What a generic kernel such as `elementwise_kernel` was made to do, before the kernel's own name."""
    found = _WORK.search(template)
    if found is None:
        words = [word.rsplit("::", 1)[-1] for word in _WORD.findall(template)]
        telling = [word for word in words if len(word) > 5 and not word.startswith("TensorList") and word not in _TYPES]
        return telling[0] if telling else base
    work = next(group for group in found.groups() if group).lower()
    return f"{work}{_element_type(template)} {base.removesuffix('_kernel')}"


def _mangled(text: str) -> str:
    """The readable identifiers of an Itanium-mangled name: the function, then what it was made for."""
    words: list[str] = []
    place = 2
    while (found := re.compile(r"\D*?(\d+)").match(text, place)) and len(words) < 16:
        size = int(found.group(1))
        word = text[found.end() : found.end() + size]
        if size and len(word) == size and word.isidentifier():
            words.append(word)
            place = found.end() + size
        else:
            place = found.end()
    telling = [word for word in words if len(word) > 4 and not word.islower()]
    named = [word for word in words if _WRAPPERS.search(word) or "kernel" in word.lower()]
    return " ".join(dict.fromkeys([*named[:1], *telling[:1]])) or (words[-1] if words else text)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
