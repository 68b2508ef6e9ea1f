"""Write a damaged trace anew, as one that Perfetto, chrome://tracing and tracetui open.

Standard output lists what was done, with the byte in the unpacked file at which it was done. Events that are valid
are copied as they stand; what cannot be read is left out and listed. A file that is whole is copied. A .pftrace is
written as that, without the packets that cannot be read."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, TypedDict

from tracetui.cli.arguments import add_output, add_trace
from tracetui.cli.inputs import write_trace
from tracetui.cli.streams import remark
from tracetui.text import clean

if TYPE_CHECKING:
    from tracetui.writing.formats import PacketRepair, Repair

HELP = "write a damaged trace anew, and list what was done"
FORMATS = ("text", "json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tracetui repair`."""
    add_trace(parser)
    add_output(parser, "OUT", "where to; .gz and .zst are packed, - is standard output", required=True)
    parser.add_argument("--format", choices=FORMATS, default="text", help="how the list is printed (default: text)")


def run(options: argparse.Namespace) -> int:
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
