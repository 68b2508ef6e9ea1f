"""Rates, what bounds a kernel, peaks of devices, and the drawing of it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.support.build import Event, kernel, launch, make_trace, op, step
from tests.support.devices import A100, H100, MI300X
from tests.support.traces import loaded
from tracetui.cli.main import main
from tracetui.devices.descriptions import limits_of, peaks_of
from tracetui.devices.kernel_work import MAX_PEAK_RATIO, kernel_work, units_used
from tracetui.devices.roofline import BOUNDS, bound_share, roofline
from tracetui.drawing.text.pictures import Roof, roofline_lines, scatter
from tracetui.linking.links import links
from tracetui.model.trace import Device, Kind, Trace
from tracetui.panes import PANES
from tracetui.ui.trace.slice_description import kernel_facts


def mm(start: int, size: int, took: int, kind: str = "c10::BFloat16", name: str = "nvjet_tst_128x128") -> list[Event]:
    """A square product that takes so many ns."""
    args = {"Input Dims": [[size, size]] * 2, "Input type": [kind] * 2}
    return [
        op("aten::mm", start, 50, args=args),
        launch(start + 10, 5, start + 1),
        kernel(name, start + 100, took, correlation=start + 1),
    ]


def add(start: int, count: int, took: int) -> list[Event]:
    args = {"Input Dims": [[count], [count], []], "Input type": ["float", "float", "Scalar"]}
    return [
        op("aten::add", start, 50, args=args),
        launch(start + 10, 5, start + 1),
        kernel("vectorized_elementwise", start + 100, took, correlation=start + 1),
    ]


def only(trace: Trace) -> dict[str, object]:
    return dict(PANES["kernels"].build(trace).row(0))


def test_a_product_is_bound_by_compute():
    row = only(make_trace(mm(0, 8192, 2_000_000), devices=[H100]))
    flops = 2.0 * 8192**3
    assert (row["flops"], row["bytes"], row["bound"]) == (flops, 3 * 2 * 8192**2, "compute")
    assert row["tflops"] == pytest.approx(flops / 2e-3 / 1e12)
    assert row["gbps"] == pytest.approx(6 * 8192**2 / 2e-3 / 1e9)
    assert row["roofline_us"] == pytest.approx(flops / 989.4e12 * 1e6)
    assert row["peak_pct"] == pytest.approx(100 * flops / 989.4e12 / 2e-3)


def test_an_addition_is_bound_by_memory():
    row = only(make_trace(add(0, 100_000_000, 500_000), devices=[H100]))
    assert row["bound"] == "memory"
    assert row["peak_pct"] == pytest.approx(100 * 1.2e9 / 3350e9 / 500e-6)


def test_faster_than_memory_is_the_cache_or_a_doubt():
    small = only(make_trace(add(0, 1_000_000, 3_000), devices=[H100]))
    assert (small["bound"], small["peak_pct"]) == ("L2", None)
    large = only(make_trace(add(0, 1_000_000_000, 100_000), devices=[H100]))
    assert (large["bound"], large["peak_pct"]) == ("?", None)
    product = only(make_trace(mm(0, 1024, 1_000), devices=[H100]))
    assert product["bound"] == "?"


def test_next_to_no_work_is_latency():
    row = only(make_trace(add(0, 1_000, 2_000), devices=[H100]))
    assert row["bound"] == "latency"
    assert row["peak_pct"] == pytest.approx(100 * 12_000 / 3350e9 / 2e-6)


def test_the_name_tells_on_which_units_fp32_runs():
    assert units_used("cutlass_80_tensorop_s1688gemm_64x64_16x6_nt_align4", "fp32") == "tf32"
    assert units_used("ampere_sgemm_128x64_nn", "fp32") == "fp32"
    assert units_used("ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_nn", "fp16") == "fp16"
    slow = only(make_trace(mm(0, 4096, 10_000_000, "float", "ampere_sgemm_128x64_nn"), devices=[A100]))
    assert slow["peak_pct"] == pytest.approx(100 * 2 * 4096**3 / 19.5e12 / 10e-3)


def test_without_a_device_or_a_peak_rates_stand_and_shares_do_not():
    for devices in ([], [Device(0, "Voodoo 2", {})]):
        row = only(make_trace(mm(0, 1024, 100_000), devices=devices))
        assert row["tflops"] == pytest.approx(2 * 1024**3 / 1e-4 / 1e12)
        assert (row["bound"], row["peak_pct"], row["roofline_us"]) == (None, None, None)
    double = only(make_trace(mm(0, 1024, 1_000_000, "double"), devices=[H100]))
    assert (double["flops"], double["bound"]) == (2.0 * 1024**3, None)


def test_copies_have_the_rate_of_their_bytes_and_no_bound():
    copy = Event("Memcpy HtoD", 0, 1_000, Kind.MEMCPY, ("0", "stream 7"), correlation=9, args={"bytes": 12_000})
    row = only(make_trace([copy], devices=[H100]))
    assert (row["bytes"], row["gbps"], row["flops"], row["bound"], row["peak_pct"]) == (12_000, 12, None, None, None)


def test_time_is_shared_out_by_what_bounds_it():
    trace = make_trace(
        [*mm(0, 8192, 2_000_000), *add(10_000_000, 100_000_000, 500_000), kernel("lost", 30_000_000, 7_000)],
        devices=[H100],
    )
    assert bound_share(trace, links(trace).gpu) == pytest.approx((2_000, 500, 7))
    assert bound_share(trace, links(trace).gpu[:0]) == (0, 0, 0)


def test_calls_alike_are_one_row_of_the_pane():
    events = [step(1, 0, 20_000_000), *mm(100, 8192, 2_000_000), *mm(5_000_000, 8192, 3_000_000)]
    events += [*add(9_000_000, 100_000_000, 500_000), step(2, 20_000_000, 100)]
    trace = make_trace(events, devices=[H100])
    table = PANES["roofline"].build(trace)
    first, second = table.rows()
    assert (first["op"], first["input_shapes"], first["calls"]) == ("aten::mm", "[[8192, 8192], [8192, 8192]]", 2)
    assert (first["total_us"], first["mean_us"], first["flops"]) == (5_000, 2_500, 2.0 * 8192**3)
    assert first["tflops"] == pytest.approx(2 * 2 * 8192**3 / 5e-3 / 1e12)
    assert first["intensity"] == pytest.approx(2 * 8192**3 / (6 * 8192**2))
    assert first["above_us"] == pytest.approx(5_000 - 2 * 2 * 8192**3 / 989.4e12 * 1e6)
    assert (second["op"], second["bound"]) == ("aten::add", "memory")
    assert len(PANES["roofline"].build(trace, step=2)) == 0
    assert "5.50 ms of 5.50 ms" in table.note
    assert "record_shapes" in PANES["roofline"].build(make_trace([kernel("k", 0, 1)])).note


MEASURED = (
    "d01_v100_torch1.9_6steps_mem_occ.json.gz",
    "d04_a100_8rank_6steps_occ_nccl.json.gz",
    "d05a_a100_megatron_tp8_rank0.json",
    "d06_h100_stack_mem.json.gz",
    "d07_mi300x_8rank_3steps_stack.json.gz",
    "d08_b200_cuda13_ep_moe.json",
    "d16_b300_tiny.json.gz",
)


@pytest.mark.parametrize("name", MEASURED)
def test_no_kernel_of_a_real_trace_is_faster_than_possible(name, shared_trace):
    trace = loaded(shared_trace(name))
    work, found = kernel_work(trace), roofline(trace)
    assert (found.bound >= 0).any()
    assert not (found.bound == BOUNDS.find("?")).any()
    rated = ~np.isnan(found.peak) & ~np.isnan(found.tflops)
    assert (found.tflops[rated] <= MAX_PEAK_RATIO * found.peak[rated]).all()
    # Second count: what every row of a call took, and what its main kernel says that the call took.
    called = work.main >= 0
    spans = np.bincount(work.main[called], trace.slices.dur[work.rows[called]], len(work.rows))
    mains = np.unique(work.main[called])
    assert np.array_equal(spans[mains].astype(np.int64), work.span[mains])


def test_the_products_of_a_megatron_step_by_hand(shared_trace):
    """40 layers: 8192 tokens by 4096 to 1536 (attention, a shard of 8), at 82.6 % of an A100."""
    trace = loaded(shared_trace("d05a_a100_megatron_tp8_rank0.json"))
    rows = [
        row for row in PANES["roofline"].build(trace).rows() if row["input_shapes"] == "[[8192, 4096], [4096, 1536]]"
    ]
    assert [(row["op"], row["calls"], row["flops"]) for row in rows] == [("aten::mm", 40, 2.0 * 8192 * 4096 * 1536)]
    assert rows[0]["total_us"] == 16_002
    assert rows[0]["peak_pct"] == pytest.approx(100 * 40 * 2 * 8192 * 4096 * 1536 / 312e12 / 16_002e-6)


def test_amd_has_peaks_and_no_limits():
    peaks = peaks_of(MI300X)
    assert peaks is not None
    assert (peaks.title, peaks.rates["fp8"], limits_of(MI300X)) == ("MI300X", 2 * 1307.4, None)


def cells(lines: list[str]) -> set[tuple[int, int]]:
    """Places of the letters that hold a dot."""
    return {
        (row, column)
        for row, line in enumerate(lines)
        for column, letter in enumerate(line)
        if 0x2800 < ord(letter) <= 0x28FF
    }


def test_a_point_is_drawn_where_its_numbers_are():
    lines = scatter(np.array([1.0, 100.0]), np.array([1.0, 100.0]), width=60, height=14)
    assert {len(line) for line in lines[1:]} == {60}
    found = sorted(cells(lines))
    assert len(found) == 2
    (top, right), (bottom, left) = found
    assert top < bottom
    assert left < right
    assert "TFLOP/s" in lines[0]
    assert lines[-1].endswith("FLOP/byte")
    rows = {line[:8].strip(): row for row, line in enumerate(lines)}
    assert (rows["100"], rows["1"]) == (top, bottom)


def test_the_marked_point_is_a_diamond_where_its_numbers_are():
    """One with too little time to be drawn is drawn when it is marked."""
    lines = scatter(np.array([1.0, 100.0]), np.array([1.0, 100.0]), width=60, height=14, marked=1)
    rows = {line[:8].strip(): row for row, line in enumerate(lines)}
    assert [row for row, line in enumerate(lines) if "◆" in line] == [rows["100"]]
    assert {len(line) for line in lines[1:]} == {60}


def test_the_roof_rises_and_is_flat():
    roof = Roof(1_000, 4_000)
    assert roof.at(np.array([1.0, 250.0, 10_000.0])).tolist() == [4, 1_000, 1_000]
    lines = scatter(np.array([0.1, 10_000.0]), np.array([0.01, 0.01]), [roof], width=80, height=20)
    columns: dict[int, int] = {}
    for row, column in sorted(cells(lines), reverse=True):
        columns[column] = row
    tops = [columns[column] for column in sorted(columns)]
    assert tops == sorted(tops, reverse=True)
    assert tops[0] > tops[len(tops) // 2] > tops[-1]
    assert tops[-1] == tops[-10]


def test_nothing_is_drawn_of_nothing():
    assert scatter(np.array([np.nan, 0.0]), np.array([1.0, 1.0])) == []
    assert scatter(np.array([1.0]), np.array([1.0]), width=10, height=3) == []
    assert len(scatter(np.array([1.0]), np.array([1.0]), width=30, height=8)) == 8
    trace = make_trace(mm(0, 8192, 2_000_000), devices=[H100])
    assert roofline_lines(PANES["roofline"].build(trace))
    assert roofline_lines(PANES["roofline"].build(make_trace([]))) == []


def test_the_details_say_it_in_words():
    setup = {"grid": [10_000, 1, 1], "block": [256, 1, 1], "registers per thread": 72, "shared memory": 0}
    args = {"Input Dims": [[8192, 8192]] * 2, "Input type": ["c10::BFloat16"] * 2}
    events = [
        op("aten::mm", 0, 50, args=args),
        launch(10, 5, 1),
        launch(20, 5, 2),
        kernel("nvjet_tst_128x128", 100, 2_000_000, correlation=1, args=setup),
        kernel("splitKreduce_kernel", 3_000_000, 1_000, correlation=2, args=setup),
    ]
    trace = make_trace(events, devices=[H100])
    main, helper = links(trace).gpu.tolist()
    facts = {fact.label: fact.value for fact in kernel_facts(trace, main)}
    normal = "low is normal for GEMM and attention kernels"
    assert facts["occupancy"] == f"theoretical 37.5 % (3 blocks per SM), limited by registers; {normal}"
    assert facts["to raise it"] == "8 fewer registers: 4 blocks per SM instead of 3"
    assert facts["waves"].startswith("25.3: 3 % of their places")
    assert facts["operations"] == "1.1 TFLOP at 549 TFLOP/s, 384.0 MiB at 201 GB/s"
    assert facts["bound"] == "compute: 55.5 % of 989 TFLOP/s"
    assert [fact.row for fact in kernel_facts(trace, helper) if fact.label == "operations"] == [main]
    assert list(kernel_facts(trace, 0)) == []


def test_a_device_can_be_named_on_the_command_line(tmp_path, capsys):
    args = {"grid": [264, 1, 1], "block": [1024, 1, 1], "registers per thread": 32, "shared memory": 0}
    event = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2, "args": args}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": [event]}))
    assert main(["show", "kernels", str(path), "--device", "h100", "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["trace"]["devices"], shown["rows"][0]["waves"]) == (["H100 SXM"], 1)
    assert main(["show", "kernels", str(path), "--device", "Voodoo 2"]) == 2
    assert "RTX 4090" in capsys.readouterr().err


def test_what_lasts_no_time_has_no_rate():
    table = PANES["roofline"].build(make_trace(mm(0, 1024, 0), [A100]))
    row = table.row(0)
    assert row["calls"] == 1 and row["flops"] and row["bytes"]
    assert [row[name] for name in ("gbps", "tflops", "peak_pct")] == [None, None, None]


def test_a_share_of_the_peak_above_the_whole_is_marked_and_explained():
    took = int(2 * 4096**3 / 312e12 * 1e9 / 1.03)
    for pane in ("kernels", "roofline"):
        table = PANES[pane].build(make_trace(mm(0, 4096, took), [A100]))
        assert 102 < float(table["peak_pct"].cell(0) or 0) < 104
        assert table["peak_pct"].is_doubtful(0) and "(~)" in table.note
        below = PANES[pane].build(make_trace(mm(0, 4096, 2 * took), [A100]))
        assert not below["peak_pct"].is_doubtful(0) and "(~)" not in below.note


def test_the_details_of_a_kernel_mark_a_share_above_the_whole_and_say_no_rate_of_none():
    def details(events: list[Event]) -> dict[str, str]:
        trace = make_trace(events, [A100])
        return {fact.label: fact.value for fact in kernel_facts(trace, int(links(trace).gpu[0]))}

    took = int(2 * 4096**3 / 312e12 * 1e9 / 1.03)
    assert "~103" in details(mm(0, 4096, took))["bound"]
    assert "FLOP" in details(mm(0, 1024, 0))["operations"] and "nan" not in details(mm(0, 1024, 0))["operations"]
