"""What the built-in workloads leave in a trace on the CPU, and what a trace says of itself."""

from __future__ import annotations

import asyncio
import re
import shutil
from dataclasses import replace

import pytest
from tracetui_workloads import registry
from tracetui_workloads.recording.launcher import (
    DeviceChosen,
    Options,
    Progress,
    Stage,
    StageDone,
    keep_times,
    plan,
    time_variants,
)
from tracetui_workloads.recording.profiling import ROUNDS

from tests.support.workloads.children import QUICK, content_of, events_of, followed, is_gone, needs_torch, ops_per_step
from tests.support.workloads.sizes import ATTENTION, SMALL
from tracetui.reading.load import load
from tracetui.verification import verify

pytestmark = [pytest.mark.full, needs_torch]


LABELS = {"linear": "linear_fwd", "mlp": "mlp_fwd"}


def requests(folder):
    """Every built-in workload, and variants of some."""
    wanted: dict[str, tuple[str, dict, dict]] = {name: (name, params, {}) for name, params in SMALL.items()}
    wanted["compiled"] = ("linear", SMALL["linear"], {"compile": True, "backend": "aot_eager"})
    wanted["cold"] = (
        "matmul_add",
        {"size": 8, "batch": 8},
        {"cold": True, "wait": 0, "warmup": 0, "active": 2, "stack": True, "memory": True, "seed": 7, "dtype": "fp32"},
    )
    for impl in ("naive", "inplace"):
        # In float32, which every processor multiplies by the same operators.
        wanted[impl] = ("attention", {"impl": impl, **ATTENTION}, {"dtype": "fp32"})
    wanted["flash"] = ("attention", {"impl": "sdpa", "backend": "flash", **ATTENTION}, {})
    wanted["train_step"] = ("train_step", {"optimizer": "fused", "batch": 4, "width": 8, "zero_grad": "zeros"}, {})
    wanted["loop"] = ("train_step", {"optimizer": "forloop", "batch": 4, "width": 8, "amp": True}, {})
    wanted["decode"] = ("decode", {"heads": 2, "dim": 8, "cached": 4}, {})
    wanted["sync"] = ("sync", {"size": 4}, {})
    wanted["breaks"] = ("graph_breaks", {"size": 8, "breaks": 3}, {"compile": True, "backend": "aot_eager"})
    for sizes in ("static", "automatic", "dynamic"):
        wanted[sizes] = ("graph_breaks", {"size": 8, "sizes": sizes}, {"compile": True, "backend": "aot_eager"})
    wanted["conv"] = ("conv", {"layout": "input", "batch": 1, "channels": 4, "pixels": 8}, {})
    wanted["loader"] = ("dataloader", {"workers": 2, "width": 8, "read_ms": 1.0}, {})
    wanted["timed"] = ("matmul_add", {"size": 8}, {"time_seconds": 0.2, "threads": 1})
    wanted["anywhere"] = ("matmul_add", {"size": 8}, {"device": "auto"})
    return {
        key: plan(
            name,
            params,
            Options(**{"device": "cpu", **options}),
            folder / f"{key}.json.gz",
            ["tracetui", key],
            table=key == "linear",
        )
        for key, (name, params, options) in wanted.items()
    }


class Recordings(dict):
    """Stories by name; each recording is made when it is first asked for."""

    def __init__(self, folder):
        super().__init__()
        self.folder, self.requests = folder, requests(folder)

    def __missing__(self, name):
        story = asyncio.run(followed(self.requests[name]))
        assert story.outcome.failure is None, (name, story.outcome)
        self[name] = story
        return story


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The recordings, each made once for all tests."""
    return Recordings(tmp_path_factory.mktemp("recorded"))


@pytest.mark.smoke
def test_compiled_code_shows_its_own_rows(recorded):
    ops = ops_per_step(recorded["compiled"].outcome.path)
    assert {"TorchDynamo Cache Lookup", "Torch-Compiled Region: 0/0"} <= set(ops)


def test_a_new_size_compiles_again_unless_it_is_a_variable(recorded):
    """As the numbers behind the regions say: every step has one of its own, or all have the same."""
    regions = {}
    for sizes in ("static", "automatic", "dynamic"):
        ops = ops_per_step(recorded[sizes].outcome.path)
        regions[sizes] = sorted(name.rpartition(" ")[2] for name in ops if name.startswith("Torch-Compiled Region"))
    assert len(regions["static"]) == 3 and "0/0" not in regions["static"]
    assert (regions["automatic"], regions["dynamic"]) == (["0/1"], ["0/0"])


PROMISING = (
    "naive", "inplace", "flash", "train_step", "loop", "sync", "decode", "breaks", "static", "automatic", "dynamic",
    "conv", "loader",
)  # fmt: skip
"""Recordings beside the small ones that promise something."""
REST = [name for name in (*SMALL, *PROMISING) if name != "linear"]


@pytest.mark.parametrize("name", [pytest.param("linear", marks=pytest.mark.smoke), *REST])
def test_what_is_expected_of_a_workload_is_in_its_trace(recorded, name):
    outcome = recorded[name].outcome
    workload = registry.find(str(outcome.metadata["workload"]))
    verified = verify(workload, outcome.metadata, load(str(outcome.path)))
    assert verified.table.rows()
    assert [row for row in verified.table.rows() if not row["holds"]] == []


def test_every_step_is_there_with_its_label(recorded):
    for name in SMALL:
        names = [event["name"] for event in events_of(recorded[name].outcome.path) if event.get("ph") == "X"]
        assert {f"ProfilerStep#{number}" for number in (2, 3, 4)} <= set(names)
        assert names.count(LABELS.get(name, name)) == 3


def test_a_trace_says_how_it_was_made(recorded):
    outcome = recorded["cold"].outcome
    metadata = content_of(outcome.path)["tracetui"]
    assert metadata == outcome.metadata
    assert metadata["workload"] == metadata["label"] == "matmul_add"
    assert metadata["params"] == {"size": 8, "batch": 8}
    assert metadata["argv"] == ["tracetui", "cold"]
    assert (metadata["seed"], metadata["device"], metadata["gpu"]) == (7, "cpu", None)
    assert metadata["options"]["cold"] is True
    assert metadata["options"]["dtype"] == "fp32"
    assert metadata["options"]["shapes"] is False
    assert metadata["flops_per_step"] == 8 * (2 * 8**3 + 8**2)


def test_what_the_profiler_was_told(recorded):
    cold, mlp = content_of(recorded["cold"].outcome.path), content_of(recorded["mlp"].outcome.path)
    assert (cold.get("with_stack"), cold.get("profile_memory"), cold.get("record_shapes", 0)) == (1, 1, 0)
    assert mlp.get("record_shapes") == 1
    assert any(event.get("cat") == "python_function" for event in cold["traceEvents"])
    assert any("Input Dims" in event.get("args", {}) for event in mlp["traceEvents"])


def test_no_thread_of_the_recorder_is_beside_the_workload(recorded):
    events = events_of(recorded["cold"].outcome.path)
    assert len({event["tid"] for event in events if event.get("cat") == "python_function"}) == 1


def test_a_third_axis_makes_the_product_a_batched_one(recorded):
    assert "aten::bmm" in ops_per_step(recorded["cold"].outcome.path, active=2)


def test_a_profiler_without_warm_up_warns(recorded):
    assert any("warmup" in note for note in recorded["cold"].outcome.notes)


def test_without_a_gpu_one_line_says_so(recorded):
    outcome = recorded["anywhere"].outcome
    assert (outcome.device == "cpu") == any("on the CPU" in note for note in outcome.notes)
    notes = recorded["mlp"].outcome.notes
    assert not any("on the CPU" in note for note in notes), "who asks for the CPU knows"


def test_stages_come_in_their_order(recorded):
    events = recorded["mlp"].events
    stages = [event.name for event in events if isinstance(event, Stage)]
    assert stages == [
        "importing torch",
        "preparing device",
        "building",
        "first call",
        "warming up",
        "loading profiler",
        "recording",
        "writing trace",
    ]
    assert [event.name for event in events if isinstance(event, StageDone)] == stages
    assert [event.device for event in events if isinstance(event, DeviceChosen)] == [recorded["mlp"].outcome.device]
    assert not [event for event in events if isinstance(event, Progress)], "fast stages are silent"


def test_a_cold_run_is_called_for_the_first_time_by_the_schedule(recorded):
    stages = [event.name for event in recorded["cold"].events if isinstance(event, Stage)]
    assert not {"first call", "warming up"} & set(stages)


def test_compiled_results_are_compared_with_eager(recorded):
    assert "checking the result" in [event.name for event in recorded["compiled"].events if isinstance(event, Stage)]


def test_nothing_is_left(recorded):
    stories = [recorded[name] for name in recorded.requests]
    names = {f"{name}.json.gz" for name in recorded.requests}
    logs = {f"{name}.compile.log.gz" for name, each in recorded.requests.items() if each.options.compile}
    assert {path.name for path in recorded.folder.iterdir()} == {*names, *logs, "linear.txt"}
    assert all(is_gone(story.pid) for story in stories)


def test_the_file_knows_its_name_and_not_the_one_it_was_written_under(recorded):
    assert content_of(recorded["mlp"].outcome.path)["traceName"] == "mlp.json.gz"


def test_the_reader_understands_it(recorded):
    from tracetui.health.summary import facts
    from tracetui.reading.load import load

    trace = load(str(recorded["mlp"].outcome.path))
    told = {fact.key: fact.value for fact in facts(trace)}
    assert (told["workload"], told["steps"], told["recorded_with"]) == ("mlp", 3, "record_shapes")


def test_the_fused_kernel_of_the_compiler_has_a_name_on_the_cpu(tmp_path):
    request = plan("combined", SMALL["combined"], Options(device="cpu", compile=True), tmp_path / "compiled.json")
    story = asyncio.run(followed(request))
    if story.outcome.failure and story.kind == "missing:compiler":
        pytest.skip("needs a C++ compiler")
    assert story.outcome.path, story
    ops = ops_per_step(story.outcome.path)
    expects = [each for each in registry.find("combined").expects if each.applies(story.outcome.metadata)]
    [fused] = [each for each in expects if each.metric == "op_named"]
    assert any(re.search(str(fused.want), op) for op in ops)
    assert is_gone(story.pid)


def test_torchs_own_table_beside_the_trace(recorded):
    """Its calls are those that the trace holds, name by name."""
    outcome = recorded["linear"].outcome
    lines = [line for line in outcome.path.with_name("linear.txt").read_text().splitlines() if "aten::" in line]
    calls = {line.split()[0]: int(line.split()[-1]) for line in lines}
    assert calls == {name: 3 * count for name, count in ops_per_step(outcome.path).items()}


def test_a_recording_keeps_the_time_of_its_step_without_the_profiler(recorded):
    story = recorded["timed"]
    metadata = content_of(story.outcome.path)["tracetui"]
    assert metadata == story.outcome.metadata
    times = metadata["unprofiled"]
    assert times["samples"] >= 6
    assert 0 < times["low_us"] <= times["median_us"] <= times["high_us"]
    assert times["clock"] == "perf_counter" and times["profiled_us"] > 0
    assert (metadata["threads"], metadata["options"]["threads"]) == (1, 1)
    assert metadata["load"] is None or metadata["load"]["others_cpus"] >= 0
    assert "timing" in [event.name for event in story.events if isinstance(event, Stage)]
    assert content_of(recorded["linear"].outcome.path)["tracetui"]["unprofiled"] is None, "not asked for"


def test_variants_are_timed_in_turns_and_the_traces_are_told(recorded, tmp_path):
    story = recorded["timed"]
    request = replace(recorded.requests["timed"], out=str(tmp_path / "x.json.gz"))
    timed = asyncio.run(time_variants([request, request], environment=QUICK))
    assert [each.failure for each in timed] == [None, None]
    assert [each.path for each in timed] == [None, None] and not list(tmp_path.iterdir())
    times = [each.metadata["unprofiled"] for each in timed]
    assert times[0]["session"] == times[1]["session"] != ""
    assert min(each["samples"] for each in times) >= ROUNDS
    copy = tmp_path / "copy.json.gz"
    shutil.copyfile(story.outcome.path, copy)
    kept = keep_times(replace(story.outcome, path=copy), timed[0])
    told = content_of(copy)["tracetui"]
    assert told == kept.metadata
    assert (told["unprofiled"]["session"], told["unprofiled"]["profiled_us"]) == (
        times[0]["session"],
        story.outcome.metadata["unprofiled"]["profiled_us"],
    )
    assert [path.name for path in tmp_path.iterdir()] == ["copy.json.gz"]


def test_a_variant_that_cannot_run_ends_the_turns_of_the_others(recorded, tmp_path):
    good = recorded.requests["timed"]
    bad = plan("attention", {"impl": "sdpa", "backend": "cudnn", **ATTENTION}, good.options, tmp_path / "x.json")
    first, second = asyncio.run(time_variants([good, bad], environment=QUICK))
    assert second.failure is not None and "no cudnn backend" in second.failure.message
    assert first.failure is not None and "another variant ended early" in first.failure.message
