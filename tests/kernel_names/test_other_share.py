"""How much GPU time of each real trace belongs to names that say nothing; `pytest -s` prints share and names."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.paths import SHARED
from tests.support.traces import given_traces, loaded
from tracetui.errors import TracetuiError
from tracetui.kernel_names import Family, decode
from tracetui.model.trace import GPU_WORK, Kind

MAX_OTHER_SHARE = 0.01
"""Maximum share of a trace's GPU time in the family `other`."""
BARE = {"kernel", "void", "?"}


FOLDERS = ("d*", "inference/*.json*", "ranks/**/*.json*", "puzzlers/*", "edge/*.json*", "edge/*.pfw.gz")


@pytest.mark.parametrize("file", given_traces(*FOLDERS))
@pytest.mark.full
def test_hardly_any_gpu_time_is_other_and_no_short_name_is_bare(file):
    try:
        trace = loaded(SHARED / file)
    except TracetuiError as error:
        pytest.skip(f"no trace: {error}")
    slices = trace.slices
    rows = slices.of_kind(*GPU_WORK)
    if len(rows) == 0:
        pytest.skip("nothing ran on a GPU")
    keys = slices.name[rows].astype(np.int64) * len(Kind) + slices.kind[rows]
    distinct, index = np.unique(keys, return_inverse=True)
    time = np.bincount(index, np.maximum(slices.dur[rows], 0)) / max(int(slices.dur[rows].sum()), 1)
    decoded = [decode(trace.names[key // len(Kind)], Kind(key % len(Kind))) for key in distinct.tolist()]
    names = [trace.names[key // len(Kind)] for key in distinct.tolist()]
    everything = zip(names, time, decoded, strict=True)
    other = {name: share for name, share, each in everything if each.family == Family.OTHER}
    print(f"{file}: other {sum(other.values()):.2%} of {len(decoded)} names {sorted(other)}")
    assert sum(other.values()) < MAX_OTHER_SHARE
    assert not {each.short.lower() for each in decoded} & BARE
