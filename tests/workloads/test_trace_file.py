"""Where a trace ends up: under its name, or the next that is free, whatever else records at the same time."""

from __future__ import annotations

import gzip
import os
from itertools import islice
from pathlib import Path

import pytest
from tracetui_workloads.recording.exceptions import RecordingError
from tracetui_workloads.recording.trace_file import TAIL_BYTES, move_to_destination, numbered, pack, replace_text


def test_names_are_numbered_before_their_suffixes() -> None:
    for name, second in (
        ("a.json.gz", "a-2.json.gz"),
        ("a.b.json", "a.b-2.json"),
        ("a", "a-2"),
        ("0.5.gz", "0.5-2.gz"),
    ):
        assert [path.name for path in islice(numbered(Path(name)), 2)] == [name, second]


@pytest.mark.parametrize("has_links", [True, False])
def test_a_name_that_was_taken_meanwhile_is_left_alone(
    has_links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    if not has_links:
        monkeypatch.setattr(os, "link", refused)
    out, part = tmp_path / "x.json.gz", tmp_path / "part"
    out.write_text("another's")
    (tmp_path / "x-2.json.gz").symlink_to("nothing")
    part.write_text("mine")
    assert move_to_destination(part, out, replace=False) == tmp_path / "x-3.json.gz"
    assert out.read_text() == "another's" and not part.exists()
    part.write_text("newer")
    assert move_to_destination(part, out, replace=True) == out
    assert out.read_text() == "newer"
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("name", ["x.json", "x.json.gz"])
@pytest.mark.parametrize("filling", [0, 3 * TAIL_BYTES])
def test_metadata_takes_the_place_that_was_kept_for_it(tmp_path: Path, name: str, filling: int) -> None:
    raw, part, out = tmp_path / "raw", tmp_path / "part", tmp_path / name
    raw.write_bytes(
        b'{"tracetui": {"token"}, "x": "' + b"y" * filling + b'", "traceName": "' + os.fsencode(raw) + b'"}'
    )
    pack(raw, part, out, b'{"token"}', b'{"a": 1}')
    text = gzip.decompress(part.read_bytes()) if name.endswith(".gz") else part.read_bytes()
    assert text.startswith(b'{"tracetui": {"a": 1}, "x"')
    assert text.endswith(b'"traceName": "' + os.fsencode(name) + b'"}')


def test_a_trace_without_the_place_for_its_metadata_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "raw").write_bytes(b"{}")
    with pytest.raises(RecordingError, match="lacks the metadata"):
        pack(tmp_path / "raw", tmp_path / "part", tmp_path / "x.json", b'{"token"}', b"{}")


@pytest.mark.parametrize("name", ["x.json", "x.json.gz"])
def test_a_text_in_a_kept_trace_is_replaced_once_or_nothing_is_written(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    packed = gzip.compress(b"one one") if name.endswith(".gz") else b"one one"
    path.write_bytes(packed)
    replace_text(path, b"two", b"three")
    assert path.read_bytes() == packed
    replace_text(path, b"one", b"two")
    found = path.read_bytes()
    assert (gzip.decompress(found) if name.endswith(".gz") else found) == b"two one"
    assert [each.name for each in tmp_path.iterdir()] == [name]
