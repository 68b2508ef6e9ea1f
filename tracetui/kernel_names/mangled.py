"""Mangled C++ names made readable: the part of the Itanium grammar that kernels use.

Names, template arguments, literals and substitutions are read; parameters are not, since nothing uses them. For
anything else (lambdas, expressions, local names) only the identifiers are listed.
"""

from __future__ import annotations

from tracetui.lazy_pattern import lazy_pattern

MAX_CHARACTERS = 20_000
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
_SUFFIX = {"P": "*", "R": "&", "O": "&&", "K": " const", "V": " volatile"}
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
        if len(text) > MAX_CHARACTERS or len(self._known) > MAX_CHARACTERS:
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
            if sum(map(len, parts)) > MAX_CHARACTERS:
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
        while self._next() in _SUFFIX:
            suffixes.append(_SUFFIX[self._take()])
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
