"""Columns lent to other libraries through the Arrow C stream interface: numbers without a copy, and no dependency.

https://arrow.apache.org/docs/format/CDataInterface.html has the structures, CStreamInterface.html the stream and
CDataInterface/PyCapsuleInterface.html the capsule. Every structure consists of words of 64 bits. The last one is its
owner, a Python object that keeps what the others point to, with a reference that its release gives back. That may be
long after the stream, in any thread and while an exception is on its way, which a function in Python would lose:
`arrow.c` does it. Where it was not compiled, pyarrow lends the columns.
"""

from __future__ import annotations

import ctypes
import errno
from collections.abc import Callable, Mapping, Sequence
from ctypes import CFUNCTYPE, PYFUNCTYPE, addressof, c_char_p, c_int, c_int64, c_void_p, py_object, pythonapi
from functools import cache
from itertools import accumulate
from pathlib import Path
from struct import pack
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tracetui.errors import CannotRun
from tracetui.model.native import is_pure, native_library


class Lent(NamedTuple):
    """A column as it is lent."""

    name: str
    values: NDArray[Any]
    """float64, int64, bool, or int32 indices into `texts`."""
    nulls: NDArray[np.bool_]
    """Mask of the rows without a value."""
    texts: Sequence[str] | None
    metadata: Mapping[str, str]


CAPSULE = b"arrow_array_stream"
"""Name by which a library knows the content of the capsule."""
NULLABLE = 2
"""Flag of a field that may have nulls."""
FORMATS = {"f": b"g", "i": b"l", "b": b"b"}
"""Format of numbers by the kind of their type; texts have that of their indices."""
MAX_TEXT_BYTES = 2**31 - 1
"""Maximum bytes of the texts of a column, whose bounds have 32 bits."""
NOTHING: Mapping[str, str] = MappingProxyType({})
Words: TypeAlias = ctypes.Array[c_int64]
"""The memory of a structure."""

_new_capsule = PYFUNCTYPE(py_object, c_void_p, c_char_p, c_void_p)(("PyCapsule_New", pythonapi))
_set_context = PYFUNCTYPE(c_int, py_object, c_void_p)(("PyCapsule_SetContext", pythonapi))
_keep = PYFUNCTYPE(None, py_object)(("Py_IncRef", pythonapi))


def stream_capsule(columns: Sequence[Lent], rows: int, metadata: Mapping[str, str]) -> object:
    """A capsule with a stream of the columns as one batch, which can be taken once.

    Columns have `rows` values each and names that differ; they must not be changed while they are lent.
    Raises: CannotRun without a compiled library and without pyarrow.
    """
    called = _called()
    if called is None:
        return _lent_by_pyarrow(columns, metadata)
    source = _Source(called, columns, rows, metadata)
    _keep(source)
    stream = _words(called.get_schema, called.get_next, called.get_last_error, called.release_stream, id(source))
    memory = (stream, CAPSULE)
    capsule = _new_capsule(addressof(stream), CAPSULE, called.end_stream)
    _keep(memory)
    _set_context(capsule, id(memory))
    return capsule


def _lent_by_pyarrow(columns: Sequence[Lent], metadata: Mapping[str, str]) -> object:
    try:
        # It is not needed where there was a compiler.
        import pyarrow
    except ImportError as error:
        raise CannotRun(
            "tracetui was installed without a C compiler, and then pyarrow lends its tables: pip install pyarrow."
        ) from error
    arrays, fields = [], []
    for column in columns:
        array = pyarrow.array(column.values, mask=column.nulls)
        if column.texts is not None:
            array = pyarrow.DictionaryArray.from_arrays(array, pyarrow.array(column.texts, pyarrow.string()))
        arrays.append(array)
        fields.append(pyarrow.field(column.name, array.type, metadata=dict(column.metadata)))
    return pyarrow.table(arrays, pyarrow.schema(fields, dict(metadata))).__arrow_c_stream__()


def _words(*values: int) -> Words:
    return (c_int64 * len(values))(*values)


def _address(text: bytes) -> int:
    return ctypes.cast(c_char_p(text), c_void_p).value or 0


class _Source:
    """The owner of a stream: what it hands out."""

    def __init__(self, called: _Called, columns: Sequence[Lent], rows: int, metadata: Mapping[str, str]) -> None:
        self.called, self.columns, self.rows, self.metadata = called, columns, rows, metadata
        self.is_done, self.error = False, b""

    def schema(self) -> Words:
        """The structure that describes the batch."""
        fields = []
        for column in self.columns:
            texts = None if column.texts is None else self._schema(b"u")
            kind = FORMATS[column.values.dtype.kind] if texts is None else b"i"
            fields.append(self._schema(kind, column.name, column.metadata, NULLABLE, dictionary=texts))
        return self._schema(b"+s", metadata=self.metadata, children=fields)

    def batch(self) -> Words:
        """The structure of the batch, the first time; then one that is released, which is the end."""
        if self.is_done:
            return _words(*[0] * 10)
        # Before any structure has an owner, since this may fail.
        encoded = [None if column.texts is None else _encoded(column) for column in self.columns]
        arrays = []
        for column, texts in zip(self.columns, encoded, strict=True):
            dictionary = None if texts is None else self._array(len(texts[0]) - 1, 0, [None, *texts])
            values, nulls = column.values, int(column.nulls.sum())
            values = np.packbits(values, bitorder="little") if values.dtype.kind == "b" else values
            valid = np.packbits(~column.nulls, bitorder="little") if nulls else None
            arrays.append(self._array(self.rows, nulls, [valid, np.ascontiguousarray(values)], dictionary=dictionary))
        self.is_done = True
        return self._array(self.rows, 0, [None], arrays)

    def _schema(
        self,
        kind: bytes,
        name: str = "",
        metadata: Mapping[str, str] = NOTHING,
        flags: int = 0,
        children: Sequence[Words] = (),
        dictionary: Words | None = None,
    ) -> Words:
        parts = [part.encode() for pair in metadata.items() for part in pair]
        packed = pack("=i", len(metadata)) + b"".join(pack("=i", len(part)) + part for part in parts)
        texts = kind, name.encode(), packed
        head = *map(_address, texts), flags, len(children)
        return _structure(head, children, dictionary, self.called.release_schema, texts)

    def _array(
        self,
        length: int,
        nulls: int,
        buffers: Sequence[NDArray[Any] | None],
        children: Sequence[Words] = (),
        dictionary: Words | None = None,
    ) -> Words:
        addresses = _words(*(0 if each is None else each.ctypes.data for each in buffers))
        head = length, nulls, 0, len(buffers), len(children), addressof(addresses)
        return _structure(head, children, dictionary, self.called.release_array, (buffers, addresses))


def _structure(
    head: Sequence[int],
    children: Sequence[Words],
    dictionary: Words | None,
    release: int,
    kept: object,
) -> Words:
    """A structure that begins with some words, and keeps what these point to."""
    addresses = _words(*map(addressof, children))
    owner = kept, children, addresses, dictionary
    _keep(owner)
    texts = 0 if dictionary is None else addressof(dictionary)
    return _words(*head, addressof(addresses), texts, release, id(owner))


def _encoded(column: Lent) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """The bounds of the texts of a column, and their bytes."""
    parts = [text.encode() for text in column.texts or ()]
    bounds = list(accumulate(map(len, parts), initial=0))
    if bounds[-1] > MAX_TEXT_BYTES:
        raise OverflowError(f"the texts of the column {column.name} have more than {MAX_TEXT_BYTES:,} bytes")
    return np.array(bounds, np.int32), np.frombuffer(b"".join(parts) or b"\0", np.uint8)


class _Called(NamedTuple):
    """Addresses of the functions that whoever takes a stream calls."""

    get_schema: int
    get_next: int
    get_last_error: int
    release_schema: int
    release_array: int
    release_stream: int
    end_stream: int
    """Called with the capsule."""


@cache
def _called() -> _Called | None:
    """The functions, None without a compiled library."""
    path = Path(__file__).with_name("_arrow.so")
    library = None if is_pure() else native_library(path, path.with_name("arrow.c"))
    if library is None:
        return None
    names = ("Py_IsInitialized", "PyGILState_Ensure", "PyGILState_Release", "Py_DecRef")
    used = [getattr(pythonapi, name) for name in (*names, "PyCapsule_GetPointer", "PyCapsule_GetContext")]
    library.tracetui_python((c_void_p * len(used))(*(ctypes.cast(each, c_void_p).value for each in used)))

    def source(stream: int) -> _Source:
        owner = c_int64.from_address(stream + 4 * ctypes.sizeof(c_int64)).value
        of_stream: _Source = ctypes.cast(owner, py_object).value
        return of_stream

    def answer(stream: int, make: Callable[[_Source], Words], out: int) -> int:
        of_stream = source(stream)
        try:
            structure = make(of_stream)
        except BaseException as error:
            of_stream.error = str(error).encode()
            return errno.EIO
        ctypes.memmove(out, structure, ctypes.sizeof(structure))
        return 0

    asked, reported = CFUNCTYPE(c_int, c_void_p, c_void_p), CFUNCTYPE(c_void_p, c_void_p)
    asking = (
        asked(lambda stream, out: answer(stream, _Source.schema, out)),
        asked(lambda stream, out: answer(stream, _Source.batch, out)),
        reported(lambda stream: _address(source(stream).error) or None),
    )
    ends = ("release_schema", "release_array", "release_stream", "end_stream")
    functions = (*asking, *(getattr(library, f"tracetui_{name}") for name in ends))
    # What was lent may outlive this module.
    _keep(functions)
    return _Called(*(ctypes.cast(each, c_void_p).value or 0 for each in functions))
