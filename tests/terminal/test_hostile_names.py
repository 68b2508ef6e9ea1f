"""Names that try to steer the terminal: not one of their sequences is ever written, wherever they stand."""

from __future__ import annotations

import json
import re
import sys

import pytest

from tests.support.terminal.hostile import PAYLOADS, hostile_document, hostile_file, steered
from tests.support.terminal.raw import Raw
from tracetui.panes import PANES

KEYS = (
    *"1234567890MRH",
    *("\t", "\t", "\t", "w", "f", "g", ".", ".", "x", "]", "["),
    *("?", "j", "\x1b", "\x10", "DENWO", "\x1b", "/OWNED\r", "n", "\x1b", "FO\r", "\x1b", "m", "'", "\x1b"),
    *("b", "s", "\r", "A", "i", "i", "y", "Y", "e", "\x13", "t", "j", "\x1b"),
)
"""Through every pane and screen, out by every way."""
TITLE = PAYLOADS["title"]

pytestmark = pytest.mark.full


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
    raw.send("\x03")
    assert raw.exit_code() == 0
    # Once, for all keys: to read what was written again after each took longer than the app did.
    assert not steered(raw.written)


PRINTED = {pane: ("show", pane, "TRACE") for pane in PANES}
"""Commands that print and end; `TRACE` stands for the file. For messages and other forms see `test_streams.py`."""
ALL_OF_THEM = """
import json, sys
from tracetui.panes import PANES
from tracetui.cli.main import main
for name, words in json.loads(sys.argv[1]).items():
    try:
        code = main(words)
    except SystemExit as end:
        code = end.code
    sys.stderr.flush()
    print(f"=== {name} ended with {code} ===", flush=True)
"""


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What each of the commands wrote to a terminal, and its exit code; all of them in one process."""
    folder = tmp_path_factory.mktemp("hostile")
    trace = str(hostile_file(folder))
    asked = {name: [trace if word == "TRACE" else word for word in words] for name, words in PRINTED.items()}
    home = str(folder / "home")
    raw = Raw(sys.executable, "-c", ALL_OF_THEM, json.dumps(asked), XDG_DATA_HOME=home, XDG_CACHE_HOME=home)
    try:
        assert raw.exit_code() == 0
    finally:
        raw.close()
    # Without its own line breaks and looks: what is left of a payload stays.
    written = raw.written.replace(b"\r\n", b" ")
    for own in (b"\x1b[0m", b"\x1b[1m", b"\x1b[2m", b"\r\x1b[K"):
        written = written.replace(own, b"")
    parts = re.split(rb"=== ([^\x1b]+?) ended with (\d+) === ", written)
    return {
        name.decode(): (text, int(code)) for text, name, code in zip(parts[::3], parts[1::3], parts[2::3], strict=False)
    }


@pytest.mark.parametrize("name", PRINTED)
def test_what_a_command_prints(printed, name):
    text, code = printed[name]
    assert not steered(text, has_left=False)
    assert code == 0, text
    assert b"failed with" not in text
    assert b"OWNED" in text or name not in ("kernels", "ops")


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
