"""Write the ranks of a run as one trace that Perfetto, chrome://tracing and tracetui open.

FOLDER is searched for traces of ranks as `tracetui ranks` does it. Processes are named and ordered by rank (`rank 3 ·
node1 · python 4711`); processes, devices, correlations and arrows of different ranks get different numbers; all times
are on the clock of the first rank's host, as `tracetui ranks` finds it. How much each rank's times were moved, and by
how much that may be wrong, stands in the file under the key `ranks`.

The ranks are read one after the other, in blocks. --steps keeps the same steps of every rank, as `tracetui cut` does;
--range keeps a range of time, from the start of the earliest rank on.
A merge is JSON, packed where the name ends in .gz or .zst. Where it ends in .zip, the traces stand whole in an archive,
with a manifest that has Perfetto (from version 58 on) show them on one clock."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from tracetui.cli.arguments import add_output, add_range, completes_files
from tracetui.cli.cut import wanted_part
from tracetui.cli.inputs import add_rank_set, rank_numbers, read_rank_set
from tracetui.cli.streams import CountProgress, remark
from tracetui.errors import UsageError

if TYPE_CHECKING:
    from tracetui.writing.merge import Merge

HELP = "write the ranks of a run as one trace"

_PROTOBUF = re.compile(r"\.(pftrace|perfetto-trace|pb)(\.gz|\.zst|\.zstd)?$", re.IGNORECASE)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tracetui merge`."""
    completes_files(
        parser.add_argument(
            "paths", metavar="FOLDER", nargs="+", help="folder, files or patterns with a trace of each rank"
        )
    )
    add_output(parser, "OUT", "where to; .gz and .zst are packed, - is standard output", required=True)
    parser.add_argument("--ranks", metavar="LIST", help="only these ranks, as 0,3-5; clocks are found with all")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--steps", metavar="N[:M]", help="the step with this number, or these and all between")
    add_range(choice, "what is open within a range of time: its start and length, as 12.5ms+250us")
    add_rank_set(parser)


def run(options: argparse.Namespace) -> int:
    """Write the merge; the exit code is 1 where a rank is cut off, of which what could be read is written.

    Raises: UsageError when OUT is there or one of the ranks, a rank is not there, or nothing is left; TraceError for
    the files; CannotWrite for OUT.
    """
    # These load numpy, which `--help` must not wait for.
    from tracetui.model.quantities import counted, size
    from tracetui.writing.merge import Merge
    from tracetui.writing.output import output, refuse_terminal, require_writable

    if _PROTOBUF.search(options.output):
        name = _PROTOBUF.sub("", options.output)
        raise UsageError(f"A merge is written as JSON: name the file {name}.json.gz. Perfetto opens that too.")
    refuse_terminal(options.output)
    require_writable(options.output, [(path, "one of the traces") for path in options.paths], options.force)
    numbers = None if options.ranks is None else rank_numbers(options.ranks)
    wanted = wanted_part(options)
    is_archive = options.output.lower().endswith(".zip")
    if is_archive and not wanted.everything:
        raise UsageError("An archive holds whole traces: name the file .json.gz for a part of them.")
    merge = Merge(read_rank_set(options.paths, options), wanted, numbers)
    inputs = [(file.path, f"the trace of rank {file.rank}") for file in merge.ranks.run.files]
    require_writable(options.output, inputs, options.force)
    with CountProgress("ranks") as progress, output(options.output, options.force) as sink:
        count = (merge.write_archive if is_archive else merge.write)(sink, progress.update)
    print_notes(merge)
    what = counted(count, "trace" if is_archive else "event")
    remark(f"{what} of {counted(len(merge.indices), 'rank')}, {size(sink.size)}")
    return 0 if not any(each.loss for each in merge.ranks.summaries) else 1


def print_notes(merge: Merge) -> None:
    """Say on standard error what a reader of a merge must know."""
    left_out = [f"{merge.ranks.shown_path(each.path)} is left out: {each.why}" for each in merge.ranks.run.left_out]
    for note in (*merge.notes, *left_out):
        remark(note)
