"""A monkey at the keyboard: `python -m tests.load.monkey TRACE TRACE TRACE --minutes 20`.

It presses twenty keys a second at random, in a pseudo terminal, opens the traces one after another, resizes the
screen now and then, and every ten seconds asks for help, which must come. An app that is told to quit takes note of
it and stays (`staying.py`): until the monkey has played enough, any end is one that nobody asked for, and fails. At
the end it says how long the longest answer took, how much memory the app held over time, and whether anything was
written to the log of crashes.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median

from tests.load.staying import LEAVE, quits
from tests.support.memory import resident
from tests.support.terminal.painted import Painted, words
from tests.support.terminal.raw import Raw

RATE = 20
"""Keys a second."""
ROUND = 10.0
"""Seconds between two questions."""
POLL_SECONDS = 60.0
"""Seconds that an answer may take."""
SIZES = ((200, 50), (80, 24), (120, 40), (60, 12), (300, 80))
ESCAPE, ENTER, TAB, BACKSPACE = "\x1b", "\r", "\t", "\x7f"
ARROWS = ("\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D", "\x1b[5~", "\x1b[6~", "\x1b[H", "\x1b[F", "\x1b[Z")
CLICKS = ("\x1b[<0;{x};{y}M\x1b[<0;{x};{y}m", "\x1b[<64;{x};{y}M", "\x1b[<65;{x};{y}M")
CONTROLS = "\x04\x15\x10\x14\x0e\x0c"
"""ctrl+d, u, p, t, n and l."""
LEAVING = "\x03"
"""ctrl+c, which leaves from everywhere."""
ASK = "?"
ANSWER = re.compile(r"keys +does .*for")
"""The header of every help."""
PLAIN = tuple(map(chr, range(0x20, 0x7F)))


@dataclass
class Diary:
    """What was seen."""

    keys: int = 0
    answers: list[float] = field(default_factory=list)
    """Seconds until help came."""
    unheard: list[str] = field(default_factory=list)
    """The screen for each time that it had to be asked for again, after so long as an answer may take."""
    quits: int = 0
    """Times that the app was told to quit, and stayed."""
    memory: list[tuple[float, int]] = field(default_factory=list)
    """Seconds since the start and bytes."""
    crashes: list[str] = field(default_factory=list)
    code: int | None = None
    """What the app ended with, when it was asked to."""

    @property
    def slowest(self) -> float:
        """The longest that an answer took, in seconds."""
        return max(self.answers, default=0.0)

    @property
    def quarters(self) -> list[int]:
        """The median of the bytes that were held, of each quarter of the time."""
        held = [held for _, held in self.memory]
        bounds = [len(held) * quarter // 4 for quarter in range(5)]
        return [int(median(held[begin:end] or held)) for begin, end in pairwise(bounds)]

    def lines(self) -> Iterator[str]:
        """What to tell."""
        yield f"{self.keys:,} keys, {self.quits} quits, exit code {self.code}"
        yield f"answers median {median(self.answers):.2f} s, slowest {self.slowest:.2f} s, {len(self.unheard)} unheard"
        yield "memory " + " ".join(f"{held / 1e6:.0f}" for _, held in self.memory) + " MB"
        yield "by quarter " + " ".join(f"{held / 1e6:.1f}" for held in self.quarters) + " MB"
        yield from self.unheard
        yield f"{len(self.crashes)} crashes" + "".join(f"\n{text}" for text in self.crashes)


def play(traces: list[str], seconds: float, seed: int, least: int = 0) -> Diary:
    """Press keys for some seconds, and at least so many keys: where answers take long, fewer are pressed in a second.

    Raises: AssertionError when the app ends by itself or no longer answers.
    """
    chance, diary = random.Random(seed), Diary()
    with tempfile.TemporaryDirectory(prefix="tracetui-monkey-") as home:
        # Without torch no recording begins, whatever is pressed.
        Path(home, "torch.py").write_text("raise ImportError('there is no torch for monkeys')\n")
        app = _opened(traces, home)
        try:
            began = time.monotonic()
            while time.monotonic() - began < seconds or diary.keys < least:
                _press(app, chance, diary, min(ROUND, seconds))
                _ask(app, diary)
                diary.memory.append((time.monotonic() - began, resident(app.process.pid)))
            diary.quits = quits(Path(home))
            Path(home, LEAVE).touch()
            _leave(app, diary)
        except AssertionError as error:
            raise AssertionError("\n".join([str(error)[-6000:], *_crashes(home)])) from None
        finally:
            app.process.kill()
            app.process.wait()
        diary.crashes = _crashes(home)
    return diary


def _crashes(home: str) -> list[str]:
    """The reports of crashes that the app wrote."""
    return [path.read_text(errors="replace") for path in Path(home).rglob("crashes/*") if path.is_file()]


def _opened(traces: list[str], home: str) -> Raw:
    places = dict.fromkeys(("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"), home)
    words = (sys.executable, "-m", "tests.load.staying", home, *map(os.path.abspath, traces))
    app = Raw(*words, columns=120, rows=40, PYTHONPATH=home, TMUX="", **places)
    app.wait_for("go into")
    app.wait_until_quiet()
    app.send(ENTER)
    app.wait_for("Kernels")
    return app


def _press(app: Raw, chance: random.Random, diary: Diary, seconds: float) -> None:
    """Twenty keys a second."""
    due = time.monotonic()
    end = due + seconds
    while due < end:
        _check(app)
        app.send(_key(chance))
        diary.keys += 1
        if chance.random() < 0.005:
            app.resize(*chance.choice(SIZES))
        due += 1 / RATE
        time.sleep(max(due - time.monotonic(), 0.0))


def _key(chance: random.Random) -> str:
    dice = chance.random()
    if dice < 0.55:
        return chance.choice(PLAIN)
    if dice < 0.8:
        return chance.choice(ARROWS)
    if dice < 0.95:
        return chance.choice((ESCAPE, ENTER, TAB, BACKSPACE, *CONTROLS))
    return chance.choice(CLICKS).format(x=chance.randrange(1, 200), y=chance.randrange(1, 50))


def _check(app: Raw) -> None:
    """Fail when the app is gone."""
    code = app.process.poll()
    assert code is None, f"the app ended by itself with {code}: {words(app.between(-4000))}"


def _ask(app: Raw, diary: Diary) -> None:
    """Ask for help until it comes; texts that are being typed and dialogs are left before."""
    _wake(app)
    columns, rows = SIZES[2]
    app.resize(columns - 1, rows)
    time.sleep(0.5)
    # The change of size paints the whole screen.
    painted = Painted(app, columns, rows)
    app.resize(columns, rows)
    for attempt in range(6):
        for _ in range(2):
            app.send(ESCAPE)
            time.sleep(0.3)
        # A help that the monkey had opened is no answer.
        _wait_for(app, painted, False)
        began = time.monotonic()
        app.send(ASK)
        if (answered := _wait_for(app, painted, True)) is not None:
            diary.answers.append(answered - began)
            app.send(ESCAPE)
            return
        diary.unheard.append(painted.text)
        # What is on top may take the sign for a text, or have no help: go into it, or leave it.
        app.send(ENTER if attempt % 2 else ESCAPE)
        time.sleep(1.0)
    raise AssertionError(f"no answer within {POLL_SECONDS} s:\n{diary.unheard[-1]}")


def _wait_for(app: Raw, painted: Painted, wanted: bool) -> float | None:
    """Wait until the help is on screen, or is not: the moment at which that was written, None where it was not."""
    began = time.monotonic()
    end = began + POLL_SECONDS
    if bool(ANSWER.search(painted.text)) == wanted:
        return began
    while time.monotonic() < end:
        _check(app)
        for moment in painted.follow():
            if bool(ANSWER.search(painted.text)) == wanted:
                return moment
        time.sleep(0.01)
    return None


def _wake(app: Raw) -> None:
    """Let it go on where it was suspended, which a monkey finds among the commands."""
    state = Path(f"/proc/{app.process.pid}/stat").read_text().rpartition(")")[2].split()[0]
    if state == "T":
        os.kill(app.process.pid, signal.SIGCONT)
        time.sleep(1.0)


def _leave(app: Raw, diary: Diary) -> None:
    _wake(app)
    app.send(LEAVING)
    try:
        diary.code = app.exit_code(POLL_SECONDS)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"it did not quit: {words(app.between(-4000))}") from None


def main() -> int:
    """Play, and say what was seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    diary = play(options.traces, 60 * options.minutes, options.seed)
    print("\n".join(diary.lines()))
    return 1 if diary.crashes or diary.code != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
