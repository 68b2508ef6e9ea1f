"""What torch 2.15 writes beside GPU activity, in parts of a trace and without a user's names: nodes and counters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tracetui.cli.main import main


def on(pid: Any, tid: Any, cat: str, name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    """A slice."""
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def two_replays() -> list[dict[str, Any]]:
    """Two steps with a replay each: a kernel, and on a stream of their own an event node and a host node."""
    events: list[dict[str, Any]] = []
    for step in (1, 2):
        at = 1000 * step
        events += [
            on(1, 1, "user_annotation", f"ProfilerStep#{step}", at, 900),
            on(1, 1, "cuda_runtime", "cudaGraphLaunch", at + 10, 5, correlation=step),
            on(0, 7, "kernel", "secret_kernel", at + 20, 50, correlation=step, original_stream=20, secret="x"),
            on(0, 20, "graph_event_node", "EventRecord", at + 70, 0, correlation=step),
            on(0, 20, "graph_host_node", "HostNode: secret_function", at + 71, 5, correlation=step),
            {"ph": "C", "name": "SM Active (%)", "pid": "GPU 0 Counters", "ts": at, "args": {"": 50.0}},
            {"ph": "C", "name": "secret counter", "pid": "GPU 0 Counters", "ts": at, "args": {"": 50.0}},
        ]
    return events


def cut(tmp_path: Path, *options: str) -> list[dict[str, Any]]:
    """The events of a cut of it."""
    path, out = tmp_path / "whole.json", tmp_path / "cut.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": two_replays()}))
    assert main(["cut", str(path), "-o", str(out), *options]) == 0
    found = json.loads(out.read_text())["traceEvents"]
    return [event for event in found if event["ph"] in "XC"]


def test_a_step_keeps_the_nodes_of_its_replays(tmp_path: Path) -> None:
    nodes = [event for event in cut(tmp_path, "--steps", "2") if event.get("cat", "").startswith("graph_")]
    assert [event["args"]["correlation"] for event in nodes if event["ts"] > 2000] == [2, 2]


def test_public_names_of_counters_and_nodes_stay_and_a_users_own_do_not(tmp_path: Path) -> None:
    events = cut(tmp_path, "--hash-names")
    names = {event["name"] for event in events}
    assert {"SM Active (%)", "EventRecord"} <= names
    assert "secret" not in json.dumps(events)
    assert {event["pid"] for event in events if event["ph"] == "C"} == {"GPU 0 Counters"}
    assert {event["cat"] for event in events if event["ph"] == "X"} >= {"graph_event_node", "graph_host_node"}
    (original,) = {event["args"]["original_stream"] for event in events if event.get("cat") == "kernel"}
    assert original == 20
