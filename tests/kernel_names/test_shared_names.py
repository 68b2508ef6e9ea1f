"""Every distinct name of the real traces: none unreadable, almost no time unknown, and tiles that match the grids."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from functools import cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.support.paths import SHARED
from tests.support.traces import WITHOUT_GPU, given_traces, loaded
from tracetui.kernel_names import MAX_SHORT_NAME, Decoded, decode
from tracetui.linking.links import links
from tracetui.model.trace import GPU_WORK, Kind, Trace

if not SHARED.exists():
    pytest.skip("needs ../shared/traces, which is not there", allow_module_level=True)

FILES = given_traces("d*.json*", "puzzlers/*", without=WITHOUT_GPU)

UNKNOWN_SHARE = 0.002
"""Share of a trace's GPU time that may belong to names which say nothing."""
NAMELESS = {"d09_rtx3090_compile_triton.json": "triton_", "d05a_a100_megatron_tp8_rank0.json": "triton__0d1d2d3d4de"}
"""Inductor's kernels without operators in their name: known for what they are, and for no more."""
NO_OPERATORS = re.compile(r"triton_(?:_\d[\dde]*)?")
"""Such names: what follows are numbers of arguments, `d` where they divide by 16, `e` at an ellipsis."""


@cache
def gpu_names(file: str) -> tuple[tuple[str, Kind, float], ...]:
    """Name, kind and total time (ns) of everything different that ran on the GPU."""
    trace = loaded(SHARED / file)
    slices = trace.slices
    rows = slices.of_kind(*GPU_WORK)
    pairs, place = np.unique(slices.name[rows].astype(np.int64) * 256 + slices.kind[rows], return_inverse=True)
    total = np.bincount(place, weights=slices.dur[rows])
    return tuple(
        (trace.names[pair // 256], Kind(pair % 256), time) for pair, time in zip(pairs.tolist(), total, strict=True)
    )


@pytest.mark.parametrize("file", FILES)
def test_hardly_any_time_is_unknown(file):
    names = gpu_names(file)
    found = {name: decode(name, kind) for name, kind, _ in names}
    assert all(0 < len(each.short) <= MAX_SHORT_NAME and each.sentence for each in found.values())
    whole = sum(time for _, _, time in names)
    unknown = {name: time / whole for name, _, time in names if found[name].operation in ("unknown", "pytorch")}
    print(f"{file}: {len(names)} names, unknown {sum(unknown.values()):.2%} {sorted(unknown)}")
    assert sum(unknown.values()) <= UNKNOWN_SHARE
    nameless = {name for name, each in found.items() if each.operation == "fused"}
    assert not {name for name in nameless if not NO_OPERATORS.fullmatch(name)}
    assert (file not in NAMELESS) or NAMELESS[file] in nameless


@pytest.mark.parametrize("file", FILES)
def test_names_of_inductor_split_in_one_way(file):
    for name, _, _ in gpu_names(file):
        if "_fused_" in name:
            assert decode(name).fused_ops
            assert decode(name).confidence("fused_ops") == "exact"


def test_a_big_eager_trace_has_few_equal_labels():
    """A label stands for few names, so that a list by name is readable: the median of names per label is 1."""
    names = gpu_names("d06_h100_stack_mem.json.gz")
    labels = Counter(decode(name, kind).short for name, kind, _ in names)
    assert np.median(list(labels.values())) == 1
    assert max(labels.values()) <= 3


@pytest.mark.nightly
def test_three_thousand_names_are_decoded_at_once():
    names = list({name for file in FILES if not file.marks for name, _, _ in gpu_names(file.values[0])})
    many = [f"{name}{copy}" for copy in range(-(-3000 // len(names))) for name in names][:3000]
    decode(many[0])
    begin = time.process_time()
    for name in many:
        decode(name)
    assert time.process_time() - begin < 30, "0.3 s on an idle machine: a pattern blows up on some name"


class Product(NamedTuple):
    """One matrix product: what its name says, the blocks that ran, and the shape of the output."""

    decoded: Decoded
    grid: tuple[int, ...]
    rows: int
    columns: int
    batch: int


@cache
def products(file: str) -> tuple[Product, ...]:
    """The different matrix products of a trace whose op recorded shapes and whose name tells a tile."""
    trace = loaded(SHARED / file)
    found, gpu = links(trace), links(trace).gpu
    gpu = gpu[found.owner[gpu] >= 0]
    event, owner = trace.slices.event, found.owner[gpu]
    keys: list[Any] = [
        trace.slices.name[gpu],
        trace.slices.name[owner],
        trace.work_args.text("grid", event[gpu]),
        trace.work_args.text("block", event[gpu]),
        trace.op_args.text("Input Dims", event[owner]),
    ]
    different = np.unique(np.stack(keys), axis=1).T.tolist()
    return tuple(product for each in different if (product := _product(trace, *each)) is not None)


def _product(trace: Trace, name: int, op: int, grid: int, block: int, dims: int) -> Product | None:
    decoded = decode(trace.names[name])
    if (
        trace.names[op] not in ("aten::mm", "aten::addmm", "aten::bmm")
        or decoded.operation != "gemm"
        or -1 in (grid, dims)
    ):
        return None
    shapes = [shape for shape in json.loads(trace.op_args.strings[dims]) if len(shape) > 1]
    first, second = shapes[:2]
    blocks = json.loads(trace.work_args.strings[grid])
    if decoded.vendor == "AMD":
        # ROCm counts work items, not blocks.
        threads = json.loads(trace.work_args.strings[block])
        blocks = [size // each for size, each in zip(blocks, threads, strict=True)]
    return Product(decoded, tuple(blocks), first[-2], second[-1], prod(first[:-2]))


@pytest.mark.parametrize(
    ("file", "library", "at_least"),
    [
        ("d08_b200_cuda13_ep_moe.json", "cuBLAS nvjet", 1),
        ("d16_b300_tiny.json.gz", "cuBLAS nvjet", 3),
        ("d05a_a100_megatron_tp8_rank0.json", "cuBLAS SASS", 3),
        ("d04_a100_8rank_6steps_occ_nccl.json.gz", "cuBLAS SASS", 1),
        ("d07_mi300x_8rank_3steps_stack.json.gz", "hipBLASLt (Tensile)", 3),
    ],
)
@pytest.mark.full
def test_blocks_are_the_tiles_times_the_parts_of_a_split(file, library, at_least):
    """Tiles from the name and the shapes give the grid; a rest would mean that the tile lies the other way."""
    mine = [product for product in products(file) if product.decoded.library == library]
    assert len(mine) >= at_least
    exact = 0
    for product in mine:
        tiles = product.decoded.tiles(product.rows, product.columns, product.batch)
        assert tiles and prod(product.grid) % tiles == 0, product
        exact += prod(product.grid) == tiles
    assert exact


def test_only_one_way_to_lay_a_tile_gives_the_grid():
    product = next(each for each in products("d16_b300_tiny.json.gz") if each.decoded.tile == (64, 8, 64))
    assert product.decoded.tiles(product.rows, product.columns) == prod(product.grid) == 64
    assert product.decoded.tiles(product.columns, product.rows) == 8


def test_cutlass_tiles_lie_by_columns_and_are_swizzled():
    """Blocks of CUTLASS 2.x are rearranged in strips: tiles down times 1 to 8, and tiles across by as many."""
    for file in ("d04_a100_8rank_6steps_occ_nccl.json.gz", "d06_h100_stack_mem.json.gz"):
        mine = [product for product in products(file) if product.decoded.library == "CUTLASS 2.x"]
        assert len(mine) >= 5
        for product in mine:
            across, down = product.decoded.tile[:2]
            down, across = -(-product.rows // down), -(-product.columns // across)
            strips = [(down * strip, -(-across // strip)) for strip in (1, 2, 4, 8)]
            assert product.grid[:2] in strips, product


def test_xmma_lays_its_tiles_by_rows():
    """Two traces, two architectures: 43 x 12 blocks on A100, 126 on H100, which no tile by columns gives."""
    tiles = {
        product.decoded.tile: (
            prod(product.grid),
            product.decoded.tiles(product.rows, product.columns),
            product.decoded.tiles(product.columns, product.rows),
        )
        for file in ("d05a_a100_megatron_tp8_rank0.json", "d06_h100_stack_mem.json.gz")
        for product in products(file)
        if product.decoded.library == "cuBLAS xmma" and product.decoded.tile[0] != product.decoded.tile[1]
    }
    assert tiles == {(192, 128, 32): (516, 516, 512), (256, 128, 64): (126, 126, 123)}
