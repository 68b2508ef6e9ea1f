"""Which parts of a kernel's name tell what it does: the function's own name, else what it was instantiated for.

Namespaces come last, the innermost first, because forks of a library rename the outer ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from tracetui.kernel_names.element_types import cpp_type
from tracetui.kernel_names.text import ParsedName, call
from tracetui.kernel_names.vocabulary import Meaning, meaning_of, spelled
from tracetui.lazy_pattern import lazy_pattern

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
"""What Triton 2 appends to a function: each argument's number, with letters for its alignment."""
_CLASS = lazy_pattern(r"[A-Z][A-Za-z0-9]*$")
_PLAIN = frozenset({"true", "false", "void", "nullptr", "NoneType"})
"""Template arguments that are no names."""
_IDENTIFIER = lazy_pattern(r"[A-Za-z_]\w*(?:::\w+)*")
_CONFIG = lazy_pattern(r"^wrapped_(\w+)_config$")
_FUNCTOR = lazy_pattern(r"(?:Functor|Ops?|Func)$")


def is_generic(word: str) -> bool:
    """Whether a function's name says nothing: `Kernel2`, `device_kernel`, `kentry`."""
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


def _is_unnamed_product(base: str) -> bool:
    """Whether a kernel of CuTe DSL without a name of its own takes a tiled matrix instruction."""
    return "_TiledMMA_" in base


def instantiations(name: ParsedName) -> Iterator[str]:
    """The types for which a generic kernel was instantiated, outermost first, each before its namespaces."""
    yield from islice(_types(name.arguments, _MAX_DEPTH), _MAX_PARTS)


def _namespaces(name: ParsedName) -> Iterator[str]:
    """The telling namespaces of a function, the innermost first."""
    spaces = reversed(name.path.split("::")[:-1])
    return (part for part in islice(spaces, _MAX_PARTS) if not is_generic(part))


def _types(arguments: tuple[str, ...], depth: int) -> Iterator[str]:
    for argument in arguments:
        match = _IDENTIFIER.match(argument)
        if match is None or cpp_type(argument) is not None or match[0] in _PLAIN:
            continue
        parts = match[0].split("::")
        if is_generic(parts[-1]):
            if depth and argument.startswith("<", match.end()):
                yield from _types(call(argument)[1], depth - 1)
        else:
            yield parts[-1]
        yield from reversed(parts[1:-1])


def meaning(name: ParsedName) -> Meaning | None:
    """What the most telling part of a name with a known word says, None where no part has one."""
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
        yield "gemm" if _is_unnamed_product(name.base) else ""
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
