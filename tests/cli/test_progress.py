"""The bar while a trace is read or written: on a terminal, not at once, and gone at the end."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest

from tests.support.paths import SAMPLES
from tracetui.cli import streams
from tracetui.cli.inputs import read_trace
from tracetui.cli.streams import TraceProgress, label_of, rate
from tracetui.reading.load_progress import LoadProgress


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        """Always."""
        return True


HALF = LoadProgress(60_000_000, 120_000_000, 410_000, "reading")


def drawn(stream: io.StringIO, *steps: LoadProgress, path: str = "/tmp/[red]a\x1b[31m.json") -> str:
    with TraceProgress(path, stream) as bar:
        for step in steps:
            bar.update(step)
        if bar._bar:
            bar._bar.refresh()
    return stream.getvalue()


def test_a_slow_trace_has_a_bar_that_vanishes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "DELAY", 0.0)
    monkeypatch.setenv("COLUMNS", "120")
    text = drawn(Terminal(), HALF)
    assert "reading [red]a\N{REPLACEMENT CHARACTER}[31m.json" in text and "410,000 events" in text
    assert text.endswith("\x1b[?25h\r\x1b[1A\x1b[2K")
    assert "writing standard input" in drawn(Terminal(), LoadProgress(1, None, 5, "writing"), path="-")


def test_a_fast_trace_and_a_pipe_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "DELAY", 1000.0)
    assert drawn(Terminal(), HALF, HALF) == ""
    monkeypatch.setattr(streams, "DELAY", 0.0)
    assert drawn(io.StringIO(), HALF, HALF) == ""


def test_how_fast_and_how_long_still() -> None:
    assert rate(HALF, 3.0) == "57.2 MiB, 410,000 events, 19.1 MiB/s, 3 s left"
    assert rate(LoadProgress(60_000_000, None, 1, "reading"), 3.0) == "57.2 MiB, 1 event, 19.1 MiB/s"
    assert rate(LoadProgress(0, 10, 0, "reading"), 0.0) == "0 B, 0 events, 0 B/s, 0 s left"
    assert label_of("a/b.json") == "b.json" and label_of("-") == "standard input"


def test_reading_tells_the_notes_of_a_trace(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    cut = tmp_path / "cut.json"
    text = gzip.decompress((SAMPLES / "mlp_eager_cpu.json.gz").read_bytes())
    cut.write_bytes(text[: len(text) // 2])
    read_trace(str(cut))
    assert "cut off" in capsys.readouterr().err
