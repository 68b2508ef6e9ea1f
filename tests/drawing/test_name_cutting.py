"""Names that are cut: what tells them apart stays, and nothing is wider than its place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tracetui.drawing.name_cutting import cut_name

BACKWARD = "autograd::engine::evaluate_function: AddmmBackward0"
FRAME = "transformers/models/owlv2/modeling_owlv2.py(1421): box_predictor"


@pytest.mark.parametrize(
    ("text", "cells", "cut"),
    [
        (BACKWARD, 60, BACKWARD),
        (BACKWARD, 20, "…AddmmBackward0"),
        (BACKWARD, 10, "…AddmmBac…"),
        (FRAME, 48, "…/owlv2/modeling_owlv2.py(1421): box_predictor"),
        (FRAME, 40, "…/modeling_owlv2.py(1421): box_predictor"),
        (FRAME, 24, "…py(1421): box_predictor"),
        ("aten::_to_copy > aten::copy_ > cudaMemcpyAsync", 35, "…> aten::copy_ > cudaMemcpyAsync"),
        ("aten::_to_copy > aten::copy_ > cudaMemcpyAsync", 20, "…> cudaMemcpyAsync"),
        ("aten::_to_copy > aten::copy_ > cudaMemcpyAsync", 10, "cudaMemcp…"),
        ("nn.Module: Owlv2ForObjectDetection_0", 24, "nn.Module: Owlv2ForOb…_0"),
        ("Memcpy HtoD (Pageable -> Device)", 20, "Memcpy HtoD (Pageab…"),
        ("  ▸ Owlv2BoxPredictionHead_1", 20, "  ▸ Owlv2BoxPredi…_1"),
        ("Owlv2Model_0 / Encoder_0 / Linear_12", 30, "…/ Encoder_0 / Linear_12"),
        ("Owlv2Model_0 / Encoder_0 / Linear_12", 9, "Linear_12"),
        ("Linear_12", 6, "Linea…"),
        ("Linear_12", 8, "Line…_12"),
        ("a/b", 3, "a/b"),
    ],
)
def test_what_stays_of_a_name(text, cells, cut):
    assert cut_name(text, cells) == cut
    assert cell_len(cut) <= cells


PIECES = ["a/", "/", "…", " > ", "(12): f", ".py", "内核", "autograd::engine::evaluate_function: ", "::", "x", " "]


@given(st.text(max_size=80) | st.lists(st.sampled_from(PIECES), max_size=30).map("".join), st.integers(0, 60))
def test_no_name_is_wider_than_its_place(text, cells):
    cut = cut_name(text, cells)
    assert cell_len(cut) <= cells
    assert cut == text or "…" in cut or cells == 0 or text.endswith(cut)
