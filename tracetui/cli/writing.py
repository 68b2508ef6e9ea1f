"""`tracetui cut`, `repair` and `merge`: a part of a trace, a damaged one and several ranks, written as a trace."""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING, TypedDict

from tracetui.cli.arguments import (
    Command,
    add_no_cache,
    add_output,
    add_range,
    add_steps_by,
    add_trace,
    completes_files,
    opening,
)
from tracetui.cli.inputs import add_rank_set, rank_numbers, read_rank_set, read_trace, write_trace
from tracetui.cli.streams import CountProgress, remark
from tracetui.errors import UsageError
from tracetui.files import NO_FILE
from tracetui.text import clean

if TYPE_CHECKING:
    from tracetui.model.trace import Trace
    from tracetui.writing.anonymizing import Anonymizer
    from tracetui.writing.cut import Kept
    from tracetui.writing.formats import PacketRepair, Repair
    from tracetui.writing.merge import Merge
    from tracetui.writing.selection import Wanted

CUT_DESCRIPTION = """\
Write a part of a trace as a smaller trace that Perfetto, chrome://tracing and tracetui open.

Events are copied as they stand in the file, so the numbers of what is left do not change; times still count from
the same moment, and tracetui shows them from the first event that is left.

--steps keeps what was open on any thread within the steps, all GPU work that they launched, whenever it ran, and
what encloses it (a Python frame around the loop stays as long as it was). It also keeps the few slices of other
steps that the numbers of these rest on: work that held up a stream, calls that were still queued, what the CPU did
while the GPU waited for the first kernel. So `tracetui show PANE OUT --step N` prints what it printed of the whole;
only what compares with the rest of the trace (`partial`, medians over all steps) can differ.

A part of a .pftrace is a .pftrace, packet by packet with the clocks, tracks and names that they need.

--window and --range keep what is open within a stretch of time, by its own time, on the GPU as well.
--lanes and --without keep and leave out whole threads and streams, by their names; both ends of an arrow, or none.

--with-layers adds lanes: the layers of each step on each GPU, and when each thread was in the forward and backward
pass, the optimizer and the data loader. They stand beside what the profiler notes of itself, so that no number counts
them.

--hash-names replaces what is a user's own by stand-ins such as anon_kpxwzbtqcrvd, the same for the same name: names
of annotations, Python files, functions, modules, operators outside of PyTorch's own namespaces, kernels, threads,
processes and counters. What stays: aten::*, prim::*, c10d::* and PyTorch's own annotations; ProfilerStep#N; names of
CUDA and ROCm calls; kernels of PyTorch, cuBLAS, cuDNN, CUTLASS, cub and NCCL, but for the user's types in them; and
generated kernels with nothing but PyTorch's operators in the name. Of the arguments numbers, shapes, types and
addresses stay; other texts, call stacks, and all metadata but versions, options and devices are left out.
Times, sizes and process ids are not hidden."""


def add_cut_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tracetui cut`."""
    add_trace(parser)
    add_output(parser, "OUT", "where to; .gz and .zst are packed, - is standard output", required=True)
    add_part(parser)
    parser.add_argument("--lanes", action="append", default=[], metavar="TEXT", help="only lanes with TEXT in the name")
    parser.add_argument("--without", action="append", default=[], metavar="TEXT", help="no lanes with TEXT in the name")
    parser.add_argument("--no-stacks", action="store_true", help="without Python frames and call stacks")
    parser.add_argument("--no-memory", action="store_true", help="without the events of the allocator")
    parser.add_argument("--with-layers", action="store_true", help="with layers and parts of steps as lanes")
    parser.add_argument("--hash-names", action="store_true", help="with stand-ins for names of your own, see above")
    parser.add_argument("--salt", metavar="TEXT", help="a secret, to get the same stand-ins in several files")


def add_part(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments that choose a stretch of a trace."""
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--steps", metavar="N[:M]", help="the step with this number, or these and all between")
    choice.add_argument("--window", metavar="A:B", help="from A to B, as 1.2ms:3.4ms; either may be left out")
    add_range(choice, "what is open within a range of time: its start and length, as 12.5us+250us")
    add_steps_by(parser)
    add_no_cache(parser)


def run_cut(options: argparse.Namespace) -> int:
    """Write the part; the exit code is 1 for a file that is cut off, of which what could be read is written.

    Raises: UsageError when nothing is left or OUT is there; TraceError for the file; CannotWrite for OUT.
    """
    # These load numpy, which `--help` must not wait for.
    from tracetui.writing.formats import part_of, require_fitting_name
    from tracetui.writing.output import refuse_terminal, require_writable

    wanted, anonymizer = wanted_part(options), _anonymizer(options)
    refuse_terminal(options.output)
    require_writable(options.output, [(options.trace, "the trace")], options.force)
    trace = read_trace(options.trace, opening(options)._replace(compile_log=NO_FILE, requests=NO_FILE))
    require_fitting_name(options.output, trace)
    kept, size = write_trace(
        options.output, trace, part_of(trace, wanted, anonymizer, options.with_layers).write, options.force
    )
    remark(_summary(trace, kept, size))
    return 0 if not trace.quality.is_part else 1


def wanted_part(options: argparse.Namespace) -> Wanted:
    """The part of a trace that the options of a command ask for.

    Raises: UsageError when a step or a time cannot be understood.
    """
    from tracetui.writing.selection import Wanted

    return Wanted(
        steps=_steps(options.steps) if options.steps is not None else None,
        window=_wanted_window(options),
        lanes=tuple(getattr(options, "lanes", ())),
        without=tuple(getattr(options, "without", ())),
        stacks=not getattr(options, "no_stacks", False),
        memory=not getattr(options, "no_memory", False),
    )


def _wanted_window(options: argparse.Namespace) -> tuple[float | None, float | None] | None:
    from tracetui.model.intervals import read_time_range

    if options.range is not None:
        time_range = read_time_range(options.range)
        return float(time_range.start), float(time_range.end)
    return _window(options.window) if getattr(options, "window", None) is not None else None


def _summary(trace: Trace, kept: Kept, size: int) -> str:
    from tracetui.model.quantities import size as as_size

    neighbours = f", {kept.neighbours:,} of them of other steps" if kept.neighbours else ""
    sizes = f"{as_size(trace.size_bytes)} -> {as_size(size)}"
    lines = "; its lines are an array now" if ", lines" in trace.format else ""
    added = f", {kept.added:,} slices of layers and phases added" if kept.added else ""
    return f"kept {kept.events:,} of {trace.events:,} events{neighbours}{added}, {sizes}{lines}"


def _anonymizer(options: argparse.Namespace) -> Anonymizer | None:
    import secrets

    from tracetui.writing.anonymizing import Anonymizer

    if options.salt is not None and not options.hash_names:
        raise UsageError("--salt is the secret of --hash-names: give both, or neither.")
    if not options.hash_names:
        return None
    return Anonymizer(secrets.token_bytes(32) if options.salt is None else options.salt.encode())


def _steps(text: str) -> tuple[int | None, int | None]:
    first, colon, last = text.partition(":")
    ends = [end.strip() for end in ((first, last) if colon else (first, first))]
    if any(end and not (end.isdecimal() and end.isascii()) for end in ends) or not any(ends):
        raise UsageError(f"--steps {text} is no range of steps: write 3, 2:4, 2: or :4.")
    low, high = (int(end) if end else None for end in ends)
    if low is not None and high is not None and low > high:
        raise UsageError(f"--steps {text} ends before it begins.")
    return low, high


def _window(text: str) -> tuple[float | None, float | None]:
    first, colon, last = text.partition(":")
    if not colon or not (first.strip() or last.strip()):
        raise UsageError(f"--window {text} is no stretch of time: write 1.2ms:3.4ms, 1.2ms: or :3.4ms.")
    low, high = _moment(first), _moment(last)
    if low is not None and high is not None and low >= high:
        raise UsageError(f"--window {text} ends before it begins.")
    return low, high


def _moment(text: str) -> float | None:
    """A time in ns as in view strings, None for nothing."""
    from tracetui.model.viewpoint import read_view_string

    if not text.strip():
        return None
    try:
        place = read_view_string(f"@{text.strip()}")
    except UsageError:
        place = None
    if place is None or place.start_ns is None or place.length_ns is not None:
        raise UsageError(f"{text.strip()!r} is no time: write it as 12.5us, 1.2ms or 3s, from the start of the trace.")
    return place.start_ns


REPAIR_DESCRIPTION = """\
Write a damaged trace anew, as one that Perfetto, chrome://tracing and tracetui open.

Standard output lists what was done, with the byte in the unpacked file at which it was done. Events that are valid
are copied as they stand; what cannot be read is left out and listed. A file that is whole is copied. A .pftrace is
written as that, without the packets that cannot be read."""

FORMATS = ("text", "json")


def add_repair_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tracetui repair`."""
    add_trace(parser)
    add_output(parser, "OUT", "where to; .gz and .zst are packed, - is standard output", required=True)
    parser.add_argument("--format", choices=FORMATS, default="text", help="how the list is printed (default: text)")


def run_repair(options: argparse.Namespace) -> int:
    """Write the trace and list what was done.

    Raises: UsageError when OUT is there; TraceError for a file in which nothing can be read; CannotWrite for OUT.
    """
    # These load numpy, which `--help` must not wait for.
    from tracetui.model.quantities import size as as_size
    from tracetui.reading.load import load
    from tracetui.writing.formats import repair_of, require_fitting_name
    from tracetui.writing.output import refuse_terminal, require_writable

    refuse_terminal(options.output)
    require_writable(options.output, [(options.trace, "the trace")], options.force)
    repair = repair_of(load(options.trace))
    require_fitting_name(options.output, repair.trace)
    count, size = write_trace(options.output, repair.trace, repair.write, options.force)
    # With the trace on standard output the list goes elsewhere.
    stream = sys.stderr if options.output == "-" else sys.stdout
    if options.format == "json":
        stream.write(_document(repair, count))
    else:
        for mend in repair.done:
            where = "the file" if mend.offset is None else f"byte {mend.offset:,}"
            text = f": {clean(mend.excerpt)}" if mend.excerpt else ""
            print(f"{where}: {clean(mend.what)}{text}", file=stream)
    words = {0: "nothing was to be done, the file is whole", 1: "1 thing was done"}
    done = words.get(len(repair.done), f"{len(repair.done):,} things were done")
    remark(f"{done}; wrote {count:,} events, {as_size(size)}")
    return 0


class MendDocument(TypedDict):
    """A repair at a byte of the unpacked file, null for the whole file, and the text that was there."""

    offset: int | None
    done: str
    shown: str


class RepairDocument(TypedDict):
    """The repairs, and how many events were written."""

    events: int
    done: list[MendDocument]


def _document(repair: Repair | PacketRepair, count: int) -> str:
    # Loads orjson, which `--help` must not wait for.
    from tracetui.drawing.text.envelope import json_text

    done: list[MendDocument] = [
        {"offset": mend.offset, "done": mend.what, "shown": clean(mend.excerpt)} for mend in repair.done
    ]
    return json_text("repair", RepairDocument(events=count, done=done), indented=True)


MERGE_DESCRIPTION = """\
Write the ranks of a run as one trace that Perfetto, chrome://tracing and tracetui open.

FOLDER is searched for traces of ranks as `tracetui ranks` does it. Processes are named and ordered by rank (`rank 3 ·
node1 · python 4711`); processes, devices, correlations and arrows of different ranks get different numbers; all times
are on the clock of the first rank's host, as `tracetui ranks` finds it. How much each rank's times were moved, and by
how much that may be wrong, stands in the file under the key `ranks`.

The ranks are read one after the other, in blocks. --steps keeps the same steps of every rank, as `tracetui cut` does;
--range keeps a range of time, from the start of the earliest rank on.
A merge is JSON, packed where the name ends in .gz or .zst. Where it ends in .zip, the traces stand whole in an archive,
with a manifest that has Perfetto (from version 58 on) show them on one clock."""

_PROTOBUF = re.compile(r"\.(pftrace|perfetto-trace|pb)(\.gz|\.zst|\.zstd)?$", re.IGNORECASE)


def add_merge_arguments(parser: argparse.ArgumentParser) -> None:
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


def run_merge(options: argparse.Namespace) -> int:
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


COMMANDS = {
    "cut": Command("write a part of a trace as a smaller trace", CUT_DESCRIPTION, add_cut_arguments, run_cut),
    "repair": Command(
        "write a damaged trace anew, and list what was done", REPAIR_DESCRIPTION, add_repair_arguments, run_repair
    ),
    "merge": Command("write the ranks of a run as one trace", MERGE_DESCRIPTION, add_merge_arguments, run_merge),
}
