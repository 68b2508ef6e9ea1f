"""Packed files made to fill the memory: 20 times their size and what is taken beside, or a sentence."""

from __future__ import annotations

import gzip
import io
import resource
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random

import pytest
import zstandard

from tests.support.peak_memory import peak_of_loading
from tests.support.perfetto import writer as w
from tests.support.perfetto.writer import BEGIN, END, packet
from tracetui.errors import NotATrace, NotEnoughMemory, TraceError
from tracetui.reading import load_progress
from tracetui.reading.load import load
from tracetui.reading.load_progress import BESIDE, MOST_PER_BYTE
from tracetui.reading.source import MOST_INFLATED, open_source

MB = 1 << 20
EVENT = b'{"ph":"X","ts":1,"dur":1},'
NAME = b'[{"ph":"X","ts":1,"dur":1,"name":"'
SLACK = 32 * MB
"""What comes between two looks at the memory."""
needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs the /proc of Linux")


def repeated(count: int, head: bytes = NAME, byte: bytes = b"a") -> bytes:
    """A zstd frame of a head and blocks that repeat one byte 131,072 times, in four bytes each."""
    blocks = (len(head) << 3).to_bytes(3, "little") + head
    blocks += ((1 << 17 << 3 | 1 << 1).to_bytes(3, "little") + byte) * (count - 1)
    last = (1 << 17 << 3 | 1 << 1 | 1).to_bytes(3, "little") + byte
    return b"\x28\xb5\x2f\xfd\x00\x38" + blocks + last


def nearly_bombs(megabytes: int) -> Iterator[bytes]:
    """Events that deflate to somewhat more than a two-hundredth of their length, as noise stands between them."""
    random = Random(7)
    yield b"["
    for _ in range(megabytes):
        yield EVENT * (MB // len(EVENT))
        yield b'{"ph":"M","name":"%s"},' % random.randbytes(6000).hex().encode()
    yield EVENT[:-1] + b"]"


def zipped(data: bytes, method: int) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        archive.writestr("trace.json", data)
    return packed.getvalue()


def packets(pack: Callable[[bytes], bytes], megabytes: int) -> bytes:
    """A file of Perfetto whose slices are packed within it, and deflate to somewhat more than a two-hundredth."""
    random = Random(7)
    begin = packet(w.event(BEGIN, 7, name="x"), time=1000, sequence=1)
    pair = begin + packet(w.event(END, 7), time=1005, sequence=1)
    noise = (packet(w.data(900, random.randbytes(7000))) for _ in range(megabytes))
    return packet(w.thread(7, 77, 78, "io")) + b"".join(pack(pair * (MB // len(pair)) + each) for each in noise)


def twice_in_zip() -> bytes:
    return zipped(gzip.compress(NAME + b"a" * (100 * MB)), zipfile.ZIP_DEFLATED)


BOMBS: dict[str, Callable[[], bytes]] = {
    "zstd, a name": lambda: repeated(16_000),
    "zstd, blanks": lambda: repeated(16_000, b"[", b" "),
    "zstd, keys": lambda: repeated(16_000, b'{"a":"'),
    "gzip, a name": lambda: gzip.compress(NAME + b"a" * (100 * MB)),
    "zip, a name": lambda: zipped(NAME + b"a" * (100 * MB), zipfile.ZIP_DEFLATED),
    "zip of bzip2": lambda: zipped(NAME + b"a" * (100 * MB), zipfile.ZIP_BZIP2),
    "zip of LZMA": lambda: zipped(NAME + b"a" * (100 * MB), zipfile.ZIP_LZMA),
    "gzip in zip": twice_in_zip,
    "zlib in .pftrace": lambda: packet(w.data(50, zlib.compress(packet(w.data(23, bytes(60 * MB)))))),
    "zstd in .pftrace": lambda: packet(w.data(133, zstandard.compress(packet(w.data(23, bytes(60 * MB)))))),
    "zstd around .pftrace": lambda: repeated(16_000, b"\x0a" + w.varint(1 << 27)),
}
DEAR = ("zip of bzip2", "zip of LZMA", "zstd, blanks", "zstd, keys", "zstd in .pftrace")
"""Those that are of the full tier: each packing and each place of a text stay in the quick one."""
LONG_BOMBS: dict[str, Callable[[], bytes]] = {
    "gzip, events": lambda: gzip.compress(b"".join(nearly_bombs(200))),
    "zstd, events": lambda: zstandard.compress(b"".join(nearly_bombs(200))),
    "zip, events": lambda: zipped(b"".join(nearly_bombs(200)), zipfile.ZIP_DEFLATED),
    "gzip, a head": lambda: gzip.compress(b'{"a":[' + b",".join(nearly_bombs(150))),
    "zlib in .pftrace, slices": lambda: packets(w.deflated, 150),
    "zstd in .pftrace, slices": lambda: packets(w.zstd_packed, 150),
}


@cache
def long_bomb(name: str) -> bytes:
    """One of the long ones, which take seconds to make."""
    return LONG_BOMBS[name]()


@pytest.fixture(autouse=True)
def no_other_openings(monkeypatch):
    """What tests before these left open is granted nothing."""
    monkeypatch.setattr(load_progress.MemoryBudget, "_granted", 0)
    monkeypatch.setattr(load_progress.MemoryBudget, "_running", 0)


def packed_file(folder: Path, data: bytes, name: str = "packed.json") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


@needs_proc
@pytest.mark.parametrize("bomb", [pytest.param(each, marks=[pytest.mark.full] * (each in DEAR)) for each in BOMBS])
def test_a_bomb_takes_no_more_memory_than_promised(tmp_path, bomb):
    path = packed_file(tmp_path, BOMBS[bomb]())
    assert path.stat().st_size < MB
    first = "import zstandard, bz2, lzma, zipfile, tracetui.reading.perfetto.load"
    assert peak_of_loading(path, first) < BESIDE + MOST_PER_BYTE * path.stat().st_size


@needs_proc
@pytest.mark.full
@pytest.mark.parametrize("bomb", LONG_BOMBS)
def test_millions_of_events_take_no_more_memory_than_promised(tmp_path, bomb):
    path = packed_file(tmp_path, long_bomb(bomb))
    first = "import zstandard, tracetui.reading.perfetto.load"
    assert peak_of_loading(path, first) < BESIDE + MOST_PER_BYTE * path.stat().st_size + SLACK


@needs_proc
@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
@pytest.mark.full
def test_valid_events_beyond_the_budget_are_refused(tmp_path, monkeypatch, pack):
    """No limit of inflating holds here: it is less than 200 times as much, and each event is small and valid."""
    monkeypatch.setattr(load_progress, "BESIDE", 8 * MB)
    path = packed_file(tmp_path, pack(b"".join(nearly_bombs(24))))
    assert MOST_INFLATED * path.stat().st_size > 24 * MB
    with pytest.raises(NotATrace, match=r"needs more memory than \d+ MiB, 20 times its size and 8 MiB"):
        load(str(path))


def test_an_opening_beside_another_is_not_charged_for_it(tmp_path, monkeypatch):
    taken = 0
    monkeypatch.setattr(load_progress, "memory_of_process", lambda: taken)
    budgets = [load_progress.MemoryBudget(name, lambda: MB, lambda: 1 << 30) for name in ("one", "two")]
    taken = BESIDE + MOST_PER_BYTE * MB
    for each in budgets:
        each.check()
    taken *= 2
    budgets[0].check()
    with pytest.raises(NotATrace, match="one"):
        budgets[0].check(1)
    for each in budgets:
        each.close()
    taken = 0
    alone = load_progress.MemoryBudget("alone", lambda: MB, lambda: 1 << 30)
    taken = BESIDE + MOST_PER_BYTE * MB + 1
    with pytest.raises(NotATrace, match="alone"):
        alone.check()
    alone.close()


def test_a_file_that_cannot_reach_its_budget_is_never_looked_at(monkeypatch):
    monkeypatch.setattr(load_progress, "memory_of_process", lambda: 1 << 60)
    budget = load_progress.MemoryBudget("small", lambda: MB, lambda: 13 * MB)
    budget.check(1 << 60)
    budget.close()


def test_members_that_are_the_same_bytes_count_once(tmp_path):
    """A hundred entries of a directory lead to one member: the archive is read a hundred times."""
    path = tmp_path / "overlapping.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.json", b"[" + EVENT * 100_000 + b" " * (4 * MB) + EVENT[:-1] + b"]")
        archive.filelist *= 100
    source = open_source(str(path))
    buffer, total = memoryview(bytearray(MB)), 0
    while count := source.readinto(buffer):
        total += count
    source.close()
    assert total < 1 << 27
    assert "200 times as much" in (source.damage or "")


def test_a_frame_is_read_whatever_parts_it_has(tmp_path):
    """Sizes and checksums that are there or not, parts to skip, small blocks, and reads that end within a part."""
    text = b"[" + EVENT * 3000 + EVENT[:-1] + b"]"
    stream = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    flushed = (
        b"".join(
            stream.compress(text[at : at + 700]) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
            for at in range(0, len(text), 700)
        )
        + stream.flush()
    )
    skipped = b"\x51\x2a\x4d\x18" + (300_000).to_bytes(4, "little") + bytes(300_000)
    for data in (
        zstandard.ZstdCompressor(write_content_size=False).compress(text),
        zstandard.ZstdCompressor(write_checksum=True).compress(text),
        flushed,
        skipped + flushed + skipped,
        zstandard.compress(text[:50_000]) + skipped + zstandard.compress(text[50_000:]),
    ):
        trace = load(str(packed_file(tmp_path, data)))
        assert (trace.events, trace.quality.notes) == (3001, [])


LIMITED = """
import resource, sys
limit = int(sys.argv.pop(1)) << 20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
from tracetui.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
WAYS: dict[str, tuple[str, ...]] = {
    "show": ("show", "summary", "FILE"),
    "check": ("check", "FILE", "kernels == 5"),
    "cut": ("cut", "FILE", "--steps", "1", "-o", "OUT"),
    "repair": ("repair", "FILE", "-o", "OUT"),
    "report": ("report", "FILE", "-o", "OUT.html"),
    "ranks": ("ranks", "FILE", "FILE2"),
    "standard input": ("show", "summary", "-"),
}


def run_limited(tmp_path: Path, words: tuple[str, ...], data: bytes, megabytes: int) -> subprocess.CompletedProcess:
    path = packed_file(tmp_path, data)
    other = packed_file(tmp_path, data, "packed_rank1.json")
    names = {
        "FILE": str(path),
        "FILE2": str(other),
        "OUT": str(tmp_path / "out.json"),
        "OUT.html": str(tmp_path / "o.html"),
    }
    command = [sys.executable, "-c", LIMITED, str(megabytes), *(names.get(word, word) for word in words)]
    with path.open("rb") as given:
        return subprocess.run(command, stdin=given, capture_output=True, text=True, timeout=300, check=False)


@needs_proc
@pytest.mark.parametrize(
    "way", [way if way in ("show", "repair") else pytest.param(way, marks=pytest.mark.full) for way in WAYS]
)
def test_below_a_limit_of_the_process_every_way_ends_in_a_sentence(tmp_path, way):
    done = run_limited(tmp_path, WAYS[way], BOMBS["zstd, a name"](), 1024)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr and "failed with" not in done.stderr
    assert "as no trace does" in done.stderr
    assert not list(tmp_path.glob("o*"))


@needs_proc
@pytest.mark.nightly
@pytest.mark.parametrize("megabytes", [250, 300, 600])
@pytest.mark.parametrize("bomb", LONG_BOMBS)
def test_whatever_the_limit_of_the_process_is_it_ends_in_a_sentence(tmp_path, bomb, megabytes):
    done = run_limited(tmp_path, ("show", "summary", "FILE"), long_bomb(bomb), megabytes)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr and "failed with" not in done.stderr
    assert done.stderr.startswith("tracetui: ")


def test_the_limit_of_the_process_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64 * MB, resource.RLIM_INFINITY))
    path = packed_file(tmp_path, b"[" + EVENT * 9 + b"]")
    with pytest.raises(NotEnoughMemory, match=r"Its limit is 64 MiB \(`ulimit -v`\): raise it"):
        load(str(path))


def test_no_memory_and_no_thread_are_told_as_a_trace_that_cannot_be_opened(tmp_path, monkeypatch):
    path = packed_file(tmp_path, b"[" + EVENT * 9 + b"]")
    for error in (MemoryError(), RuntimeError("can't start new thread")):

        def failing(*_, error=error):
            raise error

        monkeypatch.setattr("tracetui.reading.load.assemble", failing)
        with pytest.raises(TraceError, match="not enough memory"):
            load(str(path))
