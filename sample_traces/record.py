"""Record the sample traces of this folder: `python sample_traces/record.py`, with torch installed.

Small programs on the CPU, profiled as one would profile the real thing: a schedule that leaves out the cold steps,
a named region, input shapes. What the profiler writes about the machine (host, user, paths) is taken out.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

# The profiler's own messages would otherwise go to standard error; it reads this when torch is imported.
os.environ.setdefault("KINETO_LOG_LEVEL", "99")

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule

HERE = Path(__file__).parent
PRIVATE = ("host_name", "username", "traceName", "logical_server_subtype", "trace_id")
"""Top-level keys that say where a trace was made and nothing about it."""
SCHEDULE = {"wait": 1, "warmup": 2, "active": 3}


class GegluMlp(nn.Module):
    """Down(gelu(gate(x)) * up(x)), the feed-forward block of many transformers."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, hidden)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Shapes: (batch, tokens, width) to the same."""
        with record_function("mlp_fwd"):
            gated = nn.functional.gelu(self.gate(x), approximate="tanh") * self.up(x)
            return self.down(gated)


def mlp_eager_cpu() -> Callable[[], None]:
    """One inference step: the forward pass alone."""
    model, x = GegluMlp(256, 1024).eval(), torch.randn(4, 64, 256)

    def step() -> None:
        with torch.inference_mode():
            model(x)

    return step


def mlp_train_cpu() -> Callable[[], None]:
    """One training step: forward, loss, backward, AdamW."""
    model, x, wanted = GegluMlp(128, 512), torch.randn(4, 32, 128), torch.randn(4, 32, 128)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        nn.functional.mse_loss(model(x), wanted).backward()
        optimizer.step()

    return step


PROGRAMS = {"mlp_eager_cpu": mlp_eager_cpu, "mlp_train_cpu": mlp_train_cpu}


def record(name: str, folder: Path) -> Path:
    """Profile a program and write `NAME.json.gz`; returns its path."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    step = PROGRAMS[name]()
    with profile(activities=[ProfilerActivity.CPU], schedule=schedule(**SCHEDULE), record_shapes=True) as profiler:
        for number in range(sum(SCHEDULE.values())):
            if number == SCHEDULE["wait"] + SCHEDULE["warmup"]:
                # The profiler takes metadata only while it records.
                profiler.add_metadata_json("tracetui", json.dumps(about(name)))
            step()
            profiler.step()
    with tempfile.TemporaryDirectory() as scratch:
        raw = Path(scratch) / "trace.json"
        profiler.export_chrome_trace(str(raw))
        trace = without_private(json.loads(raw.read_text()))
    path = folder / f"{name}.json.gz"
    # A fixed time in the gzip header: the same trace gives the same bytes.
    path.write_bytes(gzip.compress(json.dumps(trace, separators=(",", ":")).encode(), mtime=0))
    return path


def about(name: str) -> dict[str, Any]:
    """What a recorded file says of itself."""
    return {"workload": name, "torch": torch.__version__, "device": "cpu", "threads": torch.get_num_threads()}


def without_private(trace: dict[str, Any]) -> dict[str, Any]:
    """The trace without what names the machine or its user."""
    return {key: value for key, value in trace.items() if key not in PRIVATE}


def main() -> None:
    """Record the programs named on the command line, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=", ".join(PROGRAMS))
    parser.add_argument("-o", "--output", type=Path, default=HERE, metavar="FOLDER")
    options = parser.parse_args()
    for name in options.programs or PROGRAMS:
        path = record(name, options.output)
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
