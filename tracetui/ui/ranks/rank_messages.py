"""Messages from the screens of a set of ranks to the app; they import nothing that opening a trace could wait for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from tracetui.errors import TracetuiError
from tracetui.model.viewpoint import Viewpoint

if TYPE_CHECKING:
    from tracetui.ranks.moments import LateMoment
    from tracetui.ranks.rank_set import RankSet


@dataclass
class SetFailed(Message):
    """There is no set of ranks to show."""

    error: TracetuiError


@dataclass
class MomentAsked(Message):
    """The user wants to see a late rank beside another one, at a collective."""

    ranks: RankSet
    moment: LateMoment


@dataclass
class RankTraceAsked(Message):
    """The user wants the trace of one rank at a moment, with the set below it."""

    path: str
    viewpoint: Viewpoint


@dataclass
class RankLanesAsked(Message):
    """The user wants the lanes of some ranks on one axis."""

    ranks: RankSet
    members: tuple[int, ...]
    """Indices of the ranks, in the order of their lanes."""
    window: tuple[int, int]
    """What to show first, in ns on the one clock."""
