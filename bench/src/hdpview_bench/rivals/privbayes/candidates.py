"""The parents that an attribute may have: all sets whose table is affordable. Uses public knowledge only.

A parent may be used as it is or more coarsely: at level l, runs of 2^l neighbouring codes count as one (the
paper's taxonomy trees, for codes in order). A set of parents is a candidate if the table of child and parents
has at most `most_cells` cells, and if no finer set does: neither a parent at a lower level nor one more
parent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

Parent = tuple[int, int]  # attribute, level
Parents = tuple[Parent, ...]

MOST_PARENTS = 4
MOST_CANDIDATES = 20_000  # maximum number of candidates of one network; with more, fewer parents are allowed


def size_at(size: int, level: int) -> int:
    """Values of an attribute when runs of 2^level codes count as one."""
    return -(-size >> level)


def n_levels(size: int) -> int:
    """Levels at which an attribute still has at least two values; at least 1."""
    return max(1, (size - 1).bit_length())


def parent_sets(
    sizes: Sequence[int], available: Iterable[int], most_cells: float, most_parents: int
) -> Iterator[Parents]:
    """Maximal sets of parents among the available attributes whose joint domain has at most `most_cells`
    cells; () if none fits.
    """
    attributes = [a for a in sorted(available) if sizes[a] > 1]
    for parents in _affordable(sizes, attributes, most_cells, most_parents):
        if _is_maximal(sizes, attributes, parents, most_cells, most_parents):
            yield parents


def _affordable(
    sizes: Sequence[int], attributes: Sequence[int], most_cells: float, most_parents: int
) -> Iterator[Parents]:
    yield ()
    if most_parents == 0:
        return
    for i, a in enumerate(attributes):
        for level in range(n_levels(sizes[a])):
            n = size_at(sizes[a], level)
            if n <= most_cells:
                for rest in _affordable(sizes, attributes[i + 1 :], most_cells / n, most_parents - 1):
                    yield ((a, level), *rest)


def _is_maximal(
    sizes: Sequence[int], attributes: Sequence[int], parents: Parents, most_cells: float, most_parents: int
) -> bool:
    n_cells = 1
    for a, level in parents:
        n_cells *= size_at(sizes[a], level)
    finer = (
        n_cells // size_at(sizes[a], level) * size_at(sizes[a], level - 1)
        for a, level in parents
        if level > 0
    )
    if any(n <= most_cells for n in finer):
        return False
    has_room = len(parents) < min(most_parents, len(attributes))
    return not (has_room and 2 * n_cells <= most_cells)


def affordable_degree(sizes: Sequence[int], most_cells: float) -> int:
    """The maximum number of parents per attribute for which all candidates of a network can be scored."""
    for most_parents in range(min(MOST_PARENTS, len(sizes) - 1), 1, -1):
        n_candidates = 0
        for child, size in enumerate(sizes):
            others = [a for a in range(len(sizes)) if a != child]
            for _ in parent_sets(sizes, others, most_cells / size, most_parents):
                n_candidates += 1
                if n_candidates > MOST_CANDIDATES:
                    break
            if n_candidates > MOST_CANDIDATES:
                break
        if n_candidates <= MOST_CANDIDATES:
            return most_parents
    return 1
