"""Answer an assistant's questions about the traces below a folder, over the Model Context Protocol.

It speaks on standard input and output, as `tracetui mcp DIR` in the settings of an assistant. It reads traces below DIR
and nothing else, writes nothing, and no answer is longer than 20 KB. `tracetui skill` prints what teaches an assistant
to use it. It needs the package mcp."""

from __future__ import annotations

import argparse
from importlib.util import find_spec

from tracetui.cli.arguments import completes_files
from tracetui.errors import UsageError

INSTALL = "pip install mcp"
"""Command that installs the extra `mcp`, wherever tracetui itself was installed from."""
HELP = "answer an assistant's questions about the traces in a folder (MCP)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tracetui mcp`."""
    completes_files(parser.add_argument("folder", metavar="DIR", help="the folder whose traces may be read"))


def run(options: argparse.Namespace) -> int:
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
