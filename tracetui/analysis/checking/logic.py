"""`and`, `or` and `not` over answers of which some are not known.

An unknown answer stays unknown unless the others decide: nothing makes `and` true that is not known, and only a
certain yes makes `or` true.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracetui.analysis.checking.arithmetic import rows_of
from tracetui.analysis.checking.values import NO, UNKNOWN, YES, Truth


def both(answers: Sequence[Truth]) -> Truth:
    """Whether all of the answers are yes, row by row where they have rows.

    Raises: Misfit for rows of two lists.
    """
    return _joined(answers, NO)


def either(answers: Sequence[Truth]) -> Truth:
    """Whether one of the answers is yes, row by row where they have rows.

    Raises: Misfit for rows of two lists.
    """
    return _joined(answers, YES)


def opposite(answer: Truth) -> Truth:
    """The other answer; what is not known stays so."""
    values = np.where(answer.values == UNKNOWN, UNKNOWN, 1 - answer.values).astype(np.int8)
    return Truth(values, answer.rows, answer.why, untold=answer.untold)


def _joined(answers: Sequence[Truth], deciding: int) -> Truth:
    """`deciding` where one of the answers is that; else unknown where one is; else the other answer."""
    rows = rows_of(answers)
    values = np.broadcast_arrays(*(answer.values for answer in answers))
    decided = np.any([each == deciding for each in values], axis=0)
    unknown = np.any([each == UNKNOWN for each in values], axis=0)
    result = np.select([decided, unknown], [deciding, UNKNOWN], 1 - deciding).astype(np.int8)
    if rows is not None or int(result) != UNKNOWN:
        return Truth(result, rows)
    open_ones = [answer for answer in answers if answer.one == UNKNOWN]
    lacking = [answer for answer in open_ones if not answer.untold]
    first = (lacking or open_ones)[0]
    return Truth(result, rows, first.why, untold=not lacking)
