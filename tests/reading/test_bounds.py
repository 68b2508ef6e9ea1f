"""Files made to fill the memory or to take forever: bounded, or refused in a sentence, and stopped at once."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from tests.support.peak_memory import peak_of_loading
from tracetui.errors import TracetuiError
from tracetui.reading.load import load

pytestmark = pytest.mark.full

LAST = b'{"ph":"X","ts":1,"dur":1}'
MB = 1 << 20
SHAPES = {
    "series in one event": lambda: (
        b"["
        + LAST
        + b',{"ph":"C","name":"c","ts":1,"args":{'
        + b",".join(b'"s%07d":1' % n for n in range(500_000))
        + b"}}]"
    ),
    "backslashes": lambda: b'[{"ph":"X","ts":1,"dur":1,"name":"' + b"\\" * (8 * MB),
    "brackets": lambda: b"[" * (10 * MB),
    "brackets in an event": lambda: b'[{"ph":"X","args":' + b"[" * (10 * MB),
    "objects in each other": lambda: b'{"a":' * MB,
    "empty objects": lambda: b"[" + b"{}," * MB + LAST + b"]",
    "numbers": lambda: b"[" + b"0," * MB + LAST + b"]",
    "asynchronous events": lambda: b"[" + b'{"ph":"b","ts":1},' * 200_000 + LAST + b"]",
    "metadata events": lambda: b"[" + b'{"ph":"M"},' * 400_000 + LAST + b"]",
    "threads": lambda: b"[" + b"".join(b'{"ph":"X","ts":1,"pid":%d},' % n for n in range(250_000)) + LAST + b"]",
    "keys behind the events": lambda: b'{"traceEvents":[' + LAST + b'],"x":[' + b'{"a":0},' * MB + b"0]}",
    "bytes that are no text": lambda: b"[" + LAST + b"," + b"\xff" * (4 * MB),
    "halves of characters": lambda: b'[{"ph":"X","ts":1,"dur":1,"name":"' + b"\\ud800" * MB + b'"},' + LAST + b"]",
    "tiny arrays": lambda: (b"[" + LAST + b"]") * 100_000,
}
MAX_RATIO = 20
ASKED_BEFORE, ASKED_AFTER = 5, 4
"""How often loading asks whether to stop before it is told to, and at most how often afterwards."""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs the /proc of Linux")
@pytest.mark.parametrize("shape", SHAPES)
def test_memory_is_in_proportion_to_the_file(tmp_path: Path, shape: str) -> None:
    path = tmp_path / "shape.json"
    path.write_bytes(SHAPES[shape]())
    # What the libraries and the chunks under way take of their own does not count: a few files are small.
    assert peak_of_loading(path, 'open(sys.argv[1], "rb").close()') < MAX_RATIO * path.stat().st_size + 64 * MB


@pytest.mark.parametrize("shape", SHAPES)
def test_loading_stops_once_it_is_told_to(tmp_path: Path, shape: str) -> None:
    """It asks all along, and ends once the answer is yes; seconds would measure the machine."""
    path = tmp_path / "shape.json"
    path.write_bytes(SHAPES[shape]())
    asked = 0

    def cancelled() -> bool:
        nonlocal asked
        asked += 1
        return asked >= ASKED_BEFORE

    with contextlib.suppress(TracetuiError):
        load(str(path), cancelled=cancelled)
    assert ASKED_BEFORE <= asked <= ASKED_BEFORE + ASKED_AFTER
