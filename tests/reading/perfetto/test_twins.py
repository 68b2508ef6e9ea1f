"""Traces that torch 2.15's encoder wrote: the facts of `expected.json`, and the tables of the original JSON."""

from __future__ import annotations

from collections import Counter

import numpy as np
import orjson
import pytest

from tests.support.paths import SHARED
from tracetui.cli.main import main
from tracetui.health.health_table import CHECKS
from tracetui.health.link_checks import LOSS_CHECKS
from tracetui.linking.links import links
from tracetui.linking.step_sources import with_steps
from tracetui.linking.steps import steps
from tracetui.memory.memory_table import NOT_IN_FORMAT
from tracetui.model.table import Table
from tracetui.model.trace import GRAPH_NODES, Kind, LaneKind
from tracetui.panes import PANES
from tracetui.reading.load import load
from tracetui.reading.perfetto import packet_collector
from tracetui.tables.occupancy import queries

FOLDER = SHARED / "pftrace"
if not FOLDER.exists():
    pytest.skip("needs ../shared/traces/pftrace, which is not there", allow_module_level=True)

EXPECTED = orjson.loads((FOLDER / "expected.json").read_bytes())
LARGE = ("d03_v100_2rank_5steps_mem_occ_nccl.pftrace.gz", "d06_h100_stack_mem.pftrace.gz")
SMALL = ("d09_rtx3090_compile_triton.pftrace.gz", "fusion_mwe_trace.pftrace.gz")
TWINS = [pytest.param(name, marks=pytest.mark.full) for name in LARGE] + [*SMALL]
GRAPHS = "graph_counters.pftrace.gz"

DEVICE = (
    *("occupancy_pct", "limiter", "waves", "bound", "peak_pct", "roofline_us", "kineto_occupancy_pct"),
    *("bound_occupancy_pct", "tail_pct", "blocks_per_sm", "occupancy_mark"),
)
"""Columns that rest on properties of the device, or on the profiler's estimate."""
MFU = ("mfu_pct", "flops_known_pct")
"""Columns that rest on the peak of the device."""
COPY_NAMES = ("name", "short_name", "kernel", "before", "after")
"""Columns that name copies and fills, which have no direction here."""
COPY_CAUSES = ("cause", "cpu_doing", "shares", "after_sync")
"""Columns that rest on whether a copy was from or to pageable memory."""
NOT_KEPT = {"file", "format", "size_bytes", "events", "recorded_with", "devices", "doubts"}
"""Facts of the summary that are of the file, or of its header."""


@pytest.fixture(scope="module", params=TWINS)
def twin(request):
    """The facts of a twin, the JSON and the twin: every test of one runs before the next is read."""
    expected = EXPECTED[request.param]
    (original,) = SHARED.rglob(expected["original"])
    return expected["facts"], load(str(original)), load(str(FOLDER / request.param))


def by_name(trace, *kinds: Kind) -> Counter:
    """How often each name occurs among slices of some kinds."""
    rows = trace.slices.of_kind(*kinds)
    return Counter(trace.names[number] for number in trace.slices.name[rows].tolist())


def test_the_facts_of_a_twin_hold(twin) -> None:
    facts, _, trace = twin
    slices, found = trace.slices, links(trace)
    kernels = slices.of_kind(Kind.KERNEL)
    assert len(kernels) == facts["kernels"]
    assert int(slices.dur[kernels].sum()) == facts["kernel_time_ns_as_written"]
    names = by_name(trace, Kind.KERNEL)
    assert len(names) == facts["kernel_names"]
    assert facts["kernels_by_name"].items() <= names.items()
    lanes = [trace.lanes[number] for number in slices.lane[kernels].tolist()]
    assert Counter(f"{lane.pid}/{lane.tid}" for lane in lanes) == facts["kernels_by_stream"]
    assert len(slices.of_kind(Kind.MEMCPY)) == facts["copies"]
    assert len(slices.of_kind(Kind.MEMSET)) == facts["fills"]
    copied = trace.work_args.number("bytes", slices.event[slices.of_kind(Kind.MEMCPY)])
    assert int(copied.sum()) == facts["bytes_copied"]
    assert int((found.launch[kernels] >= 0).sum()) == facts["kernels_with_a_call"]
    categories = Counter(trace.categories[number] for number in slices.category.tolist())
    assert {name: categories[name] for name in facts["cpu_slices"]} == facts["cpu_slices"]
    calls = by_name(trace, Kind.RUNTIME)
    assert calls.total() == facts["calls"] and calls == facts["calls_by_name"]
    assert len(queries(trace)) == facts["occupancy_queries"]
    ops = by_name(trace, Kind.CPU_OP)
    assert ops.total() == facts["ops"] and len(ops) == facts["ops_distinct"]
    assert facts["ops_by_name"].items() <= ops.items()
    assert facts["annotations"].items() <= by_name(trace, Kind.ANNOTATION).items()
    assert len(slices.of_kind(Kind.SYNC)) == facts["cuda_sync"]
    assert len(slices.of_kind(Kind.OVERHEAD)) == facts["overhead"]
    assert len(slices.of_kind(Kind.GPU_ANNOTATION)) == facts["gpu_annotation_stages"]


def test_the_steps_of_a_twin_are_those_of_the_facts(twin) -> None:
    facts, _, trace = twin
    # Facts are of what was recorded; iterations that are found beside it have tests of their own.
    trace = with_steps(trace, "none") if steps(trace).is_guess else trace
    every = steps(trace)
    table = PANES["steps"].build(trace)
    found = [
        {
            "name": trace.name_of(row),
            "dur_ns": int(trace.slices.dur[row]),
            "kernels_by_launch": table["kernels"].cell(at),
        }
        for at, row in enumerate(every.row.tolist())
    ]
    assert found == facts["steps"]


def test_what_the_file_does_not_hold_is_absent(twin) -> None:
    facts, _, trace = twin
    assert facts["not_written"]["counters"] == 0
    assert len(trace.instants) == 0 and len(trace.memory_args) == 0 and not trace.devices
    occupancy = trace.work_args.number("est. achieved occupancy %", trace.slices.event)
    assert (occupancy < 0).all()
    assert trace.quality.unfinished == trace.quality.dropped == trace.quality.unmatched_ends == 0


def cells(table: Table, but: tuple[str, ...]) -> dict[str, list]:
    """The columns of a table, with a few left out."""
    return {
        column.name: [column.cell(row) for row in range(len(table))]
        for column in table.columns
        if column.name not in but
    }


PANES_OF_TWINS = [
    ("steps", None, MFU),
    ("kernels", None, (*DEVICE, *COPY_NAMES)),
    ("kernels", "op", ()),
    ("kernels", "stream", ()),
    ("kernels", "family", ()),
    ("kernels", "function", ()),
    ("kernels", "annotation", ()),
    ("ops", None, ()),
    ("ops", "function", ()),
    ("views", None, ()),
    ("launches", None, COPY_NAMES),
    ("gaps", None, (*COPY_NAMES, *COPY_CAUSES)),
    ("occupancy", None, DEVICE),
    ("modules", None, ()),
]


@pytest.mark.parametrize(("pane", "by", "but"), PANES_OF_TWINS)
def test_the_tables_of_a_twin_are_those_of_its_json(twin, pane: str, by: str | None, but: tuple[str, ...]) -> None:
    _, original, trace = twin
    wanted, given = (PANES[pane].build(each, by=by) for each in (original, trace))
    assert cells(given, but) == cells(wanted, but)


def test_ops_by_shape_are_those_of_the_json_whatever_the_order_of_equals(twin) -> None:
    _, original, trace = twin
    wanted, given = (sorted(map(repr, PANES["ops"].build(each, by="shape").rows())) for each in (original, trace))
    assert given == wanted


def test_the_summary_of_a_twin_is_that_of_its_json(twin) -> None:
    _, original, trace = twin
    wanted, given = (dict(zip(*cells_of(PANES["summary"].build(each)), strict=True)) for each in (original, trace))
    rest_on_copies = {key for key in wanted if key.startswith("idle_")} | {"verdict", "late_pct"}
    different = {key for key in wanted if key not in {*NOT_KEPT, *MFU} and given[key] != wanted[key]}
    assert different <= rest_on_copies
    assert not different or len(original.slices.of_kind(Kind.MEMCPY))


def cells_of(table: Table) -> tuple[list, list]:
    """Keys and values of a summary."""
    return tuple([table[name].cell(row) for row in range(len(table))] for name in ("key", "value"))  # type: ignore[return-value]


@pytest.mark.parametrize("name", SMALL)
def test_kernels_without_a_correlation_are_linked_by_the_ids_that_their_calls_submitted(name, monkeypatch) -> None:
    monkeypatch.delitem(packet_collector._WANTED, b"correlation")
    trace = load(str(FOLDER / name))
    kernels = trace.slices.of_kind(Kind.KERNEL)
    linked = int((links(trace).launch[kernels] >= 0).sum())
    assert linked == EXPECTED[name]["facts"]["kernels_linked_by_gpu_correlation"]


@pytest.fixture(scope="module")
def graphs():
    """The trace with a replayed graph and counters, and its JSON."""
    return load(str(FOLDER / GRAPHS)), load(str(FOLDER / EXPECTED[GRAPHS]["original"]))


def test_the_facts_of_the_replayed_graph_hold(graphs) -> None:
    trace, _ = graphs
    facts, slices = EXPECTED[GRAPHS]["facts"], trace.slices
    kernels = slices.of_kind(Kind.KERNEL)
    assert len(kernels) == facts["kernels"] and int(slices.dur[kernels].sum()) == facts["kernel_time_ns"]
    assert len(slices.of_kind(Kind.MEMCPY)) == facts["copies"] and len(slices.of_kind(Kind.CPU_OP)) == facts["ops"]
    assert [trace.name_of(row) for row in steps(trace).row.tolist()] == facts["steps"]
    kinds = (Kind.KERNEL, Kind.MEMCPY, Kind.GPU_ANNOTATION, *GRAPH_NODES)
    assert [len(slices.of_kind(kind)) for kind in kinds] == list(facts["render_stages"].values())
    lanes = [trace.lanes[number] for number in slices.lane[kernels].tolist()]
    named = {f"[{lane.tid.zfill(4)}] {lane.name}" for lane in lanes}
    assert named == set(facts["kernels_by_lane"])
    assert Counter(lane.tid.zfill(4) for lane in lanes) == {
        name[1:5]: count for name, count in facts["kernels_by_lane"].items()
    }
    launches = by_name(trace, Kind.RUNTIME)["cudaGraphLaunch"]
    assert launches == facts["graph_launches"]
    graph = [row for row in links(trace).launches.tolist() if trace.name_of(row) == "cudaGraphLaunch"]
    nodes = np.isin(slices.correlation, slices.correlation[graph]) & (slices.kind != Kind.RUNTIME)
    assert int(nodes.sum()) == facts["nodes_per_replay"] * facts["graph_launches"]
    assert len(trace.flows) == 2 * facts["dependency_arrows"]


def test_nodes_of_a_graph_stand_on_streams_and_annotations_beside_them(graphs) -> None:
    trace, original = graphs
    for each in (trace, original):
        nodes = each.slices.of_kind(*GRAPH_NODES)
        assert {each.lanes[number].kind for number in each.slices.lane[nodes].tolist()} == {LaneKind.GPU}
        notes = each.slices.of_kind(Kind.GPU_ANNOTATION)
        assert {each.lanes[number].kind for number in each.slices.lane[notes].tolist()} == {LaneKind.GPU_ANNOTATION}
    assert by_name(trace, *GRAPH_NODES) == by_name(original, *GRAPH_NODES)


def test_the_counters_of_both_formats_are_the_same(graphs) -> None:
    trace, original = graphs
    facts = EXPECTED[GRAPHS]["facts"]
    wanted = {(each.name, each.gpu, each.unit, each.is_derived): each for each in original.counters}
    given = {(each.name, each.gpu, each.unit, each.is_derived): each for each in trace.counters}
    assert {key[0]: len(each.time) for key, each in given.items()} == facts["counters"]
    for key, each in given.items():
        assert each.time.tolist() == wanted[key].time.tolist()
        assert each.value.tolist() == pytest.approx(wanted[key].value.tolist())
        assert float(each.value.mean()) == pytest.approx(facts["counter_mean"][each.name], rel=1e-5)


def test_the_tables_of_a_replayed_graph_are_those_of_its_json(graphs) -> None:
    trace, original = graphs
    gaps = (*COPY_NAMES, *COPY_CAUSES)
    for pane, by, but in (
        ("steps", None, ()),
        ("kernels", None, COPY_NAMES),
        ("kernels", "graph", ()),
        ("ops", None, ()),
        ("gaps", None, gaps),
    ):
        assert cells(PANES[pane].build(trace, by=by), but) == cells(PANES[pane].build(original, by=by), but)


def test_arguments_of_a_kernel_are_read_from_the_file_again(graphs) -> None:
    trace, original = graphs
    kept = ("device", "context", "stream", "correlation", "grid", "block", "registers per thread", "graph id")
    for kind in (Kind.KERNEL, Kind.CPU_OP, Kind.RUNTIME):
        for given, wanted in zip(trace.slices.of_kind(kind), original.slices.of_kind(kind), strict=True):
            args, json = (each.event_of(row)["args"] for each, row in ((trace, given), (original, wanted)))
            # A kernel on a lane of another name says which stream it ran on.
            json["stream"] = json.get("original_stream", json.get("stream"))
            names = kept if kind == Kind.KERNEL else args.keys() - {"cbid"}
            assert {name: args.get(name) for name in names} == {name: json.get(name) for name in names}


def test_health_names_each_loss_once(twin) -> None:
    _, original, trace = twin
    table = PANES["health"].build(trace)
    told = [row for row in table.rows() if row["severity"] not in ("fine", None)]
    names = [row["check"] for row in told]
    copies = ["copies without direction"] if len(trace.slices.of_kind(Kind.MEMCPY)) else []
    # Operators are a loss of Nsight Systems alone.
    others = ("copies without direction", "no operators")
    losses = [check.name for check in LOSS_CHECKS if check.name not in others] + copies
    for name in ("device not described", "no memory", *losses):
        assert names.count(name) == 1, name
    (memory,) = (row for row in told if row["check"] == "no memory")
    assert memory["effect"] == NOT_IN_FORMAT and PANES["memory"].build(trace).note.startswith(NOT_IN_FORMAT)
    assert not {check.name for check in LOSS_CHECKS} & set(PANES["health"].build(original)["check"].strings or ())


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.full
def test_a_comparison_of_a_twin_with_its_json_finds_no_change(name: str, capsys) -> None:
    (original,) = SHARED.rglob(EXPECTED[name]["original"])
    assert main(["compare", str(original), str(FOLDER / name), "--show", "totals", "--format", "json"]) == 0
    rows = orjson.loads(capsys.readouterr().out)["totals"]["rows"]
    changed = {row["measure"] for row in rows if row["a"] != row["b"]}
    assert len(rows) > 20 and not changed


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.full
def test_what_is_checked_of_a_twin_holds_with_its_json_as_baseline(name: str, capsys) -> None:
    (original,) = SHARED.rglob(EXPECTED[name]["original"])
    kernels = EXPECTED[name]["facts"]["kernels"]
    twin = str(FOLDER / name)
    whole = ["--steps-by", "none"]
    assert main(["check", twin, f"kernels == {kernels}", "--baseline", str(original), *whole]) == 0
    assert main(["check", str(original), f"kernels == {kernels}", "--baseline", twin, *whole]) == 0
    assert main(["check", twin, f"kernels == {kernels + 1}"]) == 1
    assert main(["check", twin, "max(memory.total_allocated) < 2GB"]) != 0


def test_the_checks_of_losses_name_columns_that_there_are(graphs) -> None:
    trace, _ = graphs
    names = [check.name for check in (*CHECKS, *LOSS_CHECKS)]
    assert len(set(names)) == len(names)
    for check in LOSS_CHECKS:
        for touched in check.touches:
            pane, _, column = touched.partition(".")
            assert column in PANES[pane].build(trace), touched


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("more", [["stream", "bytes", "stream id", "process_name"], ["grid"]], ids=["extra", "launch"])
@pytest.mark.full
def test_arguments_of_many_events_are_those_of_each(name: str, more: list[str]) -> None:
    trace = load(str(FOLDER / name))
    keys = ["Ev Idx", "correlation", "Input Dims", "absent", *more]
    rows = np.random.default_rng(1).permutation(len(trace.slices))[:1500]
    together = trace.args_of(rows, keys)
    each = [trace.event_of(row)["args"] for row in rows.tolist()]
    assert together == [[args.get(key) for args in each] for key in keys]
    assert all(any(value is not None for value in together[index]) for index in (0, 1, 4))
