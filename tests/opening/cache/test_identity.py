"""What a reading in the cache is of: one file in one state, read by one release."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tracetui.opening import cache_folder
from tracetui.opening.cache_folder import END_BYTES, identity_of, reading_version


def test_the_version_changes_with_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "tracetui"
    (copy / "opening").mkdir(parents=True)
    (copy / "__init__.py").write_text("__version__ = '1'")
    (copy / "panes.py").write_text("")
    (copy / "tables").mkdir()
    (copy / "tables" / "kernels.py").write_text("")
    monkeypatch.setattr(cache_folder, "__file__", str(copy / "opening" / "identity.py"))
    find = reading_version.__wrapped__
    before = find()
    (copy / "opening" / "more.txt").write_text("no code")
    assert find() == before
    (copy / "opening" / "more.py").write_text("x = 1")
    changed = find()
    (copy / "opening" / "more.py").write_text("x = 2")
    assert len({before, changed, find()}) == 3
    (copy / "__init__.py").unlink()
    assert find() == ""


@pytest.mark.parametrize("place", [0, 10, -1])
def test_a_change_at_an_end_is_seen_where_size_and_times_are_the_same(place: int, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    data = bytearray(b"a" * 3 * END_BYTES)
    path.write_bytes(data)
    before = identity_of(str(path))
    assert before is not None and identity_of(str(path)) == before
    data[place] += 1
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    with path.open("r+b") as file:
        file.write(data)
    os.utime(path, ns=times)
    after = identity_of(str(path))
    assert after is not None and after.modified_ns == before.modified_ns and after.bytes == before.bytes
    assert after.ends != before.ends


def test_a_change_in_the_middle_with_the_old_time_put_back_is_seen_by_the_time_of_the_change(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(b"a" * 3 * END_BYTES)
    before = identity_of(str(path))
    first = path.stat()
    # The clock of the file system goes in ticks of some milliseconds.
    while path.stat().st_ctime_ns == first.st_ctime_ns:
        with path.open("r+b") as file:
            file.seek(END_BYTES + 9)
            file.write(b"b")
        os.utime(path, ns=(first.st_atime_ns, first.st_mtime_ns))
    after = identity_of(str(path))
    assert before is not None and after is not None and after.ends == before.ends
    assert after.modified_ns == before.modified_ns and after != before


def test_what_is_no_file_has_no_identity(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in ("-", str(tmp_path), str(tmp_path / "none"), str(tmp_path / "pipe"), "/dev/null"):
        assert identity_of(path) is None
