"""The base inside each block of a level, laid out for answering.

Inside a block the base is again a Markov forest, with other tables. What an attribute and all that depend on
it look like there hangs on the block's ranges of these attributes alone; blocks that agree in them form a
*class*, and are answered once. An attribute that few blocks cut has few classes, and one that depends on
nothing and nothing on it has one for each different range.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.view.base import Base, Floats, scaled

Ints = NDArray[np.int32]
Flags = NDArray[np.bool_]

TOUCHED = 1e-300  # the least share of a block that a question touches


@dataclass(frozen=True, eq=False)
class Node:
    """One attribute in all classes of blocks.

    class_of_block: shape (n_blocks,). lower, upper: the range of codes of each class, shape (n_classes,),
        half-open.
    class_of_child: per child, in the order of `Base.children`, its class in each class here, shape
        (n_children, n_classes).
    own: mass of the range, shape (n_classes,); inverse: 1 / mass of the range in each bin, 0 outside, shape
        (n_classes, n_bins).
    inside: mass of each bin with all that depends on it, up to a factor per class, shape (n_classes, n_bins).
    inverse_message: 1 / what `inside` makes of each bin of the parent, shape (n_classes, bins of the parent,
        or 1).
    """

    class_of_block: Ints
    lower: Ints
    upper: Ints
    class_of_child: Ints
    own: Floats
    inverse: Floats
    inside: Floats
    inverse_message: Floats

    def __post_init__(self) -> None:
        for array in vars(self).values():
            array.setflags(write=False)


@dataclass(frozen=True, eq=False)
class Within:
    """The base inside blocks first … last − 1 of a level."""

    base: Base
    first: int
    last: int
    nodes: tuple[Node, ...]

    @classmethod
    def of(
        cls, base: Base, lower: NDArray[np.int32], upper: NDArray[np.int32], first: int, last: int
    ) -> Within:
        """lower, upper: of these blocks, shape (last − first, n_attributes)."""
        nodes: dict[int, Node] = {}
        for a in base.upward:
            nodes[a] = _node(base, a, lower[:, a], upper[:, a], nodes)
        return cls(base, first, last, tuple(nodes[a] for a in range(len(base.parent))))

    def expected(self, prefixes: Mapping[int, Floats], kept: Sequence[int] = ()) -> Floats:
        """Mean, over each block's share of the base, of a product of functions of single attributes.

        prefixes: attribute → running sums over codes of function times shape, shape (size + 1,); attributes
            not there have the function 1.
        kept: attributes whose bins are told apart. Shape (n_blocks, bins of each of them).
        """
        messages: dict[int, tuple[Floats, list[int]]] = {}
        found, order = np.ones((self.last - self.first,)), list[int]()
        for a in self.base.with_ancestors([*prefixes, *kept]):
            messages[a] = self._message(a, prefixes.get(a), messages, a in kept)
            if self.base.parent[a] < 0:
                message, axes = messages[a]
                found = _outer(found, message[self.nodes[a].class_of_block, 0], 1)
                order += axes
        return found.transpose(0, *(1 + order.index(a) for a in kept))

    def _message(
        self, a: int, prefix: Floats | None, messages: Mapping[int, tuple[Floats, list[int]]], is_kept: bool
    ) -> tuple[Floats, list[int]]:
        """What attribute `a` and those below it make of each bin of its parent, shape (n_classes, bins of the
        parent, bins of each kept …).

        Also the kept attributes, in the order of their axes.
        """
        node, table = self.nodes[a], self.base.table[a]
        inside, axes = node.inside, list[int]()
        if prefix is not None:
            inside = inside * node.inverse * self.base.in_bins(a, prefix, node.lower, node.upper)
        for child, classes in zip(self.base.children[a], node.class_of_child, strict=True):
            if child in messages:
                below, axes_below = messages[child]
                inside = _outer(inside, below[classes], 2)
                axes += axes_below
        scale = node.inverse_message.reshape(*node.inverse_message.shape, *(1,) * (inside.ndim - 2 + is_kept))
        if is_kept:
            apart = table.reshape(1, *table.shape, *(1,) * (inside.ndim - 2)) * inside[:, None]
            return apart * scale, [a, *axes]
        summed = np.matmul(table, inside.reshape(*inside.shape[:2], -1)).reshape(
            len(inside), len(table), *inside.shape[2:]
        )
        return summed * scale, axes

    def shares(self, prefixes: Mapping[int, Floats]) -> tuple[Floats, Flags]:
        """Share of each block in a box, and whether the box covers it, shape (n_blocks,) each: 0 only where
        it holds nothing of the block.

        prefixes: attribute → running sums of the box's share of each code times shape, as `Base.prefix` makes
            them.
        """
        touched, covered = self.flags(prefixes)
        share = np.where(touched, np.maximum(self.expected(prefixes), TOUCHED), 0.0)
        share[covered] = 1.0
        return share, covered

    def flags(self, prefixes: Mapping[int, Floats]) -> tuple[Flags, Flags]:
        """Whether a box holds anything of each block, and whether it holds all of it, shape (n_blocks,) each.
        Prefixes as for `shares`.
        """
        touched, covered = (np.ones(self.last - self.first, dtype=bool) for _ in range(2))
        for a, prefix in prefixes.items():
            node = self.nodes[a]
            held = (
                prefix[node.upper] - prefix[node.lower]
            )  # exact, so that nothing is covered or missed by rounding
            touched &= (held > 0)[node.class_of_block]
            covered &= (held == node.own)[node.class_of_block]
        return touched, covered

    @cached_property
    def flat(self) -> Flat:
        """The same as plain arrays, for kernels."""
        base, nodes, ranges = self.base, self.nodes, [_ranges(node) for node in self.nodes]
        children = [child for a in range(len(nodes)) for child in base.children[a]]
        classes = [row for node in nodes for row in node.class_of_child]
        examples = [(node, first) for node, (first, _) in zip(nodes, ranges, strict=True)]
        lower, upper = (
            [node.lower[first] for node, first in examples],
            [node.upper[first] for node, first in examples],
        )
        inverse = [node.inverse[first] for node, first in examples]
        return Flat(
            upward=np.array(base.upward, np.int64),
            parent=np.array(base.parent, np.int64),
            bin_at=_starts([len(starts) for starts in base.bin_starts]),
            bin_start=np.concatenate(base.bin_starts).astype(np.int64),
            table_at=_starts([table.size for table in base.table]),
            table=np.concatenate([table.T.reshape(-1) for table in base.table]),
            child_at=_starts([len(base.children[a]) for a in range(len(nodes))]),
            child=np.array(children, np.int64),
            child_class_at=_starts([len(row) for row in classes]),
            child_class=np.concatenate([np.zeros(0, np.int32), *classes]).astype(np.uint32),
            range_at=_starts([len(each) for each in lower]),
            lower=np.concatenate(lower).astype(np.int64),
            upper=np.concatenate(upper).astype(np.int64),
            first_bin=np.concatenate(
                [bins[low] for bins, low in zip(base.bin_of_code, lower, strict=True)]
            ).astype(np.int64),
            last_bin=np.concatenate(
                [bins[high - 1] + 1 for bins, high in zip(base.bin_of_code, upper, strict=True)]
            ).astype(np.int64),
            own=np.concatenate([node.own[first] for node, first in examples]),
            inverse_at=_starts([each.size for each in inverse]),
            inverse=np.concatenate([each.T.reshape(-1) for each in inverse]),
            class_at=_starts([len(node.lower) for node in nodes]),
            range_of_class=np.concatenate([of_class for _, of_class in ranges]).astype(np.uint32),
            wide_at=_starts([node.inside.size for node in nodes]),
            inside=np.concatenate([node.inside.T.reshape(-1) for node in nodes]),
            message_at=_starts([node.inverse_message.size for node in nodes]),
            inverse_message=np.concatenate([node.inverse_message.T.reshape(-1) for node in nodes]),
            class_of_block=np.stack([node.class_of_block for node in nodes]).astype(np.uint32),
        )

    @cached_property
    def by_range(self) -> ByRange:
        """Blocks in the order of each attribute's ranges, for kernels."""
        orders, borders = [], []
        for node in self.nodes:
            order = np.argsort(
                node.class_of_block, kind="stable"
            )  # classes stand in the order of their ranges
            of_block = _ranges(node)[1][node.class_of_block[order]]
            orders.append(order)
            borders.append(np.searchsorted(of_block, np.arange(of_block[-1] + 2)))
        return ByRange(
            order=np.stack(orders).astype(np.uint32),
            begin=np.concatenate([each[:-1] for each in borders]).astype(np.int64),
            end=np.concatenate([each[1:] for each in borders]).astype(np.int64),
            code_at=_starts(self.base.sizes),
            shape=np.concatenate(self.base.shape),
        )


class Flat(NamedTuple):
    """All nodes in one array per field; `…_at` tells where each attribute's values begin, shape (n_attributes
    + 1,).

    Arrays of classes and bins stand bin by bin here. table: turned round, shape (own bins, bins of the
    parent). child: the children of each attribute, one after the other; child_class: for each of these, its
    class in each class of its parent. class_of_block: shape (n_attributes, n_blocks). lower, upper, own and,
    bin by bin, inverse: of the different ranges of each attribute, rising by lower ends;
    first_bin, last_bin: the bins that a range reaches, half-open. range_of_class: the range of each class,
        from 0 in each attribute.
    """

    upward: NDArray[np.int64]
    parent: NDArray[np.int64]
    bin_at: NDArray[np.int64]
    bin_start: NDArray[np.int64]
    table_at: NDArray[np.int64]
    table: Floats
    child_at: NDArray[np.int64]
    child: NDArray[np.int64]
    child_class_at: NDArray[np.int64]
    child_class: NDArray[np.uint32]
    range_at: NDArray[np.int64]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    first_bin: NDArray[np.int64]
    last_bin: NDArray[np.int64]
    own: Floats
    inverse_at: NDArray[np.int64]
    inverse: Floats
    class_at: NDArray[np.int64]
    range_of_class: NDArray[np.uint32]
    wide_at: NDArray[np.int64]
    inside: Floats
    message_at: NDArray[np.int64]
    inverse_message: Floats
    class_of_block: NDArray[np.uint32]


class ByRange(NamedTuple):
    """Blocks by the ranges of `Flat`.

    order: numbers of the blocks, those of each range one after the other, shape (n_attributes, n_blocks);
        begin, end: where those of a
    range stand there, half-open. shape: of the codes of all attributes, those of each from `code_at` on.
    """

    order: NDArray[np.uint32]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    code_at: NDArray[np.int64]
    shape: Floats


def _ranges(node: Node) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first class of each different range, and the range of each class: classes stand in the order of
    their ranges.
    """
    is_first = np.append(True, (np.diff(node.lower) != 0) | (np.diff(node.upper) != 0))
    return np.flatnonzero(is_first), np.cumsum(is_first) - 1


def _starts(lengths: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)


def _outer(left: Floats, right: Floats, n_common: int) -> Floats:
    """Products of what agrees in the first axes, with the further axes of `left`, then those of `right`."""
    n_left, n_right = left.ndim - n_common, right.ndim - n_common
    return left.reshape(*left.shape, *(1,) * n_right) * right.reshape(
        *right.shape[:n_common], *(1,) * n_left, *right.shape[n_common:]
    )


def _node(
    base: Base, a: int, lower: NDArray[np.int32], upper: NDArray[np.int32], nodes: Mapping[int, Node]
) -> Node:
    key = lower.astype(np.int64) * (base.sizes[a] + 1) + upper
    for child in base.children[a]:
        of_child = nodes[child].class_of_block
        key = np.unique(key, return_inverse=True)[1] * (int(of_child.max()) + 1) + of_child
    _, example, class_of_block = np.unique(key, return_index=True, return_inverse=True)
    lower, upper = lower[example], upper[example]
    in_bins = base.in_bins(a, base.running[a], lower, upper)
    inside, _ = scaled(in_bins)
    class_of_child = np.array(
        [nodes[child].class_of_block[example] for child in base.children[a]], np.int32
    ).reshape(-1, len(example))
    for child, classes in zip(base.children[a], class_of_child, strict=True):
        inside, _ = scaled(inside / nodes[child].inverse_message[classes])
    with np.errstate(divide="ignore"):
        inverse = np.where(in_bins > 0, 1.0 / in_bins, 0.0)
    return Node(
        class_of_block=class_of_block.reshape(-1).astype(np.int32),
        lower=lower,
        upper=upper,
        class_of_child=class_of_child,
        own=base.running[a][upper] - base.running[a][lower],
        inverse=inverse,
        inside=inside,
        inverse_message=1.0 / (inside @ base.table[a].T),
    )
