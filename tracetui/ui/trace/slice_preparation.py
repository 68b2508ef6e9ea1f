"""Working out in advance what the first description of a slice would have to wait for."""

from __future__ import annotations

import numpy as np

from tracetui.model.trace import Kind, Trace
from tracetui.ui.description.slice_description import describe
from tracetui.ui.trace.related_slices import chain_of, lit_with

PREPARED_WIDTH = 60
"""Cells of the lines that are made and thrown away."""


def prepare_descriptions(trace: Trace) -> None:
    """Make the analyses of the whole trace that descriptions ask for, by describing a slice of each kind."""

    def make() -> bool:
        kinds, first = np.unique(trace.slices.kind, return_index=True)
        for kind, row in zip(kinds.tolist(), first.tolist(), strict=True):
            if kind != Kind.BOOKKEEPING:
                describe(trace, row, chain_of(trace, row), PREPARED_WIDTH)
                lit_with(trace, row)
        return True

    trace.remember(PREPARED, make)


def is_prepared(trace: Trace) -> bool:
    """Whether descriptions find what they ask for."""
    return PREPARED in trace.cache


PREPARED = "prepared descriptions"
