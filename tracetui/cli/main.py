"""`tracetui`: which command, which exit code, and how an error is told.

Nothing heavy is imported here: `tracetui --help` and shell completion answer before numpy would have loaded.
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Sequence
from types import ModuleType

from tracetui.cli import attach as attach_command
from tracetui.cli import cache as cache_command
from tracetui.cli import check as check_command
from tracetui.cli import compare as compare_command
from tracetui.cli import cut as cut_command
from tracetui.cli import merge as merge_command
from tracetui.cli import open as open_command
from tracetui.cli import perfetto as perfetto_command
from tracetui.cli import ranks as ranks_command
from tracetui.cli import repair as repair_command
from tracetui.cli import report as report_command
from tracetui.cli import run as run_command
from tracetui.cli import show as show_command
from tracetui.cli import workloads as workloads_command
from tracetui.cli.arguments import similar_options
from tracetui.cli.completion import PrintCompletion
from tracetui.cli.signals import ending_in_order
from tracetui.cli.streams import drop_output, safe_streams
from tracetui.cli.traces import forget_read_traces, keep_read_traces
from tracetui.cli.version import PrintVersion
from tracetui.errors import TracetuiError, UsageError
from tracetui.safe_text import clean
from tracetui.urls import is_url, public_url

COMMANDS: dict[str, ModuleType] = {
    "open": open_command,
    "show": show_command,
    "check": check_command,
    "compare": compare_command,
    "cut": cut_command,
    "repair": repair_command,
    "perfetto": perfetto_command,
    "ranks": ranks_command,
    "merge": merge_command,
    "report": report_command,
    "run": run_command,
    "attach": attach_command,
    "workloads": workloads_command,
    "cache": cache_command,
}
"""Every command by name; a first argument that is none of them is a trace to open."""

CANCELLED = 130
"""Exit code after ctrl+c, as shells have it."""

DESCRIPTION = """\
Read PyTorch profiler traces in a terminal, and print the same numbers as text.
`tracetui TRACE` is short for `tracetui open TRACE`."""

EXAMPLES = """\
examples:
  tracetui trace.json.gz                                 lanes, steps and kernels on one screen
  tracetui open trace.json --step 3                      the same, at step 3
  tracetui show summary trace.json                       what is in it
  tracetui show kernels trace.json --step 3 --sort dur_us --limit 10
  tracetui show kernels trace.json --by name --format md > kernels.md
  zcat trace.json.gz | tracetui show ops - --format json
  tracetui report trace.json.gz -o report.html           findings, lanes and tables as one HTML file
  tracetui cut trace.json --steps 2:4 -o small.json.gz   a part of it, which Perfetto opens
  tracetui perfetto trace.json                           serve it, and print a link to ui.perfetto.dev
  tracetui compare eager.json compiled.json              what differs by more than noise, and why
  tracetui compare trace.json '#3' '#4'                  two steps of one trace
  tracetui ranks FOLDER                                  one trace per rank: who is late, and why
  tracetui merge FOLDER -o merged.json.gz                all ranks as one trace, on one clock
  tracetui check trace.json 'kernels == 5' 'dur_us < 2ms'   assertions for a CI
  tracetui run mlp --compile                             record a trace here, and open it
  tracetui run mlp --compare eager,compile               record both, and compare them
  tracetui attach 4242 --seconds 2                       a trace of a job that already runs
  tracetui workloads                                     what can be recorded here
  tracetui cache                                         large traces that were read, for opening them again at once

exit codes:
  0 done; 1 the trace holds nothing usable, is cut off, or not what check or --verify asks; the output cannot be
  written; 2 the command was not understood, or an output file exists already, has no folder or is an input;
  3 cannot record here; 4 the recording failed; 130 cancelled, 129, 131 or 143 ended by a signal"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code; errors become one sentence on standard error."""
    # What a URL holds of passwords and signatures is seen by what fetches it, and by no message.
    words = [_public(word) for word in (sys.argv[1:] if argv is None else argv)]
    with safe_streams():
        return _run(words)


def _public(word: str) -> str:
    option, sign, value = word.partition("=")
    return f"{option}={public_url(value)}" if sign and option.startswith("--") else public_url(word)


def _run(words: list[str]) -> int:
    try:
        options = parsed(_with_command(words))
        with ending_in_order():
            code = int(options.run(options))
            sys.stdout.flush()
            keep_read_traces()
            return code
    except TracetuiError as error:
        print("\n".join([f"tracetui: {clean(str(error))}", *map(clean, error.lines_below)]), file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return CANCELLED
    except BrokenPipeError:
        # The reader, for example `head`, has seen enough; Python must not complain when it flushes at exit.
        drop_output()
        return 0
    except OSError as error:
        print(f"tracetui: The output cannot be written: {error.strerror}.", file=sys.stderr)
        drop_output()
        return 1
    except Exception as error:
        # Loads numpy, which only a defect makes necessary.
        from tracetui.crash_report import crash_message

        print(crash_message(error), file=sys.stderr)
        return 1
    finally:
        forget_read_traces()


def parsed(words: list[str]) -> argparse.Namespace:
    """The words as options; what a command does not know itself goes to its `parameters`, where it has such."""
    parser = build_parser()
    options, unknown = parser.parse_known_args(words)
    if unknown and not hasattr(options, "parameters"):
        raise UsageError(_not_understood(words[0], unknown, options.known_options))
    if unknown:
        options.parameters = unknown
    return options


def _not_understood(command: str, unknown: Sequence[str], known: Sequence[str]) -> str:
    """What is wrong with words that a command does not know, with the options that are like the first one of these."""
    where = f"`tracetui {command} --help` lists what there is."
    option = next((word.partition("=")[0] for word in unknown if word.startswith("-") and word != "-"), None)
    if option is None:
        several = "words are" if len(unknown) > 1 else "word is"
        return f"The {several} not understood: {' '.join(unknown)}. {where}"
    meant = similar_options(option, known)
    return f"There is no option {option}. " + (f"Did you mean {' or '.join(meant)}?" if meant else where)


def build_parser() -> argparse.ArgumentParser:
    """The parser of every command; also what shell completion is made from."""
    parser = argparse.ArgumentParser(
        prog="tracetui",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        # The beginning of an option may be that of another one: `--steps 3` is no `--steps-by 3`.
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=PrintVersion)
    parser.add_argument("--print-completion", action=PrintCompletion)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, module in COMMANDS.items():
        command = commands.add_parser(
            name,
            help=module.HELP,
            description=(module.__doc__ or "").strip(),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run, known_options=tuple(command._option_string_actions))
    return parser


def _with_command(words: list[str]) -> list[str]:
    """The words with `open` put first where no command is named.

    Raises: UsageError for a command that is misspelt.
    """
    if words and (words[0] in COMMANDS or words[0] in {"-h", "--help", "--version"}):
        return words
    if words and words[0].startswith("--print-completion"):
        return words
    is_path = not words or is_url(words[0]) or os.path.lexists(words[0])
    if not is_path and (meant := difflib.get_close_matches(words[0], COMMANDS, 1)):
        raise UsageError(f"{words[0]} is neither a file nor a command. Did you mean `tracetui {meant[0]}`?")
    return ["open", *words]
