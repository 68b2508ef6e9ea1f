"""The tools of a folder behind the Model Context Protocol, on standard input and output.

One thread answers, one call after the other. Whatever goes wrong in a call is the answer to that call. Needs the extra
`mcp`.
"""

from __future__ import annotations

import inspect
import os
import signal
from collections.abc import Callable
from typing import Any, get_type_hints

import anyio
import anyio.to_thread
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from tracetui import __version__
from tracetui.agents.tools import TEXTS, Tools, refusal
from tracetui.crash_report import crash_message
from tracetui.errors import TracetuiError

INSTRUCTIONS = (
    "Traces of the PyTorch profiler. `traces` lists them; begin with `overview` of one, then `findings` and `pane`. "
    "Times are microseconds where a name ends in _us. Cite the view string of a row: `at` draws it, and a person opens "
    f"it with `tracetui open TRACE --at VIEW`. What is null or listed as not_in_trace cannot be told. {TEXTS}"
)


def server(tools: Tools) -> Server[dict[str, Any]]:
    """A server of the tools."""
    every, worker = tools.all, anyio.CapacityLimiter(1)
    models = {name: _arguments(name, tool) for name, tool in every.items()}

    async def list_tools(context: ServerRequestContext[Any], params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(
            tools=[
                Tool(
                    name=name,
                    description=inspect.getdoc(tool),
                    input_schema=models[name].model_json_schema(),
                    annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
                )
                for name, tool in every.items()
            ]
        )

    async def call_tool(context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        def call() -> CallToolResult:
            name = params.name
            if name not in every:
                return _refused(f"There is no tool {name!r}: there are {', '.join(every)}.")
            try:
                # Some clients send null for what they leave out.
                given = {key: value for key, value in (params.arguments or {}).items() if value is not None}
                arguments = models[name].model_validate(given)
                return CallToolResult(content=[TextContent(text=every[name](**dict(arguments)))])
            except ValidationError as error:
                wrong = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
                return _refused(f"The arguments do not fit: {wrong}.")
            except TracetuiError as error:
                # What is above the folder is nobody's business.
                sentence = "\n".join([str(error), *error.lines_below])
                return _refused(sentence.replace(f"{tools.folder.root}{os.sep}", ""))
            except Exception as error:
                return _refused(crash_message(error))

        return await anyio.to_thread.run_sync(call, limiter=worker)

    return Server(
        "tracetui",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def serve(tools: Tools) -> None:
    """Answer on standard input and output until the other side closes it; whatever prints goes to standard error."""

    async def run() -> None:
        async with stdio_server() as (read, write):
            here = server(tools)
            await here.run(read, write, here.create_initialization_options())

    # No exception ends a thread that waits for input. Nothing is ever half written, so that the process may just end.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    anyio.run(run)


def _refused(sentence: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=refusal(sentence))], is_error=True)


def _arguments(name: str, tool: Callable[..., str]) -> type[BaseModel]:
    """The parameters of a tool as a model that knows no others, so that one which is misspelt is not lost."""
    hints = get_type_hints(tool)
    fields: dict[str, Any] = {
        each.name: (hints[each.name], ... if each.default is each.empty else each.default)
        for each in inspect.signature(tool).parameters.values()
    }
    return create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
