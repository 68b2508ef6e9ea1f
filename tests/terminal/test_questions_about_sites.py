"""Questions that someone who read only the README answers in a few keys: kernels of a step, of modules, of variants."""

from __future__ import annotations

import re

import pytest

from tests.support.terminal.walks import left, opened

SIZE = (120, 40)

pytestmark = pytest.mark.full


def test_kernels_of_step_3_in_order(start, shared_trace):
    """One key: the trace opens at step 2, whose period is the median one."""
    tmux = opened(start, SIZE, shared_trace("d03_v100_2rank_5steps_mem_occ_nccl.json.gz"))
    tmux.wait_for("[2]", "3,874+584")
    tmux.press("]")
    screen = tmux.wait_for("[3]", "3,874+584", "in step 3")
    rows = re.findall(r"^[▸ ]\s+(\d+)  (.+?)\s{2,}", screen, re.MULTILINE)
    assert [int(number) for number, _ in rows[:8]] == list(range(1, 9))
    assert {name for _, name in rows[:8]} == {"fill<f32> vec4"}
    left(tmux)


def test_the_line_of_python_of_a_kernel(start, shared_trace):
    """No key for the first one, one for the next."""
    tmux = opened(start, SIZE, shared_trace("d06_h100_stack_mem.json.gz"))
    tmux.press(".")
    screen = tmux.wait_for("called from", "▸   2")
    after = re.sub(r"[^\S\n]+|▏", " ", screen[screen.index("called from") :])
    words = re.sub(r"\n.* ", "", after)
    assert "base.py" in words and "_ensure_" in screen.replace("\n", "")
    left(tmux)


def test_gpu_time_of_each_module(start, shared_trace):
    """One key: the tree of modules."""
    tmux = opened(start, SIZE, shared_trace("d06_h100_stack_mem.json.gz"))
    tmux.press("C")
    screen = tmux.wait_for("Owlv2Model_0", "total GPU", "(outside)")
    for module, time in (("Owlv2Model_0", "550.84 ms"), ("LayerNorm_49", "75.8 µs"), ("(outside)", "14.54 ms")):
        (row,) = [line for line in screen.splitlines() if module in line and "nn.Module" not in line]
        assert time in row
    left(tmux)


def test_which_gemm_an_occupancy_query_was_for(start, shared_trace):
    """The pane of the queries, where the operator and the product of each are listed, and one of them."""
    tmux = opened(start, SIZE, shared_trace("d04_a100_8rank_6steps_occ_nccl.json.gz"))
    tmux.press(":occupancy", "Enter")
    screen = tmux.wait_for("occupancy 823", "GEMM tf32 64x64x32 TN", "aten::addmm", "occ %")
    tmux.press("C-d")
    screen = tmux.wait_for("cudaOccupancyMaxActiveBlocks", "query for", "\n▸ 16", "▏   GEMM tf32 128x64x16 TN")
    (row,) = [line for line in screen.splitlines() if line.startswith("▸ 16")]
    lines = screen.splitlines()
    line = next(index for index, text in enumerate(lines) if "query for" in text)
    asked = re.search(r"GEMM tf32 (\S+ [NT]{2})", " ".join(text.split("▏")[-1] for text in lines[line : line + 2]))
    listed = re.search(r"GEMM tf32 (\w*)…?(\S* [NT]{2})", row)
    assert asked and listed and asked[1].startswith(listed[1]) and asked[1].endswith(listed[2])
    left(tmux)


def test_the_four_variants_of_the_puzzler_and_how_much_faster_the_fused_one_is(start, shared_trace):
    """Six keys: the tree, functions, single calls; mark, next, compare."""
    tmux = opened(start, SIZE, shared_trace("puzzlers/fusion_mwe_trace.json.gz"))
    tmux.press("C")
    tmux.wait_for("LayerNorm_0")
    tmux.press("b")
    tmux.wait_for("run_example_pt2", "by function")
    tmux.press("b")
    screen = tmux.wait_for("by call", "50.1", "25.3")
    variants = re.findall(r"\b((?:un)?fused)\s+1\s+(\d+)\.0 µs", screen)
    assert variants == [("unfused", "188"), ("fused", "66"), ("unfused", "95"), ("fused", "26")]
    tmux.press("Space")
    tmux.wait_for("Marked A unfused[1]")
    tmux.press("j")
    tmux.press("c")
    screen = tmux.wait_for("8.45 times as fast", "36 GPU activities", "5 GPU activities")
    assert "unfused[1]" in screen and "B " in screen
    left(tmux)
