"""What a generic kernel of PyTorch was made to do: functors and lambdas to operators and types (F14)."""

from __future__ import annotations

import re
from typing import NamedTuple

from tracetui.analysis.names.element_types import cpp_type
from tracetui.analysis.names.text import call, split_arguments

_WRAPPERS = {
    "gpu_kernel_impl": 0,
    "gpu_kernel_impl_nocast": 0,
    "gpu_index_kernel": 0,
    "BinaryFunctor": -1,
    "AUnaryFunctor": -1,
    "BUnaryFunctor": -1,
    "func_wrapper_t": -1,
}
"""Which template argument of a wrapper is the functor within."""

_SCALAR_WRAPPERS = frozenset({"AUnaryFunctor", "BUnaryFunctor"})
_SCALARS = re.compile(r"CUDAFunctorOn(?:Self|Other)_(\w+)|(\w+?)ScalarFunctor$")
_SPECIAL_FUNCTORS = {
    "direct_copy_kernel_cuda": "copy",
    "copy_device_to_device": "copy",
    "bfloat16_copy_kernel_cuda": "cast",
    "float16_copy_kernel_cuda": "cast",
    "float8_copy_kernel_cuda": "cast",
    "launch_clamp_scalar": "clamp",
    "clamp_min_scalar_kernel_impl": "clamp_min",
    "clamp_max_scalar_kernel_impl": "clamp_max",
    "or_kernel_cuda": "any",
    "and_kernel_cuda": "all",
    "sum_functor": "sum",
    "prod_functor": "prod",
    "nansum_functor": "nansum",
    "WelfordOps": "var/std",
    "NormTwoOps": "norm",
    "NormOneOps": "norm1",
    "NormZeroOps": "norm0",
    "AbsMaxOps": "norm inf",
    "ArgMaxOps": "argmax",
    "ArgMinOps": "argmin",
    "CompareEqFunctor": "eq/ne",
    "compare_scalar_kernel": "compare",
    "pow_tensor_scalar_kernel_impl": "pow",
    "pow_tensor_tensor_kernel": "pow",
    "index_kernel_impl": "index",
    "index_put_kernel_impl": "index_put",
    "arange_cuda_out": "arange",
    "_cuda_scatter_gather_internal_kernel": "gather",
}
_CASTS = {"bfloat16_copy_kernel_cuda": "bf16", "float16_copy_kernel_cuda": "f16", "float8_copy_kernel_cuda": "f8"}
_WORD = re.compile(r"(?:\w+::|\(anonymous namespace\)::)*(\w+)")
_LAMBDA = re.compile(r"\{lambda\(([^(){}]+)\)#\d+\}")
_SUFFIX = re.compile(r"(?:_kernel_impl|_kernel_cuda|_cuda_kernel|_kernel|_cuda|_functor|_impl)+$")
_CAMEL_SUFFIX = re.compile(r"(?:CUDAKernelImpl|KernelImpl|CUDAKernel|CudaKernel|Kernel|MathFunctor|Functor|Ops)$")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class Functor(NamedTuple):
    """What is done to each element."""

    op: str
    kind: str | None
    """Type of the elements that come in."""
    out: str | None
    acc: str | None
    scalar: bool
    """Whether one operand is one number."""
    word: str
    """The functor's own name."""
    known: bool
    """Whether the name is in the table or follows the naming of PyTorch."""


def read_functor(text: str) -> Functor:
    """The functor at the heart of a template argument: wrappers off, then its name and its types."""
    scalar, out, given = False, None, None
    for _ in range(6):
        found = _WORD.match(text)
        word = found[1] if found else ""
        if word not in _WRAPPERS:
            break
        inner = call(text)[1]
        if not inner:
            break
        scalar = scalar or word in _SCALAR_WRAPPERS
        if word.endswith("aryFunctor") and len(inner) >= 4:
            given, out = cpp_type(inner[0]), cpp_type(inner[-2])
        text = inner[_WRAPPERS[word]]
    found = _WORD.match(text)
    word = found[1] if found else text[:40]
    arguments = call(text)[1] if found and text.startswith("<", found.end()) else ()
    types = [kind for kind in map(cpp_type, arguments) if kind]
    kind = given or _element(text, types)
    op, one, known = operator_of(word)
    if word in _CASTS:
        out = _CASTS[word]
    if word.startswith("_cuda_scatter_gather"):
        op = "scatter_add" if "ReduceAdd" in text else "scatter" if arguments[:1] == ("true",) else "gather"
    acc = types[1] if len(types) > 1 else types[0] if given and types else None
    return Functor(op, kind, out, acc, scalar or one, word, known)


def operator_of(word: str) -> tuple[str, bool, bool]:
    """The operator a functor or a kernel is named after, whether it takes a number, and whether the name is known."""
    if word in _SPECIAL_FUNCTORS:
        return _SPECIAL_FUNCTORS[word], False, True
    if word.startswith("CUDAFunctor_"):
        return word.removeprefix("CUDAFunctor_"), False, True
    found = _SCALARS.match(word)
    if found is not None:
        return snake(found[1] or found[2]), True, True
    plain = _SUFFIX.sub("", word)
    if plain and plain != word:
        return plain, False, True
    camel = _CAMEL_SUFFIX.sub("", word)
    return snake(camel or word), False, bool(camel) and camel != word


def snake(word: str) -> str:
    """`BitwiseOr` as `bitwise_or`."""
    return _CAMEL.sub("_", word).lower()


def _element(text: str, types: list[str]) -> str | None:
    """The type of the last lambda that takes elements, else the first type of the template.

    An opaque type says all there is to know, since the lambda then takes bytes or the index of an element; in
    `where` and `masked_fill` a mask comes with the elements.
    """
    if types and types[0].endswith("-byte"):
        return types[0]
    for taken in reversed(_LAMBDA.findall(text)):
        kinds = [cpp_type(part) for part in split_arguments(taken) if "*" not in part]
        known = [kind for kind in kinds if kind]
        if known:
            elements = [kind for kind in known if kind != "bool"]
            offset = elements == ["i32"] and types and "i32" not in types
            return types[0] if offset else (elements or known)[0]
    return types[0] if types else None
