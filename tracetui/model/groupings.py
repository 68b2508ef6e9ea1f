"""By what the rows of each pane can be grouped: the allowed values of `by`."""

from __future__ import annotations

SITES = ("line", "function", "module")
"""Groupings by the place in the program that launched."""

STEPS = ("source",)
"""`source` lists what can stand for steps."""
KERNELS = ("name", "op", "family", "purpose", "library", "annotation", "stream", "graph", *SITES)
OPS = ("shape", "event", "frame", *SITES)
OCCUPANCY = ("op", *SITES)
LAUNCHES = ("name", "op", "stream", *SITES)
GAPS = ("cause", "stream", *SITES)
SERVING = ("batch", "purpose", "between", "iteration")
LAYERS = ("layer", "kernel")
"""One row per layer, or one per kernel of a layer."""
MODULES = ("function", "call")
"""What the tree is made of instead of modules: functions and modules by name, or each of their calls."""
MEMORY = ("op", "device", "copy")
COUNTERS = ("step", "kernel")
"""A row per step, or per name of a kernel."""
HEALTH = ("offender",)
