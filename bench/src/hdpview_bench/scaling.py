"""How the time of growing depends on rows, attributes and depth: a table, and a picture of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from hdpview.methods import Hdpview
from hdpview.partition.local import LocalEngine
from hdpview.partition.parameters import PartitionParameters
from hdpview.privacy.randomness import Randomness
from hdpview_bench.trees import random_counts

Row = dict[str, Any]
ROWS = (125_000, 250_000, 500_000, 1_000_000, 2_000_000)
ATTRIBUTES = (4, 8, 16, 32)
EPSILONS = ("0.001", "0.01", "0.1", "1")
_USUAL = (500_000, 10, "1")  # rows, attributes, budget


def scaling_rows(trials: int = 3, factor: float = 1.0) -> Iterator[Row]:
    """One row per growth on one thread, changing one thing at a time. The more budget, the deeper the tree.
    factor: of the rows.
    """
    n_rows, n_attributes, epsilon = _USUAL
    for n in ROWS:
        yield _measured("rows", int(n * factor), n_attributes, epsilon, trials)
    for d in ATTRIBUTES:
        yield _measured("attributes", int(n_rows * factor), d, epsilon, trials)
    for spent in EPSILONS:
        yield _measured("depth", int(n_rows * factor), n_attributes, spent, trials)


def _measured(changing: str, n_rows: int, n_attributes: int, epsilon: str, trials: int) -> Row:
    counts = random_counts(n_rows, n_attributes)
    parameters = PartitionParameters.choose(Hdpview(), Fraction(epsilon), counts.schema.n_cells)
    engine, found = LocalEngine(1), []
    engine.grow(
        random_counts(100, n_attributes), parameters, Randomness.fresh().root_key("partition")
    )  # compiles
    for _ in range(trials):
        key = Randomness.fresh().root_key("partition")
        started = time.process_time()
        leaves = engine.grow(counts, parameters, key)
        seconds = time.process_time() - started
        levels = float(((leaves.exact_last - leaves.exact_first) * leaves.depth.astype(np.int64)).sum())
        found.append((seconds, levels, len(leaves)))
    seconds, levels, blocks = sorted(found)[len(found) // 2]
    return {
        "changing": changing,
        "rows": n_rows,
        "attributes": n_attributes,
        "epsilon": float(epsilon),
        "blocks": blocks,
        "levels_per_row": round(levels / len(counts.exact_counts), 1),
        "cell_attribute_levels": levels * n_attributes,
        "cpu_s": round(seconds, 3),
        "ns_per_cell_attribute_level": round(seconds * 1e9 / levels / n_attributes, 2),
    }


def draw_scaling(rows: list[Row], path: Path) -> None:
    """Seconds over cells × attributes × levels, both by powers of ten, one colour per thing that was changed;
    a line of slope 1.
    """
    import altair as alt

    most = max(row["cell_attribute_levels"] for row in rows)
    least = min(row["cell_attribute_levels"] for row in rows)
    middle = sorted(row["cpu_s"] / row["cell_attribute_levels"] for row in rows)[len(rows) // 2]
    line = [{"cell_attribute_levels": x, "cpu_s": x * middle} for x in (least, most)]
    x = alt.X(
        "cell_attribute_levels:Q", scale=alt.Scale(type="log"), title="occupied cells × attributes × levels"
    )
    y = alt.Y("cpu_s:Q", scale=alt.Scale(type="log"), title="seconds on one core")
    points = (
        alt.Chart(alt.Data(values=rows))
        .mark_point(filled=True, size=70)
        .encode(x=x, y=y, color=alt.Color("changing:N", title="changing"))
    )
    slope = alt.Chart(alt.Data(values=line)).mark_line(strokeDash=[4, 4], color="gray").encode(x=x, y=y)
    title = f"Growing a partition: dashed, {middle * 1e9:.2f} ns per cell × attribute × level"
    (slope + points).properties(width=420, height=300, title=title).save(str(path))
