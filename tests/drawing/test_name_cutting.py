"""Names that are cut: what tells them apart stays, and nothing is wider than its place."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tracetui.drawing import format
from tracetui.drawing.format import cut_name

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


@pytest.mark.parametrize("between", [" > ", " / "])
def test_a_chain_is_read_no_further_than_it_is_kept(between):
    """Paths of functions that call each other a thousand times are cut once for each of a thousand rows."""
    counted: list[int] = []

    def counting(text: str) -> int:
        counted.append(len(text))
        return cell_len(text)

    with mock.patch.object(format, "cell_len", counting):
        cut = cut_name(between.join(["naïve"] * 2000), 30)
    assert cut == "…" + between.lstrip() + between.join(["naïve"] * 3)
    assert sum(counted) < 5 * 2000 * len("naïve" + between)


def test_folders_go_in_one_pass():
    counted: list[int] = []

    def counting(text: str) -> int:
        counted.append(len(text))
        return cell_len(text)

    with mock.patch.object(format, "cell_len", counting):
        cut = cut_name("ä/" * 3000 + "b", 10)
    assert cut == "…/ä/ä/ä/b"
    assert sum(counted) < 10 * 6000
