"""What leaves a command: clean in every format and on every stream, in any encoding, and with closed streams."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.paths import ROOT, SAMPLES
from tests.support.terminal.hostile import PAYLOADS, hostile_file, steered
from tracetui.cli.main import main
from tracetui.cli.show import FORMATS
from tracetui.cli.streams import console
from tracetui.panes import PANES
from tracetui.text import REPLACEMENT, clean, clean_lines

EAGER = SAMPLES / "mlp_eager_cpu.json.gz"
COMMANDS = {
    **{f"{pane} {form}": ["show", pane, "TRACE", "--format", form] for pane in PANES for form in FORMATS},
    **{f"{pane} plain": ["show", pane, "TRACE", "--plain"] for pane in PANES},
    "a step": ["show", "kernels", "TRACE", "--step", "1", "--where", "OWNED", "--sort", "name", "--limit", "3"],
    **{f"compare {form}": ["compare", "TRACE", "#1", "#2", "--format", form] for form in ("table", "json", "md")},
    "compare csv": ["compare", "TRACE", "#1", "#2", "--format", "csv", "--show", "kernels"],
    **{f"several {form}": ["compare", "TRACE", "#1", "#2", "#all", "--format", form] for form in FORMATS},
    **{
        f"check {form}": ["check", "TRACE", "kernels == 5", "--format", form]
        for form in ("text", "json", "junit", "md")
    },
    "check a baseline": ["check", "TRACE#1", "--baseline", "TRACE#2"],
    "check names": ["check", "--names", "TRACE"],
    "check a file": ["check", "TRACE", "kernels == 5", "-o", "OUT", "--summary", "junit=OUT2"],
    "report": ["report", "TRACE", "-o", "-"],
    "report of two": ["report", "TRACE#1", "TRACE#2", "-o", "OUT"],
    "cut": ["cut", "TRACE", "--steps", "1", "-o", "OUT.json"],
    "anonymise": ["cut", "TRACE", "--hash-names", "-o", "OUT.json"],
    "repair": ["repair", "TRACE", "-o", "OUT.json"],
    "repair json": ["repair", "TRACE", "-o", "OUT.json", "--format", "json"],
    "workloads": ["workloads"],
    "workloads json": ["workloads", "--json"],
}
"""Every command that prints and ends; `TRACE` stands for a hostile file, and `OUT` for one that is written."""
IN_SHORT = ("kernels table", "findings json", "compare md", "check text", "report", "repair", "workloads", "help")
"""Commands that are tried in another encoding in the quick tier."""
MISTAKES = {
    "steps by": ["show", "ops", "TRACE", "--steps-by", "PAYLOAD"],
    "sort": ["show", "ops", "TRACE", "--sort", "PAYLOAD"],
    "by": ["show", "ops", "TRACE", "--by", "PAYLOAD"],
    "where": ["show", "ops", "TRACE", "--where", "PAYLOAD", "--format", "csv"],
    "device": ["show", "ops", "TRACE", "--device", "PAYLOAD"],
    "pane": ["show", "PAYLOAD", "TRACE"],
    "option": ["show", "ops", "TRACE", "--PAYLOAD"],
    "no such file": ["show", "ops", "PAYLOAD"],
    "no such folder": ["cut", "TRACE", "-o", "no/PAYLOAD"],
    "a scope": ["compare", "TRACE", "#PAYLOAD", "#1"],
    "one side": ["compare", "TRACE"],
    "an expression": ["check", "TRACE", "PAYLOAD == 3"],
    "a file of expressions": ["check", "TRACE", "-f", "PAYLOAD"],
    "no workload": ["run", "PAYLOAD"],
    "no program": ["run", "PAYLOAD.py:step"],
    "a parameter": ["run", "linear", "--PAYLOAD"],
    "no command": ["PAYLOAD"],
    "describe": ["workloads", "PAYLOAD"],
}
"""Every way to be told of a mistake in words of others."""


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(hostile_file(tmp_path_factory.mktemp("hostile")))


def code_of(words: list[str]) -> object:
    try:
        return main(words)
    except SystemExit as end:
        return end.code


def is_quick(name: str) -> bool:
    """Whether a command is of the quick tier too: every pane as CSV, one in every format, all other commands."""
    pane, _, form = name.partition(" ")
    return pane not in PANES or pane == "kernels" or form == "csv"


def tried(names: Iterable[str], is_quick: Callable[[str], bool]) -> list[Any]:
    """Parameters by name, those that are not quick in the full tier alone."""
    return [pytest.param(name, marks=() if is_quick(name) else pytest.mark.full) for name in names]


@pytest.mark.parametrize("name", tried(COMMANDS, is_quick))
@pytest.mark.full
def test_names_from_a_trace_are_printed_clean(
    name: str, trace: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = [word.replace("TRACE", trace).replace("OUT", str(tmp_path / "out")) for word in COMMANDS[name]]
    code = code_of(words)
    output = capfd.readouterr()
    assert code in (0, 1), output.err
    assert "failed with" not in output.err and "Traceback" not in output.err
    for text in (output.out, output.err):
        assert steered(text.encode("utf-8", "surrogatepass"), has_left=False) == []
    for path in tmp_path.iterdir():
        # A trace is data, and stays what it was.
        if path.suffix != ".json":
            assert steered(path.read_bytes(), has_left=False) == []


@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.full
def test_words_of_others_in_messages_are_printed_clean(
    name: str, trace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    payload = "".join(PAYLOADS[each] for each in ("title", "colour", "report", "eight bit", "bidi"))
    code = code_of([word.replace("TRACE", trace).replace("PAYLOAD", payload) for word in MISTAKES[name]])
    output = capfd.readouterr()
    assert code in (1, 2) or name == "where", output.err
    assert "failed with" not in output.err
    for text in (output.out, output.err):
        assert steered(text.encode("utf-8", "surrogatepass"), has_left=False) == []


def test_what_rich_draws_is_cleaned_and_coloured() -> None:
    from rich.table import Table
    from rich.text import Text

    drawn = io.StringIO()
    table = Table("name\x1b[6n")
    table.add_row(Text("\x1b]0;OWNED\x07", style="bold"))
    console(drawn, force_terminal=True, color_system="standard", width=60).print(table)
    assert steered(drawn.getvalue().encode(), has_left=False) == []
    assert f"{REPLACEMENT}]0;OWNE" in drawn.getvalue() and "\x1b[1m" in drawn.getvalue()


@given(st.text(st.characters(categories=["Cc", "Cf", "Cs", "Co", "Lu", "Zl", "Zs", "So"]), max_size=60))
def test_each_unsafe_letter_is_replaced_and_no_other(text: str) -> None:
    unsafe = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
    wanted = [REPLACEMENT if category(one) in unsafe and one not in "\n\t" else one for one in text]
    assert clean_lines(text) == "".join(wanted)


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_lines_stay_lines_and_a_line_stays_one(payload: str) -> None:
    assert clean_lines(f"a\n\tb{payload}").startswith("a\n\tb")
    assert "\n" not in clean(payload) and "\r" not in clean_lines(payload)
    assert clean_lines(clean(payload)) == clean(payload)
    assert steered(clean_lines(payload).encode(), has_left=False) == []


@pytest.mark.parametrize(
    ("name", "encoding"),
    [
        *((name, "latin-1") for name in IN_SHORT),
        *(pytest.param(name, "ascii", marks=pytest.mark.full) for name in [*COMMANDS, "help"]),
    ],
)
def test_every_command_prints_in_any_encoding(
    name: str, encoding: str, trace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2)]
    monkeypatch.setattr(sys, "stdout", streams[0])
    monkeypatch.setattr(sys, "stderr", streams[1])
    words = ["--help"] if name == "help" else COMMANDS[name]
    code = code_of([word.replace("TRACE", trace).replace("OUT", str(tmp_path / "out")) for word in words])
    for stream in streams:
        stream.flush()
    errors = streams[1].buffer.getvalue().decode(encoding)
    assert code in (0, 1) and "failed with" not in errors and "cannot be written" not in errors, errors


def started(shell: str, *words: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """A command of its own, started by a shell that closes some of its streams."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {shell}', "sh", sys.executable, "-m", "tracetui", *words],
        capture_output=True,
        cwd=ROOT,
        timeout=60,
        env={**os.environ, **environment},
    )


@pytest.mark.full
def test_the_plain_locale_prints() -> None:
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = started("", "show", "summary", str(EAGER), **plain)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"?" in done.stdout and b"events" in done.stdout and done.stdout.isascii()


@pytest.mark.parametrize("shell", ["2>&-", "<&-", "<&- 2>&-", "<&- >&- 2>&-"])
@pytest.mark.full
def test_a_closed_stream_changes_nothing_else(shell: str, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    done = started(shell, "cut", str(EAGER), "--steps", "3", "-o", str(out))
    assert done.returncode == 0, done
    assert len(json.loads(out.read_text())["traceEvents"]) == 46
    assert "2>&-" in shell or b"kept 46 of 122" in done.stderr


def test_messages_do_not_go_into_a_file_that_is_open(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.json"
    damaged.write_text('{"traceEvents": [{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 2}, {"ph')
    before = damaged.read_bytes()
    done = started("<&- 2>&-", "show", "summary", str(damaged))
    assert (done.returncode, done.stderr) == (1, b"")
    assert damaged.read_bytes() == before and b"events" in done.stdout


@pytest.mark.parametrize("words", [["show", "summary", "-"], ["-"], ["run", "linear", "--active", "0"]])
@pytest.mark.full
def test_without_standard_input_a_sentence_is_told(words: list[str]) -> None:
    done = started("<&-", *words)
    assert done.returncode in (1, 2) and done.stderr.startswith(b"tracetui: "), done
    assert b"failed with" not in done.stderr
