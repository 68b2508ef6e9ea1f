"""Which kernels compute on Tensor Cores: a column, a filter and a grouping of its own."""

from __future__ import annotations

from tests.support.build import Event, kernel, make_trace
from tracetui.checking.row_filter import kept_rows
from tracetui.model.trace import Kind
from tracetui.panes import PANES

TENSOR = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel"
SIMT = "volta_sgemm_128x64_nn"


def made():
    copy = Event("Memcpy HtoD", 300, 50, Kind.MEMCPY, ("0", "7"))
    return make_trace([kernel(TENSOR, 0, 100), kernel(SIMT, 100, 40), kernel("my_kernel", 200, 10), copy])


def test_what_a_name_tells():
    table = PANES["kernels"].build(made())
    assert [row["tensor_cores"] for row in table.rows()] == ["yes", "no", None, None]
    assert kept_rows(table, "tensor_cores == yes").tolist() == [True, False, False, False]


def test_their_time():
    table = PANES["kernels"].build(made(), by="tensor_cores")
    assert {row["tensor_cores"]: row["total_us"] for row in table.rows()} == {"yes": 0.1, "unknown": 0.06, "no": 0.04}
