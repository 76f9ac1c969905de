"""The location of a release's blocks, for pictures and to find each record's block. For benchmarks only."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hdpview.errors import MethodError
from hdpview.jit import numba as nb
from hdpview.methods.protocol import Release, ViewRelease
from hdpview.view.blocks import Blocks
from hdpview_bench.rivals.privtree_release import PrivtreeRelease, middle_of

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Leaves(Protocol):
    """The blocks of one release."""

    def locate(self, codes: Ints) -> tuple[Ints, Floats, int]:
        """Per row of codes the number of its block and that block's cells, shape (n,) each; and how many
        blocks there are.
        """
        ...

    def boxes(self) -> tuple[Ints, Ints]:
        """Lower and upper codes of all blocks, half-open, shape (n_blocks, n_attributes)."""
        ...


class BlockLeaves:
    """Blocks stored as boxes."""

    def __init__(self, lower: Ints, upper: Ints) -> None:
        self._lower, self._upper = lower, upper

    def boxes(self) -> tuple[Ints, Ints]:
        return self._lower, self._upper

    def locate(self, codes: Ints) -> tuple[Ints, Floats, int]:
        place = _first_box(codes, self._lower, self._upper)
        volume = (self._upper - self._lower).astype(float).prod(axis=1)
        return place, volume[place], len(volume)


class SplitLeaves:
    """Blocks stored as a tree of splits: a child is a leaf unless it is split again."""

    def __init__(self, lower: Ints, upper: Ints, bit: Ints, n_blocks: int) -> None:
        self._lower, self._upper, self._bit, self._n_blocks = lower, upper, bit, n_blocks
        self._split_of = {
            self._name(low, high): i for i, (low, high) in enumerate(zip(lower, upper, strict=True))
        }

    @staticmethod
    def _name(lower: Ints, upper: Ints) -> bytes:
        return lower.tobytes() + upper.tobytes()

    def _child(self, split: int, codes: Ints) -> tuple[Ints, Ints]:
        """The side of each split on which these codes lie."""
        lower, upper = self._lower[split].copy(), self._upper[split].copy()
        middle = middle_of(lower, upper)
        cut = self._bit[split] >= 0
        above = cut & (codes >= middle)
        lower[above] = middle[above]
        below = cut & ~above
        upper[below] = middle[below]
        return lower, upper

    def locate(self, codes: Ints) -> tuple[Ints, Floats, int]:
        place, volume = np.empty(len(codes), np.int64), np.empty(len(codes))
        number: dict[bytes, int] = {}
        for i, row in enumerate(codes):
            split: int | None = 0
            while split is not None:
                lower, upper = self._child(split, row)
                name = self._name(lower, upper)
                split = (
                    self._split_of.get(name)
                    if name != self._name(self._lower[split], self._upper[split])
                    else None
                )
            place[i], volume[i] = (
                number.setdefault(name, len(number)),
                float((upper - lower).astype(float).prod()),
            )
        return place, volume, self._n_blocks

    def boxes(self) -> tuple[Ints, Ints]:
        lowers, uppers = [], []
        for split in range(len(self._lower)):
            cut = np.flatnonzero(self._bit[split] >= 0)
            middle = middle_of(self._lower[split], self._upper[split])
            for halves in np.ndindex(*(2,) * len(cut)):
                codes = self._lower[split].copy()
                codes[cut] = np.where(np.array(halves, dtype=bool), middle[cut], self._lower[split, cut])
                lower, upper = self._child(split, codes)
                if self._name(lower, upper) not in self._split_of or not len(cut):
                    lowers.append(lower)
                    uppers.append(upper)
        return np.array(lowers), np.array(uppers)


def leaves_of(release: Release) -> Leaves:
    """The blocks of a release, whatever its storage."""
    if isinstance(release, ViewRelease) and isinstance(blocks := release.components, Blocks):
        return BlockLeaves(blocks.lower.astype(np.int64), blocks.upper.astype(np.int64))
    if isinstance(release, PrivtreeRelease):
        return SplitLeaves(release.lower, release.upper, release.bit, release.n_blocks)
    raise MethodError(
        f"A {type(release).__name__} has no blocks to show. Use the method hdpview or privtree."
    )


@nb.njit(cache=True, nogil=True)
def _first_box(codes, lower, upper):  # type: ignore[no-untyped-def]
    """The box that each row lies in; boxes tile the domain."""
    place = np.empty(len(codes), np.int64)
    for i in range(len(codes)):
        for box in range(len(lower)):
            inside = True
            for a in range(codes.shape[1]):
                if codes[i, a] < lower[box, a] or codes[i, a] >= upper[box, a]:
                    inside = False
                    break
            if inside:
                place[i] = box
                break
    return place
