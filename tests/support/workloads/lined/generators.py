"""Generators, coroutines and recursion."""

# mypy: ignore-errors

import torch

w = torch.ones(4, requires_grad=True)


def batches(count):
    for index in range(count):
        x = torch.full((4,), float(index))  #: full x3
        sent = yield x * w  #: mul x3; Mul x3
        if sent is not None:
            sent.neg()  #: neg


def everything():
    yield from batches(2)
    yield w.sigmoid()  #: sigmoid; Sigmoid


async def double(x):
    return x * 2  #: mul x2; Mul x2


async def twice(x):
    y = await double(x.tanh())  #: tanh; Tanh
    z = await double(y)
    return z.sum()  #: sum; Sum


def depth(x, left):
    if left == 0:
        return x.sum()  #: sum; Sum
    return depth(x.cos(), left - 1)  #: cos x3; Cos x3


def step():
    total = torch.zeros(())  #: zeros
    for value in everything():
        total = total + value.sum()  #: sum x3, add x3; Sum x3, Add x3
    alone = batches(1)
    first = next(alone)
    try:
        alone.send(first)
    except StopIteration:
        total = total + first.mean()  #: mean, add; Mean, Add
    try:
        twice(w).send(None)
    except StopIteration as stop:
        total = total + stop.value  #: add; Add
    total = total + depth(w, 3)  #: add; Add
    total.backward()  #: ones_like; AccumulateGrad
    w.grad = None
