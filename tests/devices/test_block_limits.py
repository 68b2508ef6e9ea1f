"""What lets how many blocks on a multiprocessor, at the edges of every limit; numbers by hand, of an H100.

It has 65,536 registers in four parts, 228 KiB of shared memory of which each block loses 1 KiB, 64 warps and 32 blocks.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.build import Event, kernel, make_trace
from tests.support.devices import A100, H100, MI300X
from tracetui.devices.descriptions import Limits, limits_of
from tracetui.devices.residency import (
    ARTEFACT,
    UPPER_BOUND,
    advice,
    advice_of,
    block_limits,
    configuration,
    kineto_percent,
    occupancy_note,
    residency,
)
from tracetui.model.table import Cell
from tracetui.model.trace import Device, Kind
from tracetui.panes import PANES

ENDLESS = 1 << 40


def h100(**changes: int) -> Limits:
    limits = limits_of(H100)
    assert limits is not None
    return replace(limits, **changes)


def blocks(
    threads: int = 32, registers: int = 0, shared: int = 0, most: int = 232_448, limits: Limits | None = None
) -> list[int]:
    """Blocks by registers, shared memory, warps and number."""
    found = block_limits(limits or h100(), np.array([threads]), np.array([registers]), np.array([shared]), most)
    return [int(number) for number in found[:, 0]]


@pytest.mark.parametrize(
    ("threads", "registers", "expected"),
    [
        (96, 40, 16),  # 1,280 a warp: 12 in each quarter, 48 warps, not the 51 that all registers would hold
        (96, 33, 16),  # 1,056 are handed out as 1,280
        (96, 41, 13),  # 1,312 as 1,536: 10 in each quarter, 40 warps
        (1024, 64, 1),  # 32 warps of 2,048 are all 65,536
        (1024, 65, 0),
        (32, 256, 8),  # the most that a thread may have: 8,192 a warp
        (32, 257, 0),
        (32, 0, ENDLESS),
    ],
)
def test_registers_are_handed_out_by_warp_and_quarter(threads, registers, expected):
    assert blocks(threads, registers)[0] == expected


@pytest.mark.parametrize(
    ("threads", "registers", "expected"),
    [
        (512, 64, 2),  # 16 warps of 2,048 are exactly 32,768
        (512, 50, 2),  # 16 warps of 1,792
        (544, 50, 0),  # 17 warps would fit, but they are counted as 20
    ],
)
def test_a_block_may_have_fewer_registers_than_there_are(threads, registers, expected):
    assert blocks(threads, registers, limits=h100(block_registers=32_768))[0] == expected


@pytest.mark.parametrize(
    ("shared", "expected"),
    [
        (0, 228),  # the driver's 1,024 bytes
        (1, 202),  # 1,025 are handed out as 1,152
        (128, 202),
        (129, 182),  # as 1,280
        (232_448, 1),  # the most that a block may ask for
        (232_449, 0),
    ],
)
def test_shared_memory_is_handed_out_in_pieces_with_the_drivers_share(shared, expected):
    assert blocks(shared=shared)[1] == expected


def test_what_takes_nothing_is_limited_by_nothing():
    volta = limits_of(Device(0, "V100", {"computeMajor": 7, "computeMinor": 0, "numSms": 80}))
    assert volta is not None and volta.reserved == 0
    assert blocks(limits=volta)[:2] == [ENDLESS, ENDLESS]


@pytest.mark.parametrize(("threads", "expected"), [(32, 64), (33, 32), (64, 32), (1024, 2)])
def test_a_started_warp_is_a_whole_one(threads, expected):
    assert blocks(threads)[2:] == [expected, 32]


@pytest.mark.parametrize(
    ("grid", "threads", "shared", "expected"),
    [
        (132, 256, 0, 13),  # one block per SM, 12.5 %: half a percent is rounded up
        (132, 32, 0, 2),  # 1.56 %
        (66, 32, 0, 1),  # half a block per SM, 0.78 %
        (132 * 8, 256, 0, 100),
        (132 * 80, 256, 0, 100),  # no more than fit
        (132, 256, 49_152, 13),
        (132, 256, 49_153, 0),  # the artefact: more than 48 KiB
    ],
)
def test_kinetos_estimate_is_rounded_half_up(grid, threads, shared, expected):
    one = (np.array([value]) for value in (grid, threads, 32, shared))
    assert kineto_percent(h100(), *one).tolist() == [expected]


def row_of(grid: object, block: int, shared: int = 0, device: Device = H100, **more: object) -> dict[str, Cell]:
    """The row of a kernel of 16 registers."""
    sizes = grid if isinstance(grid, list) else [grid, 1, 1]
    args = {"grid": sizes, "block": [block, 1, 1], "registers per thread": 16, "shared memory": shared} | more
    return PANES["kernels"].build(make_trace([kernel("k", 0, 10, args=args)], devices=[device])).row(0)


def test_a_block_of_33_threads_holds_two_warps_and_uses_33():
    row = row_of(132 * 64, 33)
    assert (row["occupancy_pct"], row["waves"], row["tail_pct"]) == (100, 2, 0)
    assert row["bound_occupancy_pct"] == 100 * 32 * 33 / 2048


def test_one_block_of_one_thread_has_an_occupancy():
    """32 blocks of one warp are half of 64 warps; one block on 132 multiprocessors is next to none of 2,048 threads."""
    row = row_of(1, 1)
    assert (row["occupancy_pct"], row["bound_occupancy_pct"]) == (50, 100 / 132 / 2048)


def test_half_of_the_second_wave_is_a_quarter_of_all():
    row = row_of(132 * 48, 32)
    assert (row["waves"], row["tail_pct"], row["blocks_per_sm"]) == (1.5, 25, 48)


def test_a_grid_that_just_fills_the_device_is_not_the_limit():
    assert row_of(132 * 32, 32)["limiter"] == "blocks"
    assert row_of(132 * 32 - 1, 32)["limiter"] == "grid (32.0 blocks per SM)"


@pytest.mark.parametrize(("grid", "limiter"), [(5, "grid (0.1 blocks per SM)"), (4, "grid (under 0.1 blocks per SM)")])
def test_a_twentieth_of_a_block_is_rounded_and_less_is_told_in_words(grid, limiter):
    hundred = Device(0, "NVIDIA H100", {**H100.properties, "numSms": 100})
    assert row_of(grid, 32, device=hundred)["limiter"] == limiter


def test_the_artefact_is_marked_beyond_48_kib():
    assert [row_of(1000, 32, shared)["occupancy_mark"] for shared in (49_152, 49_153)] == [None, ARTEFACT]


def test_sizes_beyond_all_reason_are_unknown():
    assert row_of([1 << 20, 1 << 20, 1], 32)["blocks_per_sm"] is None
    assert row_of([1 << 20, (1 << 20) - 1, 1], 32)["blocks_per_sm"] == (1 << 20) * ((1 << 20) - 1) / 132
    assert row_of(132, 32, 1 << 40)["occupancy_pct"] is None
    assert row_of(132, 0)["occupancy_pct"] is None
    assert row_of(0, 32)["blocks_per_sm"] is None


def test_a_fill_has_no_occupancy_though_it_has_a_grid():
    args = {"grid": [132, 1, 1], "block": [32, 1, 1], "registers per thread": 16, "shared memory": 0}
    fill = Event("Memset (Device)", 0, 10, Kind.MEMSET, ("0", "stream 7"), args=args)
    trace = make_trace([fill, kernel("k", 20, 10, args=args)], devices=[H100])
    rows = np.array([0, 1, -1])
    found = residency(trace, rows, configuration(trace, rows))
    assert np.isnan(found.active).tolist() == [True, False, True]
    assert found.limiter.tolist() == [-1, 0, -1]


def test_only_where_all_devices_are_of_amd_is_the_note_about_them():
    none = make_trace([kernel("k", 0, 10)])
    assert "LDS" in occupancy_note(replace(none, devices=(MI300X, MI300X), cache={}))
    assert "LDS" not in occupancy_note(replace(none, devices=(MI300X, A100), cache={}))
    assert "LDS" not in occupancy_note(none)


@pytest.mark.parametrize(
    ("grid", "threads", "registers", "shared", "expected"),
    [
        (1_055, 256, 32, 0, "1 more blocks would fill the GPU once: 8 per SM on 132 SMs, now 1,055"),
        (1_056, 256, 32, 0, ""),
        (0, 256, 32, 0, ""),
        (10_000, 1024, 65, 0, ""),  # it does not fit at all
        # 72 registers are 2,304 a warp, 7 in each quarter, 28 warps; 32 need 2,048 a warp.
        (10_000, 256, 72, 0, "8 fewer registers: 4 blocks per SM instead of 3"),
        # 233,472 bytes hold three blocks of 77,824 with the driver's 1,024.
        (10_000, 128, 32, 76_801, "128 B less shared memory: 3 blocks per SM instead of 2"),
        # 21 blocks of 3 warps are 63 of 64; 64 threads are as near as 128 and come first.
        (10_000, 96, 16, 0, "blocks of 64 threads instead of 96: 100 % instead of 98 %"),
        # 2 blocks of 31 warps; the largest block there is fills it.
        (10_000, 992, 16, 0, "blocks of 1024 threads instead of 992: 100 % instead of 97 %"),
        # Two warps, of which the second has one thread.
        (10_000, 33, 16, 0, ""),
    ],
)
def test_advice_names_what_is_missing_to_one_block_more(grid, threads, registers, shared, expected):
    assert advice(h100(), grid, threads, registers, shared) == expected


def test_both_resources_are_named_where_both_are_short():
    """Two blocks are 24 warps, 6 in a quarter of 2,560 each, which are 80 registers; each may have 115,712 bytes.

    From 200,000 bytes that takes 659 steps of 128.
    """
    found = advice(h100(), 10_000, 384, 168, 200_000)
    assert found == "88 fewer registers and 82.4 KiB less shared memory: 2 blocks per SM instead of 1"


def test_there_is_advice_only_for_kernels_of_which_all_is_known():
    args = {"grid": [53, 1, 1], "block": [256, 1, 1], "registers per thread": 32, "shared memory": 0}

    def told(kind: Kind = Kind.KERNEL, devices: tuple[Device, ...] = (H100,), without: str = "") -> str:
        given = {name: value for name, value in args.items() if name != without}
        first = Event("first", 0, 10, kind, ("0", "stream 7"), args=given)
        trace = make_trace([first], devices=devices)
        return advice_of(trace, 0, configuration(trace, np.array([0])))

    assert told() == "1,003 more blocks would fill the GPU once: 8 per SM on 132 SMs, now 53"
    assert (told(Kind.MEMSET), told(devices=()), told(devices=(MI300X,))) == ("", "", "")
    assert [told(without=name) for name in args] == [""] * 4


@pytest.mark.parametrize(("cluster", "mark"), [("2x1", UPPER_BOUND), ("1x1", "")])
def test_a_cluster_of_two_is_marked_on_a_kernel_and_on_nothing_else(cluster, mark):
    args = {"grid": [132, 1, 1], "block": [32, 1, 1], "registers per thread": 16, "shared memory": 0}
    trace = make_trace([kernel(f"nvjet_tst_144x128_64x6_{cluster}_v_bz_bias_TNN", 0, 10, args=args)], devices=[H100])
    rows = np.array([0, -1])
    found = residency(trace, rows, configuration(trace, rows))
    assert [found.marks[number] if number >= 0 else "" for number in found.mark.tolist()] == [mark, ""]
