"""A dropped connection, a signal, ctrl+c, ctrl+z: nothing is left behind, and the terminal is as it was."""

from __future__ import annotations

import os
import signal
import sys
import termios

import pytest

from tests.support.paths import SAMPLES
from tests.support.terminal.raw import GIVEN_BACK, Raw
from tests.support.terminal.recording import begin
from tests.support.terminal.walks import CLEAN, left
from tests.support.waiting import SOON
from tests.support.workloads.children import LIGHT_TORCH, needs_torch, own_function

EAGER = str(SAMPLES / "mlp_eager_cpu.json.gz")

pytestmark = pytest.mark.full


@pytest.fixture
def run():
    """A function that starts tracetui on a terminal whose every byte is seen."""
    started = []

    def start(*words, **environment):
        started.append(Raw(sys.executable, "-m", "tracetui", *words, **environment))
        return started[-1]

    yield start
    for raw in started:
        raw.close()


def cut(raw):
    """What a dropped connection does; the code is that of SIGHUP, which nobody reads."""
    raw.hang_up()


def hup(raw):
    """What a shell sends that is left."""
    os.kill(raw.process.pid, signal.SIGHUP)


def term(raw):
    """What `kill` sends."""
    os.kill(raw.process.pid, signal.SIGTERM)


def interrupt(raw):
    """What `kill -INT` sends; the app reads ctrl+c as a key."""
    os.kill(raw.process.pid, signal.SIGINT)


def quit_(raw):
    """What `kill -QUIT` sends, and ctrl+backslash while a text command runs; the system would write a core file."""
    os.kill(raw.process.pid, signal.SIGQUIT)


ENDS = [(cut, 129), (term, 143)]
# All signals are told in the same way, so that what else the app does is tried with one of them and without a line.
ALL_ENDS = [(cut, 129), pytest.param(term, 143, marks=pytest.mark.smoke), (hup, 129), (interrupt, 130), (quit_, 131)]


def is_over(raw, code):
    """Everything has ended soon, and a terminal that is still there was given back."""
    assert raw.exit_code(SOON) == code
    raw.wait_until_gone(SOON)
    if not raw.is_cut:
        assert not raw.is_raw()
        assert all(sequence in raw.written for sequence in GIVEN_BACK)
        assert b"Traceback" not in raw.written


@pytest.mark.parametrize(("end", "code"), ALL_ENDS)
def test_the_app(run, end, code):
    raw = run(EAGER)
    raw.wait_for("Kernels", "aten::linear")
    end(raw)
    is_over(raw, code)


@pytest.mark.parametrize(("end", "code"), ENDS)
def test_while_loading(run, tmp_path, end, code):
    endless = tmp_path / "endless.json"
    os.mkfifo(endless)
    raw = run(str(endless))
    raw.wait_for("opening", "quit")
    with open(endless, "w") as pipe:
        pipe.write('{"traceEvents": [')
        pipe.flush()
        end(raw)
        is_over(raw, code)


@needs_torch
@pytest.mark.parametrize(("end", "code"), ENDS)
def test_while_the_app_records(run, tmp_path, end, code):
    raw = run(str(tmp_path))
    begin(raw)
    assert len(raw.alive()) > 1
    end(raw)
    is_over(raw, code)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize(("end", "code"), [*ENDS, (hup, 129), (quit_, 131)])
def test_while_a_command_records(run, tmp_path, end, code):
    there, out = tmp_path / "there", tmp_path / "out"
    source = f"""
import subprocess, time
def step():
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    open({str(there)!r}, "w").close()
    time.sleep(600)
"""
    function = own_function(tmp_path / "own.py", source)
    raw = run("run", function, "--device", "cpu", "--no-open", "-o", str(out / "a.json.gz"), **LIGHT_TORCH)
    raw.wait_until(there.exists, "nothing is recorded")
    is_stopped(raw, end, code, out)


@needs_torch
def test_ctrl_c_while_a_command_compiles(run, tmp_path):
    out = tmp_path / "out"
    raw = run("run", "linear", "--compile", "--no-open", "-o", str(out / "a.json.gz"))
    raw.wait_for("compiling")
    is_stopped(raw, lambda raw: raw.send("\x03"), 130, out)


def is_stopped(raw, end, wanted, out):
    """A command that records ends soon, with all that it has started, and leaves no file."""
    assert len(raw.alive()) > 1
    end(raw)
    code = raw.exit_code(SOON)
    raw.wait_until_gone(SOON)
    # Nobody is left to be told, and that fails too.
    assert raw.is_cut or code == wanted
    assert not out.exists() or not list(out.iterdir())
    assert b"Traceback" not in raw.written


@needs_torch
def test_ctrl_c_while_the_app_records_stops_the_recording(run, tmp_path):
    raw = run(str(tmp_path))
    begin(raw)
    raw.send("\x03")
    is_over(raw, 0)


# From what else lies over a trace: `test_overlays.py`.
# The cursor is on the first letter.
@pytest.mark.parametrize(("keys", "shown"), [("", "Overview"), ("\x10", "earch for commands")], ids=["list", "palette"])
def test_ctrl_c_leaves_the_app_from(run, keys, shown):
    raw = run(EAGER)
    since = raw.wait_for("Kernels", "aten::linear")
    raw.send(keys)
    raw.wait_for(shown, since=since if keys else 0)
    raw.send("\x03")
    is_over(raw, 0)


def test_keys_after_the_one_that_quits_do_nothing(run):
    raw = run(EAGER)
    raw.wait_for("Kernels", "aten::linear")
    raw.send("qcd ..\r")
    is_over(raw, 0)


def test_ctrl_c_while_loading(run, tmp_path):
    endless = tmp_path / "endless.json"
    os.mkfifo(endless)
    raw = run(str(endless))
    raw.wait_for("opening", "quit")
    with open(endless, "w") as pipe:
        pipe.write('{"traceEvents": [')
        pipe.flush()
        raw.send("\x03")
        is_over(raw, 0)


@needs_torch
def test_ctrl_c_at_a_question(run, tmp_path):
    raw = run("run", "linear", "--guess", "-o", str(tmp_path / "a.json.gz"))
    raw.wait_for("Guess first", "? ")
    raw.send("\x03")
    assert raw.exit_code(SOON) == 130
    assert b"Traceback" not in raw.written


def test_ctrl_c_in_a_text_command(run, tmp_path):
    endless = tmp_path / "endless.json"
    os.mkfifo(endless)
    raw = run("show", "kernels", str(endless))
    with open(endless, "w") as pipe:
        pipe.write('{"traceEvents": [')
        pipe.flush()
        raw.send("\x03")
        assert raw.exit_code(SOON) == 130
    assert raw.written.replace(b"^C", b"").strip() == b""


@pytest.mark.parametrize(("end", "code"), [("\x03", 130), ("\x1c", 131), (term, 143), (hup, 129)])
def test_a_text_command_leaves_no_bar_and_shows_the_cursor(run, tmp_path, end, code):
    endless = tmp_path / "endless.json"
    os.mkfifo(endless)
    raw = run("show", "kernels", str(endless))
    event = '{"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":2},' * 10_000
    with open(endless, "w") as pipe:
        pipe.write('{"traceEvents": [')
        while b"reading endless.json" not in raw.written:
            pipe.write(event)
            pipe.flush()
            raw.wait_until_quiet(0.05)
        raw.send(end) if isinstance(end, str) else end(raw)
        assert raw.exit_code(SOON) == code
    assert raw.written.rindex(b"\x1b[?25h") > raw.written.rindex(b"\x1b[?25l")
    assert raw.written.rindex(b"\x1b[2K") > raw.written.rindex(b"reading endless.json")
    assert b"Traceback" not in raw.written


def test_suspended_and_brought_back(start):
    tmux = start(120, 40)
    # A shell with job control, whatever sh is.
    tmux.type("set -m; clear")
    tmux.press("Enter")
    tmux.type(f"{sys.executable} -m tracetui {EAGER} --at ops; echo exit status $?")
    tmux.press("Enter")
    tmux.wait_for("Kernels", "aten::linear", "ops 14")
    tmux.press(":ops", "Enter")
    tmux.wait_for("aten::gelu", "self CPU", "list:")
    before = tmux.settled()
    tmux.press("C-z")
    tmux.wait_for("Stopped")
    assert tmux.state() == CLEAN
    tmux.wait_for_shell()
    tmux.type("clear; fg")
    tmux.press("Enter")
    tmux.wait_for("Kernels", "aten::linear", "ops 14")
    assert tmux.settled() == before
    tmux.press("C-z")
    tmux.wait_for("Stopped")
    tmux.resize(80, 24)
    tmux.wait_for_shell()
    tmux.type("clear; fg; echo exit status $?")
    tmux.press("Enter")
    tmux.wait_for("Kernels", "aten::linear")
    tmux.press("q")
    assert tmux.exit_status() == 0
    assert tmux.state() == CLEAN


def shell_of(raw, on):
    """Have the terminal as a shell has it, or as an app does."""
    looks = termios.tcgetattr(raw.master)
    looks[3] = looks[3] | termios.ICANON | termios.ECHO if on else looks[3] & ~(termios.ICANON | termios.ECHO)
    termios.tcsetattr(raw.master, termios.TCSANOW, looks)


def test_stopped_by_force_and_brought_back(run):
    raw = run(EAGER)
    raw.wait_for("Kernels", "aten::linear")
    for by_shell in (False, True, False, True):
        os.kill(raw.process.pid, signal.SIGSTOP)
        if by_shell:
            shell_of(raw, on=True)
        since = len(raw.written)
        os.kill(raw.process.pid, signal.SIGCONT)
        if by_shell:
            since = raw.wait_for("\x1b[?1049h", "Kernels", since=since)
            assert raw.is_raw()
        raw.send("?")
        raw.wait_for("where", since=since)
        # Not with escape, which would make another key of the one that comes next.
        raw.send("?")
        raw.wait_until_quiet()
    raw.send("q")
    assert raw.exit_code() == 0
    assert not raw.is_raw()


def test_told_to_go_on_again_and_again(run):
    raw = run(EAGER)
    raw.wait_for("Kernels", "aten::linear")
    for _ in range(200):
        os.kill(raw.process.pid, signal.SIGCONT)
        raw.send("j")
    raw.wait_until_quiet()
    raw.send("q")
    assert raw.exit_code(SOON) == 0
    # The terminal is taken once.
    assert raw.written.count(b"\x1b[?1049h") == 1


def test_a_suspended_app_can_be_killed(run, tmp_path):
    raw = run(EAGER)
    raw.wait_for("Kernels", "aten::linear")
    raw.send("\x1a")
    raw.wait_for("\x1b[?1049l")
    raw.hang_up()
    raw.wait_until_gone(SOON)


def test_nothing_of_a_window_that_grew_is_left_above_the_prompt(start):
    tmux = start(80, 24)
    tmux.type("clear; echo the line above")
    tmux.press("Enter")
    tmux.command(sys.executable, "-m", "tracetui", EAGER, "--at", "ops")
    tmux.wait_for("Kernels", "aten::linear")
    tmux.resize(140, 45)
    tmux.wait_for("Kernels", "same  z fold  j k row")
    left(tmux)
    screen = tmux.screen()
    assert "the line above" in screen
    assert "aten::linear" not in screen
    assert "step" not in screen


def test_an_app_that_does_not_end_is_ended(run, tmp_path):
    stubborn = tmp_path / "stubborn.py"
    stubborn.write_text(
        "import sys, time\n"
        "from tracetui.ui.base import terminal_driver\n"
        "from tracetui.ui.trace.trace_view import TraceView\n"
        "from tracetui.cli.main import main\n"
        "terminal_driver.GRACE = 0.5\n"
        f"TraceView.action_mark = lambda self: (open({str(tmp_path / 'there')!r}, 'w').close(), time.sleep(600))\n"
        "sys.exit(main())\n"
    )
    raw = Raw(sys.executable, str(stubborn), EAGER, PYTHONPATH=os.getcwd())
    try:
        raw.wait_for("Kernels", "aten::linear")
        raw.send("m")
        raw.wait_until((tmp_path / "there").exists, "the key has done nothing")
        term(raw)
        is_over(raw, 143)
    finally:
        raw.close()
