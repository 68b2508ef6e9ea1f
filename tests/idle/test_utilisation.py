"""MFU: known operations at the peaks of their precisions, over the time of a step."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.build import Event, kernel, launch, make_trace, op, step
from tests.support.devices import A100, H100
from tests.support.paths import SHARED
from tracetui.checking.evaluate import Evaluator
from tracetui.checking.parser import parsed
from tracetui.comparing.change_rows import paired
from tracetui.comparing.measures import measures
from tracetui.comparing.side import side
from tracetui.health.summary import facts
from tracetui.idle.utilisation import mfu_sentence, no_mfu, scope_utilisation, step_utilisation
from tracetui.model.intervals import TimeRange
from tracetui.model.trace import Device, Trace
from tracetui.overview.facts import overview_of
from tracetui.panes import PANES
from tracetui.reading.load import load

PEAKS = {"c10::BFloat16": 989.4e12, "float": 66.9e12}
"""Dense rates of an H100 in FLOP/s; float is that of the vector units."""
US = 1000


def product(start: int, size: int, took: int, kind: str = "c10::BFloat16", device: str = "0") -> list[Event]:
    """A square product that takes so many ns, from 200 ns behind its call on."""
    args = {"Input Dims": [[size, size]] * 2, "Input type": [kind] * 2}
    return [
        op("aten::mm", start, 50, args=args),
        launch(start + 10, 5, start + 1),
        replace(kernel("some_kernel", start + 200, took, correlation=start + 1), lane=(device, "stream 7")),
    ]


def unshaped(start: int, took: int) -> list[Event]:
    """A kernel of which nothing is known."""
    return [
        op("aten::relu", start, 50),
        launch(start + 10, 5, start + 1),
        kernel("other", start + 200, took, correlation=start + 1),
    ]


def one_step(*events: Event, device: Device | None = H100) -> Trace:
    last = max(event.start + event.dur for event in events)
    return make_trace([step(1, 0, last), *events], devices=[device] if device else [])


def mixed() -> tuple[Trace, float]:
    """A step with products in two precisions and a kernel of unknown work, and its MFU."""
    events = [*product(100, 4096, 400 * US), *product(500 * US, 1024, 90 * US, "float"), *unshaped(600 * US, 210 * US)]
    needed = 2 * 4096**3 / PEAKS["c10::BFloat16"] + 2 * 1024**3 / PEAKS["float"]
    return one_step(*events), 100 * needed / ((600 * US + 200 + 210 * US) * 1e-9)


def test_each_precision_counts_with_its_own_peak_in_all_places():
    trace, mfu = mixed()
    row = PANES["steps"].build(trace).row(0)
    assert row["mfu_pct"] == pytest.approx(mfu)
    assert row["flops_known_pct"] == pytest.approx(70)
    lines = {fact.key: fact.value for fact in facts(trace)}
    assert lines["mfu_pct"] == pytest.approx(mfu)
    assert measures(side(trace))["mfu_pct"].values == pytest.approx([mfu])
    for name in ("mfu_pct", "max(steps.mfu_pct)", "step[1].mfu_pct", "summary.mfu_pct"):
        assert Evaluator(side(trace)).value(parsed(name)).one == pytest.approx(mfu)
    entry = overview_of(trace, 1).of("mfu")[0]
    assert entry.share == pytest.approx(mfu / 100) and entry.key == "bound"


def test_unknown_operations_make_a_lower_bound():
    trace, mfu = mixed()
    assert "a lower bound: FLOPs are known of 70 % of the GPU time" in mfu_sentence(trace, mfu, 70, "it")
    whole = one_step(*product(0, 4096, 400 * US))
    assert "bound" not in mfu_sentence(whole, *scope_utilisation(whole, 1), "it")
    assert PANES["steps"].build(trace).note.endswith("of the GPU time.")


@pytest.mark.parametrize(
    ("trace", "words"),
    [
        (one_step(*unshaped(0, 10 * US)), "record_shapes=True"),
        (one_step(*product(0, 512, 10 * US), device=None), "--peak names it"),
        (one_step(*product(0, 512, 90 * US, "double")), "--peak names it"),
        (make_trace([step(1, 0, 100), op("aten::mm", 0, 50, args={"Input Dims": [[8, 8]] * 2})]), "no GPU activity"),
        (one_step(*product(0, 0, 10 * US)), ""),
    ],
)
def test_what_is_not_known_is_null_with_its_reason(trace: Trace, words: str):
    assert words in no_mfu(trace)
    assert PANES["steps"].build(trace).row(0)["mfu_pct"] is None
    assert np.isnan(scope_utilisation(trace, None)[0])
    value = Evaluator(side(trace)).value(parsed("mfu_pct"))
    assert value.one is None or np.isnan(value.one)
    assert words in value.why


def test_a_peak_of_the_user_goes_before_that_of_the_model_and_without_one():
    for device in (H100, A100, None):
        trace = replace(one_step(*product(0, 512, 10 * US), device=device), peak_tflops=100.0)
        assert step_utilisation(trace).mfu_pct == pytest.approx([100 * 2 * 512**3 / 100e12 / 10.2e-6])
    double = replace(one_step(*product(0, 512, 90 * US, "double")), peak_tflops=50.0)
    assert step_utilisation(double).known_pct == pytest.approx([100])


def test_operations_of_the_user_go_with_the_peaks_of_the_known_ones():
    trace, mfu = mixed()
    done = 2 * 4096**3 + 2 * 1024**3
    twice = replace(trace, step_flops=2.0 * done, cache={})
    assert step_utilisation(twice).mfu_pct == pytest.approx([2 * mfu])
    assert "--flops" in mfu_sentence(twice, 2 * mfu, 70, "it")
    # A run has no operations of the user's.
    assert measures(side(twice, "aten::mm"))["mfu_pct"].values == pytest.approx(
        measures(side(trace, "aten::mm"))["mfu_pct"].values
    )
    bare = one_step(*unshaped(0, 10 * US))
    assert "--peak names it" in no_mfu(replace(bare, step_flops=1e9, cache={}))
    both = replace(bare, step_flops=1e9, peak_tflops=200.0, cache={})
    assert step_utilisation(both).mfu_pct == pytest.approx([100 * 1e9 / 200e12 / 10.2e-6])


def test_a_step_without_gpu_activity_has_none_and_takes_none_from_its_neighbours():
    events = [step(1, 0, 1000), *product(100, 256, 5 * US), step(2, 2000, 1000), step(3, 4000, 1000)]
    trace = make_trace([*events, *product(4100, 256, 5 * US)], devices=[H100])
    needed = 100 * 2 * 256**3 / PEAKS["c10::BFloat16"] * 1e9
    # The third step runs on the GPU from the end of the first on.
    assert PANES["steps"].build(trace).row(1)["mfu_pct"] is None
    used = step_utilisation(trace).mfu_pct
    assert (used[0], used[2]) == (pytest.approx(needed / 5300), pytest.approx(needed / 4000))


def test_a_call_faster_than_the_peak_counts_as_unknown():
    trace = one_step(*product(0, 4096, 20 * US), *unshaped(30 * US, 20 * US))
    assert step_utilisation(trace).known_pct.tolist() == [0]
    assert np.isnan(step_utilisation(trace).mfu_pct).all()


def test_a_range_has_the_part_of_a_call_that_ran_in_it():
    trace = one_step(*product(0, 4096, 400 * US))
    cut = TimeRange(200, 200 + 200 * US)
    mfu = 100 * 2 * 4096**3 / PEAKS["c10::BFloat16"] / 400e-6
    assert scope_utilisation(trace, cut)[0] == pytest.approx(mfu)
    assert measures(side(trace, f"@{cut.text}"))["mfu_pct"].values == pytest.approx([mfu])


def test_the_time_of_all_devices_counts():
    one = product(0, 4096, 400 * US)
    trace = one_step(*one, *product(50, 4096, 400 * US, device="1"))
    alone = one_step(*one)
    assert step_utilisation(trace).mfu_pct == pytest.approx(step_utilisation(alone).mfu_pct, rel=1e-3)


def test_lower_bounds_of_different_work_cannot_be_compared():
    known, less = one_step(*product(0, 4096, 400 * US)), mixed()[0]
    assert paired(side(known), side(less))["mfu_pct"].doubt == "FLOPs are known of 100 % and 70 % of the GPU time"
    assert paired(side(known), side(known))["mfu_pct"].doubt == ""
    # The same products in less time, whatever runs beside them.
    faster = one_step(*product(100, 4096, 300 * US), *product(500 * US, 1024, 90 * US, "float"))
    assert paired(side(less), side(faster))["mfu_pct"].doubt == ""


calls = st.lists(
    st.tuples(st.sampled_from([0, 64, 128, 256]), st.integers(300, 4000), st.sampled_from([*PEAKS, "double", ""])),
    min_size=1,
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(calls, min_size=2, max_size=4))
@pytest.mark.full
def test_mfu_is_that_of_a_plain_loop(by_step: list[list[tuple[int, int, str]]]):
    events, expected, now, before = [], [], 0, 0
    for number, work in enumerate(by_step):
        begin, needed, known, total, last = now, 0.0, 0, 0, 0
        for size, took, kind in work:
            events += product(now, size, took, kind) if kind else unshaped(now, took)
            least = 2 * size**3 / PEAKS[kind] * 1e9 if kind in PEAKS else np.inf
            if least <= 1.05 * took:
                needed, known = needed + least, known + took
            last, total = now + 200 + took, total + took
            now += took + 300
        events.append(step(number, begin, now - begin))
        period = last - (begin if number == 0 else before)
        expected.append((100 * needed / period or np.nan, 100 * known / total))
        before = last
    used = step_utilisation(make_trace(events, devices=[H100]))
    assert used.mfu_pct == pytest.approx([mfu for mfu, _ in expected], nan_ok=True)
    assert used.known_pct == pytest.approx([share for _, share in expected])


@pytest.mark.full
def test_flops_of_a_recorded_step_are_those_of_torch(tmp_path: Path):
    """A training step recorded on the CPU, with a kernel for each product that torch counts."""
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(96, 160), torch.nn.GELU(), torch.nn.Linear(160, 48))
    given, conv = torch.randn(64, 96), torch.nn.Conv2d(3, 8, 3, padding=1)

    def train() -> None:
        (model(given).square().sum() + conv(torch.ones(2, 3, 16, 16)).sum()).backward()

    train()
    with FlopCounterMode(display=False) as counter:
        train()
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, acc_events=True
    ) as profiler:
        for number in range(2):
            with torch.profiler.record_function(f"ProfilerStep#{number}"):
                train()
    profiler.export_chrome_trace(str(tmp_path / "cpu.json"))
    recorded = json.loads((tmp_path / "cpu.json").read_text())
    counted = ("aten::mm", "aten::addmm", "aten::convolution_backward", "aten::convolution")
    for number, event in enumerate([e for e in recorded["traceEvents"] if e.get("name") in counted], 1):
        # Right at its start, before it calls others.
        place = {"ph": "X", "ts": event["ts"] + 0.002, "dur": 0.001, "args": {"correlation": number}}
        inner = place | {"name": "cudaLaunchKernel", "cat": "cuda_runtime", "pid": event["pid"], "tid": event["tid"]}
        own = {"device": 0, "stream": 7, "correlation": number}
        outer = place | {"name": "k", "cat": "kernel", "pid": 0, "tid": 7, "dur": event["dur"], "args": own}
        recorded["traceEvents"] += [inner, outer]
    (tmp_path / "gpu.json").write_text(json.dumps(recorded))
    trace = replace(load(str(tmp_path / "gpu.json")), peak_tflops=1.0)
    table = PANES["steps"].build(trace)
    mfu, period = (table[name].values.astype(np.float64) for name in ("mfu_pct", "period_us"))
    done = mfu / 100 * period * 1e6
    assert done[:2] == pytest.approx([counter.get_total_flops()] * 2)


@pytest.mark.skipif(not SHARED.exists(), reason="needs the given traces")
@pytest.mark.full
def test_the_products_of_a_real_trace_are_those_of_its_events():
    trace = load(str(SHARED / "d25_h100_hf_qwen15_24layers.json.gz"))
    # By a script over the events as JSON, for mm and addmm; attention, bmm, add and mul take 297.6 µs more.
    assert scope_utilisation(trace, 6)[0] == pytest.approx(100 * (5573.6176 + 297.566) / 35183.5, rel=1e-4)
