"""Names of kernels with stand-ins for what is a user's own, and everything else where it was.

A C++ name is read identifier by identifier: what stands in a namespace of PyTorch or of a known library stays, so that
`at::native::vectorized_elementwise_kernel<4, mine::Gate<float>>` loses `mine` and `Gate` alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tracetui.kernel_names.decode import decode
from tracetui.writing.public_names import PATHS, ROOTS, WORDS, is_transfer, is_vendor_name

StandIn = Callable[[str], str]
"""Gives the stand-in for a text."""

_TOKEN = re.compile(r"(?P<word>[^\W\d]\w*)|(?P<number>\d\w*)|(?P<join>::)|(?P<open>[<(\[{])|(?P<close>[>)\]}])|.", re.S)
_IDENTIFIER = re.compile(r"([^\W\d]\w*)(\.kd)?")
_ANONYMOUS = "(anonymous namespace)"


def anonymous_kernel(name: str, stand_in: StandIn) -> str:
    """The name of a kernel, copy or fill without what is a user's own."""
    if is_transfer(name):
        return name
    plain = _IDENTIFIER.fullmatch(name)
    if plain is None:
        return _anonymous_cpp(name, stand_in)
    if is_vendor_name(plain[1]) or _is_generated(name):
        return name
    return stand_in(name)


def _is_generated(name: str) -> bool:
    """Whether Inductor made the name of operators that are all PyTorch's own."""
    found = decode(name)
    return (found.library or "").startswith("Inductor") and bool(found.fused_ops) and not found.unknown


def _anonymous_cpp(name: str, stand_in: StandIn) -> str:
    shown: list[str] = []
    around: list[bool | None] = []
    is_public: bool | None = None
    """Whether the path that is being read is public, None between two paths."""
    joined = False
    for token in _TOKEN.finditer(name.replace(_ANONYMOUS, "\0")):
        text = token[0]
        if token["word"]:
            if not (joined and is_public is not None):
                is_public = _begins_public(token)
            shown.append(text if is_public or text in WORDS else stand_in(text))
        elif token["open"]:
            around.append(is_public)
            is_public = None
            shown.append(text)
        elif token["close"]:
            is_public = around.pop() if around else None
            shown.append(text)
        else:
            # A number or an anonymous namespace goes on with the path; other signs end it.
            is_public = is_public if token["join"] or text == "\0" else None
            shown.append(_ANONYMOUS if text == "\0" else text)
        joined = token["join"] is not None
    return "".join(shown)


def _begins_public(token: re.Match[str]) -> bool:
    """Whether the first identifier of a path is that of a known library."""
    text = token[0]
    rest = token.string[token.start() :]
    if rest.startswith(PATHS):
        return True
    is_namespace = token.string[token.end() : token.end() + 2] == "::"
    return is_vendor_name(text) or (is_namespace and text in ROOTS)
