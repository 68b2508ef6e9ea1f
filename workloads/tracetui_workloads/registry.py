"""The list of workloads: built-in ones, and those that other packages register.

A package registers workloads with an entry point in the group `tracetui.workloads`; its object is one Workload or a
sequence of them:

    [project.entry-points."tracetui.workloads"]
    mine = "mypackage.profiles:WORKLOADS"

Nothing here imports torch. A package that cannot be loaded becomes an entry that says why.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module

from tracetui_workloads import machine
from tracetui_workloads.api import BadRequest, Workload
from tracetui_workloads.programs.user_function import is_path

ENTRY_POINT_GROUP = "tracetui.workloads"
"""The group of entry points in which packages register workloads."""

BUILT_IN = {
    "matmul_add": "tracetui_workloads.programs.single_layers:MATMUL_ADD",
    "linear": "tracetui_workloads.programs.single_layers:LINEAR",
    "mlp": "tracetui_workloads.programs.mlp:MLP",
    "fused_mlp": "tracetui_workloads.programs.mlp:FUSED_MLP",
    "attention": "tracetui_workloads.programs.attention:ATTENTION",
    "split_stack": "tracetui_workloads.programs.puzzlers:SPLIT_STACK",
    "combined": "tracetui_workloads.programs.puzzlers:COMBINED",
    "train_step": "tracetui_workloads.programs.training:TRAIN_STEP",
    "decode": "tracetui_workloads.programs.attention:DECODE",
    "sync": "tracetui_workloads.programs.waiting:SYNC",
    "graph_breaks": "tracetui_workloads.programs.graph_breaks:WORKLOAD",
    "conv": "tracetui_workloads.programs.single_layers:CONV",
    "dataloader": "tracetui_workloads.programs.waiting:DATALOADER",
    "copies": "tracetui_workloads.programs.waiting:COPIES",
    "ddp": "tracetui_workloads.programs.training:DDP",
}
"""Name and object of each built-in workload, as in an entry point, so that this module imports none of them."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One workload in the list."""

    name: str
    """The name for `tracetui run`."""
    workload: Workload | None
    """The workload, None where it could not be loaded."""
    source: str
    """The distribution of the workload; empty for a built-in one."""
    reason: str
    """The reason why the workload cannot run here, as known without torch; empty where it can."""


def entries() -> list[Entry]:
    """All workloads, each with the reason why it cannot run here, the built-in ones first."""
    this_machine = machine.inspect_machine()
    rows = [
        Entry(each.name, each, "", machine.unavailable_reason(each, this_machine) or "")
        for each in map(built_in, BUILT_IN)
    ]
    for source, registered in _registered():
        if isinstance(registered, BrokenEntryPoint):
            rows.append(Entry(registered.name, None, source, f"broken: {registered.reason}"))
            continue
        is_taken = any(row.name == registered.name for row in rows)
        name = f"{source}:{registered.name}" if is_taken else registered.name
        rows.append(Entry(name, registered, source, machine.unavailable_reason(registered, this_machine) or ""))
    return rows


def find(name: str) -> Workload:
    """The workload with a name, or with an unambiguous start of one; `DISTRIBUTION:NAME` where the name is taken.

    Raises: BadRequest that lists the workloads, or says why this one cannot be loaded.
    """
    normalized = name.replace("-", "_")
    if normalized in BUILT_IN:
        return built_in(normalized)
    rows = entries()
    exact = [row for row in rows if row.name in (name, normalized)]
    matching = exact or [row for row in rows if normalized and row.name.startswith(normalized)]
    if len(matching) != 1:
        raise BadRequest(_unknown(name, [row.name for row in rows], [row.name for row in matching]))
    if matching[0].workload is None:
        raise BadRequest(f"The workload {matching[0].name} of {matching[0].source} is {matching[0].reason}.")
    return matching[0].workload


def with_name(name: str) -> Workload | None:
    """The workload with exactly a name, as a trace has it; None where there is none."""
    if name in BUILT_IN:
        return built_in(name)
    if is_path(name.rpartition(":")[0]) or not name.isidentifier():
        return None
    return next((row.workload for row in entries() if row.name == name), None)


def built_in(name: str) -> Workload:
    """The built-in workload with a name."""
    module, _, attribute = BUILT_IN[name].partition(":")
    workload: Workload = getattr(import_module(module), attribute)
    return workload


def is_function(name: str) -> bool:
    """True for the name of a user's function: `path/to/file.py:fn`, or `package.module:fn` if no workload has it."""
    module, colon, _ = name.rpartition(":")
    if not colon:
        return False
    return is_path(module) or not any(row.name == name for row in entries())


def _unknown(name: str, names: list[str], matching: list[str]) -> str:
    if matching:
        return f"{name} matches {' and '.join(matching)}: give the full name."
    close = get_close_matches(name, names, n=1)
    guess = f" Did you mean {close[0]}?" if close else ""
    return f"There is no workload {name}.{guess} There are {', '.join(names)}, and path/to/file.py:function."


@dataclass(frozen=True, slots=True)
class BrokenEntryPoint:
    """An entry point that could not be loaded."""

    name: str
    reason: str


def _registered() -> Iterable[tuple[str, Workload | BrokenEntryPoint]]:
    """The workloads of other packages, each with its distribution."""
    # Takes 80 ms, for which a recording of a built-in workload need not wait.
    from importlib.metadata import entry_points

    for point in entry_points(group=ENTRY_POINT_GROUP):
        source = point.dist.name if point.dist else "unknown"
        try:
            loaded = point.load()
            workloads = [loaded] if isinstance(loaded, Workload) else list(loaded)
            if not all(isinstance(each, Workload) for each in workloads):
                raise TypeError(f"{point.value} is not a Workload")
        except (Exception, SystemExit) as error:
            # Code of other packages may raise anything or call sys.exit, which must not break the list.
            yield source, BrokenEntryPoint(point.name, f"{type(error).__name__}: {error}")
            continue
        yield from ((source, each) for each in workloads)
