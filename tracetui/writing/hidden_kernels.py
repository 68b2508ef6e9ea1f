"""Names of kernels with what is a user's own hidden, and everything else where it was.

A C++ name is read identifier by identifier: what stands in a namespace of PyTorch or of a known library stays, so that
`at::native::vectorized_elementwise_kernel<4, mine::Gate<float>>` loses `mine` and `Gate` alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tracetui.analysis.names.decode import decode
from tracetui.writing.known_names import PATHS, ROOTS, WORDS, is_transfer, is_vendor_name

Hide = Callable[[str], str]
"""Gives the stand-in for a text."""

_TOKEN = re.compile(r"(?P<word>[^\W\d]\w*)|(?P<number>\d\w*)|(?P<join>::)|(?P<open>[<(\[{])|(?P<close>[>)\]}])|.", re.S)
_IDENTIFIER = re.compile(r"([^\W\d]\w*)(\.kd)?")
_ANONYMOUS = "(anonymous namespace)"


def hidden_kernel(name: str, hide: Hide) -> str:
    """The name of a kernel, copy or fill as it may be shown."""
    if is_transfer(name):
        return name
    plain = _IDENTIFIER.fullmatch(name)
    if plain is None:
        return _hidden_cpp(name, hide)
    if is_vendor_name(plain[1]) or _is_generated(name):
        return name
    return hide(name)


def _is_generated(name: str) -> bool:
    """Whether Inductor made the name of operators that are all PyTorch's own."""
    found = decode(name)
    return (found.library or "").startswith("Inductor") and bool(found.fused_ops) and not found.unknown


def _hidden_cpp(name: str, hide: Hide) -> str:
    shown: list[str] = []
    around: list[bool | None] = []
    known: bool | None = None
    """Whether the path that is being read is known, None between two paths."""
    joined = False
    for token in _TOKEN.finditer(name.replace(_ANONYMOUS, "\0")):
        text = token[0]
        if token["word"]:
            if not (joined and known is not None):
                known = _begins_known(token)
            shown.append(text if known or text in WORDS else hide(text))
        elif token["open"]:
            around.append(known)
            known = None
            shown.append(text)
        elif token["close"]:
            known = around.pop() if around else None
            shown.append(text)
        else:
            # A number or an anonymous namespace goes on with the path; other signs end it.
            known = known if token["join"] or text == "\0" else None
            shown.append(_ANONYMOUS if text == "\0" else text)
        joined = token["join"] is not None
    return "".join(shown)


def _begins_known(token: re.Match[str]) -> bool:
    """Whether the first identifier of a path is that of a known library."""
    text = token[0]
    rest = token.string[token.start() :]
    if rest.startswith(PATHS):
        return True
    is_namespace = token.string[token.end() : token.end() + 2] == "::"
    return is_vendor_name(text) or (is_namespace and text in ROOTS)
