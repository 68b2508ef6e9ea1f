"""Makes the pictures of the screen in this folder, by running the app on sample traces and pressing `ctrl+s`.

`make pictures` runs it, in an environment in which tracetui is installed. It needs a Unix pseudo-terminal.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import shutil
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
SAMPLES = HERE.parent / "sample_traces"
COLUMNS, ROWS = 120, 40
QUIET, LONGEST = 1.0, 60.0
"""Seconds without output after which the screen is complete, and seconds after which waiting is given up."""
SAVE, QUIT = "\x13", "q"

PICTURES: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "screen.svg": (["mlp_train_cpu.json.gz", "--step", "3"], ["2", "jjjj"]),
    "comparison.svg": (["mlp_eager_cpu.json.gz", "mlp_compile_cpu.json.gz"], []),
}
"""File in this folder: the arguments of `tracetui`, with sample traces, and the keys to press, in groups."""


def main() -> None:
    """Make every picture anew."""
    for name, (words, keys) in PICTURES.items():
        with tempfile.TemporaryDirectory() as folder:
            take_picture(words, keys, Path(folder))
            (picture,) = Path(folder).rglob("*.svg")
            shutil.copyfile(picture, HERE / name)
        print(f"docs/{name}: {(HERE / name).stat().st_size / 1000:.0f} kB")


def take_picture(words: Sequence[str], keys: Sequence[str], folder: Path) -> None:
    """Run the app in a pseudo-terminal, press the keys, and save the screen below `folder`."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(SAMPLES)
        os.environ |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "XDG_DATA_HOME": str(folder)}
        os.environ.pop("NO_COLOR", None)
        os.execv(sys.executable, [sys.executable, "-m", "tracetui", *words])
    try:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        wait_until_quiet(terminal, at_least=3.0)
        for group in [*keys, SAVE, QUIT]:
            os.write(terminal, group.encode())
            wait_until_quiet(terminal)
    finally:
        os.close(terminal)
        os.waitpid(child, 0)


def wait_until_quiet(terminal: int, at_least: float = 0.0) -> None:
    """Read what the app draws until nothing comes for a while."""
    began = time.monotonic()
    while time.monotonic() - began < LONGEST:
        try:
            if select.select([terminal], [], [], QUIET)[0]:
                os.read(terminal, 1 << 16)
            elif time.monotonic() - began >= at_least:
                return
        except OSError:  # the app has ended
            return


if __name__ == "__main__":
    main()
