"""What is the same on every machine of a kind: figures of real traces must lie where many other traces have them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.traces import loaded
from tracetui.idle.waits import queueing
from tracetui.linking.links import links
from tracetui.tables.occupancy import queries

NVIDIA = (
    "d01_v100_torch1.9_6steps_mem_occ.json.gz",
    "d03_v100_2rank_5steps_mem_occ_nccl.json.gz",
    "d04_a100_8rank_6steps_occ_nccl.json.gz",
    "d05a_a100_megatron_tp8_rank0.json",
    "d06_h100_stack_mem.json.gz",
    "d08_b200_cuda13_ep_moe.json",
    "d16_b300_tiny.json.gz",
)


@pytest.mark.full
@pytest.mark.parametrize("name", NVIDIA)
def test_the_shortest_way_from_a_launch_to_its_kernel_is_a_few_microseconds(name, shared_trace):
    latency = queueing(loaded(shared_trace(name))).latency
    assert 4_000 <= latency[latency > 0].min() <= 12_000


@pytest.mark.full
@pytest.mark.parametrize("name", NVIDIA)
def test_kernels_that_wait_for_each_other_follow_within_a_few_microseconds(name, shared_trace):
    trace = loaded(shared_trace(name))
    slices, found = trace.slices, links(trace)
    rows = found.gpu[np.lexsort((slices.start[found.gpu], slices.lane[found.gpu]))]
    before, after = rows[:-1], rows[1:]
    launch = found.launch[after]
    queued = (slices.lane[before] == slices.lane[after]) & (launch >= 0) & (slices.end[launch] < slices.end[before])
    gap = (slices.start[after] - slices.end[before])[queued]
    assert 800 <= np.median(gap) <= 2_500


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in NVIDIA if "h100" not in name])
def test_an_occupancy_query_takes_about_a_microsecond(name, shared_trace):
    trace = loaded(shared_trace(name))
    took = trace.slices.dur[queries(trace)]
    assert len(took)
    assert np.percentile(took, 90) <= 2_000
    assert took.max() <= 20_000
