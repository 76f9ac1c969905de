"""The paper's experiments as plans for the runner, and what single releases show: blocks, deviations, sizes,
maps.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdpview.build import release as view_of
from hdpview.counts.sparse import SparseCounts
from hdpview.domain import Category
from hdpview.methods import Hdpview
from hdpview.privacy.budget import exact_epsilon
from hdpview.privacy.randomness import Randomness
from hdpview_bench.accuracy import Plan
from hdpview_bench.contenders import contender, with_all
from hdpview_bench.datasets import HOSPITAL, dataset_counts
from hdpview_bench.leaves import Leaves, leaves_of
from hdpview_bench.workloads import WORKLOADS

SEVEN = ("jm1", "adult", "traffic", "electricity", "numerical-adult", "small-adult", "phoneme")
QUICK_WORKLOADS = ("range-1d", "marginal-2", "prefix-2d", "random-2d", "random-3d")
GROWTH_WORKLOADS = ("marginal-2", "random-2d")
GROWTH_METHODS = ("hdpview", "privbayes", "hdmm")
EPSILON = "1.0"
BYTES_PER_CELL = 4  # of a noisy count in a dense array; reproduces the sizes in the paper
GRIDS: dict[str, tuple[float, ...]] = {
    "partition_share": (0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95),
    "converge_share": (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95),
    "cut_levels_factor": (0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.6, 2.0),
    "bias_ratio": (1.05, 1.1, 1.2, 1.4, 1.6, 1.8, 2.0, 3.0, 5.0),
}
_CUTS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16)


@dataclass(frozen=True)
class Scope:
    """All experiments of one report: the tables that replace the paper's, and the plans."""

    main: Plan
    cuts: tuple[Plan, ...]
    growth: Plan
    tuning: tuple[Plan, ...]
    map: Plan
    blocks_dataset: str

    @property
    def plans(self) -> list[Plan]:
        return [self.main, *self.cuts, self.growth, *self.tuning, self.map]


def choose(
    datasets: Sequence[str],
    methods: Sequence[str],
    trials: int,
    data_dir: Path | None,
    quick: bool,
    row_seconds: float = 400.0,
) -> Scope:
    """Plan experiments on these tables; the first one replaces any table of the paper that is missing."""
    main = tuple(datasets) or (SEVEN if data_dir is not None else (HOSPITAL,))
    known = with_all(methods)
    few = min(trials, 2) if quick else trials

    def plan(names: Sequence[str], methods: Sequence[str], workloads: Sequence[str], n: int) -> Plan:
        return Plan(
            tuple(names), tuple(methods), tuple(workloads), (EPSILON,), n, data_dir, row_seconds=row_seconds
        )

    def or_first(name: str) -> str:
        return name if name in main else main[0]

    def settings(name: str, values: Sequence[float]) -> list[str]:
        return ["hdpview", *(f"hdpview:{name}={value}" for value in (values[1::3] if quick else values))]

    tuned = or_first("small-adult")
    tuning = [plan([tuned], settings(name, values), ["random-2d"], few) for name, values in GRIDS.items()]
    if or_first("numerical-adult") != tuned:
        tuning.append(
            plan(
                [or_first("numerical-adult")],
                settings("cut_levels_factor", GRIDS["cut_levels_factor"]),
                ["random-2d"],
                few,
            )
        )
    cuts = []
    for name in dict.fromkeys(or_first(name) for name in ("numerical-adult", "jm1")):
        d = len(dataset_counts(name, data_dir).schema)
        numbers = [k for k in (_CUTS[::4] if quick else _CUTS) if k <= d]
        cuts.append(
            plan(
                [name],
                ["hdpview", *(f"privtree:n_cut_attributes={k}" for k in numbers)],
                ["random-2d"],
                min(few, 3),
            )
        )
    grown = or_first("adult")
    steps = range(4, len(dataset_counts(grown, data_dir).schema) + 1, 5 if quick else 1)
    has_map = data_dir is not None and (data_dir / "gowalla.parquet").is_file()
    return Scope(
        main=plan(main, known, QUICK_WORKLOADS if quick else WORKLOADS, few),
        cuts=tuple(cuts),
        growth=plan(
            [f"{grown}@{k}" for k in steps],
            [m for m in GROWTH_METHODS if m in known],
            GROWTH_WORKLOADS,
            min(few, 3),
        ),
        tuning=tuple(tuning),
        map=plan(["gowalla" if has_map else f"{main[0]}@2"], ["hdpview", "privtree"], ["random-2d"], few),
        blocks_dataset=grown,
    )


def table_facts(name: str, data_dir: Path | None) -> dict[str, Any]:
    """The facts that the paper lists for a table: records, columns, categorical columns, cells, mean variance
    of the normalised columns.
    """
    counts = dataset_counts(name, data_dir)
    weights, codes = counts.exact_counts.astype(float), counts.exact_codes.astype(float)
    scaled = codes / np.maximum(1, np.array(counts.schema.sizes) - 1)
    mean = np.average(scaled, axis=0, weights=weights)
    variance = np.average((scaled - mean) ** 2, axis=0, weights=weights)
    return {
        "records": int(weights.sum()),
        "columns": len(counts.schema),
        "categories": sum(isinstance(attribute, Category) for attribute in counts.schema),
        "cells": counts.schema.n_cells,
        "variance": float(variance.mean()),
    }


def file_bytes(name: str, data_dir: Path | None) -> int:
    """Size of the paper's view of a table as a .pview file."""
    view = view_of(dataset_counts(name, data_dir), exact_epsilon(EPSILON), Hdpview(), Randomness.fresh())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "view.pview")
        view.save(path)
        return path.stat().st_size


def one_release(method: str, name: str, data_dir: Path | None) -> tuple[SparseCounts, Leaves]:
    """The boxes of a fresh release."""
    counts = dataset_counts(name, data_dir)
    return counts, leaves_of(contender(method).release(counts, exact_epsilon(EPSILON), Randomness.fresh()))


def deviations(method: str, name: str, data_dir: Path | None) -> tuple[NDArray[np.float64], int]:
    """Absolute deviation of each occupied block, and the number of empty ones. Exact: for benchmarks only."""
    counts, leaves = one_release(method, name, data_dir)
    place, volume, n_leaves = leaves.locate(counts.exact_codes.astype(np.int64))
    occupied, first, group = np.unique(place, return_index=True, return_inverse=True)
    records = counts.exact_counts.astype(np.float64)
    mean = np.bincount(group, weights=records) / volume[first]
    above = np.maximum(records - mean[group], 0.0)
    deviation: NDArray[np.float64] = 2.0 * np.bincount(group, weights=above).astype(np.float64)
    return deviation, n_leaves - len(occupied)
