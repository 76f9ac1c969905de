"""How strongly attributes depend on each other, as a view has them."""

from __future__ import annotations

import numpy as np

from hdpview.view.data import ViewPart
from hdpview.view.tables import Table

_MOST_CELLS = 1_000_000  # of a table whose dependence is computed from the view


def dependence(part: ViewPart, table: Table) -> float:
    """Cramér's V of the first two attributes of a table, as the view has them over the table's bins."""
    components, (a, b) = part.components, table.attributes[:2]
    bins = [each.astype(np.int64) for each in table.shape.bin_of_code[:2]]
    n_bins = [int(each.max()) + 1 for each in bins]
    if n_bins[0] * n_bins[1] > _MOST_CELLS or min(n_bins) < 2:
        return 0.0
    in_bins = [np.eye(n)[own].T for n, own in zip(n_bins, bins, strict=True)]
    rows, columns = components.factors(a, in_bins[0]), components.factors(b, in_bins[1])
    joint = (rows * components.weight) @ columns.T
    total = joint.sum()
    if total <= 0:
        return 0.0
    joint = joint / total
    even = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    squared = np.divide((joint - even) ** 2, even, out=np.zeros_like(even), where=even > 0).sum()
    return float(np.sqrt(min(1.0, squared / (min(n_bins) - 1))))
