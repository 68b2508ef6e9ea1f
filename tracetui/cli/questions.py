"""`tracetui explain` and `whatif`, questions about a trace; `mcp` and `skill`, for the questions of an assistant."""

from __future__ import annotations

import argparse
import shutil
import sys
from importlib.util import find_spec
from textwrap import fill

from tracetui.cli.arguments import Command, add_no_cache, add_steps_by, add_trace, completes_files, opening
from tracetui.cli.inputs import read_trace
from tracetui.errors import UsageError
from tracetui.files import NO_FILE
from tracetui.opening.trace_opening import OpenOptions
from tracetui.text import clean

EXPLAIN_DESCRIPTION = """\
Say what an event is in three sentences: what it does, what its time means, what to look at next.

By its name, `tracetui explain cudaStreamSynchronize`, or of a trace, `tracetui explain trace.json.gz --at e1234`."""


def add_explain_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tracetui explain`."""
    what = parser.add_argument("what", metavar="NAME", help="the name of an event, or with --at a trace")
    completes_files(what)
    parser.add_argument("--at", metavar="VIEW", help="the event of a trace, as in a view string: e1234")
    add_no_cache(parser)


def run_explain(options: argparse.Namespace) -> int:
    """Print the explanation.

    Raises: UsageError for a name without one, and a view without an event; TraceError for the file.
    """
    # These load numpy, which `--help` must not wait for.
    from tracetui.agents.window_text import row_of
    from tracetui.kernel_names.slice_names import explanation
    from tracetui.model.trace import Kind
    from tracetui.model.viewpoint import read_view_string

    name, kind = options.what, None
    if options.at is not None:
        trace = read_trace(
            options.what, OpenOptions(uses_cache=not options.no_cache, compile_log=NO_FILE, requests=NO_FILE)
        )
        row = row_of(trace, read_view_string(options.at))
        if row < 0:
            raise UsageError(f"{options.at!r} names no event: write e1234, or s3/k5 for the fifth kernel of step 3.")
        name, kind = trace.name_of(row), Kind(int(trace.slices.kind[row]))
    entry = explanation(name, kind)
    if entry is None:
        raise UsageError(f"Nothing is known of {clean(name)!r} by its name: --at says which event of a trace it is.")
    width = min(shutil.get_terminal_size().columns, 100)
    print(f"{clean(name)}\n{entry.title}\n\n{fill(entry.text, width)}")
    return 0


WHATIF_DESCRIPTION = """\
Say what a step would take if something were changed: a replay of the launch queue of the trace.

  scale(NAME, F)   GPU time of kernels, copies and fills whose name matches, times F; without a GPU that of operators
  cpu(NAME, F)     CPU time of operators, annotations and Python functions whose name matches, times F
  drop(sync)       without the calls in which the CPU waits for the GPU; what it saves at most
  drop(NAME)       without these operators and what they launch; what it saves at most
  graph(A:B)       kernels A to B of each step as one CUDA graph; experimental

NAME is a regular expression, of names as they stand in the trace or as kernels are called here; its case counts where
it has capitals. Several changes are applied one after the other, and each alone too. The answer is an
interval: its ends leave the waits that the trace does not explain as they are, or away. It is refused where a replay
without a change is more than 3 % off, and where the steps differ by more than 10 % by themselves; docs/whatif.md."""

WHATIF_EXAMPLES = """\
examples:
  tracetui whatif trace.json.gz 'scale(softmax, 0.5)'               kernels of that name take half as long
  tracetui whatif trace.json.gz 'cpu(DataLoader, 0)' 'drop(sync)'   no time for data, then no waits
  tracetui whatif trace.json.gz 'graph(3:7)' --format json          five kernels as a CUDA graph"""


def add_whatif_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tracetui whatif`."""
    parser.epilog = WHATIF_EXAMPLES
    add_trace(parser)
    parser.add_argument("changes", metavar="CHANGE", nargs="+", help="a change, in quotes; see above")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="what to print (default: text)")
    add_steps_by(parser)
    add_no_cache(parser)


def run_whatif(options: argparse.Namespace) -> int:
    """Print the prediction; the exit code is 1 for a file that is cut off.

    Raises: UsageError for a change that is not understood; Unanswerable where it is refused; TraceError.
    """
    # These load numpy, which `--help` must not wait for.
    from tracetui.drawing.text.whatif_text import as_json, as_lines
    from tracetui.whatif.prediction import predict, read_change

    for text in options.changes:
        read_change(text)
    trace = read_trace(options.trace, opening(options)._replace(compile_log=NO_FILE, requests=NO_FILE))
    prediction = predict(trace, options.changes)
    if options.format == "json":
        sys.stdout.write(as_json(trace, prediction))
    else:
        print("\n".join(as_lines(prediction)))
    return int(trace.quality.is_part)


MCP_DESCRIPTION = """\
Answer an assistant's questions about the traces below a folder, over the Model Context Protocol.

It speaks on standard input and output, as `tracetui mcp DIR` in the settings of an assistant. It reads traces below DIR
and nothing else, writes nothing, and no answer is longer than 20 KB. `tracetui skill` prints what teaches an assistant
to use it. It needs the package mcp."""

INSTALL = "pip install mcp"
"""Command that installs the extra `mcp`, wherever tracetui itself was installed from."""


def add_mcp_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tracetui mcp`."""
    completes_files(parser.add_argument("folder", metavar="DIR", help="the folder whose traces may be read"))


def run_mcp(options: argparse.Namespace) -> int:
    """Answer until standard input is closed.

    Raises: UsageError where the package is not installed; NotFound for what is no folder.
    """
    if find_spec("mcp") is None:
        raise UsageError(f"`tracetui mcp` needs the package mcp: {INSTALL}.")
    # These load numpy and half of the program, which `--help` must not wait for.
    from tracetui.agents.server import serve
    from tracetui.agents.tools import Tools
    from tracetui.agents.trace_folder import TraceFolder

    serve(Tools(TraceFolder(options.folder)))
    return 0


SKILL_DESCRIPTION = """\
Print the page that teaches an assistant the commands, their JSON, and how to cite what it says.

Put it where your assistant looks for instructions: `tracetui skill > SKILL.md`."""


def add_skill_arguments(parser: argparse.ArgumentParser) -> None:
    """`tracetui skill` has no arguments."""


def run_skill(options: argparse.Namespace) -> int:
    """Print the page."""
    # Five modules, which `--help` must not wait for.
    from importlib.resources import files

    sys.stdout.write((files("tracetui.agents") / "skill.md").read_text("utf-8"))
    return 0


COMMANDS = {
    "explain": Command(
        "say what an event is in three sentences", EXPLAIN_DESCRIPTION, add_explain_arguments, run_explain
    ),
    "whatif": Command(
        "what a step would take if something were changed", WHATIF_DESCRIPTION, add_whatif_arguments, run_whatif
    ),
    "mcp": Command(
        "answer an assistant's questions about the traces in a folder (MCP)",
        MCP_DESCRIPTION,
        add_mcp_arguments,
        run_mcp,
    ),
    "skill": Command(
        "print the page that teaches an assistant to use tracetui", SKILL_DESCRIPTION, add_skill_arguments, run_skill
    ),
}
