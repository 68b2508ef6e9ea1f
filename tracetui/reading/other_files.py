"""Files that are no traces and are often taken for one: what they are, by their content, and what to do with them.

Every way in asks here before it reads: opening, commands, ranks, the list of traces. What is told is one sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from tracetui.errors import NotATrace, OtherKind

LOG = "torch.compile log"
"""Format, and wrapping, of a log of torch.compile, which is read as the trace that it describes."""
PROBED_BYTES = 1 << 16
"""Bytes at the beginning of a file with which recognition is sure enough."""
_TORCH_LOG = rb"[VDIWEF]\d{4} \d\d:\d\d:\d\d\.\d+ \d+ \S+:\d+\] "
_SQLITE = b"SQLite format 3\0"
_NSIGHT_TABLES = (b"CUPTI_ACTIVITY_KIND", b"TARGET_INFO_", b"ENUM_NSYS", b"ENUM_CUDA_", b"NVTX_EVENTS", b"StringIds")
_ROCM_TABLES = (b"rocpd_", b"rocpd_op")
_SNAPSHOT_KEYS = (b"device_traces", b"allocator_settings", b"total_size", b"segment_pool_id")
_OLD_CHECKPOINT = bytes.fromhex("80028a0a6cfc9c46f9206aa85019")
"""A number that `torch.save` put in front until version 1.6."""


class OtherFile(NamedTuple):
    """A kind of file that is no trace."""

    name: str
    """The kind, as the end of a sentence that begins with `is`."""
    advice: str
    """The advice, as another half of that sentence; `{}` stands for the file."""
    matches: Callable[[bytes], object]
    """Match the first bytes of such a file."""


def _starts(*magics: bytes) -> Callable[[bytes], bool]:
    return lambda start: start.startswith(magics)


def _like(pattern: bytes, flags: int = 0) -> Callable[[bytes], object]:
    compiled = re.compile(pattern, flags)
    return lambda start: compiled.match(start)


def _has(magic: bytes, *words: bytes) -> Callable[[bytes], bool]:
    """Match files that begin so and have one of some words near their beginning."""
    return lambda start: start.startswith(magic) and any(word in start for word in words)


def is_snapshot(start: bytes) -> bool:
    """A pickle whose first keys are those of a snapshot of the allocator."""
    return start[:1] == b"\x80" and b"segments" in start[:128] and any(key in start for key in _SNAPSHOT_KEYS)


_JSON = rb'\s*\{(?:[^{}]{0,4096}?[{,])?\s*"'
OTHER_FILES = (
    OtherFile(
        "a Git LFS pointer, not the trace itself",
        "run `git lfs pull` where it was cloned",
        _starts(b"version https://git-lfs"),
    ),
    OtherFile(
        "an HTML page, not a trace",
        "the download may have failed, or a page was saved in place of the file",
        _like(rb"(?:\xef\xbb\xbf)?\s*(?:<!--.*?-->\s*)?<(?:!doctype html|html|head)", re.IGNORECASE | re.DOTALL),
    ),
    OtherFile(
        "an XML document, not a trace",
        "where it was downloaded, it may be the error of the server: look into it",
        _like(rb"(?:\xef\xbb\xbf)?\s*<(?:\?xml|Error>)"),
    ),
    OtherFile("a log of torch", "read it as text; a trace is what torch.profiler exports", _like(_TORCH_LOG)),
    OtherFile(
        "a memory snapshot of PyTorch",
        "`tracetui open {}` shows who holds the memory, and `tracetui show peak {}` prints it; this asks for a trace",
        is_snapshot,
    ),
    OtherFile(
        "a checkpoint of PyTorch",
        "torch.load reads it; a trace is what torch.profiler exports",
        lambda start: (
            start.startswith(_OLD_CHECKPOINT) or (start.startswith(b"PK\x03\x04") and b"data.pkl" in start[:512])
        ),
    ),
    OtherFile(
        "a pickle of Python",
        "only the program that wrote it should read it; export a trace with export_chrome_trace",
        _like(rb"\x80[\x02-\x05](?:[\x80-\x95\]}(cKMXGJNU]|\Z)"),
    ),
    OtherFile(
        "a ROCm profile (SQLite)",
        "rpd2tracing.py or `rocpd convert` makes a trace of it",
        _has(_SQLITE, *_ROCM_TABLES),
    ),
    OtherFile("an Nsight Compute report", "`ncu-ui {}` opens it", _starts(b"NVR\0")),
    OtherFile(
        "a profile of Linux perf", "`perf script -i {}` prints it, and speedscope shows that", _starts(b"PERFILE2")
    ),
    OtherFile(
        "a file of TensorBoard events",
        "`tensorboard --logdir` shows it; traces lie beside it, as *.pt.trace.json",
        # A record: a length, its checksum, and an event that gives the version.
        lambda start: start[12:13] == b"\x09" and b"brain.Event:" in start[:64],
    ),
    OtherFile(
        "weights in safetensors",
        "name the trace; this file holds tensors",
        # A length in eight bytes, and an object of JSON of that length.
        lambda start: start[8:10] == b'{"' and 2 <= int.from_bytes(start[:8], "little") < 1 << 27,
    ),
    OtherFile("an array of NumPy", "numpy.load reads it", _starts(b"\x93NUMPY")),
    OtherFile("an HDF5 file", "h5py reads it", _starts(b"\x89HDF\r\n\x1a\n")),
    OtherFile("a Parquet file", "pandas.read_parquet reads it", _starts(b"PAR1")),
    OtherFile("an Arrow file", "pyarrow reads it", _starts(b"ARROW1")),
    OtherFile(
        "a tar archive", "unpack it and name the trace in it: tar -xf {}", lambda start: start[257:262] == b"ustar"
    ),
    OtherFile("not a trace", "it starts with what xz packs, so unpack it first: xz -d {}", _starts(b"\xfd7zXZ\0")),
    OtherFile(
        "not a trace", "it starts with what bzip2 packs, so unpack it first: bzip2 -d {}", _like(rb"BZh[1-9]1AY&SY")
    ),
    OtherFile(
        "not a trace", "it starts with what lz4 packs, so unpack it first: lz4 -d {}", _starts(b"\x04\x22\x4d\x18")
    ),
    OtherFile("a 7z archive", "unpack it first: 7z x {}", _starts(b"7z\xbc\xaf\x27\x1c")),
    OtherFile("a program or a library (ELF)", "name the trace that it wrote", _starts(b"\x7fELF")),
    OtherFile("a program for Windows", "name the trace that it wrote", _like(rb"MZ[\x00-\xff]{58}.{2}\0\0", re.DOTALL)),
    OtherFile(
        "a picture",
        "name the trace that it shows",
        _starts(b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a"),
    ),
    OtherFile("a PDF document", "name the trace that it speaks of", _starts(b"%PDF-")),
    OtherFile("a script", "`tracetui run {}` records one in Python", _like(rb"#!\s*/")),
    OtherFile(
        "an execution trace (Chakra), not a timeline",
        "it holds operators without times: name the trace of torch.profiler that was recorded with it",
        _like(_JSON + rb'schema"\s*:\s*"[\d.]+-chakra'),
    ),
    OtherFile(
        "a profile of speedscope",
        "speedscope.app opens it",
        _like(_JSON + rb"\$schema\"\s*:\s*\"https?://www\.speedscope"),
    ),
    OtherFile(
        "a profile of rocprofv3",
        "`rocprofv3 --output-format pftrace` writes one that opens here",
        _like(_JSON + rb'rocprofiler-sdk-tool"\s*:'),
    ),
)
"""Kinds of files that are known at once, the first that matches counts."""
DATABASE = OtherFile(
    "an SQLite database without a table of Nsight Systems, not a trace",
    "open it with the program that wrote it; `nsys export --type sqlite` writes what opens here",
    _starts(_SQLITE),
)
"""A database whose tables are known, once it was opened, to be those of another program."""
_TABLES = (
    OtherFile(
        "a table of key_averages, not a trace",
        "export one with prof.export_chrome_trace",
        _like(rb"\s*(?:-{3,}[ \t]+){3,}-{3,}"),
    ),
    OtherFile(
        "stacks of export_stacks",
        "flamegraph.pl or speedscope.app shows them; export a trace with prof.export_chrome_trace",
        _like(rb"[^\n{}\[\]]+;[^\n{}\[\]]* \d+\r?\n"),
    ),
    OtherFile(
        "a table in CSV, not a trace",
        "open it as a table; a trace is what prof.export_chrome_trace writes",
        _like(rb"(?:\xef\xbb\xbf)?[^\n,{}\[\]:]{1,80}(?:[,;\t][^\n,{}\[\]:]{0,80}){2,}\r?\n[^\n{}\[\]]+(?:\n|\Z)"),
    ),
)
"""The same of texts, which only what holds no event is: a trace may have lost its beginning."""
_BY_NAME = (
    ((".qdstrm",), "an unfinished Nsight Systems report by its name", "`nsys-ui {}` opens it"),
    ((".ncu-rep",), "an Nsight Compute report by its name", "`ncu-ui {}` opens it"),
)
"""Kinds of files by the ending of their names, for bytes that nothing else is known of."""


_COMPILE_LOG = re.compile(rb"(?:[^\n]{0,4096}\n){0,16}?(?:\[rank\d+\]:)?" + _TORCH_LOG + rb'\{"')
_REPORTS = (".nsys-rep", ".qdrep")


def is_database(start: bytes) -> bool:
    """Tell whether a file begins as one of SQLite does: an export of Nsight Systems, or another database."""
    return start.startswith(_SQLITE)


def is_export(start: bytes) -> bool:
    """Tell whether the first bytes of a database name tables of Nsight Systems, as those of nearly all exports do."""
    return is_database(start) and any(word in start for word in _NSIGHT_TABLES)


def is_compile_log(start: bytes) -> bool:
    """Tell whether a file begins as a log of torch.compile does (`TORCH_TRACE`)."""
    return _COMPILE_LOG.match(start) is not None


def is_report(path: str) -> bool:
    """Tell whether a file is a report of Nsight Systems by its name, which its bytes do not tell."""
    return path.casefold().endswith(_REPORTS)


def other_file(start: bytes, is_eventless: bool = False) -> OtherFile | None:
    """The kind of file that begins so and is no trace; None for what may be one.

    `is_eventless` says that no event was found in it.
    """
    kinds = OTHER_FILES + (_TABLES if is_eventless else ())
    return next((kind for kind in kinds if kind.matches(start)), None)


def refuse_other_content(start: bytes, label: str, is_eventless: bool = False) -> None:
    """Raise NotATrace with a helpful sentence when the first bytes of a file are those of something known."""
    if not start:
        raise NotATrace(f"{label} is empty: the program that wrote it may not have finished.")
    kind = other_file(start, is_eventless)
    if kind is not None:
        raise OtherKind(label, kind.name, kind.advice)
    if is_eventless:
        for endings, name, advice in _BY_NAME:
            if label.endswith(endings) and b"\0" in start:
                raise OtherKind(label, name, advice)
