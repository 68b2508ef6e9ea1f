"""What process groups are called: by their description, their name and their ranks (R5.1)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tracetui.ranks.rank_summary import CommGroup

_UNNAMED = ("", "undefined", "default_pg", "None")
_SHORT = {
    "TENSOR_MODEL_PARALLEL_GROUP": "TP",
    "PIPELINE_MODEL_PARALLEL_GROUP": "PP",
    "DATA_PARALLEL_GROUP": "DP",
    "EXPERT_MODEL_PARALLEL_GROUP": "EP",
    "CONTEXT_PARALLEL_GROUP": "CP",
    "mesh_tp": "TP",
    "mesh_pp": "PP",
    "mesh_dp": "DP",
    "mesh_ep": "EP",
    "mesh_cp": "CP",
}


def group_words(group: CommGroup) -> str:
    """A group in words: `TP 0-7`, `all 8 ranks`, `group 3 (0-56:8)`."""
    members = member_words(group.members) if group.members else f"{group.size} ranks" if group.size else ""
    named = _SHORT.get(group.description) or (group.description if group.description not in _UNNAMED else "")
    if named:
        return f"{named} {members}".strip()
    if group.description == "default_pg" or not group.name:
        return f"all {group.size} ranks" if group.size else "no group recorded"
    return f"group {group.name} ({members})" if members else f"group {group.name}"


def member_words(members: Sequence[int]) -> str:
    """Ranks in words: `0-7`, `0-56:8` for every eighth, else each."""
    if len(members) < 3:
        return ",".join(map(str, members))
    strides = {after - before for before, after in pairwise(members)}
    if len(strides) == 1:
        stride = strides.pop()
        return f"{members[0]}-{members[-1]}" + ("" if stride == 1 else f":{stride}")
    return ",".join(map(str, members[:8])) + (",…" if len(members) > 8 else "")


def layout_words(groups: Sequence[CommGroup]) -> str:
    """The parallel layout as groups tell it: `TP 8 × DP 8`; groups without a name by size and stride, `8 × 1`."""
    sizes: dict[str, int] = {}
    for group in groups:
        if group.is_guess or group.size < 2 or group.description == "default_pg":
            continue
        named = _SHORT.get(group.description)
        if named is None and len(group.members) > 1 and group.description in _UNNAMED:
            named = ""
            label = f"{group.size} × {group.members[1] - group.members[0]}"
            sizes.setdefault(label, 0)
        elif named is not None:
            sizes[named] = max(sizes.get(named, 0), group.size)
    return " × ".join(f"{name} {size}" if size else name for name, size in sizes.items())
