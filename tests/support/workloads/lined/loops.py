"""Loops: `for`, `while` with `else`, `break` and `continue`, conditions on tensors."""

# mypy: ignore-errors

import torch

w = torch.ones(4, 4, requires_grad=True)


def step():
    total = torch.zeros(())  #: zeros
    for index in range(3):
        if index == 1:
            continue
        total = total + (w * index).sum()  #: mul x2, sum x2, add x2; Mul x2, Sum x2, Add x2
    count = torch.zeros(())  #: zeros
    while count < 2:  #: lt x3, is_nonzero x3
        count += 1  #: add_ x2
    else:
        total = total * 2  #: mul; Mul
    for row in w:  #: unbind; Unbind
        if row.sum() > 100:  #: sum x4, gt x4, is_nonzero x4
            break
        total = total + row.mean()  #: mean x4, add x4; Mean x4, Add x4
    total.backward()  #: ones_like; AccumulateGrad
    w.grad = None
