"""Features of a view that may reveal the canary: every released number, compared with its value without
noise.

The auditor knows both tables. So for each released count they take the difference from the exact count
without the canary, and for each decision its outcome. `scores.py` learns from many views how much these
features reveal.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from hdpview.counts.sparse import SparseCounts
from hdpview.methods import quality
from hdpview.privacy.exact import Exact, unprotected
from hdpview.privacy.mechanism import Mechanism
from hdpview.privacy.noise import laplace_variance
from hdpview.privacy.randomness import Randomness
from hdpview.pview import PView
from hdpview.query.errors.questions import questions_about
from hdpview.view.blocks import Blocks
from hdpview.view.data import ViewPart
from hdpview.view.manifest import Manifest, to_dict
from hdpview.view.quality import N_ORDERS, prior_quality
from hdpview.view.released_tables import Table
from hdpview_bench.audit.tables import Neighbours

Features = Mapping[str, Hashable]  # features of one view, by name
_MOST_CELLS = 16  # maximum number of cells of a table that are examined one by one
_MOST_LEAVES = 4  # maximum number of leaves of a tree that are examined one by one
NUMBER_OF_RECORDS = "number of records"


def features_of(view: PView, pair: Neighbours) -> Features:
    """All features of one view."""
    (part,) = view.parts
    seen: dict[str, Hashable] = {}
    if isinstance(part.components, Blocks):
        seen |= _of_blocks(part.components, pair)
    else:
        seen |= _of_tables(part.tables, pair)
        seen |= _of_total(view.manifest, part, pair)
    if part.quality.measured:
        seen |= _of_quality(view.manifest, part, pair)
    seen |= _of_manifest(to_dict(view.manifest))
    return seen


def _of_manifest(content: Any, name: str = "manifest") -> Features:
    """Every number and text of the manifest except the schema, by its path."""
    if isinstance(content, dict):
        parts = {f"{name}, {key}": value for key, value in content.items() if key != "schema"}
    elif isinstance(content, list):
        parts = {f"{name}, {i}": value for i, value in enumerate(content)}
    else:
        return {name: float(content) if isinstance(content, (int, float)) else content}
    seen: dict[str, Hashable] = {}
    for place, value in parts.items():
        seen |= _of_manifest(value, place)
    return seen


def _of_tables(tables: tuple[Table, ...], pair: Neighbours) -> Features:
    """Differences of all cells, differences between them, the set of tables, and the claimed loss."""
    seen: dict[str, Hashable] = {}
    loss = 0.0
    for table in tables:
        name = "table " + " ".join(map(str, table.attributes))
        exact, exact_more = pair.exact_tables(table.shape)
        difference, change = (table.counts - exact).reshape(-1), (exact_more - exact).reshape(-1)
        loss += _claimed_loss(difference, change, table)
        for cell in range(min(len(difference), _MOST_CELLS)):
            seen[f"{name}, cell {cell}"] = int(difference[cell])
        seen[f"{name}, canary's cell"] = int(difference[change > 0].sum())
        seen[f"{name}, sum"] = int(difference.sum())
        if not change.all():
            seen[f"{name}, canary's cell and another"] = int(
                difference[change > 0][0] - difference[change == 0][0]
            )
    chosen = tuple(table.attributes for table in tables if len(table.attributes) > 1)
    seen["chosen tables in order"] = chosen
    seen["chosen tables"] = frozenset(chosen)
    seen["all counts"] = loss
    return seen


def _claimed_loss(difference: NDArray[np.int64], change: NDArray[np.int64], table: Table) -> float:
    """The logarithm of the likelihood ratio of a table's cells, if the noise is as the view claims."""
    before, after = difference.astype(np.float64), (difference - change).astype(np.float64)
    if table.noise == "laplace":
        return float((np.abs(before) - np.abs(after)).sum()) / table.scale
    return float((before**2 - after**2).sum()) / (2 * table.scale**2)


def _of_total(manifest: Manifest, part: ViewPart, pair: Neighbours) -> Features:
    """The number of records that the view implies and, behind it, the number that was measured first.

    The implied number is the mean of all measurements, weighted by precision, so the measured number follows
    from it and the tables.
    """
    implied = float(part.components.weight.sum())
    exact_total = int(pair.exact_without.exact_counts.sum())
    seen: dict[str, Hashable] = {"implied number of records": implied - exact_total}
    spent = [one.epsilon for one in manifest.spending if one.purpose == NUMBER_OF_RECORDS]
    if spent and implied > 1:
        precision = 1 / laplace_variance(spent[0] / manifest.max_rows)
        precisions = [1 / (table.counts.size * table.variance) for table in part.tables]
        of_tables = sum(
            p * float(table.counts.sum()) for p, table in zip(precisions, part.tables, strict=True)
        )
        seen[NUMBER_OF_RECORDS] = (
            round((implied * (precision + sum(precisions)) - of_tables) / precision) - exact_total
        )
    return seen


def _of_quality(manifest: Manifest, part: ViewPart, pair: Neighbours) -> Features:
    """The chosen error factors, and how much more often they fit the table with the canary."""
    factors, prior = part.quality.factors, prior_quality(part.components, part.tables)
    seen: dict[str, Hashable] = {"sizes of errors": factors}
    if pair.turns_quality:
        unmeasured = replace(part, quality=prior)
        # The questions come from the view, so they are the same for both tables.
        about = cache(partial(questions_about, unmeasured))
        paid = sum(one.epsilon for one in manifest.spending if one.purpose == quality.PURPOSE)
        n_classes = min(N_ORDERS, len(part.components.sizes))
        amount, drawn = Fraction(paid) / manifest.max_rows / n_classes, list[int]()
        for k in range(1, n_classes + 1):
            choice = quality.choice_of(about(k), (*factors[: k - 1], *prior.factors[k - 1 :]), k, amount)
            drawn.append(int(np.argmin(np.abs(choice.factors - factors[k - 1]))))
        with patch.object(quality, "questions_about", lambda _part, k: about(k)):
            scores = [
                _quality_scores(unmeasured, counts, drawn) for counts in (pair.exact_without, pair.exact_with)
            ]
        best, best_with = (
            sum(one[i] == one.max() for one, i in zip(each, drawn, strict=False)) for each in scores
        )
        seen["sizes of errors point to the canary"] = int(best_with) - int(best)
    return seen


def _quality_scores(
    part: ViewPart, exact_counts: SparseCounts, drawn: list[int]
) -> list[NDArray[np.float64]]:
    """The scores by which error factors are chosen, on a table that the auditor knows."""
    seen: list[NDArray[np.float64]] = []

    def note(_self: Mechanism, _purpose: str, scores: Exact, *_rest: object) -> int:
        seen.append(unprotected(scores))
        return drawn[len(seen) - 1]

    with patch.object(Mechanism, "choose", note):
        quality.measure_quality(part, exact_counts, Mechanism(Fraction(1), Randomness.fresh()))
    return seen


def _of_blocks(blocks: Blocks, pair: Neighbours) -> Features:
    """Cuts on the path to the canary and elsewhere, differences of leaf counts, and comparisons of leaves."""
    at = np.array(pair.canary)
    leaf = int(np.flatnonzero(((blocks.lower <= at) & (at < blocks.upper)).all(axis=1))[0])
    path = cuts_to(blocks, leaf)
    differences = blocks.noisy_counts - _exact_counts(blocks, pair)
    own = int(differences[leaf])
    seen: dict[str, Hashable] = {
        "cuts to the canary": path,
        "number of cuts to the canary": len(path),
        "canary's leaf": own,
        "cuts and count": (path, int(np.clip(own, -3, 40))),
        "sum of counts": int(differences.sum()),
        "number of leaves": len(blocks),
        "halves": _halves(blocks),
    }
    seen |= {f"first {n} cuts to the canary": path[:n] for n in (1, 2, 3)}
    for i in range(min(len(blocks), _MOST_LEAVES)):
        seen[f"leaf {i}"] = int(differences[i])
        seen[f"cuts to leaf {i}"] = cuts_to(blocks, i)
    if len(blocks) > 1:
        seen["canary's leaf and another"] = own - int(differences[leaf - 1 if leaf else 1])
    seen["all counts"] = (abs(own) - abs(own - _canary_rows(pair))) / blocks.noise_scale
    return seen


def _exact_counts(blocks: Blocks, pair: Neighbours) -> NDArray[np.int64]:
    """Exact records in each block, without the canary."""
    cells = pair.exact_without
    inside = (blocks.lower[:, None] <= cells.exact_codes) & (cells.exact_codes < blocks.upper[:, None])
    return inside.all(axis=2) @ cells.exact_counts


def _canary_rows(pair: Neighbours) -> int:
    return int(pair.exact_with.exact_counts.sum() - pair.exact_without.exact_counts.sum())


def _halves(blocks: Blocks) -> Hashable:
    """Whether both halves of the first cut were cut alike, and their numbers of leaves."""
    if len(blocks) == 1:
        return None
    middle = _end_of_left(blocks, 0, len(blocks), 1)
    left, right = (
        (
            (blocks.lower[part] - blocks.lower[part].min(axis=0)).tolist(),
            (blocks.upper[part] - blocks.lower[part].min(axis=0)).tolist(),
        )
        for part in (slice(0, middle), slice(middle, None))
    )
    return left == right, middle > len(blocks) - middle


def cuts_to(blocks: Blocks, leaf: int) -> tuple[tuple[int, int], ...]:
    """Attribute and cut point of each cut on the path to a leaf, from the order and depths of the leaves."""
    cuts: list[tuple[int, int]] = []
    first, last, depth = 0, len(blocks), 1
    while last - first > 1:
        middle = _end_of_left(blocks, first, last, depth)
        end_of_left, end = blocks.upper[first:middle].max(axis=0), blocks.upper[first:last].max(axis=0)
        attribute = int(np.flatnonzero(end_of_left < end)[0])
        cuts.append((attribute, int(end_of_left[attribute])))
        first, last, depth = (first, middle, depth + 1) if leaf < middle else (middle, last, depth + 1)
    return tuple(cuts)


def _end_of_left(blocks: Blocks, first: int, last: int, depth: int) -> int:
    """The end of the leaves in a block's left half. They come first and fill half of it, 2^-(levels below)
    each.
    """
    filled = np.cumsum(0.5 ** (blocks.depth[first:last] - depth))
    return first + int(np.searchsorted(filled, 0.5)) + 1
