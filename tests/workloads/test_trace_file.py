"""Where a trace ends up: under its name, or the next that is free, whatever else records at the same time."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

import pytest

from workloads.recording.trace_file import move_to_destination, numbered


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
