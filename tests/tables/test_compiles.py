"""The compiles pane: reasons, phases, breaks and caches of a log, and what ran of each compilation by its id."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.compile_logs import EPOCH_US, artifact, compilation, distinct, entry, resized
from tracetui.cli.main import main
from tracetui.errors import UsageError
from tracetui.findings import finding_list
from tracetui.model.trace import Trace
from tracetui.opening.capture_files import with_compile_log
from tracetui.panes import PANES
from tracetui.ranks.compiling import summarise_compile_log
from tracetui.reading.load import load
from tracetui.tables.compiles import compilations, recompiled

TLPARSE = shutil.which("tlparse", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")


def written(folder: Path, name: str, log: str) -> Trace:
    (folder / name).write_text(log)
    return load(str(folder / name))


def rows(trace: Trace, by: str | None = None) -> list[dict]:
    return list(PANES["compiles"].build(trace, by=by).rows())


def kineto(path: Path, pid: int = 7) -> str:
    """A trace in which 0/0 ran once, 0/1 three times (one within 0/0), with kernels, and a graph of 0/1 elsewhere."""
    events: list[dict] = []

    def add(name: str, cat: str, ts: float, dur: float, **args: object) -> None:
        where = {"pid": 0, "tid": 7} if cat == "kernel" else {"pid": pid, "tid": 1 if ts < 900 else 2}
        events.append({"ph": "X", "name": name, "cat": cat, "ts": ts, "dur": dur, "args": args, **where})

    regions = [("0/0", 100, 100), ("0/1", 120, 20), ("0/1", 300, 20), ("0/1_1", 400, 20)]
    for key, ts, dur in regions:
        add(f"Torch-Compiled Region: {key}", "cpu_op", ts, dur)
    add("## Call CompiledFxGraph fabc ##", "cpu_op", 950, 30)
    for number, ts in enumerate((105, 125, 305, 405, 955), 1):
        add("cudaLaunchKernel", "cuda_runtime", ts, 2, correlation=number)
        add("triton_", "kernel", ts + 50, 10, correlation=number, device=0, stream=7)
    base = {"schemaVersion": 1, "deviceProperties": [{"id": 0}], "baseTimeNanoseconds": 1000 * (EPOCH_US - 1000)}
    path.write_text(json.dumps({**base, "traceEvents": events}))
    return str(path)


def test_sizes_that_changed_are_named_with_what_to_do(tmp_path):
    trace = written(tmp_path, "a.log", resized(3))
    [frame] = recompiled(trace)
    assert frame.sentence == "f (train.py:7) was compiled three times because size 0 of x was 3, 4, 5: 3.00 ms"
    assert "mark_dynamic(x, 0)" in frame.advice
    [finding] = finding_list(trace)
    assert (finding.id, finding.title, finding.action) == ("recompilation", frame.sentence, "mark it dynamic")
    assert [row["recompiled_for"] for row in rows(trace)][:2] == [
        None,
        "0/0: tensor 'x' size mismatch at index 0. expected 3, actual 4",
    ]


def test_another_guard_is_named_as_torch_writes_it(tmp_path):
    log = compilation("0/0", 0, 10) + compilation("0/1", 20, 10, "0/0: ___check_obj_id(fn, 140)   ")
    [frame] = recompiled(written(tmp_path, "a.log", log))
    assert "because a guard failed, ___check_obj_id(fn, 140)" in frame.sentence


@pytest.mark.parametrize(
    ("metrics", "phases"),
    [
        ({"backend_compile_time_s": 8.88, "inductor_compile_time_s": 5.39}, [20_000, 3_490_000, 5_390_000]),
        ({"backend_compile_time_s": 8.88}, [20_000, None, None]),
        ({"inductor_compile_time_s": 5.39}, [None, None, 5_390_000]),
        ({"backend_compile_time_s": 9.5, "inductor_compile_time_s": "5"}, [None, None, None]),
    ],
)
def test_phases_that_a_log_lacks_are_those_of_its_metrics_or_unknown(tmp_path, metrics, phases):
    about = {"co_name": "f", "entire_frame_compile_time_s": 8.9} | metrics
    log = entry({"dynamo_start": {"stack": []}}, key="0/0", at_us=1000)
    trace = written(tmp_path, "a.log", log + entry({"compilation_metrics": about}, key="0/0", at_us=9_000_000))
    (row,) = rows(trace)
    parts = [row[f"{phase}_us"] for phase in ("dynamo", "aot", "inductor", "autotune", "cudagraphs")]
    assert parts == [*(pytest.approx(each) if each else None for each in phases), None, None]
    assert row["compile_us"] == 8_900_000
    assert "dynamo" not in trace.names


def test_phases_sum_to_the_time_of_the_compilation(tmp_path):
    for row in rows(written(tmp_path, "a.log", resized(2))):
        parts = [row[f"{phase}_us"] for phase in ("dynamo", "aot", "inductor", "autotune", "cudagraphs")]
        assert parts == [500, 0, 500, 0, 0]
        assert row["compile_us"] == 1000


def test_breaks_caches_and_skipped_graphs(tmp_path):
    text = "Graph break in user code at /home/me/train.py:9\nGraph Break Reason: print\n\nUser code traceback:\n  x\n"
    more = artifact("dynamo_graph_break_reason", text, "0/0", 5)
    more += artifact("fx_graph_cache_miss", '{"key": "k"}', "0/0", 5)
    more += artifact("aotautograd_cache_bypass", "{}", "0/0", 5)
    log = compilation("0/0", 0, 10, more=more, cudagraph_skip_reason="mutated inputs", fail_type="E", fail_reason="no")
    trace = written(tmp_path, "a.log", log)
    [row] = rows(trace)
    assert (row["graph_breaks"], row["cache"], row["cudagraph_skip"]) == (1, "1 bypass, 1 miss", "mutated inputs")
    assert row["failure"] == "E: no"
    [cut] = rows(trace, "break")
    assert (cut["line"], cut["why"]) == ("/home/me/train.py:9", "print")
    assert "User code traceback" in cut["user_stack"]


def test_what_ran_is_joined_by_id_and_key_whatever_the_clock(tmp_path):
    key = artifact("fx_graph_cache_miss", '{"key": "fabc"}', "0/1", 5)
    for far_us in (0, 10**10):
        log = (resized(2) + key).replace(str(EPOCH_US)[:6], str(EPOCH_US + far_us)[:6])
        (tmp_path / "t.compile.log").write_text(log)
        first, second = compilations(with_compile_log(load(kineto(tmp_path / "t.json"))))
        assert (first.calls, second.calls) == (1, 3)
        assert (first.gpu, second.gpu) == (10_000, 40_000)
        assert (first.cpu, second.cpu) == (80_000, 90_000)
    row = rows(with_compile_log(load(kineto(tmp_path / "t.json"))))[1]
    assert row["pays_after"] == 75


def test_which_of_two_with_one_id_ran_is_not_known(tmp_path):
    (tmp_path / "t.compile.log").write_text(compilation("0/0", 0, 10) + compilation("0/0", 20, 10))
    trace = with_compile_log(load(kineto(tmp_path / "t.json")))
    assert [row["calls"] for row in rows(trace)] == [None, None]


def test_lanes_behind_all_others_change_no_other_number(tmp_path):
    path = kineto(tmp_path / "t.json")
    (tmp_path / "t.compile.log").write_text(resized(2, dur_us=100, start_us=-900))
    alone, both = load(path), with_compile_log(load(path))
    assert [lane.tid for lane in both.lanes[len(alone.lanes) :]] == ["0/0", "0/1"]
    assert both.slices.start[len(alone.slices) :].tolist() == [0, 50_000, 200_000, 250_000]
    assert both.event_of(len(alone.slices))["name"] == "dynamo"
    assert both.event_of(0) == alone.event_of(0)
    assert both.event_count == alone.event_count
    for pane in ("kernels", "ops", "gaps", "launches", "steps"):
        assert list(PANES[pane].build(both).rows()) == list(PANES[pane].build(alone).rows())


def test_a_log_is_taken_from_beside_only_where_it_is_of_the_same_process(tmp_path, monkeypatch):
    (tmp_path / "dedicated_log_torch_trace_a.log").write_text(resized(1))
    assert with_compile_log(load(kineto(tmp_path / "t.json"))).compile_log is not None
    assert with_compile_log(load(kineto(tmp_path / "t.json", pid=8))).compile_log is None
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setenv("TORCH_TRACE", str(tmp_path))
    assert with_compile_log(load(kineto(elsewhere / "t.json"))).compile_log is not None
    assert with_compile_log(load(kineto(elsewhere / "t.json")), "none").compile_log is None


def test_of_a_folder_the_log_of_the_rank_is_taken(tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir()
    for rank in range(2):
        (logs / f"dedicated_log_torch_trace_rank_{rank}_x.log").write_text(
            resized(1 + rank).replace(" 7 torch", " 9 t")
        )
    trace = with_compile_log(load(kineto(tmp_path / "rank_1.json")), str(logs))
    assert len(compilations(trace)) == 2
    with pytest.raises(UsageError, match="2 logs"):
        with_compile_log(load(kineto(tmp_path / "t.json")), str(logs))


def test_the_command_line_takes_a_log_and_cuts_the_trace_without_it(tmp_path, capsys):
    (tmp_path / "my.log").write_text(resized(2))
    path = kineto(tmp_path / "t.json")
    assert main(["show", "compiles", path, "--compile-log", str(tmp_path / "my.log"), "--format", "csv"]) == 0
    assert capsys.readouterr().out.count("\n0/") == 2
    assert main(["show", "compiles", path, "--compile-log", path]) == 2
    (tmp_path / "t.compile.log").write_text(resized(2))
    assert main(["cut", path, "--range", "0us+200us", "-o", str(tmp_path / "part.json")]) == 0
    assert "dynamo" not in (tmp_path / "part.json").read_text()


def test_escapes_of_a_log_do_not_reach_the_terminal(tmp_path, capsys):
    log = compilation("0/0", 0, 10, co_name="\x1b[31mred") + compilation("0/1", 20, 10, "0/0: \x1b]0;t\x07")
    (tmp_path / "a.log").write_text(log)
    assert main(["show", "compiles", str(tmp_path / "a.log")]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_the_public_logs_agree_with_the_facts_beside_them(shared_trace):
    folder = shared_trace("beside")
    for name, facts in json.loads((folder / "expected.json").read_text()).items():
        if not name.startswith("compile/") or not facts["compilations"]:
            continue
        listed_here = compilations(load(str(folder / name)))
        facts = distinct(facts["compilations"])
        expected = [(each["id"], each["name"], each["file"], each["line"]) for each in facts]
        assert [(each.id, each.function, each.file, each.line) for each in listed_here] == expected
        for each, fact in zip(listed_here, facts, strict=True):
            assert (fact["fail_type"] or "") in each.failure
            assert (fact["recompile_reason"] or "").strip() in each.reason
            if fact["dynamo_us"]:
                assert each.time / 1000 == pytest.approx(fact["dynamo_us"], rel=0.25)


@pytest.mark.full
@pytest.mark.skipif(TLPARSE is None, reason="needs tlparse")
def test_tlparse_lists_the_same_compilations(shared_trace, tmp_path):
    folder = shared_trace("beside") / "compile"
    for path in (folder / "simple.log", folder / "comp_failure.log", *sorted((folder / "ranks").iterdir())):
        out = tmp_path / path.stem
        subprocess.run([str(TLPARSE), str(path), "-o", str(out), "--no-browser"], check=True, capture_output=True)
        listed = json.loads((out / "compile_directory.json").read_text())
        trace = load(str(path))
        listed_here = compilations(trace)
        # tlparse goes by the id in front of an entry, under which two logs have one compilation three times.
        again = {"[0/2]", "[0/3]"} if path.parent.name == "ranks" else set()
        assert {f"[{each.id}]" for each in listed_here} == set(listed) - {"[-/-]", "unknown"} - again
        for each in listed_here:
            names = [artifact["name"] for artifact in listed[f"[{each.id}]"]["artifacts"]]
            assert bool(each.reason) == any("recompile_reasons" in name for name in names)
            assert len(each.code) == sum("inductor_output_code" in name and "readable" not in name for name in names)


@pytest.mark.parametrize("has_phases", [True, False])
def test_a_compilation_that_the_log_has_thrice_counts_once(tmp_path, has_phases):
    first = compilation("0/0", 0, 1000)
    second = compilation("0/1", 2000, 500, "0/0: g", compile_id="0/1", start_time_us=2000)
    log = "".join([first, second, *(second.replace('id": 1', f'id": {number}') for number in (2, 3))])
    if not has_phases:
        log = "".join(part for part in re.split(r"(?m)^(?=V)", log) if "chromium_event" not in part)
    trace = written(tmp_path, "a.log", log)
    assert [(each.run, each.time) for each in compilations(trace)] == [
        ("0/0", 999_000 + 1000 * has_phases),
        ("0/1", 499_000 + 1000 * has_phases),
    ]
    ranked = summarise_compile_log(trace, 0).compilations
    assert [sum(high - low for low, high in each.spans) for each in ranked] == [
        each.time for each in compilations(trace)
    ]
    assert recompiled(trace)[0].words.startswith("f (train.py:7) was compiled twice")
    if has_phases:
        assert [lane.tid for lane in trace.lanes] == ["0/0", "0/1"]


def test_a_reset_that_compiles_the_same_again_is_another_compilation(tmp_path):
    trace = written(tmp_path, "a.log", compilation("0/0", 0, 10) + compilation("0/0", 20, 10))
    assert [each.run for each in compilations(trace)] == ["0/0", "0/0 (2)"]


def test_the_time_of_a_rank_is_that_of_its_log_and_of_a_slow_union(shared_trace):
    for path in sorted((shared_trace("beside") / "compile" / "ranks").iterdir()):
        begins, spans = [], []
        for text in re.findall(r"(?m)^V.*chromium_event.*\n((?:\t.*\n)+)", path.read_text()):
            event = json.loads(text.replace("\n\t", "\n"))
            if event["args"].get("compile_id") in (None, "None"):
                continue
            if event["ph"] == "B":
                begins.append(event["ts"])
            elif event["ph"] == "E" and begins:
                spans.append((begins.pop(), event["ts"]))
        total, end = 0.0, 0.0
        for low, high in sorted(spans):
            total, end = total + max(high - max(low, end), 0), max(end, high)
        log = load(str(path))
        assert sum(each.time for each in compilations(log)) == pytest.approx(1000 * total, abs=2000)
        ranked = summarise_compile_log(log, 0).compilations
        assert sum(high - low for each in ranked for low, high in each.spans) == sum(
            each.time for each in compilations(log)
        )


def test_an_entry_without_a_start_is_still_a_row(tmp_path):
    trace = written(tmp_path, "a.log", entry({"compilation_metrics": {"co_name": "g", "duration_us": 5}}, key="3/0"))
    assert [row["function"] for row in rows(trace)] == ["g"]
