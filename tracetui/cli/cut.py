"""Write a part of a trace as a smaller trace that Perfetto, chrome://tracing and tracetui open.

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

from __future__ import annotations

import argparse
import secrets
from typing import TYPE_CHECKING

from tracetui.cli.arguments import add_no_cache, add_output, add_range, add_steps_by, add_trace, opening
from tracetui.cli.inputs import read_trace, write_trace
from tracetui.cli.streams import remark
from tracetui.errors import UsageError
from tracetui.files import NO_FILE

if TYPE_CHECKING:
    from tracetui.model.trace import Trace
    from tracetui.writing.anonymizing import Anonymizer
    from tracetui.writing.cut import Kept
    from tracetui.writing.selection import Wanted

HELP = "write a part of a trace as a smaller trace"


def add_arguments(parser: argparse.ArgumentParser) -> None:
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


def run(options: argparse.Namespace) -> int:
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
