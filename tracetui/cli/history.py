"""`tracetui history` and `tracetui bisect`: what changed over traces of a folder, and with which run or commit."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from tracetui.cli.arguments import Command, add_no_cache, completes_files, job_count
from tracetui.cli.streams import CountProgress, complain, remark
from tracetui.errors import NotFound, TracetuiError, UsageError
from tracetui.text import clean

if TYPE_CHECKING:
    from tracetui.history.digest import Digest

HISTORY_DESCRIPTION = """\
Show how the step time and what it is spent on changed over the traces of a folder, and which run changed it.

Traces that can be compared (one program, device, kind of steps and rank) are a series. Of each trace a digest is read
once and kept (see `tracetui cache`). A change is told where it is more than the noise between the runs; docs/history.md
has the method. Times are medians over the complete steps of a run."""

FORMATS = ("table", "json", "csv", "md")
ORDERS = ("time", "name", "git")
"""Orders of the runs of a series."""

HISTORY_EXAMPLES = """\
examples:
  tracetui history traces/                               in order of the time of recording
  tracetui history traces/ --by git                      in order of commits, of recordings of `tracetui run`
  tracetui history traces/ --metric 'kernel:*'           the time of each kernel
  tracetui check new.json --history traces/              is the new one worse than those before?
  git bisect run tracetui bisect --good good.json --bad bad.json -- tracetui run x.py:f"""


def add_history_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tracetui history`."""
    parser.epilog = HISTORY_EXAMPLES
    completes_files(parser.add_argument("folder", metavar="FOLDER", help="a folder with traces, also in folders below"))
    parser.add_argument(
        "--by",
        choices=ORDERS,
        default="time",
        help="order of the runs: start of the recording, name of the file (run2 before run10), or commit "
        "(default: time)",
    )
    parser.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="NAME",
        help="list this measure, or those of a pattern such as 'module:*'; may be given more than once",
    )
    parser.add_argument("--format", choices=FORMATS, default="table", help="what to print (default: table)")
    parser.add_argument("--jobs", type=job_count, metavar="N", help="read with N processes (default: one per core)")
    add_no_cache(parser)


def run_history(options: argparse.Namespace) -> int:
    """Print the series of a folder.

    Raises: NotFound for a folder without traces; UsageError.
    """
    # These load numpy, which `--help` must not wait for.
    from tracetui.drawing.text import history_text
    from tracetui.history.series import history, require_measures
    from tracetui.opening.rank_reading import SummaryWork

    if not os.path.isdir(options.folder):
        raise (UsageError if os.path.exists(options.folder) else NotFound)(
            f"{options.folder} is no folder: name the folder that the traces lie in."
        )
    with CountProgress("traces") as progress:
        work = SummaryWork(options.jobs, uses_cache=not options.no_cache)
        known = history(options.folder, options.by, work, progress.update)
    if not known.series:
        raise NotFound(" ".join([f"No trace in {options.folder} or below can be shown.", *known.left_out]))
    require_measures(known.series, options.metric)
    if options.format == "json":
        sys.stdout.write(history_text.as_json(known, options.metric))
    elif options.format == "csv":
        sys.stdout.write(history_text.as_csv(known, options.metric))
    else:
        sys.stdout.write(history_text.as_text(known, options.metric, options.format))
    if options.format == "csv":
        for each in known.left_out:
            remark(each)
    return 0


BISECT_DESCRIPTION = """\
Say for `git bisect run` whether a commit is good or bad: record it, and compare with two recordings.

COMMAND records a trace of what is checked out. Where the recording goes is the last line that COMMAND prints, as that
of `tracetui run`, the `path` of the JSON that it prints, or the file that stands for {out} among its words. The exit
code is what git asks for: 0 where the measure is nearer to the good recording, 1 to the bad one, 125 (this commit
cannot be tested) where noise hides it or there is no recording; 128 ends the bisection: the two recordings do not
differ, or the command line was not understood."""

GOOD, BAD, CANNOT_TELL, ABORT = 0, 1, 125, 128
"""Exit codes of `git bisect run`: 1 to 127 but 125 are bad, and from 128 on it stops."""
OUT = "{out}"
"""Stands for the file to record into, among the words of the command."""
MAX_OUTPUT_BYTES = 1 << 20
"""Maximum bytes of what the command prints that are looked at: the last."""

BISECT_EXAMPLES = """\
examples:
  git bisect start BAD_COMMIT GOOD_COMMIT
  git bisect run tracetui bisect --good good.json --bad bad.json -- tracetui run x.py:f
  git bisect run tracetui bisect --good good.json --bad bad.json --metric cpu_ops -- python train.py --trace {out}"""


def add_bisect_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tracetui bisect`."""
    parser.epilog = BISECT_EXAMPLES
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


def run_bisect(options: argparse.Namespace) -> int:
    """Record and compare; returns what git asks for, and ends the bisection where nothing can be told of any commit."""
    try:
        return _judge(options)
    except TracetuiError as error:
        complain(clean(str(error)))
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
    # Loads what packs files.
    import tempfile

    with tempfile.TemporaryDirectory(prefix="tracetui-bisect-") as folder:
        path = _recorded(words, os.path.join(folder, "recording.json.gz"))
        if path is None:
            return CANNOT_TELL
        try:
            new = _digest(path)
        except TracetuiError as error:
            complain(f"cannot tell: {clean(str(error))}")
            return CANNOT_TELL
    if new.facts.device != good.facts.device or name not in new.measures:
        what = f"on {new.facts.device}" if name in new.measures else f"without {name}"
        complain(f"cannot tell: the recording is {clean(what)}.")
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
    # `--help` must not wait for it.
    import subprocess

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
        complain(f"cannot tell: the command failed with exit code {process.returncode}.")
        return None
    text = output.decode("utf-8", "replace").strip()
    named = [out, _path_of_json(text), text.splitlines()[-1].strip() if text else ""]
    path = next((each for each in named if each and Path(each).is_file()), None)
    if path is None:
        complain(f"cannot tell: the command names no recording; {OUT} stands for its file.")
    return path


def _path_of_json(text: str) -> str:
    """The `path` of a JSON document, empty where there is none."""
    # `history` does without.
    import json

    try:
        document = json.loads(text)
    except ValueError:
        return ""
    path = document.get("path") if isinstance(document, dict) else None
    return path if isinstance(path, str) else ""


COMMANDS = {
    "history": Command(
        "a folder of traces over time: what changed, and with which run",
        HISTORY_DESCRIPTION,
        add_history_arguments,
        run_history,
    ),
    "bisect": Command(
        "good, bad or cannot tell: the command for git bisect run", BISECT_DESCRIPTION, add_bisect_arguments, run_bisect
    ),
}
