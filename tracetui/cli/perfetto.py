"""Serve a trace on loopback, and print the address of ui.perfetto.dev that opens it.

The trace goes to the browser that asks for it and nowhere else: the page runs in the browser, and what it opens
stays there. Only this machine is listened to; for a browser elsewhere the port is forwarded, with
`ssh -L 9001:127.0.0.1:9001 HOST` run where the browser is. The page may load from port 9001 of the browser's own
machine and no other, so a different --port is of use only behind such a forwarding.

It serves until ctrl+c, so that the page can be reloaded; --once ends when the trace has been sent once. Chrome asks
whether the page may reach this device: allow it. Safari does not let the page load from http.
--steps and --window serve a part, as `tracetui cut` makes it: Perfetto opens about 2 GB. Of a folder all ranks of its
run are served as one trace, as `tracetui merge` writes it; --ranks 0,3-5 names some of them."""

from __future__ import annotations

import argparse
import os
import socket
import sys
import tempfile
from pathlib import Path

from tracetui.cli.arguments import Command, add_trace, opening
from tracetui.cli.inputs import add_cluster, rank_numbers, read_rank_folder, read_trace, require_no_cluster, write_trace
from tracetui.cli.streams import CountProgress, remark
from tracetui.cli.writing import add_part, wanted_part
from tracetui.errors import UsageError
from tracetui.files import NO_FILE, is_url
from tracetui.opening.rank_folder import is_folder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tracetui perfetto`."""
    add_trace(parser, "a trace, or a folder with one of each rank; with --steps or --window also -")
    add_part(parser)
    parser.add_argument("--ranks", metavar="LIST", help="of a folder: only these ranks, as 0,3-5")
    add_cluster(parser)
    parser.add_argument("--once", action="store_true", help="end when the trace has been sent")
    parser.add_argument("--port", type=int, metavar="N", help="the port to serve at, to be forwarded to 9001")


def run(options: argparse.Namespace) -> int:
    """Serve until ctrl+c.

    Raises: CannotRun when the port is taken; TraceError when the file cannot be served.
    """
    is_part = not (options.steps is None and options.window is None and options.range is None)
    if is_folder(options.trace):
        with tempfile.TemporaryDirectory(prefix="tracetui-") as folder:
            return _serve(_merged(options, folder), options)
    require_no_cluster(options)
    if options.ranks is not None:
        raise UsageError("--ranks chooses among the traces of a folder: name a folder.")
    if not is_part:
        if options.steps_by is not None:
            raise UsageError("--steps-by says what the steps are: name some with --steps.")
        if is_url(options.trace):
            raise UsageError(f"{options.trace} is a URL: a trace is served whole from this machine, or a part of it.")
        return _serve(options.trace, options)
    with tempfile.TemporaryDirectory(prefix="tracetui-") as folder:
        return _serve(_part(options, folder), options)


def _part(options: argparse.Namespace, folder: str) -> str:
    """The path of a file with the part that was asked for."""
    # These load numpy, which serving a whole file does not need.
    from tracetui.writing.formats import part_of, suffix_of

    wanted = wanted_part(options)
    trace = read_trace(options.trace, opening(options)._replace(compile_log=NO_FILE, requests=NO_FILE))
    stem = Path("trace" if options.trace == "-" else options.trace).name.partition(".")[0] or "trace"
    path = os.path.join(folder, f"{stem}.cut{suffix_of(trace)}.gz")
    kept, _ = write_trace(path, trace, part_of(trace, wanted).write)
    remark(f"serving {kept.events:,} of {trace.events:,} events")
    return path


def _merged(options: argparse.Namespace, folder: str) -> str:
    """The path of a file with the ranks of a folder."""
    from tracetui.cli.writing import print_notes
    from tracetui.writing.merge import Merge
    from tracetui.writing.output import output

    if options.steps_by is not None:
        raise UsageError("--steps-by is for one trace: the steps of a folder are those that its files record.")
    numbers = None if options.ranks is None else rank_numbers(options.ranks)
    ranks = read_rank_folder(options.trace, options)
    with CountProgress("ranks") as progress:
        merge = Merge(ranks, wanted_part(options), numbers)
        path = os.path.join(folder, f"{os.path.basename(os.path.abspath(options.trace)) or 'ranks'}.json.gz")
        with output(path) as sink:
            events = merge.write(sink, progress.update)
    print_notes(merge)
    remark(f"serving {events:,} events of {len(merge.indices):,} ranks")
    return path


def _serve(path: str, options: argparse.Namespace) -> int:
    # The server's modules take longer to import than `--help` has.
    from tracetui.writing.perfetto_server import ADDRESS, PORT, PerfettoServer, ServedFile

    port = PORT if options.port is None else options.port
    if not 0 < port < 1 << 16:
        raise UsageError(f"--port {port} is no port: name one from 1 to 65535.")
    server = PerfettoServer(ServedFile(path), port, options.once, remark)
    forward = f"ssh -L {PORT}:{ADDRESS}:{port} {socket.gethostname()}"
    print(server.link, flush=True)
    until = "it has been sent" if options.once else "ctrl+c"
    remark(f"serving {server.file.name} at {ADDRESS}:{port} until {until}; open the link in a browser")
    if port == PORT:
        remark(f"if the browser is on another machine, run this there first: {forward}")
    else:
        remark(f"the page loads from port {PORT} alone, so run this where the browser is: {forward}")
    remark("the trace goes to the browser that asks for this link, and nowhere else")
    try:
        server.serve()
    except KeyboardInterrupt:
        # The way to end it, not a failure.
        print(file=sys.stderr)
    return 0


COMMANDS = {"perfetto": Command("serve a trace for ui.perfetto.dev", __doc__, add_arguments, run)}
