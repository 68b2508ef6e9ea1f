"""Decorators, context managers, closures, and functions inside functions."""

# mypy: ignore-errors

import functools
from contextlib import contextmanager

import torch

w = torch.ones(3, requires_grad=True)


def scaled(by):
    def wrap(function):
        @functools.wraps(function)
        def wrapper(*arguments):
            result = function(*arguments)
            return result * by  #: mul x2; Mul

        return wrapper

    return wrap


@contextmanager
def shifted(x):
    x = x + 1  #: add; Add
    yield x
    x.relu()  #: relu


class Guard:
    def __enter__(self):
        return torch.ones(3)  #: ones

    def __exit__(self, *error):
        torch.zeros(3)  #: zeros


@scaled(2)
def square(x):
    """A docstring stays first."""
    return x.pow(2)  #: pow x2; Pow


@torch.no_grad()
def measure(x):
    return x.abs().max()  #: abs, max


def step():
    calls = 0

    def inner(x):
        nonlocal calls
        calls += 1
        return square(x).sum()  #: sum x2; Sum

    with shifted(w) as x, Guard() as ones:
        total = inner(x) + inner(ones)  #: add; Add
    measure(total)
    total.backward()  #: ones_like; AccumulateGrad
    w.grad = None
