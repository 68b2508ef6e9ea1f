"""Replays of CUDA graphs."""

from __future__ import annotations

from tests.support.build import Event, kernel, launch


def replay(at: int, correlation: int, names: list[str], **args: int) -> list[Event]:
    """A launch of 100 ns and its nodes of 10 ns each from 500 ns later on."""
    call = launch(at, 100, correlation, "cudaGraphLaunch")
    nodes = [
        kernel(name, at + 500 + 20 * place, 10, correlation=correlation, args=args) for place, name in enumerate(names)
    ]
    return [call, *nodes]
