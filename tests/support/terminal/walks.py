"""The app in tmux: opened on a trace, and left with the shell as it was before."""

from __future__ import annotations

import sys

CLEAN = {"alternate_on": "0", "cursor_flag": "1", "mouse_any_flag": "0", "keypad_cursor_flag": "0", "insert_flag": "0"}


def opened(start, size, *words):
    """A tmux in which the app shows the kernels of a trace, or of a sample without a GPU the operators."""
    tmux = start(*size)
    at = "ops" if "cpu.json" in str(words[0]) else "kernels"
    tmux.command(sys.executable, "-m", "tracetui", *map(str, words), "--at", at)
    tmux.wait_for("Kernels", "step")
    return tmux


def left(tmux):
    """Quit, and see that the shell is back as it was."""
    tmux.press("q")
    assert tmux.exit_status() == 0
    assert "Traceback" not in tmux.screen()
    assert tmux.state() == CLEAN
