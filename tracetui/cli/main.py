"""`tracetui`: the choice of a command, its exit code, and errors as a sentence.

Nothing heavy is imported here: `tracetui --help` and shell completion answer before numpy would have loaded.
"""

from __future__ import annotations

import argparse
import atexit
import difflib
import gc
import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

from tracetui import __version__
from tracetui.cli.arguments import Command, Parser, add_everywhere, similar_options
from tracetui.cli.completion import PrintCompletion, print_candidates
from tracetui.cli.inputs import drop_read_traces, keep_read_traces
from tracetui.cli.streams import color_in_force, complain, drop_output, output_as, remark, safe_streams
from tracetui.config import config
from tracetui.errors import TracetuiError, UsageError
from tracetui.files import is_url, public_url
from tracetui.text import clean

# Ends a command in order when a signal asks it to: partial files are removed and the terminal is as it was.

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Signals at whose default the system ends a process on the spot."""


@contextmanager
def ending_in_order() -> Iterator[None]:
    """While a command runs, these signals raise SystemExit with the code that shells have for them.

    Handlers that a program has set itself stay, and so does everything where this runs in another thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handled = [number for number in SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    for number in handled:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in handled:
            if signal.getsignal(number) is _end:
                signal.signal(number, signal.SIG_DFL)


def _end(number: int, _: FrameType | None) -> NoReturn:
    # Asked once more, it would stop in the middle of tidying up.
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise SystemExit(128 + number)


# Which versions of torch were tried; `--version`, the README and the tests take it from here.

OLDEST, NEWEST = "1.8", "2.15"
"""The versions of torch between which files were read."""
RECORDED = ("2.13.0", "2.14.1", "2.15.0")
"""The versions of torch with which the tests record."""
TRIED = (
    f"Tried with files of torch {OLDEST} to {NEWEST} (CUDA and ROCm); the tests record with torch "
    f"{', '.join(RECORDED[:-1])} and {RECORDED[-1]}."
)
"""All of it in a sentence."""


# What `tracetui --version` prints.


class PrintVersion(argparse.Action):
    """Prints the version, the versions of torch that were tried, how files are read and screens written, and exits."""

    def __init__(self, option_strings: Sequence[str], dest: str, **_: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help="show program's version number and exit")

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Print it."""
        print(f"tracetui {__version__}\n{TRIED}\n{reading_paths()}\n{screen_writer()}")
        parser.exit()


def reading_paths() -> str:
    """A sentence each on the reader of events and of gzip here, and why it is not the faster one."""
    # ctypes, and looking for the libraries, are for this option alone.
    from tracetui.reading.scanner.scanner import MAX_THREADS, scanning_threads, why_pure
    from tracetui.reading.unpacking import inflate_library

    reason, library, threads = why_pure(), inflate_library(), scanning_threads()
    if reason:
        path = f"Events are read in Python, as {reason}."
    elif threads == 1:
        path = "Events are read by the C scanner in one thread, as this process may use one core."
    else:
        path = f"Events are read by the C scanner in up to {threads} threads: one for each core, at most {MAX_THREADS}."
    why = f", as {library.why_not_fast}" if library.why_not_fast else ""
    return f"{path}\ngzip is inflated by {library.name}{why}."


def screen_writer() -> str:
    """A sentence on the writer of the app's screen here, and why it is Textual itself."""
    # It looks private names up in Textual.
    from tracetui.ui.base.textual_internals import why_textual_writes

    reason = why_textual_writes()
    return f"Textual writes the screen, as {reason}." if reason else "Only cells of the screen that change are written."


COMMANDS = (
    "open",
    "show",
    "sql",
    "check",
    "compare",
    "cut",
    "repair",
    "perfetto",
    "ranks",
    "history",
    "bisect",
    "merge",
    "report",
    "run",
    "attach",
    "verify",
    "demo",
    "workloads",
    "cache",
    "config",
    "mcp",
    "skill",
    "explain",
    "whatif",
)
"""Every command, in a file of its name or that of `FILES`; a first argument that is none of them is a trace to open."""
FILES = {
    "bisect": "history",
    **dict.fromkeys(("cut", "repair", "merge"), "writing"),
    **dict.fromkeys(("cache", "config"), "settings"),
    **dict.fromkeys(("mcp", "skill", "explain", "whatif"), "questions"),
}
"""The files of commands that stand with others."""

RECORDING = ("run", "verify", "bisect")
"""Commands whose processes are the user's own, and whose environment is left as it is."""
HUGE_PAGES = "NUMPY_MADVISE_HUGEPAGE"
"""The variable by which numpy asks for huge pages or does not, read when it is imported."""
BLAS_THREADS = "OPENBLAS_NUM_THREADS"
"""The variable that says how many threads numpy's library of linear algebra starts when it is imported."""

CANCELLED = 130
"""Exit code after ctrl+c, as shells have it."""

DESCRIPTION = """\
Read PyTorch profiler traces in a terminal, and print the same numbers as text.
`tracetui TRACE` is short for `tracetui open TRACE`; `tracetui help COMMAND` prints what a command does."""

EXAMPLES = """\
examples:
  tracetui trace.json.gz                                 lanes, steps and kernels on one screen
  tracetui open trace.json --step 3                      the same, at step 3
  tracetui show summary trace.json                       what is in it
  tracetui show kernels trace.json --step 3 --sort dur_us --limit 10
  tracetui show kernels trace.json --by name --format md > kernels.md
  zcat trace.json.gz | tracetui show ops - --format json
  tracetui sql trace.json "select name, sum(dur_us) from kernels group by all"   ask anything
  tracetui report trace.json.gz -o report.html           findings, lanes and tables as one HTML file
  tracetui cut trace.json --steps 2:4 -o small.json.gz   a part of it, which Perfetto opens
  tracetui perfetto trace.json                           serve it, and print a link to ui.perfetto.dev
  tracetui compare eager.json compiled.json              what differs by more than noise, and why
  tracetui compare trace.json '#3' '#4'                  two steps of one trace
  tracetui ranks FOLDER                                  one trace per rank: who is late, and why
  tracetui whatif trace.json 'scale(softmax, 0.5)'       what a step would take if something were changed
  tracetui history FOLDER                                traces over time: what changed, and with which run
  tracetui merge FOLDER -o merged.json.gz                all ranks as one trace, on one clock
  tracetui check trace.json 'kernels == 5' 'dur_us < 2ms'   assertions for a CI
  tracetui run mlp --compile                             record a trace here, and open it
  tracetui run mlp --compare eager,compile               record both, and compare them
  tracetui attach 4242 --seconds 2                       a trace of a job that already runs
  tracetui verify trace.json addmm --vs compile          an operator built again and timed here
  tracetui demo                                          simulated traces of a GPU, for whoever has none
  tracetui mcp FOLDER                                    answer an assistant's questions about the traces there
  tracetui workloads                                     what can be recorded here
  tracetui cache                                         large traces that were read, for opening them again at once
  tracetui config                                        the settings in force, as a file to begin with

exit codes:
  0 done; 1 the trace holds nothing usable, is cut off, or not what check or --verify asks; the output cannot be
  written; 2 the command was not understood, or an output file exists already, has no folder or is an input;
  3 cannot record here; 4 the recording failed; 130 cancelled, 129, 131 or 143 ended by a signal"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code; errors become one sentence on standard error."""
    if argv is None:
        # A process of its own would look for cycles at its end in all that was imported, three times.
        atexit.register(gc.freeze)
    # What a URL holds of passwords and signatures is seen by what fetches it, and by no message.
    words = []
    for word in sys.argv[1:] if argv is None else argv:
        option, sign, value = word.partition("=")
        words.append(f"{option}={public_url(value)}" if sign and option.startswith("--") else public_url(word))
    with safe_streams():
        return _run(words)


def _run(words: list[str]) -> int:
    try:
        if words[:1] == ["--complete"]:
            print_candidates(words[1] if words[1:] else "", words[2:], build_parser())
            return 0
        words = _with_command(words)
        if words[0] not in RECORDING:
            # On a virtual machine the first use of a huge page costs five times that of its parts.
            os.environ.setdefault(HUGE_PAGES, "0")
            if BLAS_THREADS not in os.environ:
                # Nothing here is linear algebra, and its threads spin for 50 ms, each with buffers of its own. What
                # the app records or starts for the user gets `os.environ`, and knows nothing of it.
                os.putenv(BLAS_THREADS, "1")
        options = parsed(words)
        options.color_in_force = color_in_force(getattr(options, "color", None))
        with output_as(options.color_in_force[0], getattr(options, "quiet", False)), ending_in_order():
            if words[0] != "config" and (problems := config().problems):
                more = f" And {len(problems) - 1} more: see `tracetui config`." if problems[1:] else ""
                remark(f"{problems[0]}{more}")
            code = int(options.run(options))
            sys.stdout.flush()
            keep_read_traces()
            return code
    except TracetuiError as error:
        complain("\n".join([clean(str(error)), *map(clean, error.lines_below)]))
        return error.exit_code
    except KeyboardInterrupt:
        return CANCELLED
    except BrokenPipeError:
        # The reader, for example `head`, has seen enough; Python must not complain when it flushes at exit.
        drop_output()
        return 0
    except OSError as error:
        complain(f"The output cannot be written: {error.strerror}.")
        drop_output()
        return 1
    except Exception as error:
        # Loads numpy, which only a defect makes necessary.
        from tracetui.crash_report import crash_message

        print(crash_message(error), file=sys.stderr)
        return 1
    finally:
        drop_read_traces()


def parsed(words: list[str]) -> argparse.Namespace:
    """The words as options; what a command does not know itself goes to its `parameters`, where it has such."""
    parser = build_parser(words[:1] if words[0] in COMMANDS else COMMANDS)
    options, unknown = parser.parse_known_args(words)
    if unknown and not hasattr(options, "parameters"):
        raise UsageError(_not_understood(words[0], unknown, options.known_options))
    if unknown:
        options.parameters = unknown
    return options


def _not_understood(command: str, unknown: Sequence[str], known: Sequence[str]) -> str:
    """A sentence on words that a command does not know, with the options that are like the first one of these."""
    where = f"`tracetui {command} --help` lists what there is."
    option = next((word.partition("=")[0] for word in unknown if word.startswith("-") and word != "-"), None)
    if option is None:
        several = "words are" if len(unknown) > 1 else "word is"
        return f"The {several} not understood: {' '.join(unknown)}. {where}"
    meant = similar_options(option, known)
    return f"There is no option {option}. " + (f"Did you mean {' or '.join(meant)}?" if meant else where)


def build_parser(names: Sequence[str] = COMMANDS) -> argparse.ArgumentParser:
    """The parser of some commands, by default of all, from which shell completion is made; it imports these alone."""
    parser = Parser(
        prog="tracetui",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        # The beginning of an option may be that of another one: `--steps 3` is no `--steps-by 3`.
        allow_abbrev=False,
    )
    parser.add_argument("-V", "--version", action=PrintVersion)
    parser.add_argument("--print-completion", action=PrintCompletion)
    add_everywhere(parser)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name in names:
        file = importlib.import_module(f"tracetui.cli.{FILES.get(name, name)}")
        command: Command = file.COMMANDS[name]
        subparser = commands.add_parser(
            name,
            help=command.help,
            description=(command.description or "").strip(),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        command.add_arguments(subparser)
        add_everywhere(subparser)
        subparser.set_defaults(run=command.run, known_options=tuple(subparser._option_string_actions))
    return parser


def _with_command(words: list[str]) -> list[str]:
    """The words with the command first: `open` where none is named, and options of all commands behind it.

    Raises: UsageError for a command that is misspelt.
    """
    first = 0
    while first < len(words) and words[first].partition("=")[0] in ("--quiet", "--color"):
        first += 2 if words[first] == "--color" else 1
    everywhere, words = words[:first], words[first:]
    if words and words[0] == "help":
        # Words behind the command are of no use there.
        words = [*words[1:2], "--help"]
    name = words[0] if words else ""
    if name in COMMANDS:
        return [name, *everywhere, *words[1:]]
    if name in {"-h", "--help", "-V", "--version"} or name.startswith("--print-completion"):
        return words
    is_path = not words or is_url(name) or os.path.lexists(name)
    if not is_path and (meant := difflib.get_close_matches(name, [*COMMANDS, "help"], 1)):
        raise UsageError(f"{name} is neither a file nor a command. Did you mean `tracetui {meant[0]}`?")
    if words[1:] == ["--help"] and not is_path:
        raise UsageError(f"There is no command {name}. `tracetui --help` lists what there is.")
    return ["open", *everywhere, *words]
