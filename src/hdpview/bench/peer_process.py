"""Runs one foreign method in a process of its own: `python peer_process.py IN.npz OUT.npz`. It imports nothing of this package.

So it also runs under another interpreter, whose packages need not agree with ours. IN holds the records' codes (n, d), the
number of codes of each attribute, the name of the method, ε and δ; OUT gets synthetic codes (d, m) and the weight of each.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MOST_TRIES = 8
_FEWEST_RECORDS = 2**18  # more than there are, with a weight: less is left to chance


def zcdp_budget(epsilon: float, delta: float) -> float:
    """The largest ρ for which ρ-zCDP implies (ε, δ)-differential privacy, by the bound of Canonne, Kamath and Steinke (2020)."""
    low, high = 0.0, epsilon
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _delta_of(middle, epsilon) <= delta else (low, middle)
    return low


def _delta_of(rho: float, epsilon: float) -> float:
    """Minimum over orders α of exp((α − 1)(αρ − ε))·(1 − 1/α)^α/(α − 1), by bisection of the derivative of its logarithm."""
    if rho == 0:
        return 0.0
    low, high = 1.0 + 1e-9, (epsilon + 1) / (2 * rho) + 2
    for _ in range(100):
        alpha = (low + high) / 2
        slope = (2 * alpha - 1) * rho - epsilon + math.log1p(-1 / alpha)
        low, high = (alpha, high) if slope < 0 else (low, alpha)
    return math.exp((alpha - 1) * (alpha * rho - epsilon) + alpha * math.log1p(-1 / alpha)) / (alpha - 1)


def synthetic_codes(name: str, codes: NDArray[np.int64], sizes: list[int], epsilon: float, delta: float) -> tuple[NDArray[np.int64], float]:
    """Records of OpenDP's MST or AIM with a budget of (ε, δ), shape (d, m), and the weight of each."""
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    names = [f"a{i}" for i in range(len(sizes))]
    data = pl.LazyFrame({column: codes[:, i] for i, column in enumerate(names)})
    keys = {column: list(range(size)) for column, size in zip(names, sizes, strict=True)}

    def table_with(rho: float) -> Any:
        unit, loss = dp.unit_of(contributions=1), dp.loss_of(rho=rho)
        context = dp.Context.compositor(data=data, privacy_unit=unit, privacy_loss=loss)
        return context.query(rho=rho).contingency_table(keys=keys, algorithm={"mst": dp.mbi.MST, "aim": dp.mbi.AIM}[name]()).release()

    table = _despite_rounding(table_with, zcdp_budget(epsilon, delta))
    total = max(1.0, float(table.model.total))
    n_records = max(_FEWEST_RECORDS, round(total))
    records = table.synthesize(rows=n_records)
    return np.stack([records[column].to_numpy().astype(np.int64) for column in names]), total / n_records


def _despite_rounding(release: Callable[[float], Any], rho: float) -> Any:
    """Shares of a budget, each rounded, may add up to one last digit more than it, which OpenDP refuses: then a hair less is tried.

    Whether that happens depends on the budget and the number of attributes, not on the data, and nothing of a refused try is kept.
    """
    for tries in range(_MOST_TRIES):
        try:
            return release(rho * (1 - tries * 1e-6))
        except Exception as error:  # its own exceptions arrive wrapped, so only the words tell
            if "insufficient budget" not in str(error) or tries == _MOST_TRIES - 1:
                raise
    raise AssertionError


def main(source: str, target: str) -> None:
    """Read what to do, do it, and write what was found."""
    given = np.load(source, allow_pickle=False)
    codes, weight = synthetic_codes(
        str(given["name"]), given["codes"].astype(np.int64), given["sizes"].tolist(), float(given["epsilon"]), float(given["delta"])
    )
    np.savez(target, codes=codes, weight=weight)


if __name__ == "__main__":
    main(*sys.argv[1:])
