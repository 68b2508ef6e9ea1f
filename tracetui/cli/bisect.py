"""Say for `git bisect run` whether a commit is good or bad: record it, and compare with two recordings.

COMMAND records a trace of what is checked out. Where the recording goes is the last line that COMMAND prints, as that
of `tracetui run`, the `path` of the JSON that it prints, or the file that stands for {out} among its words. The exit
code is what git asks for: 0 where the measure is nearer to the good recording, 1 to the bad one, 125 (this commit
cannot be tested) where noise hides it or there is no recording; 128 ends the bisection: the two recordings do not
differ, or the command line was not understood."""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from tracetui.cli.arguments import completes_files
from tracetui.errors import NotFound, TracetuiError, UsageError
from tracetui.text import clean

if TYPE_CHECKING:
    from tracetui.history.digest import Digest

HELP = "good, bad or cannot tell: the command for git bisect run"
GOOD, BAD, CANNOT_TELL, ABORT = 0, 1, 125, 128
"""Exit codes of `git bisect run`: 1 to 127 but 125 are bad, and from 128 on it stops."""
OUT = "{out}"
"""Stands for the file to record into, among the words of the command."""
MAX_OUTPUT_BYTES = 1 << 20
"""Maximum bytes of what the command prints that are looked at: the last."""

EXAMPLES = """\
examples:
  git bisect start BAD_COMMIT GOOD_COMMIT
  git bisect run tracetui bisect --good good.json --bad bad.json -- tracetui run x.py:f
  git bisect run tracetui bisect --good good.json --bad bad.json --metric cpu_ops -- python train.py --trace {out}"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tracetui bisect`."""
    parser.epilog = EXAMPLES
    # With the usual exit code of a mistake, 2, git would call every commit bad.
    parser.error = _mistaken  # type: ignore[method-assign]
    parser.set_defaults(parameters=[])
    for name, of in (("--good", "a good commit"), ("--bad", "a bad commit")):
        completes_files(parser.add_argument(name, metavar="TRACE", required=True, help=f"a recording of {of}"))
    parser.add_argument(
        "--metric",
        default="step_us",
        metavar="NAME",
        help="the measure: as `tracetui history --metric` has them; counts such as kernels and cpu_ops have no noise "
        "(default: step_us)",
    )
    parser.add_argument(
        "--threshold",
        type=float,
        metavar="X",
        help="the value between good and bad, in the unit of the measure (default: half-way between the recordings)",
    )
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the command that records")


def _mistaken(message: str) -> NoReturn:
    print(f"tracetui bisect: {message}", file=sys.stderr)
    raise SystemExit(ABORT)


def run(options: argparse.Namespace) -> int:
    """Record and compare; returns what git asks for, and ends the bisection where nothing can be told of any commit."""
    try:
        return _judge(options)
    except TracetuiError as error:
        print(f"tracetui: {clean(str(error))}", file=sys.stderr)
    except Exception as error:
        # Exit code 1, that of a defect, would call the commit bad. The message loads numpy.
        from tracetui.crash_report import crash_message

        print(crash_message(error), file=sys.stderr)
    return ABORT


def _judge(options: argparse.Namespace) -> int:
    # Loads numpy, which `--help` must not wait for.
    from tracetui.model.quantities import quantity

    words = options.words[1:] if options.words[:1] == ["--"] else options.words
    if options.parameters:
        raise UsageError(f"{options.parameters[0]} is no option of `tracetui bisect`; the command stands behind `--`.")
    if not words:
        raise UsageError("The command that records stands at the end, behind `--`: -- tracetui run x.py:f.")
    good, bad = _digest(options.good), _digest(options.bad)
    middle, name = _middle(good, bad, options), options.metric
    unit = good.units[name]
    with tempfile.TemporaryDirectory(prefix="tracetui-bisect-") as folder:
        path = _recorded(words, os.path.join(folder, "recording.json.gz"))
        if path is None:
            return CANNOT_TELL
        try:
            new = _digest(path)
        except TracetuiError as error:
            print(f"tracetui: cannot tell: {clean(str(error))}", file=sys.stderr)
            return CANNOT_TELL
    if new.facts.device != good.facts.device or name not in new.measures:
        what = f"on {new.facts.device}" if name in new.measures else f"without {name}"
        print(f"tracetui: cannot tell: the recording is {clean(what)}.", file=sys.stderr)
        return CANNOT_TELL
    value, ends = new.measures[name], (good.measures[name], bad.measures[name])
    noise = max(each.scatter for each in (value, *ends)) / 2
    is_bad = (value.median > middle) == (ends[1].median > ends[0].median)
    code = BAD if is_bad else GOOD
    if abs(value.median - middle) <= noise and (noise or value.median == middle):
        code = CANNOT_TELL
    word = {GOOD: "good", BAD: "bad", CANNOT_TELL: "cannot tell"}[code]
    texts = [quantity(each, unit) for each in (value.median, ends[0].median, ends[1].median, middle)]
    spread = f", ±{quantity(noise, unit)} for noise" if noise else ""
    print(f"{word}: {name} {texts[0]}; good {texts[1]}, bad {texts[2]}, between them {texts[3]}{spread}", flush=True)
    return code


def _middle(good: Digest, bad: Digest, options: argparse.Namespace) -> float:
    """The value between good and bad.

    Raises: UsageError where the recordings cannot be told apart by the measure.
    """
    from tracetui.comparing.noise import MIN_TIME_CHANGE
    from tracetui.model.quantities import quantity

    name = options.metric
    for path, each in ((options.good, good), (options.bad, bad)):
        if name not in each.measures:
            some = ", ".join(known for known in each.measures if ":" not in known)
            raise UsageError(f"{path} has no measure {name}; it has {some}.")
    if good.facts.device != bad.facts.device:
        raise UsageError(f"The recordings are of different devices, {good.facts.device} and {bad.facts.device}.")
    one, other, unit = good.measures[name], bad.measures[name], good.units[name]
    least = MIN_TIME_CHANGE * min(one.median, other.median) if unit else 0.0
    noise = max(one.scatter, other.scatter, least)
    both = f"good {quantity(one.median, unit)}, bad {quantity(other.median, unit)}"
    if abs(other.median - one.median) <= noise:
        raise UsageError(
            f"The recordings do not differ in {name} by more than noise ({both}, noise {quantity(noise, unit)}): "
            "choose another --metric, or record more steps (tracetui run --active 20)."
        )
    if options.threshold is None:
        return (one.median + other.median) / 2
    if not math.isfinite(options.threshold) or (one.median < options.threshold) == (other.median < options.threshold):
        raise UsageError(f"--threshold {options.threshold:g} is not between the recordings: {both}.")
    return float(options.threshold)


def _digest(path: str) -> Digest:
    from tracetui.history.digest import digest
    from tracetui.reading.load import load

    return digest(load(path))


def _recorded(words: Sequence[str], out: str) -> str | None:
    """Run the command and find its recording; None, with a sentence, where there is none.

    Raises: NotFound for a command that does not exist.
    """
    words = [word.replace(OUT, out) for word in words]
    try:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    except OSError as error:
        raise NotFound(f"{words[0]} cannot be run: {error.strerror}.") from error
    output = b""
    with process:
        while process.stdout is not None and (block := os.read(process.stdout.fileno(), 1 << 16)):
            output = (output + block)[-MAX_OUTPUT_BYTES:]
    if process.returncode:
        print(f"tracetui: cannot tell: the command failed with exit code {process.returncode}.", file=sys.stderr)
        return None
    text = output.decode("utf-8", "replace").strip()
    named = [out, _path_of_json(text), text.splitlines()[-1].strip() if text else ""]
    path = next((each for each in named if each and Path(each).is_file()), None)
    if path is None:
        print(f"tracetui: cannot tell: the command names no recording; {OUT} stands for its file.", file=sys.stderr)
    return path


def _path_of_json(text: str) -> str:
    """The `path` of a JSON document, empty where there is none."""
    try:
        document = json.loads(text)
    except ValueError:
        return ""
    path = document.get("path") if isinstance(document, dict) else None
    return path if isinstance(path, str) else ""
