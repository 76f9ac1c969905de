"""Sparse counts: the occupied cells of the data cube. Exact, so never outside the private side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Schema

Codes = NDArray[np.uint8] | NDArray[np.uint16]


@dataclass(frozen=True, eq=False, repr=False)
class SparseCounts:
    """Occupied cells, each once. Their order means nothing, and growing a partition changes it.

    exact_codes: shape (n_occupied, n_attributes), row-major, the smallest unsigned type that holds every
        code: a row is read and moved as a whole while blocks are cut.
    exact_counts: shape (n_occupied,), int64, all positive.
    """

    schema: Schema
    exact_codes: Codes
    exact_counts: NDArray[np.int64]

    def __repr__(self) -> str:
        return "SparseCounts(exact)"  # sizes are exact values too: they have no place in a log line


def code_type(schema: Schema) -> type[np.uint8 | np.uint16]:
    """The smallest unsigned type for codes of this schema. One type for all attributes keeps rows
    contiguous.
    """
    return np.uint8 if max(schema.sizes) <= 256 else np.uint16
