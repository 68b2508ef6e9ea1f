"""Programs that are recorded together with torch's own table of them.

`python -m tests.support.programs FOLDER NAME...` records them. For each name there is `NAME.json`, the trace, and
`NAME.table.json`: the rows of `key_averages()` with times in ns, by name and by input shapes, and the lines that torch
prints below them.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import distributed, nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule
from torch.utils.data import DataLoader, TensorDataset
from tracetui_workloads.programs.puzzlers import Parts

Step = Callable[[], object]
EXPORTED_TWICE = "exported_twice"
"""The program whose recording is written by torch's exporter in Python as well, which torch has since 2.14."""


def mlp_training() -> Step:
    """Forward, loss, backward and optimizer."""
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x, wanted = torch.randn(16, 32), torch.randint(0, 4, (16,))

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), wanted).backward()
        optimizer.step()

    return step


def loader(workers: int) -> Step:
    """Batches of different sizes, read here or by another process."""
    data = TensorDataset(torch.randn(10, 3), torch.arange(10))
    batches = DataLoader(data, batch_size=4, num_workers=workers, shuffle=True)

    def step() -> None:
        for x, y in batches:
            (x.sum(1) + y).relu()

    return step


def puzzler(name: str) -> Step:
    """One of the two programs of the puzzle about fusion."""
    context: Any = SimpleNamespace(device="cpu", dtype=torch.float32)
    parts = Parts(context, num_inputs=4, batch_size=8, input_dim=16)
    program = getattr(parts, name)

    def step() -> None:
        with torch.no_grad():
            program(parts.x)

    return step


def nested() -> Step:
    """Annotations in annotations of the same name, alone and with siblings, and named like an op."""
    x = torch.randn(8, 8)

    def step() -> None:
        with record_function("a"), record_function("a"), record_function("a"):
            x.mm(x)
        with record_function("b"):
            with record_function("b"):
                x.t()
            with record_function("b"), record_function("c"):
                torch.cat([x, x])
        with record_function("aten::add"):
            x.add(x)
        with record_function("empty"):
            pass

    return step


def many_threads() -> Step:
    """Ops of two threads that take turns, one of which is not that of the profiler."""

    def work() -> None:
        with record_function("on a thread"):
            torch.randn(8, 8).mm(torch.randn(8, 8))

    def step() -> None:
        other = threading.Thread(target=work)
        other.start()
        work()
        other.join()

    return step


def across_a_step() -> Step:
    """An annotation that begins in one step and ends in the next, which overlaps both."""
    left: list[record_function] = []

    def step() -> None:
        torch.ones(4).cumsum(0)
        for annotation in left:
            annotation.__exit__(None, None, None)
        torch.ones(4).add(1)
        left[:] = [record_function("across")]
        left[0].__enter__()
        torch.ones(4).mul(2)

    return step


def loose_memory() -> Step:
    """Tensors that are freed between ops, where no annotation is around them."""

    def step() -> None:
        x = torch.ones(1000)
        y = x.add(1)
        del x
        y.mul(2)
        del y

    return step


def collective() -> Step:
    """A sum over a group of one process, waited for after other work."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    store: Any = distributed.HashStore  # type: ignore[attr-defined]
    distributed.init_process_group("gloo", store=store(), rank=0, world_size=1)
    x = torch.ones(100)

    def step() -> None:
        with record_function("communication"):
            work = distributed.all_reduce(x, async_op=True)
            assert work is not None
            torch.ones(4).mul(2)
        work.wait()

    return step


def compiled() -> Step:
    """What inductor makes of a norm and a pointwise function, with a graph break."""

    def program(x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(nn.functional.layer_norm(x, (16,)))
        torch._dynamo.graph_break()
        return y * y.sum()

    fast = torch.compile(program)
    x = torch.randn(8, 16)
    return lambda: fast(x)


PROGRAMS: dict[str, tuple[Callable[[], Step], dict[str, Any]]] = {
    "mlp_training": (mlp_training, {"record_shapes": True}),
    "loader": (lambda: loader(0), {"record_shapes": True}),
    "loader_worker": (lambda: loader(1), {}),
    "split_stack": (lambda: puzzler("split_stack"), {"record_shapes": True}),
    "combined": (lambda: puzzler("combined"), {"record_shapes": True}),
    "nested": (nested, {"record_shapes": True}),
    "threads": (many_threads, {}),
    "across": (across_a_step, {}),
    "stacks": (mlp_training, {"with_stack": True, "record_shapes": True}),
    "stacks_nested": (nested, {"with_stack": True}),
    "memory": (mlp_training, {"profile_memory": True}),
    "collective": (collective, {"record_shapes": True}),
    "loose_memory": (loose_memory, {"profile_memory": True}),
    "compiled": (compiled, {"record_shapes": True}),
    EXPORTED_TWICE: (mlp_training, {"record_shapes": True, "profile_memory": True}),
}
"""How each program is prepared, and the options of the profiler."""


def record(name: str, folder: Path) -> None:
    """Two steps of a program after one that is not recorded; those of loose memory without a slice around them."""
    torch.manual_seed(0)
    prepare, options = PROGRAMS[name]
    step = prepare()
    plan = None if name == "loose_memory" else schedule(wait=0, warmup=1, active=2, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=plan, **options) as profiler:
        for _ in range(3):
            step()
            if plan is not None:
                profiler.step()
    profiler.export_chrome_trace(str(folder / f"{name}.json"))
    if name == EXPORTED_TWICE:
        profiler.export_chrome_trace(str(folder / f"{name}.python.json"), use_python_export=True)
    tables: dict[str, Any] = {}
    for kind, by_shape in (("event", False), ("shape", True)):
        found = profiler.key_averages(group_by_input_shape=by_shape)
        tables[kind] = [as_row(event) for event in found]
        tables["lines"] = [line for line in found.table(row_limit=-1).splitlines() if line.startswith("Self ")]
    (folder / f"{name}.table.json").write_text(json.dumps(tables))


def as_row(event: Any) -> dict[str, Any]:
    """A row of torch's table with whole ns."""
    return {
        "name": event.key,
        "annotation": bool(event.is_user_annotation),
        "shapes": str(event.input_shapes),
        "calls": event.count,
        "self_cpu": round(1000 * event.self_cpu_time_total),
        "cpu_total": round(1000 * event.cpu_time_total),
        "self_device": round(1000 * event.self_device_time_total),
        "device_total": round(1000 * event.device_time_total),
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    for wanted in sys.argv[2:]:
        record(wanted, Path(sys.argv[1]))
