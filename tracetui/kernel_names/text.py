"""A kernel's name split into parts: parameters removed, brackets balanced, templates split (section 4.1).

Brackets need not match: an open one closes at the end, a stray closing one is ignored. Only the first 20,000 characters
are read.
"""

from __future__ import annotations

from tracetui.frozen import frozen
from tracetui.text import lazy_pattern

# Mangled C++ names made readable: the part of the Itanium grammar that kernels use.
#
# Names, template arguments, literals and substitutions are read; parameters are not, since nothing uses them. For
# anything else (lambdas, expressions, local names) only the identifiers are listed.

MAX_DEMANGLED_CHARACTERS = 20_000
"""Maximum characters of a demangled name: substitutions can make a short one explode."""

_MAX_DEPTH = 100
_BUILT_IN = {
    "v": "void", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char", "s": "short",
    "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long", "m": "unsigned long", "x": "long long",
    "y": "unsigned long long", "n": "__int128", "o": "unsigned __int128", "f": "float", "d": "double",
    "e": "long double", "w": "wchar_t", "z": "...",
}  # fmt: skip
_EXTENDED = {"DF16b": "std::bfloat16_t", "DF16_": "_Float16", "Dn": "decltype(nullptr)", "Dh": "_Float16"}
_STANDARD = {"Sa": "std::allocator", "Sb": "std::basic_string", "Ss": "std::string"}
_MANGLED_SUFFIX = {"P": "*", "R": "&", "O": "&&", "K": " const", "V": " volatile"}
_DIGITS = lazy_pattern(r"\d+")
_IDENTIFIER = lazy_pattern(r"(?>L[a-z]n?\d+E|\D)*?(\d+)")
_LITERAL_SUFFIX = {"m": "ul", "l": "l", "j": "u", "y": "ull", "x": "ll"}


class Unreadable(ValueError):
    """The name uses a part of the grammar that is not supported."""


def demangled(text: str) -> str | None:
    """The name of a function with its template arguments, without parameters; None where it is unreadable."""
    try:
        return _Reader(text[2:]).function()
    except Unreadable:
        return None


def identifiers(text: str) -> list[str]:
    """The plain words of a mangled name in order, at most 32."""
    words: list[str] = []
    index = 2
    while (match := _IDENTIFIER.match(text, index)) and len(words) < 32:
        size = int(match.group(1)[:4])
        word = text[match.end() : match.end() + size]
        index = match.end()
        if size and len(word) == size and word.isidentifier():
            words.append(word)
            index += size
    return words


_NESTED = lazy_pattern(r"_ZN?(?:[KVr]*)")
_LENGTH = lazy_pattern(r"L?(\d{1,4})")


def outlined(text: str) -> str | None:
    """The qualified name of a function whose template is unreadable, and the plain words in it: `a::f<word, word>`."""
    start = _NESTED.match(text)
    index = start.end() if start else 0
    parts: list[str] = []
    while match := _LENGTH.match(text, index):
        end = match.end() + int(match[1])
        word = text[match.end() : end]
        if not word.isidentifier() or end - match.end() < int(match[1]):
            break
        parts.append("(anonymous namespace)" if word.startswith("_GLOBAL__N") else word)
        index = end
    if not parts:
        return None
    words = identifiers("_Z" + text[index:])
    return "::".join(parts) + (f"<{', '.join(words)}>" if words and text.startswith("I", index) else "")


class _Reader:
    """Reads one name from left to right; `_known` holds the parts that a later `S_` stands for."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0
        self._depth = 0
        self._known: list[str] = []

    def function(self) -> str:
        return self._name()

    def _next(self, size: int = 1) -> str:
        return self._text[self._place : self._place + size]

    def _take(self, size: int = 1) -> str:
        taken = self._next(size)
        if len(taken) < size:
            raise Unreadable("the name ends early")
        self._place += size
        return taken

    def _skip(self, sign: str) -> bool:
        if self._text.startswith(sign, self._place):
            self._place += len(sign)
            return True
        return False

    def _remember(self, text: str) -> str:
        if len(text) > MAX_DEMANGLED_CHARACTERS or len(self._known) > MAX_DEMANGLED_CHARACTERS:
            raise Unreadable("the name grows too long")
        self._known.append(text)
        return text

    def _name(self) -> str:
        if self._skip("N"):
            return self._nested()
        if self._next() == "S" and self._next(2) != "St":
            name = self._substitution()
        else:
            name = ("std::" if self._skip("St") else "") + self._source()
            if self._next() == "I":
                self._remember(name)
        return name + self._arguments() if self._next() == "I" else name

    def _nested(self) -> str:
        while self._next() in ("K", "V", "r"):
            self._take()
        name = ""
        while not self._skip("E"):
            if self._next() == "I":
                name = self._remember(name + self._arguments())
            elif self._next() == "S" and not name:
                name = "std" if self._skip("St") else self._substitution()
            else:
                self._skip("L")
                part = self._source()
                name = self._remember(f"{name}::{part}" if name else part)
        return name

    def _source(self) -> str:
        match = _DIGITS.match(self._text, self._place)
        if match is None or len(match.group()) > 4:
            raise Unreadable("no identifier where one belongs")
        self._place = match.end()
        word = self._take(int(match.group()))
        return "(anonymous namespace)" if word.startswith("_GLOBAL__N") else word

    def _substitution(self) -> str:
        short = self._next(2)
        if short in _STANDARD:
            self._take(2)
            return _STANDARD[short]
        self._take()
        digits = ""
        while (sign := self._take()) != "_":
            digits += sign
        try:
            number = int(digits, 36) + 1 if digits else 0
        except ValueError:
            raise Unreadable("no number of a substitution") from None
        if number >= len(self._known):
            raise Unreadable("a substitution of nothing")
        return self._known[number]

    def _arguments(self) -> str:
        self._deeper()
        self._take()
        parts: list[str] = []
        while not self._skip("E"):
            parts.extend(self._argument())
            if sum(map(len, parts)) > MAX_DEMANGLED_CHARACTERS:
                raise Unreadable("the name grows too long")
        self._depth -= 1
        return f"<{', '.join(parts)}>"

    def _argument(self) -> list[str]:
        if self._skip("J"):
            self._deeper()
            pack: list[str] = []
            while not self._skip("E"):
                pack.extend(self._argument())
            self._depth -= 1
            return pack
        if self._skip("L"):
            return [self._literal()]
        return [self._type()]

    def _deeper(self) -> None:
        """Enter one more level of recursion."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise Unreadable("templates nest too deeply")

    def _literal(self) -> str:
        code = self._next()
        kind = self._type()
        end = self._text.find("E", self._place)
        if end < 0:
            raise Unreadable("a literal without an end")
        value = self._text[self._place : end].replace("n", "-", 1)
        self._place = end + 1
        if code == "b" and value in ("0", "1"):
            return "true" if value == "1" else "false"
        if code == "i":
            return value
        return value + _LITERAL_SUFFIX[code] if code in _LITERAL_SUFFIX else f"({kind}){value}"

    def _type(self) -> str:
        suffixes = []
        while self._next() in _MANGLED_SUFFIX:
            suffixes.append(_MANGLED_SUFFIX[self._take()])
            if len(suffixes) > _MAX_DEPTH:
                raise Unreadable("a pointer too far")
        name = self._plain_type()
        for suffix in reversed(suffixes):
            name = self._remember(name + suffix)
        return name

    def _plain_type(self) -> str:
        sign = self._next()
        if sign in _BUILT_IN:
            return _BUILT_IN[self._take()]
        if sign == "D":
            return self._extended()
        if sign == "N":
            return self._name()
        if sign == "S" and self._next(2) != "St":
            name = self._substitution()
            return self._remember(name + self._arguments()) if self._next() == "I" else name
        if sign.isdigit() or sign == "S":
            return self._remember(self._name())
        raise Unreadable(f"a type that starts with {sign!r}")

    def _extended(self) -> str:
        for code, kind in _EXTENDED.items():
            if self._skip(code):
                return kind
        raise Unreadable("a type that is not known")


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


@frozen(eq=True, slots=True)
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
