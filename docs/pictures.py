"""Makes the pictures of the screen in this folder, by running the app and pressing `ctrl+s`.

`make pictures` runs it, in an environment in which tracetui is installed. It needs a Unix pseudo-terminal. Pictures
without a GPU show the sample traces, those with one the trace that `example_trace.py` writes. `tour.cast` is what the
app writes while a few keys are pressed, for asciinema, and `tour.svg` goes through its screens by itself. Names on the
command line choose some of the pictures.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
SAMPLES = HERE.parent / "sample_traces"
EXAMPLE = "train.json.gz"
"""Name of the trace with a GPU."""
RANKS = ".ranks"
"""The folder with a simulated set of ranks, which no list of traces shows."""
COLUMNS, ROWS = 120, 36
QUIET, LONGEST = 1.0, 60.0
"""Seconds without output after which the screen is complete, and seconds after which waiting is given up."""
HINTS = b"help"
"""Stands in the key hints, which come with the first view."""
SAVE, QUIT = "\x13", "\x03"
TAB, ENTER, PAGE_DOWN = "\t", "\r", "\x04"


class Screen(NamedTuple):
    """What a picture shows."""

    words: Sequence[str]
    """The arguments of `tracetui`."""
    keys: Sequence[str] = ()
    """The keys to press, in groups between which the screen comes to rest."""
    settle: float = 3.0
    """Seconds before the first key, at least."""
    folder: str = ""
    """Where the app runs, from the folder with the traces on."""
    size: tuple[int, int] = (COLUMNS, ROWS)
    """Columns and rows."""
    theme: str = "dark"


SIZES, THEMES = ((200, 50), (120, 40), (80, 24)), ("dark", "light")
"""Sizes and themes in which the overview and the timeline are shown."""
PICTURES = {
    **{
        f"{name}-{size[0]}x{size[1]}-{theme}.svg": Screen([EXAMPLE], keys, size=size, theme=theme)
        for name, keys in (("overview", []), ("timeline", ["2", ".."]))
        for size in SIZES
        for theme in THEMES
    },
    "flame.svg": Screen([EXAMPLE], ["P"]),
    "comparison.svg": Screen(["mlp_eager_cpu.json.gz", "mlp_compile_cpu.json.gz"]),
    "kernels.svg": Screen([EXAMPLE], ["2", ".."]),
    "details.svg": Screen([EXAMPLE], ["2", "..", TAB, TAB, "Z"]),
    "gaps.svg": Screen([EXAMPLE], ["6", ENTER]),
    "findings.svg": Screen([EXAMPLE], ["7"]),
    "modules.svg": Screen([EXAMPLE], ["C", "jjjl"]),
    "occupancy.svg": Screen([EXAMPLE], [":occupancy\r", PAGE_DOWN]),
    "ranks.svg": Screen(["open", "run"], ["j", "k"], folder=RANKS),
    "steps.svg": Screen([EXAMPLE], ["B"]),
    "traces.svg": Screen(["."], [" j j"], 20.0),
    "recording.svg": Screen(["."], ["r", "jj", ENTER], 20.0),
    "help.svg": Screen([EXAMPLE], ["?"]),
}
"""The pictures by file in this folder."""
TOUR = Screen([EXAMPLE], ["j", ENTER, "2", ".", "f", "P"], size=(110, 32))
"""What `tour.cast` and `tour.svg` go through."""
SECONDS_PER_SCREEN = 2.5
LISTED = ("mlp_eager_cpu.json.gz", "mlp_compile_cpu.json.gz", "attention_naive_cpu.json.gz", "mlp_train_cpu.json.gz")
"""The sample traces in the folder in which the app runs; with the example they are the list of traces."""


def main() -> None:
    """Make the pictures that are named on the command line, or every one."""
    with tempfile.TemporaryDirectory() as folder:
        make_traces(Path(folder))
        for name in sys.argv[1:] or (*PICTURES, "tour.cast", "tour.svg"):
            if name.startswith("tour"):
                (record_tour if name.endswith("cast") else draw_tour)(Path(folder), HERE / name)
                continue
            with tempfile.TemporaryDirectory() as out:
                take_picture(PICTURES[name], Path(folder), Path(out))
                (picture,) = Path(out).rglob("*.svg")
                shutil.copyfile(picture, HERE / name)
            print(f"docs/{name}: {(HERE / name).stat().st_size / 1000:.0f} kB")


def make_traces(folder: Path) -> None:
    """Put the traces into a folder, each some hours older than the one before."""
    subprocess.run([sys.executable, HERE / "example_trace.py", folder / EXAMPLE], check=True)
    for name in LISTED:
        shutil.copyfile(SAMPLES / name, folder / name)
    write = "import sys, pathlib, tests.support.rank_files as f; f.write_ranks(pathlib.Path(sys.argv[1]), 8)"
    subprocess.run([sys.executable, "-c", write, folder / RANKS / "run"], check=True, cwd=HERE.parent)
    now = time.time()
    for hours, name in enumerate((EXAMPLE, *LISTED), 2):
        os.utime(folder / name, (now, now - 3600 * hours))


def record_tour(traces: Path, path: Path) -> None:
    """Write what the app draws during the tour, with its times, as asciinema reads it (version 2)."""
    drawn: list[tuple[float, bytes]] = []
    with tempfile.TemporaryDirectory() as out:
        take_picture(TOUR, traces, Path(out), drawn, saves=False)
    lines = [json.dumps({"version": 2, "width": TOUR.size[0], "height": TOUR.size[1]})]
    moment, before = 0.0, drawn[0][0] if drawn else 0.0
    for at, text in drawn:
        moment, before = moment + min(at - before, SECONDS_PER_SCREEN), at
        lines.append(json.dumps([round(moment, 3), "o", text.decode("utf-8", "replace")]))
    path.write_text("\n".join(lines) + "\n")


def draw_tour(traces: Path, path: Path) -> None:
    """Write the screens of the tour as one picture that shows one after the other."""
    screens = []
    with tempfile.TemporaryDirectory() as out:
        keys = [each for key in TOUR.keys for each in (SAVE, key)]
        take_picture(TOUR._replace(keys=keys), traces, Path(out))
        screens = [each.read_text() for each in sorted(Path(out).rglob("*.svg"), key=lambda each: each.stat().st_mtime)]
    box = screens[0].split('viewBox="', 1)[1].split('"', 1)[0]
    whole, share = SECONDS_PER_SCREEN * len(screens), 1 / len(screens)
    frames = []
    for index, text in enumerate(screens):
        times = f"0;{index * share:.4f};{(index + 1) * share:.4f}"
        frames.append(
            f'<g visibility="hidden"><animate attributeName="visibility" dur="{whole}s" repeatCount="indefinite" '
            f'calcMode="discrete" values="hidden;visible;hidden" keyTimes="{times}"/>{text}</g>'
        )
    path.write_text(f'<svg viewBox="{box}" xmlns="http://www.w3.org/2000/svg">{"".join(frames)}</svg>\n')


def take_picture(
    screen: Screen, traces: Path, folder: Path, drawn: list[tuple[float, bytes]] | None = None, saves: bool = True
) -> None:
    """Run the app in a pseudo-terminal among the traces, press the keys, and save the screen below `folder`.

    What it writes, with the times, is added to `drawn`.
    """
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(traces / screen.folder)
        data, cache = str(folder), str(traces / ".cache")
        os.environ |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "XDG_DATA_HOME": data}
        os.environ |= {"XDG_CACHE_HOME": cache, "TRACETUI_THEME": screen.theme}
        os.environ.pop("NO_COLOR", None)
        os.execv(sys.executable, [sys.executable, "-m", "tracetui", *screen.words])
    try:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *reversed(screen.size), 0, 0))
        wait_until_quiet(terminal, screen.settle, HINTS, drawn)
        for group in [*screen.keys, *([SAVE] if saves else []), QUIT]:
            os.write(terminal, group.encode())
            wait_until_quiet(terminal, drawn=drawn)
    finally:
        os.close(terminal)
        os.waitpid(child, 0)


def wait_until_quiet(
    terminal: int, at_least: float = 0.0, text: bytes = b"", drawn: list[tuple[float, bytes]] | None = None
) -> None:
    """Read what the app draws until a text was there and then nothing comes for a while."""
    began = time.monotonic()
    seen = b""
    while time.monotonic() - began < LONGEST:
        try:
            if select.select([terminal], [], [], QUIET)[0]:
                read = os.read(terminal, 1 << 16)
                seen += read
                if drawn is not None:
                    drawn.append((time.monotonic(), read))
            elif text in seen and time.monotonic() - began >= at_least:
                return
        except OSError:  # the app has ended
            return


if __name__ == "__main__":
    main()
