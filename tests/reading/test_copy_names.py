"""Directions of copies that stand beside the name: they get the name of all other recordings, or stay as they are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tracetui.model.trace import Trace
from tracetui.reading.load import load

SAID = {"copy kind": "DtoH", "src kind": "device", "dst kind": "pinned"}


def copied(tmp_path: Path, args: Mapping[str, object], category: str = "gpu_memcpy", name: str = "Memcpy") -> Trace:
    event = {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": 7, "ts": 10, "dur": 5, "args": args}
    path = tmp_path / "copies.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [event, {**event, "ts": 20}]}))
    return load(str(path))


def test_the_direction_stands_in_the_name(tmp_path: Path) -> None:
    trace = copied(tmp_path, SAID)
    assert [trace.name_of(row) for row in range(2)] == ["Memcpy DtoH (Device -> Pinned)"] * 2
    assert trace.store.event(0)["name"] == "Memcpy"


@pytest.mark.parametrize(
    "args",
    [
        {},
        {**SAID, "copy kind": "sideways"},
        {**SAID, "src kind": 3},
        {**SAID, "dst kind": "a) <b>"},
        {"copy kind": "HtoD"},
    ],
)
def test_what_says_no_direction_leaves_the_name(tmp_path: Path, args: dict[str, object]) -> None:
    assert copied(tmp_path, args).name_of(0) == "Memcpy"


def test_other_slices_of_that_name_are_no_copies(tmp_path: Path) -> None:
    assert copied(tmp_path, SAID, "cpu_op").name_of(0) == "Memcpy"
    assert (
        copied(tmp_path, SAID, name="Memcpy HtoD (Pageable -> Device)").name_of(0) == "Memcpy HtoD (Pageable -> Device)"
    )
