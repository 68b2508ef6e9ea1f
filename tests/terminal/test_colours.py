"""Any number of colours, and none: everything can be told apart, and nothing is sent that the terminal lacks."""

from __future__ import annotations

import json
import re
import sys

import pytest

from tests.support.paths import SAMPLES
from tests.support.terminal.cells import Terminal
from tests.support.terminal.raw import Raw
from tests.support.terminal.walks import left
from tracetui.ui.app import ANSI_DARK, ANSI_LIGHT, DARK, LIGHT, TraceApp, first_theme, next_theme

EAGER = SAMPLES / "mlp_eager_cpu.json.gz"
TERMINALS = {
    "xterm-256color": (256, {}),
    "xterm-256color, true colours": (1 << 24, {"COLORTERM": "truecolor"}),
    "tmux-256color": (256, {}),
    "screen-256color": (256, {}),
    "screen": (16, {}),
    "linux": (16, {}),
    "vt100": (16, {}),
    "xterm-256color, NO_COLOR": (0, {"NO_COLOR": "1", "COLORTERM": "truecolor"}),
}
"""The colours that a terminal is sent, by its type and what else its environment holds."""
ALIKE = {"tmux-256color": "xterm-256color", "screen-256color": "xterm-256color", "linux": "screen", "vt100": "screen"}
"""Those that are treated like another one."""
_LOOKS = re.compile(rb"\x1b\[([\d;]*)m")
_GARBAGE = re.compile(r"\?\d{4}|;default|\[\d|\\x1b|38;5|0m")


@pytest.fixture
def kernels(tmp_path):
    """A trace with three short kernels of different families beside each other, and a long one."""
    names = ("gemm_128x128", "Memcpy DtoD (Device -> Device)", "reduce_kernel", "ncclDevKernel_AllReduce_Sum_f32")
    events = [
        {"ph": "X", "cat": "gpu_memcpy" if "Memcpy" in name else "kernel", "name": name, "pid": 0, "tid": 7,
         "ts": 100 * place, "dur": 99 if place % 4 < 3 else 300,
         "args": {"stream": 7, "device": 0, "correlation": place}}
        for place, name in enumerate(names * 4)
    ]  # fmt: skip
    path = tmp_path / "families.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


def colours_sent(written):
    """How many colours a stream of bytes asks for: 0 for none, 16, 256 or all."""
    most = 0
    for found in _LOOKS.findall(written):
        parts = [int(part or 0) for part in found.split(b";")]
        if any(parts[i : i + 2] in ([38, 2], [48, 2]) for i in range(len(parts))):
            most = max(most, 1 << 24)
        elif any(parts[i : i + 2] in ([38, 5], [48, 5]) for i in range(len(parts))):
            most = max(most, 256)
        elif any(30 <= part % 60 < 38 or 40 <= part % 60 < 48 for part in parts if part % 60 not in (38, 48)):
            most = max(most, 16)
    return most


@pytest.mark.full
@pytest.mark.parametrize("terminal", [each for each in TERMINALS if each not in ALIKE])
def test_a_terminal_is_sent_the_colours_that_it_has(terminal):
    number, environment = TERMINALS[terminal]
    raw = Raw(
        sys.executable,
        "-m",
        "tracetui",
        str(EAGER),
        "--at",
        "ops",
        **{"TERM": terminal.partition(",")[0], **environment},
    )
    try:
        raw.wait_for("Kernels", "aten::linear", "aten::gelu")
        raw.send("2j.?\x1b/lin")
        raw.wait_until_quiet()
        raw.send("\x03")
        assert raw.exit_code() == 0
        assert colours_sent(raw.written) == number
    finally:
        raw.close()


@pytest.mark.parametrize(("terminal", "like"), ALIKE.items())
def test_terminals_that_are_treated_alike(monkeypatch, terminal, like):
    """All that the app takes from the type of a terminal is how many colours it has, and whether to use its own."""
    for name in ("NO_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    found = []
    for each in (terminal, like):
        monkeypatch.setenv("TERM", each)
        app = TraceApp([str(EAGER)])
        found.append((app.console.color_system, app.is_plain, app.native_ansi_color))
    assert found[0] == found[1]
    assert found[0][0] == {16: "standard", 256: "256"}[TERMINALS[terminal][0]]


@pytest.mark.full
@pytest.mark.parametrize("terminal", ["linux", "tmux-256color"])
def test_nothing_odd_is_shown(start, terminal):
    tmux = start(100, 30)
    tmux.type("clear")
    tmux.press("Enter")
    tmux.command("env", f"TERM={terminal}", sys.executable, "-m", "tracetui", str(EAGER), "--at", "ops")
    tmux.wait_for("Kernels", "aten::linear", "ops 14")
    tmux.press(":ops", "Enter")
    screen = tmux.wait_for("self CPU")
    assert not _GARBAGE.search(screen.replace("[2]", "").replace("[▇", ""))
    left(tmux)


@pytest.mark.full
@pytest.mark.parametrize("environment", ["NO_COLOR=1", "TERM=screen", "TRACETUI_THEME=ansi-light"])
def test_where_colours_do_not_suffice_families_have_textures_and_the_cursor_is_in_reverse(start, kernels, environment):
    tmux = start(80, 24)
    tmux.command("env", environment, sys.executable, "-m", "tracetui", str(kernels), "--at", "kernels")
    lanes = tmux.wait_for("GPU 0 s7", "Kernels", "▸").partition("Kernels")[0].lower()
    if "THEME" not in environment:
        assert len(set(lanes) & set("█▓▒░=")) >= 2 and "nccl al" in lanes
    # Only while the list has the focus.
    tmux.wait_for_look("▸", "reverse")
    tmux.press("Tab")
    tmux.wait_for_look("▸", "reverse", False)
    assert tmux.cell("▸").bold
    left(tmux)


@pytest.mark.full
def test_the_line_of_the_palette_is_seen_without_colours(start):
    tmux = start(100, 30)
    tmux.command("env", "NO_COLOR=1", sys.executable, "-m", "tracetui", str(EAGER), "--at", "ops")
    tmux.wait_for("Kernels", "aten::linear")
    tmux.press("C-p")
    tmux.wait_for("Search for commands", "Panes of Trace")
    tmux.press("Down")
    tmux.press("Down")
    second = "Panes of Kernels", "Panes of Idle"
    tmux.wait_until(lambda _: any(tmux.cell(each).underscore for each in second), "no line is seen")
    assert not tmux.cell("Panes of Trace").underscore
    tmux.press("Escape")
    tmux.wait_until_gone("Search for commands")
    left(tmux)


def first_line(painted: str) -> list[tuple]:
    """What is seen of the first line; of blanks neither the colour of the text nor how they came about is."""
    terminal = Terminal(100, 1)
    terminal.write(painted.splitlines()[0])
    return [cell for cell in terminal.cells()[0] if cell[0] != " "]


@pytest.mark.full
def test_ctrl_t_goes_through_the_themes_and_comes_back(start):
    tmux = start(100, 30)
    tmux.command(sys.executable, "-m", "tracetui", str(EAGER), "--at", "ops")
    tmux.wait_for("Kernels", "aten::linear", "ops 14")
    looks: list[str] = []
    for _ in range(4):
        looks.append(tmux.settled(looks[-1] if looks else "", looks=True))
        tmux.press("C-t")
    assert len(set(looks)) == 4
    # What was only counted later has changed by now; the colours of the first line have not.
    tmux.wait_for("ops 14")
    tmux.settled(looks[-1], looks=True)
    assert first_line(tmux.painted()) == first_line(looks[0])
    left(tmux)


@pytest.mark.parametrize(
    ("environment", "is_plain", "theme"),
    [
        ({}, False, DARK),
        ({"COLORFGBG": "15;0"}, False, DARK),
        ({"COLORFGBG": "0;15"}, False, LIGHT),
        ({"COLORFGBG": "0;default;15"}, True, ANSI_LIGHT),
        ({}, True, ANSI_DARK),
        ({"TRACETUI_THEME": "light"}, False, LIGHT),
        ({"TRACETUI_THEME": "light"}, True, ANSI_LIGHT),
        ({"TRACETUI_THEME": "ansi-dark", "COLORFGBG": "0;15"}, False, ANSI_DARK),
        ({"TRACETUI_THEME": "mauve"}, False, DARK),
    ],
)
def test_the_first_theme_suits_the_terminal(environment, is_plain, theme):
    assert first_theme(environment, is_plain) == theme.name


def test_a_plain_terminal_keeps_its_own_colours():
    assert next_theme(ANSI_DARK.name, True) == ANSI_LIGHT.name
    assert next_theme(ANSI_LIGHT.name, True) == ANSI_DARK.name
