"""Comprehensions and generator expressions, lambdas, and statements over several lines."""

# mypy: ignore-errors

import torch

w = torch.ones(4, requires_grad=True)
double = lambda x: x * 2  # noqa: E731


def step():
    squares = [w * n for n in range(3)]  #: mul x3; Mul x3
    table = {n: square.sum() for n, square in enumerate(squares)}  #: sum x3; Sum x2
    lazy = (
        value.exp()  #: exp x2; Exp x2
        for n, value in table.items()
        if value > 1  #: gt x3, is_nonzero x3
    )
    total = sum(lazy)  #: add x2; Add x2
    total = torch.stack(  #: sin, cos, stack, sum; Sin, Cos, Stack, Sum
        [
            total.sin(),
            total.cos(),
        ]
    ).sum()
    turned = map(lambda x: x.neg(), squares)  # noqa: C417  #: neg x3; Neg x2
    total = total + next(turned).sum()  #: sum, add; Sum, Add
    total = total + max(turned, key=lambda x: x.sum().item()).sum()  #: sum x3, item x2, add; Sum, Add
    total.backward()  #: ones_like; AccumulateGrad
    w.grad = None
