"""Exceptions, and code of one's own that runs in the backward pass: a hook, a custom function, a checkpoint."""

# mypy: ignore-errors

import torch
from torch.utils.checkpoint import checkpoint

w = torch.ones(4, requires_grad=True)


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x  #: mul x2

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 3 * x * x * gradient  #: mul x3


def fails(x):
    try:
        x.view(3)  #: view
    except RuntimeError:
        x = x.neg()  #: neg; Neg
    else:
        x = x.sin()
    finally:
        x = x + 1  #: add; Add
    return x


def again(x):
    return x.exp()  #: exp x2; Exp


def halved(gradient):
    return gradient / 2  #: div


def step():
    x = fails(w)
    x = Cube.apply(x)  #: Cube; CubeBackward
    x = checkpoint(again, x, use_reentrant=False)
    x.register_hook(halved)
    try:
        raise ValueError(x.sum())  #: sum; Sum
    except ValueError as error:
        total = error.args[0] + x.mean()  #: mean, add; Mean, Add
    total.backward()  #: ones_like; AccumulateGrad
    w.grad = None
