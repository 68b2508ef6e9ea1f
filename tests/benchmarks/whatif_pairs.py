"""Figures of `tracetui whatif`: replays without a change, and pairs of programs recorded here that differ in one thing.

    python -m tests.benchmarks.whatif_pairs identity TRACE ...     errors of free replays
    python -m tests.benchmarks.whatif_pairs cpu                    ten programs, as they are and changed

The second recording is the truth, the interval that the first one predicts covers it or not. Times of both are medians
over steps. The factors were chosen before anything was recorded, and so was the noise. The program as it is is recorded
once more behind the changed one: where these two differ by more than the noise, or the steps by more than is answered,
the machine was busy, and all three are recorded again.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tracetui.errors import TracetuiError
from tracetui.reading.load import load
from tracetui.whatif.launch_queue import launch_queue
from tracetui.whatif.prediction import NOISE, Prediction, predict
from tracetui.whatif.replay import anchored, free, recorded, replay, span

MIN_ACTIVITIES = 20
STEPS = 9
MAX_ATTEMPTS = 5
Step = Callable[[], object]


@dataclass(frozen=True)
class Pair:
    """A program in two forms, and the change that leads from the first to the second."""

    name: str
    change: str
    program: Callable[[bool], Step]
    """The step of the program as it is, or changed."""


def identity(paths: Sequence[str]) -> None:
    """Print the error of the free replay of each trace, its median, 90th percentile and largest."""
    errors: list[float] = []
    gpu_errors: list[float] = []
    for path in paths:
        try:
            queue = launch_queue(load(path))
        except TracetuiError as refusal:
            print(f"{Path(path).name:44} {refusal}")
            continue
        before = span(queue, recorded(queue)).time
        if len(queue.row) < MIN_ACTIVITIES or before <= 0:
            continue
        times = anchored(queue)
        exact = span(queue, replay(queue, times)).time / before - 1
        error = 100 * (span(queue, replay(queue, free(queue))).time / before - 1)
        halved = 100 * (1 - span(queue, replay(queue, replace(times, gpu=times.gpu / 2))).time / before)
        errors.append(abs(error))
        gpu_errors += [abs(error)] if halved > 10 else []
        print(f"{Path(path).name:44} free {error:+7.2f} %  anchored {100 * exact:+.2f} %  half GPU {-halved:+.1f} %")
    for words, column in (("all", errors), ("where half the GPU time saves > 10 %", gpu_errors)):
        if column:
            middle, most = np.percentile(column, [50, 90])
            good = sum(each <= 3 for each in column)
            print(
                f"{words}: {len(column)} traces, median {middle:.2f} %, p90 {most:.2f} %, "
                f"max {max(column):.1f} %, {good} at most 3 %"
            )


def record(step: Step, path: Path) -> None:
    """A trace of some steps on the CPU."""
    from torch.profiler import ProfilerActivity, profile, schedule

    plan = schedule(wait=1, warmup=1, active=STEPS)
    with profile(activities=[ProfilerActivity.CPU], schedule=plan) as profiler:
        for _ in range(STEPS + 2):
            step()
            profiler.step()
    profiler.export_chrome_trace(str(path))


def pairs() -> list[Pair]:
    """Ten programs, each with a change whose factor follows from its code."""
    import torch
    from torch import nn
    from torch.profiler import record_function
    from torch.utils.data import DataLoader, Dataset

    torch.manual_seed(0)
    torch.set_num_threads(1)

    def mlp(width: int = 768, layers: int = 4) -> nn.Sequential:
        return nn.Sequential(*[each for _ in range(layers) for each in (nn.Linear(width, width), nn.GELU())])

    def trained(model: nn.Module, width: int = 768, batch: int = 256) -> Step:
        optimizer, data = torch.optim.AdamW(model.parameters()), torch.randn(batch, width)

        def step() -> None:
            optimizer.zero_grad()
            model(data).square().mean().backward()
            optimizer.step()

        return step

    def inside(name: str, body: Step, rest: Step) -> Step:
        def step() -> None:
            with record_function(name):
                body()
            rest()

        return step

    class Slow(Dataset[torch.Tensor]):
        """Samples that take time to read."""

        def __len__(self) -> int:
            return 10_000

        def __getitem__(self, index: int) -> torch.Tensor:
            time.sleep(0.003)
            return torch.full((768,), float(index))

    def loading(changed: bool) -> Step:
        workers = 2 if changed else 0
        batches = iter(DataLoader(Slow(), batch_size=16, num_workers=workers, prefetch_factor=8 if changed else None))
        rest = trained(mlp())

        def step() -> None:
            next(batches)
            rest()

        return step

    def sleeping(changed: bool) -> Step:
        return inside("load", lambda: time.sleep(0 if changed else 0.05), trained(mlp()))

    def half_sleep(changed: bool) -> Step:
        return inside("load", lambda: time.sleep(0.04 if changed else 0.08), trained(mlp()))

    def half_product(changed: bool) -> Step:
        left, right, bias = (
            torch.randn(1024 if changed else 2048, 1024),
            torch.randn(1024, 1024),
            torch.randn(2048, 1024),
        )

        def step() -> None:
            torch.mm(left, right)
            for _ in range(10):
                bias.exp()

        return step

    def no_gelu(changed: bool) -> Step:
        layer, data = nn.Linear(512, 2048), torch.randn(2048, 512)
        after = nn.Identity() if changed else nn.GELU()
        return torch.no_grad()(lambda: after(layer(data)))

    def preprocessing(changed: bool) -> Step:
        rounds = 400_000 if changed else 800_000
        return inside("preprocess", lambda: sum(each * each for each in range(rounds)), trained(mlp()))

    def no_optimizer(changed: bool) -> Step:
        model, data = mlp(1024, 6), torch.randn(64, 1024)
        optimizer = torch.optim.AdamW(model.parameters())

        def step() -> None:
            optimizer.zero_grad()
            model(data).square().mean().backward()
            if not changed:
                optimizer.step()

        return step

    def no_softmax(changed: bool) -> Step:
        query = torch.randn(16, 768, 64)

        def step() -> None:
            scores = query @ query.transpose(1, 2)
            _ = (scores if changed else scores.softmax(-1)) @ query

        return torch.no_grad()(step)

    def no_dropout(changed: bool) -> Step:
        dropout = nn.Dropout(0.1)
        model = nn.Sequential(nn.Linear(768, 3072), nn.Identity() if changed else dropout, nn.Linear(3072, 768))
        return trained(model)

    def two_thirds(changed: bool) -> Step:
        model, data, times = nn.Linear(1024, 1024), torch.randn(1024, 1024), 2 if changed else 3

        def validate() -> None:
            for _ in range(times):
                model(data)

        return inside("validate", validate, trained(mlp(768, 2)))

    return [
        Pair("samples read by two workers", "cpu(DataLoader, 0)", loading),
        Pair("50 ms of sleep", "cpu(load, 0)", sleeping),
        Pair("80 ms of sleep, half", "cpu(load, 0.5)", half_sleep),
        Pair("a product of half as many rows", "cpu(^aten::mm$, 0.5)", half_product),
        Pair("gelu left out", "cpu(gelu, 0)", no_gelu),
        Pair("half of a Python loop", "cpu(preprocess, 0.5)", preprocessing),
        Pair("no step of the optimizer", "cpu(Optimizer.step, 0)", no_optimizer),
        Pair("softmax left out", "cpu(softmax, 0)", no_softmax),
        Pair("dropout left out, with its backward", "cpu(dropout, 0)", no_dropout),
        Pair("two of three rounds of validation", "cpu(validate, 0.667)", two_thirds),
    ]


def attempt(pair: Pair, folder: Path) -> tuple[Prediction, list[float]] | str:
    """The prediction, and the times as it is, changed and again as it is; or why they say nothing."""
    times, prediction = [], None
    for number, changed in enumerate((False, True, False)):
        path = folder / f"{number}.json"
        record(pair.program(changed), path)
        trace = load(str(path))
        queue = launch_queue(trace)
        times.append(span(queue, recorded(queue)).time)
        if number == 0:
            try:
                prediction = predict(trace, [pair.change])
            except TracetuiError as error:
                return str(error)
    assert prediction is not None
    drift = times[2] / times[0] - 1
    return f"the same program took {100 * drift:+.0f} %" if abs(drift) > NOISE else (prediction, times)


def cpu_pairs(folder: Path) -> None:
    """Record each program in both forms, and print whether the interval covers the second."""
    answered = covered = 0
    for pair in pairs():
        tried = [attempt(pair, folder)]
        while isinstance(tried[-1], str) and len(tried) < MAX_ATTEMPTS:
            tried.append(attempt(pair, folder))
        last = tried[-1]
        if isinstance(last, str):
            print(f"{pair.name:36} {pair.change:24} not answered: {last}", flush=True)
            continue
        interval, times = last[0].interval, last[1]
        covers = interval.covers(times[1])
        answered, covered = answered + 1, covered + covers
        print(
            f"{pair.name:36} {pair.change:24} {times[0] / 1e6:7.2f} -> {times[1] / 1e6:7.2f} ms "
            f"(again {times[2] / 1e6:.2f}), "
            f"predicted {interval.low / 1e6:.2f}..{interval.high / 1e6:.2f} ms, {'in' if covers else 'OUT'}"
            f", attempt {len(tried)}",
            flush=True,
        )
    print(f"{covered} of {answered} covered")


if __name__ == "__main__":
    if sys.argv[1:2] == ["identity"]:
        identity(sys.argv[2:])
    else:
        with tempfile.TemporaryDirectory() as place:
            cpu_pairs(Path(place))
