"""Names that try to steer the terminal: not one of their sequences is ever written, wherever they stand."""

from __future__ import annotations

import json
import sys

import pytest

from tests.terminal.hostile import PAYLOADS, hostile_document, hostile_file, steered
from tests.terminal.raw import Raw
from tracetui.cli.show import PANE_NAMES

KEYS = (
    *"1234567890MRH",
    *("\t", "\t", "\t", "w", "f", "g", ".", ".", "x", "]", "["),
    *("?", "j", "\x1b", "\x10", "DENWO", "\x1b", "/OWNED\r", "n", "\x1b", "FO\r", "\x1b", "m", "'", "\x1b"),
    *("b", "s", "\r", "A", "i", "i", "y", "Y", "e", "\x13", "t", "j", "\x1b"),
)
"""Through every pane and screen, out by every way."""
TITLE = PAYLOADS["title"]

pytestmark = pytest.mark.terminal


@pytest.fixture
def run(tmp_path):
    """A function that starts tracetui on a terminal whose every byte is seen."""
    started = []

    def start(*words, columns=120, rows=40):
        homes = {"XDG_DATA_HOME": str(tmp_path / "data"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
        started.append(Raw(sys.executable, "-m", "tracetui", *words, columns=columns, rows=rows, **homes))
        return started[-1]

    yield start
    for raw in started:
        raw.close()


def printed(raw):
    """What a text command wrote, without its own line breaks and looks; what is left of a payload is in it."""
    raw.exit_code()
    written = raw.written.replace(b"\r\n", b" ")
    for own in (b"\x1b[0m", b"\x1b[1m", b"\x1b[2m", b"\r\x1b[K"):
        written = written.replace(own, b"")
    return written


def test_the_payloads_would_be_noticed():
    for meant, payload in PAYLOADS.items():
        is_harmless = meant in ("markup", "marks", "endless")
        written = f"before {payload} after".encode("utf-8", "surrogatepass")
        assert bool(steered(written, has_left=False)) != is_harmless, meant
    text = json.dumps(hostile_document())
    assert all(json.dumps(payload)[1:-1] in text for payload in PAYLOADS.values())


@pytest.mark.parametrize(("columns", "rows"), [(160, 50), (80, 24)])
def test_the_app(run, tmp_path, columns, rows):
    raw = run(str(hostile_file(tmp_path)), columns=columns, rows=rows)
    raw.wait_for("Kernels", "GPU 0")
    raw.wait_until_quiet(0.3)
    for key in KEYS:
        raw.send(key)
        raw.wait_until_quiet(0.06)
        assert not steered(raw.written, has_left=False), key
    raw.send("\x03")
    assert raw.exit_code() == 0
    assert not steered(raw.written)


@pytest.mark.slow
@pytest.mark.parametrize("pane", PANE_NAMES)
def test_a_pane_as_text(run, tmp_path, pane):
    assert not steered(printed(run("show", pane, str(hostile_file(tmp_path)))), has_left=False)


@pytest.mark.parametrize("form", ["--plain", "--format=md", "--format=csv", "--format=json"])
def test_another_form(run, tmp_path, form):
    assert not steered(printed(run("show", "kernels", str(hostile_file(tmp_path)), form)), has_left=False)


@pytest.mark.parametrize(
    "words",
    [
        ("show", "kernels", f"/no/{TITLE}.json"),
        (f"/no/{TITLE}.json",),
        ("show", "kernels", "TRACE", "--sort", TITLE),
        ("show", TITLE, "TRACE"),
        ("show", "kernels", "TRACE", "--where", TITLE),
        ("show", "kernels", "TRACE", "--steps-by", TITLE),
        (f"--{TITLE}", "TRACE"),
        ("open", "TRACE", "--at", TITLE),
        ("run", TITLE),
    ],
)
def test_a_message(run, tmp_path, words):
    path = str(hostile_file(tmp_path))
    raw = run(*(path if word == "TRACE" else word for word in words))
    assert not steered(printed(raw), has_left=False)


def test_a_file_that_is_no_trace(run, tmp_path):
    path = tmp_path / f"{TITLE}\x9b.json"
    path.write_text(TITLE)
    raw = run(str(path))
    assert raw.exit_code() == 1
    assert not steered(raw.written)


def test_the_list_of_traces(run, tmp_path):
    hostile_file(tmp_path)
    raw = run(str(tmp_path))
    raw.wait_for("Which trace?", "OWNED")
    raw.send("\r")
    raw.wait_for("Kernels")
    raw.send("\x03")
    assert raw.exit_code() == 0
    assert not steered(raw.written)
