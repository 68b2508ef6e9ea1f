"""A cache file that was cut off, altered or changed hands gives the right trace or none, and never an error."""

from __future__ import annotations

import errno
import mmap
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.same_columns import columns_of
from tracetui.opening import cache_file
from tracetui.opening.cache_file import _PROLOGUE, CacheDamaged, boot, map_cache_file
from tracetui.opening.kept_traces import keep_trace, read_trace

KEPT_ACROSS = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)


class Kept:
    """A small trace in the cache, and how its file is exchanged."""

    def __init__(self, path: Path, cache: Path, read_again: list[str]) -> None:
        self.path, self.read_again = str(path), read_again
        trace = read_trace(self.path)
        self.columns = columns_of(trace)
        assert keep_trace(trace)
        (self.entry,) = cache.iterdir()
        self.data = self.entry.read_bytes()
        read_again.clear()

    def put(self, data: bytes) -> None:
        """Put other bytes in place of the file."""
        self.entry.unlink(missing_ok=True)
        self.entry.write_bytes(data)
        self.entry.chmod(0o600)
        self.read_again.clear()

    def is_read_again(self) -> bool:
        """Open the trace: it is the right one; whether it came from its own file, and the cache file has gone."""
        assert columns_of(read_trace(self.path)) == self.columns
        if self.read_again:
            assert not self.entry.exists()
        return bool(self.read_again)


@pytest.fixture
def kept(tmp_path: Path, cache: Path, read_again: list[str]) -> Kept:
    path = tmp_path / "t.json"
    path.write_text(
        '[{"ph":"X","pid":1,"tid":1,"ts":1,"dur":9,"cat":"cpu_op","name":"aten::mm","args":{"Input Dims":[[2,3]]}},'
        '{"ph":"X","pid":1,"tid":1,"ts":2,"dur":3,"name":"b"},{"ph":"C","pid":1,"ts":3,"name":"c","args":{"v":2.5}},'
        '{"ph":"i","pid":1,"tid":1,"ts":4,"name":"d","s":"t"}]'
    )
    return Kept(path, cache, read_again)


def test_a_whole_file_is_used_and_stays(kept: Kept) -> None:
    assert not kept.is_read_again() and kept.entry.exists()


@pytest.mark.full
def test_a_file_of_any_other_length_is_removed(kept: Kept) -> None:
    # Each length of the header, and then every eleventh: to map a file takes a system call.
    for length in (*range(min(300, len(kept.data))), *range(300, len(kept.data), 11), len(kept.data) - 1):
        kept.entry.write_bytes(kept.data[:length])
        with kept.entry.open("rb") as file, pytest.raises(CacheDamaged):
            map_cache_file(file.fileno())
    for length in range(0, len(kept.data), len(kept.data) // 20):
        kept.put(kept.data[:length])
        assert kept.is_read_again()
    for more in (b"\0", b"x" * 64):
        kept.put(kept.data + more)
        assert kept.is_read_again()


@KEPT_ACROSS
@given(st.data())
@pytest.mark.full
def test_a_file_with_other_bytes_is_removed_or_says_the_same(kept: Kept, data: st.DataObject) -> None:
    changed = bytearray(kept.data)
    for place in data.draw(st.lists(st.integers(0, len(changed) - 1), min_size=1, max_size=4, unique=True)):
        changed[place] ^= data.draw(st.integers(1, 255))
    kept.put(bytes(changed))
    kept.is_read_again()


def test_a_flipped_bit_in_a_column_is_found(kept: Kept) -> None:
    place = kept.data.index(b"[[2,3]]")
    kept.put(kept.data[:place] + b"[[2,4]]" + kept.data[place + 7 :])
    assert kept.is_read_again()


@KEPT_ACROSS
@given(st.data())
@pytest.mark.full
def test_a_header_that_leads_anywhere_is_refused(kept: Kept, data: st.DataObject) -> None:
    """The digest is that of the header: nobody but the user can write such a file, and it does no harm either."""
    _, place, length, _, checked_in = _PROLOGUE.unpack(kept.data[: _PROLOGUE.size])
    header = bytearray(kept.data[place : place + length])
    digits = [index for index, letter in enumerate(header) if chr(letter).isdigit()]
    for index in data.draw(st.lists(st.sampled_from(digits), min_size=1, max_size=3, unique=True)):
        header[index] = ord(data.draw(st.sampled_from("0123456789")))
    digest = cache_file._digest(bytes(header))
    prologue = _PROLOGUE.pack(cache_file._MAGIC, place, length, digest, checked_in)
    kept.put(prologue + kept.data[_PROLOGUE.size : place] + header)
    try:
        read_trace(kept.path)
    except OverflowError as error:  # pragma: no cover
        raise AssertionError("a number of the header was not checked") from error


def test_after_a_restart_the_columns_of_a_large_file_are_checked_once(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_file, "MAX_CHECKED_BYTES", 0)
    place = kept.data.index(b"[[2,3]]")
    lost = kept.data[:place] + bytes(7) + kept.data[place + 7 :]
    compared: list[int] = []
    compare = cache_file._compare

    def counted(arrays: Any, digests: Any) -> None:
        compared.append(1)
        compare(arrays, digests)

    monkeypatch.setattr(cache_file, "_compare", counted)
    assert not kept.is_read_again() and not compared
    now = boot()
    monkeypatch.setattr(cache_file, "boot", lambda: b"another machine!")
    assert not kept.is_read_again() and not kept.is_read_again() and len(compared) == 1
    monkeypatch.setattr(cache_file, "boot", lambda: now)
    assert not kept.is_read_again() and len(compared) == 2
    monkeypatch.setattr(cache_file, "boot", lambda: b"another machine?")
    kept.put(lost)
    assert kept.is_read_again()


def test_where_no_boot_is_known_columns_are_always_checked(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_file, "MAX_CHECKED_BYTES", 0)
    monkeypatch.setattr(cache_file, "boot", lambda: bytes(16))
    place = kept.data.index(b"[[2,3]]")
    for _ in range(2):
        kept.put(kept.data[:40] + bytes(16) + kept.data[56:place] + bytes(7) + kept.data[place + 7 :])
        assert kept.is_read_again()


def test_the_file_of_another_release_is_removed(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    from tracetui.opening import kept_traces

    monkeypatch.setattr(kept_traces, "reading_version", lambda: "newer")
    assert kept.is_read_again()


def test_a_link_is_not_followed(kept: Kept, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    shutil.copy(kept.entry, elsewhere)
    kept.entry.unlink()
    kept.entry.symlink_to(elsewhere)
    assert columns_of(read_trace(kept.path)) == kept.columns and kept.read_again
    assert elsewhere.exists()


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_to_which_others_can_write_is_not_used(kept: Kept, mode: int) -> None:
    kept.entry.chmod(mode)
    assert columns_of(read_trace(kept.path)) == kept.columns and kept.read_again


def test_a_folder_to_which_others_can_write_is_not_used(kept: Kept) -> None:
    kept.entry.parent.chmod(0o777)
    trace = read_trace(kept.path)
    assert kept.read_again and not keep_trace(trace)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_belongs_to_somebody_else_is_not_used(kept: Kept) -> None:
    os.chown(kept.entry, 12345, -1)
    assert columns_of(read_trace(kept.path)) == kept.columns and kept.read_again
    kept.entry.unlink()
    os.chown(kept.entry.parent, 12345, -1)
    assert not keep_trace(read_trace(kept.path))


def test_a_file_that_is_removed_while_it_is_mapped_stays_readable(kept: Kept) -> None:
    trace = read_trace(kept.path)
    kept.entry.unlink()
    assert columns_of(trace) == kept.columns and trace.event_of(0)["name"] == "aten::mm"


def test_a_file_that_cannot_be_mapped_now_stays(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOMEM, "no memory to map it")

    with monkeypatch.context() as patch:
        patch.setattr(mmap, "mmap", refuse)
        assert columns_of(read_trace(kept.path)) == kept.columns and kept.read_again
    kept.read_again.clear()
    assert kept.entry.exists() and not kept.is_read_again()
