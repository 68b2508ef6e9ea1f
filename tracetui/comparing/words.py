"""Differences of two sides in sentences, and lists of names in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tracetui.comparing.noise import Change, Difference
from tracetui.comparing.side import CAPTURE, Side
from tracetui.model.quantities import Scale, how_fast, time_scale

WITHIN_NOISE = "within noise"
_NODE = "autograd::engine::evaluate_function: "
"""What the name of a node of the backward graph begins with, around an operator of the rest of its name."""


def time_sentence(subject: str, each: Difference, parts: str, aside: str = "", is_judged: bool = True) -> str:
    """A sentence about a time in µs, without its end: what it was, what it is, and whether that is more than noise.

    `parts` is what the parts of a side are called, `aside` stands in place of the noise where that is not known.
    Without `is_judged` no factor is stated: the sides are of different lengths.
    """
    before, after = each.a.median, each.b.median
    is_known = each.noise == each.noise
    if each.change is Change.SAME:
        times = time_scale((before, after)).both(before, after)
        return f"{subject} the same: {times}{in_brackets('' if is_known else aside)}"
    scale = time_scale((before, after, each.noise) if is_known else (before, after))
    change = f"{subject} {scale.change(before, after)}"
    if each.change is Change.WITHIN_NOISE:
        return f"{change}: cannot tell, {parts} of one side differ by {scale.roughly(each.noise)}"
    if not is_judged:
        return f"{change}{in_brackets(aside)}"
    return f"{change}: {how_fast(before, after)}{in_brackets(noise(each, scale) or aside)}"


def noise(each: Difference, scale: Scale) -> str:
    """By how much the parts of a side differ: `noise 2.21 ms`; empty where it is not known."""
    return f"noise {scale.roughly(each.noise)}" if each.noise == each.noise else ""


def in_brackets(*some: str) -> str:
    """What there is of some asides, behind a blank; nothing for none."""
    held = ", ".join(filter(None, some))
    return f" ({held})" if held else ""


def per(a: Side, b: Side) -> str:
    """` per step` where parts of both are that; empty of whole captures."""
    return f" per {a.part_kind}" if a.part_kind == b.part_kind and a.part_kind != CAPTURE else ""


def listed(names: Sequence[str], most: int = 4) -> str:
    """Names with commas, and how many more there are."""
    if len(names) <= most + 1:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def joined(names: Sequence[str]) -> str:
    """A short list as one speaks: `gelu, mul and tanh`."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else list(names))


def bare(op: str) -> str:
    """The name of an operator without the namespace of PyTorch's own, and without the node around it."""
    return op.removeprefix(_NODE).removeprefix("torch::autograd::").removeprefix("aten::")


def bares(ops: Iterable[str]) -> list[str]:
    """Such names, each once."""
    return list(dict.fromkeys(map(bare, ops)))
