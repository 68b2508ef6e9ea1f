"""The server, asked by the package's own client: in memory, and as a process on standard input and output."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from tests.support.agents import Call, asked, rows, text_of, write_gpu_trace
from tests.support.paths import IMPORT_PATH, SAMPLES
from tracetui.agents.server import server
from tracetui.agents.tools import MAX_BYTES, Tools
from tracetui.agents.trace_folder import TraceFolder
from tracetui.cli.main import main
from tracetui.cli.questions import INSTALL

EAGER = "mlp_eager_cpu.json.gz"


@pytest.fixture
def tools():
    """Tools over the sample traces."""
    return Tools(TraceFolder(str(SAMPLES)))


async def test_the_tools_are_read_only_and_say_what_they_take(tools):
    async with Client(server(tools)) as client:
        listed = (await client.list_tools()).tools
        assert client.instructions is not None and "never instructions" in client.instructions
    assert [tool.name for tool in listed] == list(tools.all)
    for tool in listed:
        assert tool.annotations is not None and tool.annotations.read_only_hint
        assert tool.input_schema["additionalProperties"] is False
        # What no description names, an assistant does not use.
        words = " ".join(each.description or "" for each in listed)
        missing = [name for name in tool.input_schema["properties"] if f"`{name}`" not in words]
        assert set(missing) <= {"trace", "folder", "limit", "offset", "a", "b", "query", "view"}
    assert len(json.dumps([tool.model_dump() for tool in listed])) < MAX_BYTES


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("nothing" * 5000, {}), ("pane", {}), ("pane", {"trace": EAGER, "name": "ops", "limt": 3}),
     ("overview", {"trace": "no"}), ("pane", {"trace": EAGER, "name": "ops", "limit": "many"}),
     ("overview", {"trace": "../README.md"}), ("overview", {"trace": "README.md"}),
     ("overview", {"trace": "x" * 100_000}), ("at", {"trace": EAGER, "view": "?!/"})],
)  # fmt: skip
async def test_a_mistake_is_a_sentence_and_the_server_goes_on(tools, name, arguments):
    async with Client(server(tools)) as client:
        refused = await client.call_tool(name, arguments)
        text = text_of(refused.content)
        assert refused.is_error and json.loads(text)["error"]
        assert len(text.encode()) <= MAX_BYTES and str(SAMPLES.parent) not in text
        assert not (await client.call_tool("traces")).is_error


async def test_a_defect_is_a_sentence_and_the_server_goes_on(tools, monkeypatch, breaks):
    breaks("tracetui.agents.tools.kept_overview")
    first, second = await asked(tools, ("overview", {"trace": EAGER}), ("pane", {"trace": EAGER, "name": "ops"}))
    assert json.loads(first)["error"] and rows(second)


async def test_null_stands_for_what_is_left_out(tools):
    given: dict[str, Any] = {"trace": EAGER, "name": "ops", "step": None, "range": None, "where": None}
    with_nulls, without = await asked(tools, ("pane", given), ("pane", {"trace": EAGER, "name": "ops"}))
    assert with_nulls == without


@pytest.mark.full
async def test_calls_at_the_same_time_have_the_answers_of_calls_alone(tools):
    calls: list[Call] = [
        (name, {"trace": f"{trace}_cpu.json.gz", **more})
        for trace in ("mlp_eager", "linear_eager", "split_stack_eager", "combined_eager")
        for name, more in (("overview", {}), ("pane", {"name": "ops"}), ("findings", {}))
    ]
    alone = await asked(tools, *calls)
    async with Client(server(tools)) as client:
        together = await asyncio.gather(*(client.call_tool(*call) for call in calls * 2))
    assert [text_of(each.content) for each in together] == alone * 2


async def test_nothing_prints(tools, capsys):
    sides = {"a": EAGER, "b": EAGER}
    await asked(tools, ("overview", {"trace": EAGER}), ("overview", {"trace": "nothing"}), ("compare", sides))
    assert capsys.readouterr().out == ""


def test_a_folder_that_is_none_ends_the_command(tmp_path, capsys):
    assert main(["mcp", str(tmp_path / "nowhere")]) == 1
    assert capsys.readouterr().out == ""


def test_without_the_package_the_command_says_how_to_install_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("tracetui.cli.questions.find_spec", lambda name: None)
    assert main(["mcp", str(tmp_path)]) == 2
    assert INSTALL in capsys.readouterr().err


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_process_that_waits_for_its_input_ends_by_a_signal(number):
    command = [sys.executable, "-m", "tracetui", "mcp", str(SAMPLES)]
    environment = {**os.environ, "PYTHONPATH": IMPORT_PATH}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdin is not None and process.stdout is not None
        request = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["result"]
        process.send_signal(number)
        assert process.wait(60) == -number


@pytest.mark.full
async def test_a_process_answers_on_standard_output_and_ends_with_its_input(tmp_path):
    write_gpu_trace(tmp_path / "a.json", [10, 20])
    environment = {**os.environ, "PYTHONPATH": IMPORT_PATH, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "tracetui", "mcp", str(tmp_path)], env=environment, cwd=str(tmp_path)
    )
    async with Client(command) as client:
        assert [row["trace"] for row in rows(text_of((await client.call_tool("traces")).content))] == ["a.json"]
        refused = await client.call_tool("overview", {"trace": "/etc/passwd"})
        assert refused.is_error
        shown = await client.call_tool("pane", {"trace": "a.json", "name": "kernels", "sort": "dur_us"})
        assert [row["dur_us"] for row in rows(text_of(shown.content))] == [20, 10]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.json"]
