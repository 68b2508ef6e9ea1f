"""A kernel's name split into parts: parameters removed, brackets balanced, templates split (section 4.1).

Brackets need not match: an open one closes at the end, a stray closing one is ignored. Only the first 20,000 characters
are read.
"""

from __future__ import annotations

from dataclasses import dataclass

from tracetui.kernel_names.mangled import demangled, outlined
from tracetui.lazy_pattern import lazy_pattern

MAX_CHARACTERS = 20_000
"""Maximum characters of a name that are read."""

ANONYMOUS = "(anonymous namespace)"
_CLOSES = {">": "<", ")": "(", "}": "{", "]": "["}
_MARKS = lazy_pattern(r"->|(?<!\w)operator(?:\(\)|<<|>>|->|[<>]=?|\[\])?|[<>(){}\[\],]")
_BRACKETS = lazy_pattern(r"->|(?<!\w)operator(?:\(\)|<<|>>|->|[<>]=?|\[\])|[<>(){}\[\]]")
_PREFIX = lazy_pattern(r"(?:static |void |(?:typename )?std::enable_if<.{0,2000}?>::type )+")
_SUFFIX = lazy_pattern(r"(?:\.kd|\.cold| \[clone [^\]]*\])+$")
_CAST_OF_BOOL = lazy_pattern(r"\(bool\)([01])")
_CAST = lazy_pattern(r"\((?:[A-Za-z_][\w: ]{0,200})\)(?=-?\d)")
_SUFFIX_OF_NUMBER = lazy_pattern(r"(?<![\w.])(-?\d+)(?:ull|ul|u|ll|l)\b")
_CLOSING = lazy_pattern(r">\s+(?=>)")
_ADDRESS = lazy_pattern(r"0x[0-9a-fA-F]{4,}")
_GRAPH_KEY = lazy_pattern(r"\b(CompiledFxGraph )\w+")
_NUMBER_OF_STEP = lazy_pattern(r"#\d+$")
_TRITON_NUMBER = lazy_pattern(r"^((?:\w+_)?triton_[a-z]{2,4}_fused\w*?)_\d+(?:_\d+d\w*)?$")


@dataclass(frozen=True, slots=True)
class ParsedName:
    """The parts of a name that decoders look at."""

    raw: str
    """Name as recorded."""
    text: str
    """Without return type, parameters, casts and suffixes."""
    path: str
    """The qualified name without templates and anonymous namespaces: `at::native::reduce_kernel`."""
    base: str
    """The last word of the path."""
    arguments: tuple[str, ...]
    """Template arguments of the last word."""


def name_parts(raw: str) -> ParsedName:
    """Split a name; works on any text."""
    text = _without_return_type(_readable(raw))
    groups = _groups(text)
    end = _parameters(text, groups)
    text = text[:end].rstrip()
    path, inside = _outline(text, groups)
    path = path.strip(": ")
    base = path.rsplit("::", 1)[-1].strip()
    return ParsedName(raw, text, path, base, split_arguments(inside))


def plain(raw: str) -> str:
    """The name without return type, parameters, casts and compiler suffixes; demangled where possible."""
    text = _readable(raw)
    return text[: _parameters(text, _groups(text))].rstrip()


def _readable(raw: str) -> str:
    """Demangled, without return type, casts and suffixes."""
    text = raw[:MAX_CHARACTERS].strip()
    if text.startswith("_Z"):
        text = demangled(text) or outlined(text) or text
    match = _PREFIX.match(text)
    text = _SUFFIX.sub("", text[match.end() :] if match else text).replace("<unnamed>", ANONYMOUS)
    if "(" in text:
        text = _CAST.sub("", _CAST_OF_BOOL.sub(lambda cast: "true" if cast[1] == "1" else "false", text))
    if "<" in text:
        text = _CLOSING.sub(">", _SUFFIX_OF_NUMBER.sub(r"\1", text))
    return text.strip()


def _without_return_type(text: str) -> str:
    """The text behind the last space outside of all brackets, where a list of parameters says that it is a function.

    Return types nest, and a template argument may be a function with a return type of its own, which stays.
    """
    groups = _groups(text)
    end = _parameters(text, groups)
    if end == len(text):
        return text
    begin = index = 0
    for left, right in [*groups, (end, end)]:
        begin = max(begin, text.rfind(" ", index, min(left, end)) + 1)
        if left >= end:
            break
        index = right
    return text[begin:] if begin < end else text


def normalised(name: str) -> str:
    """A name for comparison between traces: as `plain`, without addresses, hashes and numbers that differ by run.

    The number of an Inductor kernel, `_<n>` at its end, and that of a step, `#<n>`, are removed.
    """
    text = name[:MAX_CHARACTERS].strip() if name.startswith(("Memcpy ", "Memset ")) else plain(name)
    text = _GRAPH_KEY.sub(r"\1", _ADDRESS.sub("0x", text))
    return _NUMBER_OF_STEP.sub("", _TRITON_NUMBER.sub(r"\1", text))


def split_arguments(inside: str) -> tuple[str, ...]:
    """The parts between commas outside of all brackets."""
    if not inside:
        return ()
    if not _BRACKETS.search(inside):
        return tuple(part.strip() for part in inside.split(","))
    parts: list[str] = []
    open_now: list[str] = []
    begin = 0
    for mark in _MARKS.finditer(inside):
        sign = mark.group()
        if sign == ",":
            if not open_now:
                parts.append(inside[begin : mark.start()].strip())
                begin = mark.end()
        elif len(sign) == 1:
            _follow(open_now, sign)
    return (*parts, inside[begin:].strip())


def call(text: str) -> tuple[str, tuple[str, ...]]:
    """The last word before the first template of a text, and that template's arguments: `a::F<x, y>::g` is F, x, y."""
    begin = text.find("<")
    if begin < 0:
        return text.rsplit("::", 1)[-1], ()
    open_now: list[str] = []
    for mark in _MARKS.finditer(text, begin):
        if len(mark[0]) == 1 and mark[0] != ",":
            _follow(open_now, mark[0])
            if not open_now:
                return text[:begin].rsplit("::", 1)[-1], split_arguments(text[begin + 1 : mark.start()])
    return text[:begin].rsplit("::", 1)[-1], split_arguments(text[begin + 1 :])


def template_of(text: str, word: str) -> tuple[str, ...]:
    """The arguments of the first template that is called `word`, empty where there is none."""
    index = text.find(word + "<")
    return call(text[index:])[1] if index >= 0 else ()


def _follow(open_now: list[str], sign: str) -> None:
    """Update the open brackets by one more; an unclosed `<` ends with the bracket around it."""
    opener = _CLOSES.get(sign)
    if opener is None:
        open_now.append(sign)
        return
    while opener != "<" and open_now and open_now[-1] == "<":
        open_now.pop()
    if open_now and open_now[-1] == opener:
        open_now.pop()


def _groups(text: str) -> list[tuple[int, int]]:
    """Start and end of outermost brackets, the closing one included."""
    groups: list[tuple[int, int]] = []
    open_now: list[str] = []
    begin = 0
    for mark in _BRACKETS.finditer(text):
        sign = mark[0]
        if sign in "<({[":
            if not open_now:
                begin = mark.start()
            open_now.append(sign)
        elif len(sign) == 1 and open_now:
            _follow(open_now, sign)
            if not open_now:
                groups.append((begin, mark.end()))
    if open_now:
        groups.append((begin, len(text) + 1))
    return groups


def _parameters(text: str, groups: list[tuple[int, int]]) -> int:
    """Start of the parameters: the parentheses that end the text, unless they are an anonymous namespace's."""
    if not groups:
        return len(text)
    begin, end = groups[-1]
    ends_it = begin > 0 and text[begin] == "(" and text[end:].strip() in ("", "const")
    return begin if ends_it and text[begin:end] != ANONYMOUS else len(text)


def _outline(text: str, groups: list[tuple[int, int]]) -> tuple[str, str]:
    """The text outside of all brackets, and the inside of the last template there."""
    words, inside, index = [], "", 0
    for begin, end in groups:
        if begin >= len(text):
            break
        words.append(text[index:begin])
        index = end
        if text[begin] == "<":
            inside = text[begin + 1 : end - 1]
    words.append(text[index:])
    return "".join(words).replace("::::", "::"), inside
