"""A training step: modules in modules of another file, a loss, an optimizer."""

# mypy: ignore-errors

import torch
from nested.blocks import Block
from torch import nn

model = nn.Sequential(Block(), Block())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def step():
    x = torch.ones(2, 4)  #: ones
    optimizer.zero_grad()
    y = model(x)
    loss = nn.functional.mse_loss(y, x)  #: broadcast_tensors, mse_loss; MseLoss
    loss.backward()  #: ones_like; AccumulateGrad x6
    optimizer.step()  #: add_ x6
