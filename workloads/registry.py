"""Which workloads there are: the built-in ones, and those that other packages register.

A package adds its own with an entry point in the group `tracetui.workloads`, whose object is a Workload or several:

    [project.entry-points."tracetui.workloads"]
    mine = "mypackage.profiles:WORKLOADS"

Nothing here imports torch, and a package that cannot be loaded becomes a row that says why.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module

from workloads import machine
from workloads.api import BadRequest, Workload
from workloads.programs.user_function import is_path

GROUP = "tracetui.workloads"

BUILT_IN = {
    "matmul_add": "workloads.programs.matmul_add:WORKLOAD",
    "linear": "workloads.programs.linear:WORKLOAD",
    "mlp": "workloads.programs.mlp:WORKLOAD",
    "fused_mlp": "workloads.programs.fused_mlp:WORKLOAD",
    "attention": "workloads.programs.attention:WORKLOAD",
    "split_stack": "workloads.programs.puzzlers:SPLIT_STACK",
    "combined": "workloads.programs.puzzlers:COMBINED",
}
"""Name and place of each, as in an entry point: what imports this module cannot reach torch through it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the list of workloads."""

    name: str
    """What `tracetui run` takes."""
    workload: Workload | None
    """None where it could not be loaded."""
    source: str
    """The distribution it comes from; empty for a built-in one."""
    reason: str
    """Why it cannot run here; empty where it can, as far as can be told without torch."""


def entries() -> list[Entry]:
    """Every workload with whether it runs here, the built-in ones first."""
    here = machine.look()
    rows = [Entry(each.name, each, "", machine.reason_against(each, here) or "") for each in map(built_in, BUILT_IN)]
    for source, found in _registered():
        if isinstance(found, Broken):
            rows.append(Entry(found.name, None, source, f"broken: {found.reason}"))
            continue
        taken = any(row.name == found.name for row in rows)
        name = f"{source}:{found.name}" if taken else found.name
        rows.append(Entry(name, found, source, machine.reason_against(found, here) or ""))
    return rows


def find(name: str) -> Workload:
    """The workload with a name, or an unambiguous start of one; `DISTRIBUTION:NAME` is one that another's name hides.

    Raises: BadRequest that lists what there is, or says why it is broken.
    """
    wanted = name.replace("-", "_")
    if wanted in BUILT_IN:
        return built_in(wanted)
    rows = entries()
    exact = [row for row in rows if row.name in (name, wanted)]
    matching = exact or [row for row in rows if wanted and row.name.startswith(wanted)]
    if len(matching) != 1:
        raise BadRequest(_unknown(name, [row.name for row in rows], [row.name for row in matching]))
    if matching[0].workload is None:
        raise BadRequest(f"The workload {matching[0].name} of {matching[0].source} is {matching[0].reason}.")
    return matching[0].workload


def built_in(name: str) -> Workload:
    """The built-in workload with a name."""
    module, _, attribute = BUILT_IN[name].partition(":")
    workload: Workload = getattr(import_module(module), attribute)
    return workload


def is_function(name: str) -> bool:
    """Whether a name means a function of one's own: `path/to/file.py:fn`, or `package.module:fn` where no workload
    has that name."""
    place, colon, _ = name.rpartition(":")
    if not colon:
        return False
    return is_path(place) or not any(row.name == name for row in entries())


def _unknown(name: str, names: list[str], matching: list[str]) -> str:
    if matching:
        return f"{name} is short for {' and '.join(matching)}; say which."
    close = get_close_matches(name, names, n=1)
    guess = f" Did you mean {close[0]}?" if close else ""
    return f"There is no workload {name}.{guess} There are {', '.join(names)}, and path/to/file.py:function."


@dataclass(frozen=True, slots=True)
class Broken:
    """An entry point that could not be loaded."""

    name: str
    reason: str


def _registered() -> Iterable[tuple[str, Workload | Broken]]:
    """The workloads of other packages, each with the distribution it comes from."""
    # Costs 80 ms, which a recording of a built-in workload need not wait for.
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP):
        source = point.dist.name if point.dist else "unknown"
        try:
            loaded = point.load()
            found = [loaded] if isinstance(loaded, Workload) else list(loaded)
            if not all(isinstance(each, Workload) for each in found):
                raise TypeError(f"{point.value} is no Workload")
        except (Exception, SystemExit) as error:
            # Other people's code may raise anything or call sys.exit, and must not take the list with it.
            yield source, Broken(point.name, f"{type(error).__name__}: {error}")
            continue
        yield from ((source, each) for each in found)
