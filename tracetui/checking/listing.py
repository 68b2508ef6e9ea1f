"""The rows of a list as values: what conditions read columns from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tracetui.checking.values import Rows, Value, of_column
from tracetui.model.table import Column


@dataclass(frozen=True, eq=False)
class Listing:
    """The rows of a list with named columns."""

    rows: Rows
    columns: Mapping[str, Column]
    _made: dict[str, Value] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Value:
        """A column as values, the same object each time.

        Raises: KeyError for a column that does not exist.
        """
        if name not in self._made:
            self._made[name] = of_column(self.columns[name], self.rows)
        return self._made[name]
