"""A program of one's own among the samples: `tracetui run sample_traces/programs.py:mlp_train`.

A function whose return annotation is `Prepared` prepares a step on the device of the recording; a plain function
would be the step itself.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.profiler import record_function
from tracetui_workloads.api import Context, Prepared


class GegluMlp(nn.Module):
    """Down(gelu(gate(x)) * up(x)), the feed-forward block of many transformers, here with biases."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, hidden)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Shapes: (batch, tokens, width) to the same."""
        with record_function("mlp_fwd"):
            gated = nn.functional.gelu(self.gate(x), approximate="tanh") * self.up(x)
            output: torch.Tensor = self.down(gated)
            return output


def mlp_train(context: Context, batch: int = 4, tokens: int = 32, width: int = 128) -> Prepared:
    """One training step: forward, loss, backward, AdamW."""
    model = GegluMlp(width, 4 * width).to(context.device)
    x, wanted = (torch.randn(batch, tokens, width, device=context.device) for _ in range(2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    forward = context.compile(model)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        nn.functional.mse_loss(forward(x), wanted).backward()
        optimizer.step()

    return Prepared(step, label="mlp_train")
