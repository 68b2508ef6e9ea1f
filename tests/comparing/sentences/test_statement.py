"""What is said of two sides: the claims of the tutorial and of the puzzle, and what must not be claimed."""

from __future__ import annotations

import pytest

from tests.support.build import Event, kernel, launch, make_trace, op, step
from tests.support.comparing import tutorial
from tests.support.comparing.statements import first, said, sample
from tests.support.comparing.tutorial import COMPILED, FUSED
from tests.support.traces import loaded
from tracetui.comparing.side import side
from tracetui.comparing.statement import MAX_SENTENCES, Comparison, statement
from tracetui.model.trace import Kind, Trace

PUZZLE = "puzzlers/fusion_mwe_trace.json.gz"


def test_the_mlp_compiled():
    text = said(tutorial.mlp(), tutorial.mlp(COMPILED))
    assert first(text).startswith("GPU time per step 70")
    assert "8 % less" in first(text)
    assert "Kernels per step 5 → 4: gelu and mul became triton_poi_fused__unsafe_view_gelu_mul_0" in text
    assert "96.0 MiB less memory traffic" in text
    assert "3 GEMMs are the same kernels, as expected: the compiler calls cuBLAS for them." in text
    assert "torch.compile adds 5 entries (80.1 µs of CPU time per step): Torch-Compiled Region, " in text
    assert "Operators gone: linear, matmul, and the view ops t, transpose, as_strided" in text
    assert "CPU time per step" in text.splitlines()[1]
    # The one kernel that saves memory traffic says so already.
    assert "the least that shapes imply" not in text


def test_turned_round_every_kernel_is_named():
    text = said(tutorial.mlp(COMPILED), tutorial.mlp())
    became = (
        "triton_poi_fused__unsafe_view_gelu_mul_0 became gelu<bf16> vec4 and mul<bf16> vec4 (1 → 2 kernels, 89.8 → "
    )
    assert f"Kernels per step 4 → 5: {became}" in text
    assert "5 entries of torch.compile gone (80.1 µs of CPU time per step): " in text
    assert "torch.compile adds" not in text


def test_a_kernel_by_hand_needs_no_compiler():
    text = said(tutorial.mlp(), tutorial.mlp(FUSED))
    assert "_geglu_tanh_forward_kernel runs where gelu and mul ran (" in text
    assert "compile" not in text


def test_a_product_and_a_sum_are_fused_in_the_dispatcher_only():
    text = said(tutorial.matmul_add(), tutorial.matmul_add(COMPILED))
    assert "addmm copies first (Memcpy DtoD, 33" in text
    assert "fused in the dispatcher only" in text
    assert "The GEMM is the same kernel, as expected" in text
    assert "times as much" in text.splitlines()[1]
    assert text.count("Memcpy") == 1
    assert "Minimum memory traffic per step, from tensor shapes, 192.0 → 160.0 MiB: 17 % less." in text
    assert "copies first" not in said(tutorial.mlp(), tutorial.mlp(COMPILED))


def test_a_linear_layer_costs_more_cpu_and_the_same_gpu():
    text = said(tutorial.linear(), tutorial.linear(COMPILED))
    assert first(text).startswith("Period per step 31.0 → 102 µs") and "GPU idle time, 26.0 → 96.9 µs" in first(text)
    assert "GPU the same, CPU 3.7" in text and "(noise 0.20 µs)" in text
    assert "Operators gone: linear, and the view ops t, transpose, as_strided" in text
    assert "Kernels" not in text


def test_one_large_kernel_instead_of_many():
    text = said(tutorial.split_stack(), tutorial.combined())
    assert "Kernels per step 36 → 5, fewer and larger: tanh<f32> vec4 16 → 1 calls (64.0 → " in text
    assert "Less CPU time in launch calls (36 → 5, 180 → 25.0 µs), tanh (16 → 1 calls, " in text
    idle = "Bottleneck: overhead-bound → memory-bound; the GPU idle for 44 % → 7 % of the period"
    assert f"{idle}; most of the change is attributed to launch call (" in text
    assert "became" not in text


def test_idle_time_is_told_once():
    # The verdict is about the span: without a cause the share of it that is idle is no news.
    puzzled = said(tutorial.split_stack(), tutorial.split_stack(COMPILED))
    assert "from the first kernel to the last" in first(puzzled)
    assert puzzled.count("is idle for") <= 1
    busy = said(tutorial.combined(), tutorial.combined(COMPILED))
    assert "Bottleneck: memory-bound → overhead-bound; the GPU idle for 7 % → 80 % of the period" in busy
    assert busy.count("idle for") == 1


def test_compiled_it_fuses_each_pair():
    text = said(tutorial.split_stack(), tutorial.split_stack(COMPILED))
    assert "Kernels per step 36 → 19: native_layer_norm and tanh became" in text
    assert "32 → 16 kernels" in text


def test_attention():
    text = said(tutorial.attention("naive"), tutorial.attention("in-place"))
    assert "Kernels and copies per step 6 → 5; gone: Memcpy DtoD (17" in text
    assert "larger" not in text
    text = said(tutorial.attention("naive"), tutorial.attention("flash"))
    assert "Kernels and copies per step 6 → 1: FlashAttn fwd d64 runs where bmm, mul, copy_, " in text
    assert "masked_fill_ and _softmax ran (6 → 1 kernel, " in text


@pytest.mark.parametrize(
    ("a", "b", "times", "counts"),
    [
        ("unfused[1]", "fused[1]", "8.45 times as fast", "36 → 5"),
        ("unfused[1]", "unfused[2]", "2.54 times as fast", "36 → 19"),
        ("unfused[1]", "fused[2]", "10.27 times as fast", "36 → 4"),
    ],
)
def test_the_puzzle(a, b, times, counts, shared_trace):
    trace = loaded(shared_trace(PUZZLE))
    text = said(trace, trace, a, b)
    assert first(text).startswith("GPU per run, from the first kernel to the last, 1,613 → ")
    assert f"{times} (one run each, noise unknown, 5 % assumed)" in first(text)
    assert f"Kernels per run {counts}" in text


def test_a_wait_of_unknown_cause_is_put_down_to_none(shared_trace):
    """The period comes first, then the idle time; most of it waited behind its launch, and nothing says for what."""
    trace = loaded(shared_trace("inference/i07_assembled_vllm_async_decode.json.gz"))
    _, period, bottleneck, *_ = said(trace, trace, "7", "8").splitlines()
    assert period.startswith("Period per step 10.9 → 24.3 ms") and "GPU idle time, 0.14 → 13.6 ms" in period
    assert bottleneck.endswith("idle, cause unknown; the GPU idle for 1 % → 56 % of the period.")


def test_work_without_a_launch_is_named(shared_trace):
    trace = loaded(shared_trace(PUZZLE))
    text = said(trace, trace, "unfused[1]", "unfused[2]")
    assert "17 GPU activities of B without a launch record" in text
    assert (
        "torch.compile adds 2 entries (865 µs of CPU time per run): CompiledFunction, TorchDynamo Cache Lookup." in text
    )
    assert "without a launch record" not in said(trace, trace, "unfused[1]", "fused[1]")


def test_without_a_gpu_operators_explain():
    text = said(sample("mlp_eager"), sample("mlp_compile"))
    assert first(text) == "CPU time per step 425 → 368 ms: 13 % less (noise 8.6 ms)."
    became = "gelu and mul became graph_0_cpp_fused__unsafe_view_gelu_mul_0 (81.6 → 35.6 ms)."
    assert text.splitlines()[1] == f"Operators per step 35 → 10 (and 4 of torch.compile): {became}"
    assert "Most of the CPU time is mm: 3 calls as before (326 → 323 ms)." in text
    assert "GPU" not in text
    assert "GEMM" not in text


def test_what_noise_hides_is_not_claimed():
    text = said(sample("linear_eager"), sample("linear_compile"))
    assert "cannot tell, the steps of one side differ by" in first(text)
    some, others = tutorial.mlp(jitter=0.3, seed=1), tutorial.mlp(jitter=0.3, seed=2)
    assert "cannot tell" in first(said(some, others))
    assert "less" not in said(some, others)


def test_a_run_beside_itself():
    trace = tutorial.mlp()
    assert said(trace, trace) == "A and B are the same: nothing differs."
    assert said(tutorial.mlp(), tutorial.mlp()) == "A and B are the same: nothing differs."
    assert "nothing differs" not in said(trace, trace, "2", "3")


def test_two_runs_of_one_program():
    lines = said(tutorial.mlp(seed=1), tutorial.mlp(seed=2)).splitlines()
    assert [line.partition(":")[0] for line in lines] == ["GPU time per step the same", "CPU time per step the same"]


def test_a_kernel_that_became_many_is_weighed_with_all_of_them(shared_trace):
    trace = loaded(shared_trace(PUZZLE))
    text = said(trace, trace, "fused[1]", "unfused[2]")
    assert "tanh became triton_per_fused_layer_norm_tanh_0_0d1d2d3d4d (2 → 16 kernels, 51.0 → 80.0 µs)" in text
    assert "has a match" not in text
    assert "GPU activity new" not in text


def one_kernel(name: str, *times: int, copy: bool = False) -> Trace:
    """Steps of a product and a kernel that takes so many ns; with a copy of one size first."""
    events = []
    for number, time in enumerate(times, 1):
        begin = 10_000_000 * number
        events += [step(number, begin, 9_000_000), op("aten::mm", begin + 10, 800)]
        events += [launch(begin + 20, 500, 10 * number), op("aten::mul", begin + 1000, 800)]
        events += [launch(begin + 1020, 500, 10 * number + 1)]
        events += [kernel("sgemm_128", begin + 2000, 1_000_000, correlation=10 * number)]
        events += [kernel(name, begin + 1_003_000, time, correlation=10 * number + 1)]
    return make_trace(events)


def test_a_kernel_that_is_faster_or_slower_is_named():
    slow, fast = (
        one_kernel("mul_kernel", 900_000, 901_000, 902_000),
        one_kernel("mul_kernel", 500_000, 501_000, 502_000),
    )
    assert "GPU activity faster: mul_kernel (901 → 501 µs)." in said(slow, fast)
    assert "GPU activity slower: mul_kernel (501 → 901 µs)." in said(fast, slow)
    restless = one_kernel("mul_kernel", 400_000, 900_000, 1_400_000)
    assert "GPU activity" not in said(restless, fast)
    assert first(said(restless, fast)).endswith("cannot tell, the steps of one side differ by 1,000 µs.")


def test_a_fusion_within_noise_is_called_so():
    restless = said(tutorial.mlp(jitter=0.6, seed=1), tutorial.mlp(COMPILED, jitter=0.6, seed=2))
    assert "gelu_mul_0 (128 → 98.1 µs, within noise, 96.0 MiB less memory traffic)" in restless
    assert "within noise" not in said(tutorial.mlp(), tutorial.mlp(COMPILED))


def waiting(us: int) -> Trace:
    """Steps of 1 ms of work on the CPU that then wait for the GPU."""
    events = []
    for number in range(1, 4):
        begin = 10_000_000 * number
        events += [step(number, begin, 1_000_000 + 1000 * us), op("aten::mm", begin + 10, 900_000)]
        events += [
            launch(begin + 100, 900, number),
            kernel("k", begin + 2000, 1_000_000 + 900 * us, correlation=number),
        ]
        events.append(Event("cudaDeviceSynchronize", begin + 1_000_000, 1000 * us, Kind.RUNTIME))
    return make_trace(events)


def test_a_step_that_waits_is_told_as_a_whole():
    text = said(waiting(2000), waiting(1000))
    assert "The step as a whole, waits for the GPU included, 3.00 → 2.00 ms: 1.50 times as fast" in text
    assert "as a whole" not in said(tutorial.mlp(), tutorial.mlp(COMPILED))


def graphed(graphs: bool) -> Trace:
    events = []
    for number in range(1, 4):
        begin, first = 100_000 * number, 10 * number
        events.append(step(number, begin, 90_000))
        name = "cudaGraphLaunch" if graphs else "cudaLaunchKernel"
        calls = 1 if graphs else 4
        events += [launch(begin + 1000 * place, 900, first + place, name) for place in range(calls)]
        events += [
            kernel("k", begin + 5000 * (place + 1), 4000, correlation=first + (0 if graphs else place))
            for place in range(4)
        ]
    return make_trace(events)


def test_cuda_graphs_are_named():
    text = said(graphed(False), graphed(True))
    assert "B replays CUDA graphs: 4 → 1 launches per step." in text
    assert "CUDA graphs" not in said(tutorial.mlp(), tutorial.mlp(COMPILED))


@pytest.mark.parametrize("mode", [COMPILED, FUSED])
def test_it_stays_short(mode):
    lines = statement(side(tutorial.mlp()), side(tutorial.mlp(mode)))
    assert 3 <= len(lines) <= MAX_SENTENCES
    assert all(line.endswith(".") and len(line) < 260 for line in lines)


def test_everything_of_a_comparison_is_made_once():
    told = Comparison(side(tutorial.mlp()), side(tutorial.mlp(COMPILED)))
    assert told.statement is told.statement
    assert told.ops is told.ops
    assert told.totals is told.totals
    assert told.kernels is told.kernel_changes.table
    assert len(told.all_ops) > len(told.ops)
    assert told.statement == statement(told.a, told.b)
