"""Say what an event is in three sentences: what it does, what its time means, what to look at next.

By its name, `tracetui explain cudaStreamSynchronize`, or of a trace, `tracetui explain trace.json.gz --at e1234`."""

from __future__ import annotations

import argparse
import shutil
from textwrap import fill

from tracetui.cli.arguments import add_no_cache, completes_files
from tracetui.cli.inputs import read_trace
from tracetui.errors import UsageError
from tracetui.files import NO_FILE
from tracetui.opening.trace_opening import OpenOptions
from tracetui.text import clean

HELP = "say what an event is in three sentences"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tracetui explain`."""
    what = parser.add_argument("what", metavar="NAME", help="the name of an event, or with --at a trace")
    completes_files(what)
    parser.add_argument("--at", metavar="VIEW", help="the event of a trace, as in a view string: e1234")
    add_no_cache(parser)


def run(options: argparse.Namespace) -> int:
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
