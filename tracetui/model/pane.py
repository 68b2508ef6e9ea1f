"""The declaration of a pane: a table of a trace, with all that the command line, the screen, reports and help use.

Each pane is declared once, as `PANE` in the file that computes its table. Needs no numpy, as `--help` reads this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tracetui.frozen import frozen

if TYPE_CHECKING:
    from tracetui.model.intervals import Part
    from tracetui.model.table import Table
    from tracetui.model.trace import Trace


@frozen(eq=True)
class Grouping:
    """One way to group the rows of a pane."""

    name: str
    """The value of `--by`."""
    columns: str = ""
    """Names of the columns in order of importance, with spaces between; those of the pane where none are named."""
    opens: str | None = None
    """Columns that tell the rows of a group apart beside the first one; None where a group cannot be opened."""
    is_offered: Callable[[Trace], bool] = lambda _: True
    """True for a trace that has something to group by."""


@frozen(eq=True)
class Pane:
    """The declaration of a table that every trace has."""

    name: str
    """Name on the command line."""
    title: str
    """Title of its tab."""
    help: str
    """One sentence about its rows."""
    table: Callable[[Trace, Part | None, str | None], Table]
    """Computes the table of a trace, of a step or a range of time, by a grouping."""
    key: str = ""
    """The key that opens it from everywhere: one of its own, or for the first pane of a group the number of the group;
    empty where only the number, pressed again, leads to it."""
    columns: str = ""
    """Names of the columns in order of importance, with spaces between: a screen drops the last of them."""
    groupings: tuple[Grouping, ...] = ()
    largest_first: str | None = None
    """The column by which single rows are listed, the largest first; None for the order of the table."""
    bars: str = ""
    """Names of columns of times that have a bar on the screen, the most important first; a list has some of them."""
    is_offered: Callable[[Trace], bool] = lambda _: True
    """True for a trace that can have rows for it; other traces have no tab for it until it is asked for."""
    of_step: bool = True
    """True where it lists the chosen step rather than the whole trace."""
    of_range: bool = True
    """True where it lists the chosen range of time rather than the whole trace."""
    is_in_time_order: bool = True
    """True where the cursor follows the time of the selection; elsewhere it stays where it was left."""
    is_of_names: bool = False
    """True where a row stands for all slices of a name rather than for one."""
    has_own_order: bool = False
    """True where rows stand by place, kind or tree: a column whose numbers happen to fall does not sort them."""
    keeps_order: bool = False
    """True where columns that are details in other panes keep the place that `columns` gives them."""

    @property
    def groups(self) -> tuple[str, ...]:
        """Allowed values of `by`."""
        return tuple(grouping.name for grouping in self.groupings)

    def offered(self, trace: Trace) -> tuple[str, ...]:
        """The groupings that apply to a trace: by graph where graphs were replayed, by call site where it is known."""
        return tuple(grouping.name for grouping in self.groupings if grouping.is_offered(trace))

    def grouping(self, by: str | None) -> Grouping | None:
        """The grouping with a name; None for single rows, and for an unknown name."""
        return next((grouping for grouping in self.groupings if grouping.name == by), None)

    def columns_by(self, by: str | None) -> tuple[str, ...]:
        """Names of the columns, grouped or not, in order of importance."""
        grouping = self.grouping(by)
        return tuple((grouping.columns if grouping is not None and grouping.columns else self.columns).split())
