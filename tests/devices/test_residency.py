"""Occupancy: Kineto's formula against what Kineto wrote, our own figures by hand, what would raise them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.build import kernel, launch, make_trace, op
from tests.support.devices import A100, H100, MI300X
from tests.support.traces import loaded
from tracetui.devices.descriptions import limits_of, with_device
from tracetui.devices.residency import ARTEFACT, UPPER_BOUND, advice, block_limits, configuration, residency
from tracetui.errors import UsageError
from tracetui.linking.groups import combinations
from tracetui.linking.links import links
from tracetui.model.table import Cell
from tracetui.model.trace import Device, Kind, Trace
from tracetui.panes import PANES

KINETO = {
    "d01_v100_torch1.9_6steps_mem_occ.json.gz": (8_772, 0),
    "d03_v100_2rank_5steps_mem_occ_nccl.json.gz": (19_370, 0),
    "d04_a100_8rank_6steps_occ_nccl.json.gz": (8_568, 1_224),
    "d05a_a100_megatron_tp8_rank0.json": (690, 285),
    "d05b_a100_megatron_tp8_rank1.json": (690, 285),
    "d06_h100_stack_mem.json.gz": (4_330, 1_110),
    "d08_b200_cuda13_ep_moe.json": (764, 71),
    "d09_rtx3090_compile_triton.json": (1_272, 153),
    "d16_b300_tiny.json.gz": (42, 9),
    "puzzlers/vector_flops1.json.gz": (11, 0),
}
"""Kernels with an estimate on a device that the file describes, and how many of them have an artefact for it."""


def args(grid: int, block: int, registers: int, shared: int, estimate: int | None = None) -> dict[str, object]:
    given = {"grid": [grid, 1, 1], "block": [block, 1, 1], "registers per thread": registers, "shared memory": shared}
    return given | ({} if estimate is None else {"est. achieved occupancy %": estimate})


def row_of(device: Device, name: str = "k", **config: int) -> dict[str, Cell]:
    trace = make_trace([kernel(name, 0, 10, args=args(**config))], devices=[device])
    return PANES["kernels"].build(trace).row(0)


@pytest.mark.parametrize("name", KINETO)
@pytest.mark.full
def test_the_estimate_is_that_of_kineto_for_every_kernel(name, shared_trace):
    trace = loaded(shared_trace(name))
    rows = links(trace).gpu
    rows = rows[trace.slices.kind[rows] == Kind.KERNEL]
    setup = configuration(trace, rows)
    found = residency(trace, rows, setup)
    given = setup.occupancy >= 0
    artefact = [mark >= 0 and found.marks[int(mark)] == ARTEFACT for mark in found.mark]
    clustered = [mark >= 0 and found.marks[int(mark)] == UPPER_BOUND for mark in found.mark]
    zeros = (setup.occupancy == 0) & (setup.shared > 48 * 1024)
    assert (int(given.sum()), int(zeros.sum())) == KINETO[name]
    assert np.array_equal(found.kineto[given], setup.occupancy[given])
    assert np.array_equal(np.array(artefact) | np.array(clustered) & zeros, zeros)
    assert not np.isnan(found.active).any()


def slow_active(threads: int, registers: int, shared: int) -> int:
    """Blocks per SM of an H100, by handing out what it has to one block after the other."""
    warps = (threads + 31) // 32
    quarters = [65_536 // 4] * 4
    left_shared, left_warps, active = 233_472, 64, 0
    per_warp = (registers * 32 + 255) // 256 * 256
    need = (shared + 1024 + 127) // 128 * 128
    while active < 32:
        for _ in range(warps):
            quarters.sort()
            quarters[3] -= per_warp
        left_shared, left_warps = left_shared - need, left_warps - warps
        if min(quarters) < 0 or left_shared < 0 or left_warps < 0:
            return active
        active += 1
    return active


def test_what_fits_equals_handing_out_block_by_block():
    limits = limits_of(H100)
    assert limits is not None
    generator = np.random.default_rng(1)
    # Warps in fours, so that each quarter of a multiprocessor gets the same.
    threads = 128 * generator.integers(1, 9, 300)
    registers = np.minimum(generator.integers(16, 256, 300), 65_536 // threads)
    shared = generator.integers(0, 232_448, 300)
    found = block_limits(limits, threads, registers, shared, limits.block_shared_optin).min(axis=0)
    expected = [slow_active(*each) for each in zip(threads.tolist(), registers.tolist(), shared.tolist(), strict=True)]
    assert found.tolist() == expected


def test_flash_attention_of_the_rule_book():
    """R3.36: 128 threads of 255 registers with 48 KiB: 8 warps by registers, 2 blocks, 12.5 %, printed as 13."""
    row = row_of(A100, grid=10_000, block=128, registers=255, shared=49_152, estimate=13)
    assert (row["occupancy_pct"], row["limiter"], row["kineto_occupancy_pct"]) == (12.5, "registers", 13)
    assert row["waves"] == pytest.approx(10_000 / (108 * 2))
    assert row["tail_pct"] == pytest.approx(100 * (1 - (10_000 / 216) / 47))


def test_a_zero_of_the_profiler_is_flagged():
    row = row_of(H100, grid=1_000, block=384, registers=168, shared=200_000, estimate=0)
    assert (row["occupancy_pct"], row["kineto_occupancy_pct"]) == (18.75, 0)
    assert row["occupancy_mark"] == ARTEFACT
    assert row["limiter"] == "registers, shared memory"


def test_a_small_grid_is_what_limits():
    row = row_of(H100, grid=53, block=256, registers=32, shared=0)
    assert row["limiter"] == "grid (0.4 blocks per SM)"
    assert row["occupancy_pct"] == 100
    assert row["bound_occupancy_pct"] == pytest.approx(100 * 53 / 132 * 256 / 2048)
    assert row["waves"] == pytest.approx(53 / (132 * 8))


def test_clusters_make_it_an_upper_bound():
    names = {
        "nvjet_tst_144x128_64x6_2x1_v_bz_bias_TNN": UPPER_BOUND,
        "nvjet_sm103_tst_64x8_64x16_1x4_h_bz_TNT": UPPER_BOUND,
        "nvjet_tst_64x64_64x16_1x1_2cta_v_bz_bias_TNT": UPPER_BOUND,
        "nvjet_sm90_hss_64x8_64x16_1x1_h_bz_splitK_NNT": None,
        "cutlass3x_sm90_tensorop_s64x256x16gemm_f16_f16_f32_void_f16_128x256x64_2x1x1_0_tnn_align8": UPPER_BOUND,
        "cutlass3x_sm90_tensorop_s64x128x16gemm_bf16_bf16_f32_void_bf16_128x128x64_1x1x1_0_tnn_align8": None,
    }
    for name, mark in names.items():
        assert row_of(H100, name, grid=1_000, block=128, registers=64, shared=0)["occupancy_mark"] == mark, name


def test_what_a_trace_does_not_say_is_null():
    bare = PANES["kernels"].build(make_trace([kernel("k", 0, 10, args=args(8, 128, 32, 0, 7))]))
    assert (bare.row(0)["occupancy_pct"], bare.row(0)["kineto_occupancy_pct"]) == (None, 7)
    assert "--device" in bare.note
    amd = PANES["kernels"].build(make_trace([kernel("k", 0, 10, args=args(608, 256, 32, 0))], devices=[MI300X]))
    row = amd.row(0)
    assert (row["occupancy_pct"], row["limiter"], row["waves"], row["blocks_per_sm"]) == (None, None, None, 2)
    assert "LDS" in amd.note
    unknown = Device(0, "NVIDIA Quantum", {"computeMajor": 42, "computeMinor": 0, "numSms": 7})
    assert row_of(unknown, grid=7, block=32, registers=32, shared=0)["occupancy_pct"] is None
    assert row_of(H100, grid=1, block=1024, registers=255, shared=0)["occupancy_pct"] is None


def test_a_device_can_be_named_for_a_trace_that_is_silent():
    trace = with_device(make_trace([kernel("k", 0, 10, args=args(8, 128, 32, 0, 7))]), "h100")
    row = PANES["kernels"].build(trace).row(0)
    assert (row["occupancy_pct"], row["limiter"]) == (100, "grid (0.1 blocks per SM)")
    with pytest.raises(UsageError, match="not known"):
        with_device(trace, "Voodoo 2")


def test_advice_is_true():
    limits = limits_of(H100)
    assert limits is not None
    assert advice(limits, 10_000, 256, 72, 0) == "8 fewer registers: 4 blocks per SM instead of 3"
    assert slow_active(256, 72, 0) == slow_active(256, 65, 0) == 3
    assert slow_active(256, 64, 0) == 4
    assert advice(limits, 10_000, 128, 32, 90_000) == "13.0 KiB less shared memory: 3 blocks per SM instead of 2"
    assert slow_active(128, 32, 90_000 - 13 * 1024) == 3
    assert slow_active(128, 32, 90_000 - 13 * 1024 + 128) == 2
    both = advice(limits, 10_000, 384, 168, 200_000)
    assert both.endswith("2 blocks per SM instead of 1")
    assert "fewer registers and" in both
    assert advice(limits, 53, 256, 32, 0) == "1,003 more blocks would fill the GPU once: 8 per SM on 132 SMs, now 53"
    assert advice(limits, 10_000, 32, 16, 0) == "blocks of 64 threads instead of 32: 100 % instead of 50 %"
    assert advice(limits, 10_000, 256, 32, 0) == ""


def test_queries_show_the_occupancy_of_the_kernel_that_they_sized():
    query = "cudaOccupancyMaxActiveBlocksPerMultiprocessor"
    trace = make_trace(
        [
            op("aten::mm", 0, 100),
            launch(10, 2, 0, query),
            launch(40, 5, 2),
            kernel("gemm", 1_000, 50, correlation=2, args=args(10_000, 128, 255, 49_152, 13)),
            launch(300, 2, 0, query),
        ],
        devices=[A100],
    )
    table = PANES["occupancy"].build(trace)
    assert [(row["occupancy_pct"], row["limiter"]) for row in table.rows()] == [(12.5, "registers"), (None, None)]


def test_combinations_number_equal_rows_alike():
    generator = np.random.default_rng(2)
    columns = [
        generator.integers(-3, 3, 500),
        generator.integers(-(1 << 61), 1 << 61, 20)[generator.integers(0, 20, 500)],
    ]
    found = combinations(columns[0], columns[1], columns[1])
    pairs = list(zip(columns[0].tolist(), columns[1].tolist(), strict=True))
    assert len(found) == len(set(pairs))
    assert [pairs[int(found.first[number])] for number in found.member] == pairs


def test_nothing_is_made_of_an_empty_trace():
    trace: Trace = make_trace([], devices=[H100])
    assert len(PANES["kernels"].build(trace)) == 0
    assert len(PANES["roofline"].build(trace)) == 0
