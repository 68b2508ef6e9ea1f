"""Say what a step would take if something were changed: a replay of the launch queue of the trace.

  scale(NAME, F)   GPU time of kernels, copies and fills whose name matches, times F; without a GPU that of operators
  cpu(NAME, F)     CPU time of operators, annotations and Python functions whose name matches, times F
  drop(sync)       without the calls in which the CPU waits for the GPU; what it saves at most
  drop(NAME)       without these operators and what they launch; what it saves at most
  graph(A:B)       kernels A to B of each step as one CUDA graph; experimental

NAME is a regular expression, of names as they stand in the trace or as kernels are called here; its case counts where
it has capitals. Several changes are applied one after the other, and each alone too. The answer is an
interval: its ends leave the waits that the trace does not explain as they are, or away. It is refused where a replay
without a change is more than 3 % off, and where the steps differ by more than 10 % by themselves; docs/whatif.md."""

from __future__ import annotations

import argparse
import sys

from tracetui.cli.arguments import add_no_cache, add_steps_by, add_trace, opening
from tracetui.cli.inputs import read_trace
from tracetui.files import NO_FILE

HELP = "what a step would take if something were changed"

EXAMPLES = """\
examples:
  tracetui whatif trace.json.gz 'scale(softmax, 0.5)'               kernels of that name take half as long
  tracetui whatif trace.json.gz 'cpu(DataLoader, 0)' 'drop(sync)'   no time for data, then no waits
  tracetui whatif trace.json.gz 'graph(3:7)' --format json          five kernels as a CUDA graph"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tracetui whatif`."""
    parser.epilog = EXAMPLES
    add_trace(parser)
    parser.add_argument("changes", metavar="CHANGE", nargs="+", help="a change, in quotes; see above")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="what to print (default: text)")
    add_steps_by(parser)
    add_no_cache(parser)


def run(options: argparse.Namespace) -> int:
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
