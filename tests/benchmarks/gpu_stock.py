"""A training step recorded by torch's profiler alone, with stacks, shapes and memory.

`python3 -m tests.benchmarks.gpu_stock cuda FILE.json.gz` writes the trace as `export_chrome_trace` does, and prints the
profiler's own table.
"""

from __future__ import annotations

import sys


def main() -> int:
    """Record three steps of a small network."""
    import torch
    from torch import nn
    from torch.profiler import ProfilerActivity, profile, record_function, schedule

    device, path = sys.argv[1], sys.argv[2]
    torch.manual_seed(0)
    size = 1024 if device == "cuda" else 128
    layers = [nn.Sequential(nn.LayerNorm(size), nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))] * 2
    model = nn.Sequential(*layers, nn.Linear(size, 10)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data, labels = torch.randn(64, size, device=device), torch.randint(0, 10, (64,), device=device)
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (device == "cuda")
    with profile(
        activities=activities,
        schedule=schedule(wait=1, warmup=1, active=3),
        with_stack=True,
        record_shapes=True,
        profile_memory=True,
    ) as profiler:
        for _ in range(5):
            with record_function("forward"):
                loss = nn.functional.cross_entropy(model(data), labels)
            with record_function("backward"):
                loss.backward()
            with record_function("optimizer"):
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            profiler.step()
    profiler.export_chrome_trace(path)
    print(profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=60))
    return 0


if __name__ == "__main__":
    sys.exit(main())
