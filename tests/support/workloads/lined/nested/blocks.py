"""Blocks of the model."""

# mypy: ignore-errors

import torch
from torch import nn


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x).relu()  #: linear x2, relu x2; T x2, Addmm x2, Relu x2


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x):
        match x.dim():
            case 2:
                h = self.inner(x)
            case _:
                h = x.sin()
        return x + self.scale * h  #: mul x2, add x2; Mul x2, Add x2
