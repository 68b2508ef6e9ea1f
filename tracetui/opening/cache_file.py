"""One file of the cache: arrays one after the other, then a header that says what they are.

    prologue   64 bytes: magic, place and length of the header, its digest, the boot in which the data were checked
    arrays     each on a multiple of 64 bytes, the rest filled with zeros
    header     JSON: the type, shape, place and digest of every array, and whatever else the caller says

The file is mapped when it is read, and a page is read from disk when it is used. What can be wrong with it is found
before: the header has a digest and says how long the file is, and of a file that may have lost pages when the machine
went down every array is compared with its digest, once.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracetui.model.table import Strings

# Values as a tree of JSON and a list of arrays, and back: columns stay bytes, everything else becomes text.
#
# A node of the tree is a number, a text, a truth value or null itself, or a list of a tag and what belongs to it.
# Objects are those of the classes that are named to the encoder; nothing in a tree can name another class, and nothing
# is run.

Tree = Any
Array = NDArray[Any]
Classes = Mapping[str, type]

_PLAIN = (int, float, str, bool, type(None))
_ARRAY, _SCALAR, _BYTES, _TEXTS, _STRINGS = "array", "scalar", "bytes", "texts", "strings"
_LIST, _TUPLE, _SET, _DICT, _ENUM, _OBJECT = "list", "tuple", "set", "dict", "enum", "object"
_NUMBERS = "biuf"
"""Kinds of numpy's types that are stored: truth values, whole numbers and fractions."""
MIN_TEXTS = 100
"""Texts of a list from which on they are stored as bytes."""


class NotStorable(Exception):
    """A value of a class that cannot be stored."""


def by_name(classes: Iterable[type]) -> Classes:
    """Classes by their names, which are stored in a tree. Raises: TypeError for two of one name."""
    by_name: dict[str, type] = {}
    for each in classes:
        if by_name.setdefault(each.__name__, each) is not each:
            raise TypeError(f"{by_name[each.__name__]} and {each} have one name")
    return by_name


class Encoder:
    """Turns values into trees; the arrays in them are collected, each once."""

    def __init__(self, classes: Classes, arrays: Iterable[Array] = ()) -> None:
        """`arrays` are those that are collected already."""
        self.arrays: list[Array] = []
        self._classes = classes
        self._numbers: dict[int, int] = {}
        self._originals: list[Array] = []
        for each in arrays:
            self._add(each)

    def tree(self, value: object) -> Tree:
        """A value as a tree.

        Raises: NotStorable for a value of another class.
        """
        if type(value) in _PLAIN:
            return value
        if isinstance(value, np.ndarray):
            return [_ARRAY, self._add(value)]
        if isinstance(value, np.generic):
            return [_SCALAR, self._add(np.array(value))]
        if isinstance(value, bytes):
            return [_BYTES, self._add(np.frombuffer(value, np.uint8))]
        if isinstance(value, Strings):
            return [_STRINGS, self._add_texts(list(value))]
        if type(value) in (list, tuple, frozenset):
            return self._sequence(value)  # type: ignore[arg-type]
        if type(value) is dict:
            return [_DICT, [[self.tree(key), self.tree(each)] for key, each in value.items()]]
        return self._object(value)

    def _sequence(self, value: Iterable[object]) -> Tree:
        values: list[Any] = list(value)
        if isinstance(value, list) and len(values) >= MIN_TEXTS and all(type(each) is str for each in values):
            return [_TEXTS, self._add_texts(values)]
        tag = _LIST if isinstance(value, list) else _TUPLE if isinstance(value, tuple) else _SET
        return [tag, [self.tree(each) for each in values]]

    def _object(self, value: object) -> Tree:
        name = type(value).__name__
        if self._classes.get(name) is not type(value):
            raise NotStorable(f"values of {type(value)} are not stored")
        if isinstance(value, Enum):
            return [_ENUM, name, value.name]
        return [_OBJECT, name, [self.tree(getattr(value, field)) for field in _fields(type(value))]]

    def _add_texts(self, texts: list[str]) -> int:
        # Unlike UTF-8 this holds every text that Python can hold.
        return self._add(np.frombuffer(json.dumps(texts).encode("ascii"), np.uint8))

    def _add(self, array: Array) -> int:
        number = self._numbers.get(id(array))
        if number is None:
            if array.dtype.kind not in _NUMBERS:
                raise NotStorable(f"arrays of {array.dtype} are not stored")
            number = self._numbers[id(array)] = len(self.arrays)
            # An array that goes leaves its id to another one.
            self._originals.append(array)
            self.arrays.append(np.ascontiguousarray(array).reshape(array.shape))
        return number


def decode(tree: Tree, arrays: Sequence[Array], classes: Classes) -> Any:
    """The value that a tree stands for.

    Raises: ValueError, TypeError, KeyError, IndexError for what is no tree.
    """
    if not isinstance(tree, list):
        return tree
    tag, payload = tree[0], tree[1]
    if tag == _ARRAY:
        return arrays[payload]
    if tag == _SCALAR:
        return arrays[payload][()]
    if tag == _BYTES:
        return arrays[payload].tobytes()
    if tag in (_TEXTS, _STRINGS):
        texts = json.loads(arrays[payload].tobytes())
        return texts if tag == _TEXTS else Strings(texts)
    if tag == _DICT:
        return {decode(key, arrays, classes): decode(value, arrays, classes) for key, value in payload}
    if tag in (_LIST, _TUPLE, _SET):
        values = [decode(each, arrays, classes) for each in payload]
        return values if tag == _LIST else tuple(values) if tag == _TUPLE else frozenset(values)
    if tag == _ENUM:
        return classes[payload][tree[2]]  # type: ignore[index]
    if tag == _OBJECT:
        kind, names = classes[payload], _fields(classes[payload])
        return kind(**{name: decode(each, arrays, classes) for name, each in zip(names, tree[2], strict=True)})
    raise ValueError(f"{tag!r} is no tag")


def _fields(of: type) -> Sequence[str]:
    """The names of what an object is made of."""
    if is_dataclass(of):
        return [field.name for field in fields(of) if field.init]
    names: Sequence[str] | None = getattr(of, "_fields", None)
    if names is None:
        raise NotStorable(f"{of} has no fields")
    return names


_MAGIC = b"ttcache1"
_PROLOGUE = struct.Struct("<8sQQ16s16s")
_ALIGNMENT = 64
_CHUNK = 1 << 20
"""Bytes that are digested, and written, at a time; they stay in the processor's cache in between."""
_BOOT_AT = 40
"""Offset of the boot in the prologue."""
_NO_BOOT = bytes(16)
MAX_HEADER_BYTES = 1 << 28
"""Maximum size of a header that is read."""
MAX_CHECKED_BYTES = 32 << 20
"""Maximum size of a file whose arrays are compared with their digests whenever it is opened."""


class CacheDamaged(Exception):
    """A cache file is not what was written, or of another release."""


class WritingStopped(Exception):
    """The writing of a cache file was given up."""


class CacheContent(NamedTuple):
    """The content of a cache file."""

    header: dict[str, Any]
    """The keys of the writer."""
    arrays: list[Array]
    """The arrays; changing one changes memory alone."""
    bytes: int
    """Size of the file."""


def write_cache_file(file: int, header: dict[str, Any], arrays: Sequence[Array], stopped: Callable[[], bool]) -> None:
    """Write arrays and a header to an open, empty file; `stopped` is asked after every megabyte.

    Raises: OSError when the file cannot be written; WritingStopped; ValueError for a header that is no JSON.
    """
    place = _ALIGNMENT
    os.lseek(file, place, os.SEEK_SET)
    table = []
    for array in arrays:
        data = _bytes_of(array)
        digest = hashlib.blake2b(digest_size=8)
        for start in range(0, len(data), _CHUNK):
            chunk = data[start : start + _CHUNK]
            digest.update(_parity(chunk))
            _write(file, chunk)
            if stopped():
                raise WritingStopped
        table.append([array.dtype.str, list(array.shape), place, digest.hexdigest()])
        rest = -len(data) % _ALIGNMENT
        _write(file, memoryview(bytes(rest)))
        place += len(data) + rest
    text = json.dumps({**header, "arrays": table}, separators=(",", ":")).encode("ascii")
    _write(file, memoryview(text))
    os.lseek(file, 0, os.SEEK_SET)
    _write(file, memoryview(_PROLOGUE.pack(_MAGIC, place, len(text), _digest(text), boot())))


def read_cache_header(file: int) -> dict[str, Any]:
    """The header of an open cache file.

    Raises: CacheDamaged; OSError when the file cannot be read.
    """
    place, length, digest, _ = _read_prologue(file)
    return _header(_read_all(file, place, length), digest)


def map_cache_file(file: int) -> CacheContent:
    """The content of an open cache file; the arrays are mapped, and stay when the file is removed.

    Raises: CacheDamaged; OSError when the file cannot be read.
    """
    place, length, digest, checked_in = _read_prologue(file)
    header = _header(_read_all(file, place, length), digest)
    data = mmap.mmap(file, place + length, access=mmap.ACCESS_COPY)
    try:
        table = header.pop("arrays")
        arrays = [_array(data, place, entry) for entry in table]
        is_known = checked_in == boot() != _NO_BOOT
        if not is_known or place <= MAX_CHECKED_BYTES:
            _compare(arrays, (entry[3] for entry in table))
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise CacheDamaged(f"the table of arrays is damaged: {error}") from error
    if not is_known:
        _note_boot(file)
    return CacheContent(header, arrays, place + length)


def boot() -> bytes:
    """A number of the time since the machine was started, in which no file loses what was written; zeros if unknown."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            return bytes.fromhex(file.read(64).decode("ascii").strip().replace("-", ""))[:16].ljust(16, b"\0")
    except (OSError, ValueError):
        return _NO_BOOT


def _note_boot(file: int) -> None:
    """Note in a file that it has been checked since the machine was started."""
    with suppress(OSError):
        # The descriptor that the file is read by cannot write.
        again = os.open(f"/proc/self/fd/{file}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.pwrite(again, boot(), _BOOT_AT)
        finally:
            os.close(again)


def _read_prologue(file: int) -> tuple[int, int, bytes, bytes]:
    """Place, length and digest of the header, and the boot; the place and length are those of the file's end.

    Raises: CacheDamaged.
    """
    start = _read_all(file, 0, _PROLOGUE.size)
    magic, place, length, digest, checked_in = _PROLOGUE.unpack(start)
    if magic != _MAGIC or length > MAX_HEADER_BYTES or place % _ALIGNMENT or place < _ALIGNMENT:
        raise CacheDamaged("it does not begin as a cache file")
    if place + length != os.fstat(file).st_size:
        raise CacheDamaged("it is not as long as it should be")
    return place, length, digest, checked_in


def _read_all(file: int, place: int, length: int) -> bytes:
    parts, missing = [], length
    while missing:
        part = os.pread(file, missing, place + length - missing)
        if not part:
            raise CacheDamaged("it is too short")
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


def _header(text: bytes, digest: bytes) -> dict[str, Any]:
    if _digest(text) != digest:
        raise CacheDamaged("its header has changed")
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CacheDamaged(f"its header cannot be read: {error}") from error
    if not isinstance(header, dict):
        raise CacheDamaged("its header is no object")
    return header


def _array(data: mmap.mmap, end: int, entry: Sequence[Any]) -> Array:
    """An array of the table.

    Raises: ValueError, TypeError, IndexError for an entry that leads out of the data.
    """
    dtype, shape, place = np.dtype(entry[0]), tuple(entry[1]), entry[2]
    if dtype.kind not in "biuf" or any(not isinstance(each, int) or each < 0 for each in (*shape, place)):
        raise ValueError("an array of another type")
    count = int(np.prod(shape, dtype=object))
    if place < _ALIGNMENT or place % _ALIGNMENT or place + count * dtype.itemsize > end:
        raise ValueError("an array outside the file")
    if count == 0:
        return np.empty(shape, dtype)
    return np.frombuffer(data, dtype, count, place).reshape(shape)


def _compare(arrays: Iterable[Array], digests: Iterable[str]) -> None:
    """Compare arrays with their digests.

    Raises: CacheDamaged.
    """
    for array, known in zip(arrays, digests, strict=True):
        data = _bytes_of(array)
        digest = hashlib.blake2b(digest_size=8)
        for start in range(0, len(data), _CHUNK):
            digest.update(_parity(data[start : start + _CHUNK]))
        if digest.hexdigest() != known:
            raise CacheDamaged("its data have changed")


def _bytes_of(array: Array) -> memoryview:
    """The bytes of an array whose rows follow each other, without a copy."""
    return array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")


def _parity(chunk: memoryview) -> bytes:
    """Parity and sum of the words of a chunk: they find accidents, at ten times the speed of a cryptographic digest."""
    whole = len(chunk) & ~7
    words = np.frombuffer(chunk[:whole], np.uint64)
    sums = (np.bitwise_xor.reduce(words), np.add.reduce(words, dtype=np.uint64)) if whole else (0, 0)
    return struct.pack("<QQ", *map(int, sums)) + bytes(chunk[whole:])


def _digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=16).digest()


def _write(file: int, data: memoryview) -> None:
    """Write all of the data.

    Raises: OSError, also for a disk that takes no more.
    """
    while len(data):
        data = data[os.write(file, data) :]
