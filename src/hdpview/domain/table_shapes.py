"""Shapes of tables: their attributes, and the codes that share a bin. Public; holds no counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TableShape:
    """The cells of a table: all combinations of bins of its attributes.

    attributes: their numbers in the schema, rising.
    bin_of_code: per attribute, shape (size,), int32: the bin of each code. Any codes may share a bin; bins
        are numbered from 0 without gaps.
    """

    attributes: tuple[int, ...]
    bin_of_code: tuple[NDArray[np.int32], ...]

    def __post_init__(self) -> None:
        for bins in self.bin_of_code:
            bins.setflags(write=False)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Number of bins of each attribute."""
        return tuple(int(bins.max()) + 1 for bins in self.bin_of_code)

    @classmethod
    def of_codes(cls, attributes: Sequence[int], sizes: Sequence[int]) -> TableShape:
        """A bin per code. sizes: of all attributes of the schema."""
        return cls(tuple(attributes), tuple(np.arange(sizes[a], dtype=np.int32) for a in attributes))


@dataclass(frozen=True, eq=False)
class CodeBoxes:
    """Boxes as ranges of codes on k attributes each: arrays of shape (n, k), ranges half-open."""

    attribute: Ints
    lower: Ints
    upper: Ints

    def __len__(self) -> int:
        return len(self.attribute)
