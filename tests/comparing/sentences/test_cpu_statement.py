"""What is said of programs that no GPU ran: how many operators there are, what fused, and what takes the time."""

from __future__ import annotations

import gzip
import json
from statistics import median

import pytest

from tests.support.build import make_trace
from tests.support.comparing import tutorial
from tests.support.comparing.recording import Call, record
from tests.support.comparing.statements import first, said, sample
from tests.support.paths import SAMPLES
from tracetui.comparing.op_changes import op_changes, op_fusions
from tracetui.comparing.side import side
from tracetui.model.trace import Kind, Trace

NORM_TANH = "graph_0_cpp_fused_native_layer_norm_tanh_view_0"
SPLIT_NORM_TANH = "graph_0_cpp_fused_native_layer_norm_split_tanh_view_0"
SOFTMAX = "graph_0_cpp_fused__softmax_masked_fill_mul_view_0"


def us(name: str, time: float, *inside: Call) -> Call:
    """A call that takes so many µs beside what it calls."""
    return Call(name, own=round(1000 * time), inside=inside)


def compiled(*calls: Call) -> tuple[Call, ...]:
    """What torch.compile puts around a graph."""
    graph = Call("## Call CompiledFxGraph f57trjty6d3dozgoza ##", own=20_000, inside=calls, kind=Kind.ANNOTATION)
    return us("TorchDynamo Cache Lookup", 20), us("Torch-Compiled Region: 0/0", 40, graph)


def cpu(*calls: Call, jitter: float = 0.01, seed: int = 0, label: str = "forward", steps: int = 5) -> Trace:
    """A program in so many steps on the CPU alone."""
    return make_trace(record(label, calls, steps, jitter, seed))


def stack(parts: int, each: float, **how: float) -> Trace:
    """As many normalisations as there are parts, of so many µs each; then they are joined."""
    part = us("aten::layer_norm", 2, us("aten::native_layer_norm", each)), us("aten::tanh", 2 * each)
    joined = us("aten::stack", 8, us("aten::cat", 30))
    return cpu(*part * parts, *([joined] if parts > 1 else []), us("aten::addmm", 40), **how)  # type: ignore[arg-type]


def naive(*, bmm: float = 900) -> Trace:
    """Attention of which the mask is filled in a copy."""
    copied = us("aten::clone", 2, us("aten::copy_", 440))
    filled = us("aten::masked_fill", 8, copied, us("aten::masked_fill_", 300))
    moved = us("aten::to", 1, us("aten::copy_", 1))
    product = us("aten::matmul", 10, us("aten::bmm", bmm))
    return cpu(product, us("aten::mul", 450, moved), filled, us("aten::_softmax", 680), product)


def fused_attention(bmm: float = 900) -> Trace:
    product = us("aten::bmm", bmm)
    return cpu(*compiled(product, us(SOFTMAX, 1130), product))


def test_fewer_and_larger_operators_are_counted():
    text = said(stack(16, 100), stack(1, 1600))
    assert first(text).startswith("CPU time per step")
    # 16 x 3, cat, stack and addmm; 3 and addmm.
    assert text.splitlines()[1] == "Operators per step 51 → 4: tanh and native_layer_norm 16 → 1 calls."
    assert "Operators gone: stack, cat (38.0 µs)." not in text
    assert "Operators gone: cat, stack (" in text


def test_times_of_operators_called_less_often_are_told_where_they_are_believed():
    text = said(stack(16, 100), stack(1, 400))
    assert "Operators per step 51 → 4: tanh 16 → 1 calls (3.2" in text
    assert "Less CPU time" not in text
    noisy = said(stack(16, 100, jitter=0.5), stack(1, 1500, jitter=0.5, seed=1))
    assert "Operators per step 51 → 4: tanh and native_layer_norm 16 → 1 calls." in noisy
    assert "cannot tell" in first(noisy)


def test_as_many_operators_are_not_told():
    text = said(stack(16, 100), stack(16, 50))
    assert "Operators" not in text
    assert "Less CPU time in tanh (3,2" in text
    assert "Operators" not in said(stack(16, 100), stack(16, 100, seed=1))


def test_what_fused_is_weighed_with_what_it_called():
    text = said(naive(), fused_attention())
    # 450 + 2 + 8 + 2 + 440 + 300 + 680 beside 1,130: the copies within took most of what is saved.
    assert f"_softmax, masked_fill and mul became {SOFTMAX} (1,8" in text.replace(
        "mul and masked_fill", "masked_fill and mul"
    )
    assert "copy_" not in text
    assert "masked_fill_ " not in text
    assert "Operators gone: matmul (" in text
    assert "(and 2 of torch.compile)" in text


def fusion_times(a: Trace, b: Trace) -> list[tuple[tuple[str, ...], float, float]]:
    rows = list(op_changes(side(a), side(b)).rows())
    found = op_fusions(side(a), side(b), rows).fusions
    return [(each.before, each.times.a.median, each.times.b.median) for each in found]


def test_fusions_have_the_whole_time_of_what_went_into_them():
    ((names, before, after),) = fusion_times(naive(), fused_attention())
    assert sorted(names) == ["aten::_softmax", "aten::masked_fill", "aten::mul"]
    assert before == pytest.approx(450 + 2 + 8 + 2 + 440 + 300 + 680, rel=0.02)
    assert after == pytest.approx(1130, rel=0.02)
    (turned,) = fusion_times(fused_attention(), naive())
    assert turned[1:] == (after, before)


def test_what_stayed_is_no_part_of_a_fusion():
    inner = us("aten::conv2d", 500)
    a, b = cpu(us("aten::gelu", 100, inner)), cpu(*compiled(us("graph_0_cpp_fused_gelu_0", 60), inner))
    ((_, before, after),) = fusion_times(a, b)
    assert before == pytest.approx(100, rel=0.02)
    assert after == pytest.approx(60, rel=0.02)
    gone = cpu(*compiled(us("graph_0_cpp_fused_gelu_0", 60)))
    assert fusion_times(a, gone)[0][1] == pytest.approx(600, rel=0.02)


def test_the_time_of_a_fusion_by_hand():
    """Of the recorded file, by a loop: all that gelu and mul take in each step."""
    events = json.loads(gzip.decompress((SAMPLES / "mlp_eager_cpu.json.gz").read_bytes()))["traceEvents"]
    timed = [event for event in events if event.get("ph") == "X"]
    steps = [(each["ts"], each["ts"] + each["dur"]) for each in timed if each["name"].startswith("ProfilerStep")]
    ops = [each for each in timed if each["name"] in ("aten::gelu", "aten::mul")]
    sums = [sum(each["dur"] for each in ops if low <= each["ts"] < high) for low, high in steps]
    ((_, before, _),) = fusion_times(sample("mlp_eager"), sample("mlp_compile"))
    assert before == pytest.approx(median(sums), rel=1e-3)


def test_a_generated_kernel_that_became_another():
    a = cpu(*compiled(us(SPLIT_NORM_TANH, 9000), us("aten::addmm", 900)))
    b = cpu(*compiled(us(NORM_TANH, 6000), us("aten::addmm", 900)), seed=1)
    text = said(a, b)
    assert f"{SPLIT_NORM_TANH} became {NORM_TANH} (9.0" in text
    assert "within noise" not in text
    assert "Operators gone" not in text
    names = enumerate((SPLIT_NORM_TANH, NORM_TANH))
    a, b = (cpu(*compiled(us(name, 9000)), jitter=0.5, seed=seed) for seed, name in names)
    assert "within noise)." in said(a, b)


def test_a_generated_kernel_that_is_gone():
    a = cpu(*compiled(us(NORM_TANH, 9000), us("aten::addmm", 900)))
    b = cpu(*compiled(us("graph_0_cpp_fused_relu_1", 500), us("aten::addmm", 900)))
    text = said(a, b)
    assert f"gone: {NORM_TANH} (9.0" in text
    assert "new: graph_0_cpp_fused_relu_1 (" in text
    assert "became" not in text


def test_turned_round_a_kernel_became_operators():
    text = said(fused_attention(), naive())
    assert (
        f"Operators per step 3 → 12 (and 2 → 0 of torch.compile): {SOFTMAX} became _softmax, mul and masked_fill (1,"
        in text
    )
    assert "3 entries of torch.compile gone (" in text
    assert "new: matmul (" in text


def test_what_most_of_it_is():
    text = said(naive(bmm=9000), fused_attention(bmm=9000))
    assert "Most of the CPU time is bmm: 2 calls as before (1" in text
    assert "Most of the CPU time" not in said(naive(), fused_attention())
    # Where nothing else changed it explains nothing.
    assert "Most of the CPU time" not in said(stack(1, 1600), stack(1, 1600, seed=1))


def test_time_between_operators_is_called_so():
    def program(own: int) -> Trace:
        around = Call("between", own=own, inside=(us("aten::mm", 100),), kind=Kind.ANNOTATION)
        return cpu(around)

    assert "More CPU time in between outside of operators (1" in said(program(10_000), program(500_000))
    assert "outside" not in said(cpu(us("aten::mm", 100)), cpu(us("aten::mm", 500)))


def test_torch_compile_counts_apart():
    a, b = cpu(us("aten::linear", 3, us("aten::addmm", 30))), cpu(*compiled(us("aten::addmm", 30)))
    text = said(a, b)
    assert "Operators per step 2 → 1 (and 2 of torch.compile); gone: linear (" in text
    assert "torch.compile adds 3 entries (80" in text
    assert "torch.compile" not in said(a, cpu(us("aten::addmm", 30)))
    again = said(b, cpu(*compiled(us("aten::addmm", 30), us("aten::mm", 30))))
    assert "Operators per step 1 → 2 (and 2 of torch.compile); new: mm (" in again
    assert "adds" not in again


def test_launch_calls_are_one_row_whatever_they_are_called():
    text = said(tutorial.split_stack(), tutorial.combined(tutorial.COMPILED))
    assert "Less CPU time in launch calls (36 → 4, 180 → 20.0 µs)" in text
    assert "LaunchKernel" not in text
    assert "launch calls" not in said(stack(16, 100), stack(1, 1600))
