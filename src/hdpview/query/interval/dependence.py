"""How strongly attributes depend on each other, as a view has them."""

from __future__ import annotations

import math

import numpy as np

from hdpview.domain.tables import TableShape
from hdpview.view.data import ViewPart
from hdpview.view.mixture import Mixture
from hdpview.view.tables import Table

_MOST_CELLS = 1_000_000  # of a table whose dependence is computed from the view


def dependence(part: ViewPart, table: Table) -> float:
    """Cramér's V of the first two attributes of a table, as the view has them over the table's bins."""
    shape = TableShape(table.attributes[:2], table.shape.bin_of_code[:2])
    n_bins = shape.shape
    if math.prod(n_bins) > _MOST_CELLS or min(n_bins) < 2 or not isinstance(part.components, Mixture):
        return 0.0
    joint = part.components.table(shape)
    total = joint.sum()
    if total <= 0:
        return 0.0
    joint = joint / total
    even = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    squared = np.divide((joint - even) ** 2, even, out=np.zeros_like(even), where=even > 0).sum()
    return float(np.sqrt(min(1.0, squared / (min(n_bins) - 1))))
