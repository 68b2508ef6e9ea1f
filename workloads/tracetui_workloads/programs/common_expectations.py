"""Expectations that several workloads share."""

from __future__ import annotations

from tracetui_workloads.api import Expect


def compiled_region(when: str) -> Expect:
    """One call of compiled code per step, whatever the backend."""
    return Expect(
        "calls of compiled code per step",
        "matching_ops_per_step",
        1,
        when,
        "one graph holds the whole forward",
        of="^Torch-Compiled Region",
    )
