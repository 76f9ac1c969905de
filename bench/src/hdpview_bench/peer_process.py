"""Run one foreign method in a separate process: `python peer_process.py IN.npz OUT.npz`. Imports nothing of
this package.

So it also runs under another interpreter with conflicting packages. IN holds the records' codes (n, d), the
number of codes of each attribute, the name of the method, ε, δ and a limit of computing time in seconds; OUT
gets synthetic codes (d, m) and the weight of each.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int64]
_MOST_TRIES = 8
_AIM_MEGABYTES = 80  # of the model: recommended by its authors for comparisons, and OpenDP's default
_FEWEST_RECORDS = 2**18  # more records than the table has, with smaller weights, to reduce sampling error


def zcdp_budget(epsilon: float, delta: float) -> float:
    """The largest ρ for which ρ-zCDP implies (ε, δ)-differential privacy (bound of Canonne, Kamath, Steinke
    2020).
    """
    low, high = 0.0, epsilon
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _delta_of(middle, epsilon) <= delta else (low, middle)
    return low


def _delta_of(rho: float, epsilon: float) -> float:
    """Minimum over orders α of exp((α − 1)(αρ − ε))·(1 − 1/α)^α/(α − 1), by bisection of the derivative of
    its logarithm.
    """
    if rho == 0:
        return 0.0
    low, high = 1.0 + 1e-9, (epsilon + 1) / (2 * rho) + 2
    for _ in range(100):
        alpha = (low + high) / 2
        slope = (2 * alpha - 1) * rho - epsilon + math.log1p(-1 / alpha)
        low, high = (alpha, high) if slope < 0 else (low, alpha)
    return math.exp((alpha - 1) * (alpha * rho - epsilon) + alpha * math.log1p(-1 / alpha)) / (alpha - 1)


def opendp_codes(
    algorithm: str, codes: Codes, sizes: list[int], epsilon: float, delta: float
) -> tuple[Codes, float]:
    """Records of OpenDP's MST or AIM, shape (d, m), and the weight of each.

    Cuts between codes distinguish them; keys would add a code for missing values to each attribute.
    """
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    cuts = {
        f"a{i}": list(range(size - 1)) for i, size in enumerate(sizes) if size > 1
    }  # an attribute with one code has nothing to learn
    data = pl.LazyFrame({column: codes[:, int(column[1:])] for column in cuts})

    def table_with(rho: float) -> Any:
        unit, loss = dp.unit_of(contributions=1), dp.loss_of(rho=rho)
        context = dp.Context.compositor(data=data, privacy_unit=unit, privacy_loss=loss)
        chosen = {"mst": dp.mbi.MST, "aim": dp.mbi.AIM}[algorithm]()
        return context.query(rho=rho).contingency_table(cuts=cuts, algorithm=chosen).release()

    table = _despite_rounding(table_with, zcdp_budget(epsilon, delta))
    n_records, weight = _records_and_weight(float(table.model.total))
    records = np.zeros((len(sizes), n_records), dtype=np.int64)
    for column, drawn in _records_of(table.model, n_records).items():
        records[int(column[1:])] = drawn
    return records, weight


def _records_of(model: Any, n_records: int) -> dict[str, Codes]:
    """Records of a fitted Markov random field of `mbi`: one attribute after the other, given those before it
    in its cliques.

    Its own routine is not used: the version pinned by OpenDP links attributes that are conditionally
    independent and omits other links (fixed in mbi pull request 145), which would make the method look worse.
    """
    from mbi import junction_tree, marginal_oracles

    tree, elimination = junction_tree.make_junction_tree(
        model.domain, [set(clique) for clique in model.cliques]
    )
    marginals = marginal_oracles.message_passing_stable(model.potentials.expand(list(tree.nodes)))
    rng, records = np.random.default_rng(), dict[str, Codes]()
    for column in reversed(elimination):
        beside = {other for clique in tree.nodes if column in clique for other in clique}
        parents = [other for other in records if other in beside]
        table = np.asarray(marginals.project((*parents, column)).datavector(flatten=False), dtype=np.float64)
        records[column] = drawn_given([records[parent] for parent in parents], table, n_records, rng)
    return records


def drawn_given(
    parents: list[Codes], table: NDArray[np.float64], n_records: int, rng: np.random.Generator
) -> Codes:
    """A code for each record, shape (n,), in proportion to the row of the table that its parents' codes name.

    Records with the same parents get each code in proportion to its share, rounded, in random order. table:
    one axis per parent, then that of the codes.
    """
    group = (
        np.ravel_multi_index(tuple(parents), table.shape[:-1])
        if parents
        else np.zeros(n_records, dtype=np.int64)
    )
    order = np.lexsort((rng.random(n_records), group))
    names, starts, counts = np.unique(group[order], return_index=True, return_counts=True)
    number = np.repeat(np.arange(len(names)), counts)
    place = (np.arange(n_records) - starts[number] + rng.random(len(names))[number]) / counts[
        number
    ]  # evenly spread over [0, 1)
    running = np.maximum(table.reshape(-1, table.shape[-1])[names], 1e-300).cumsum(axis=1)
    ends = running / running[:, -1:] + np.arange(len(names))[:, None]
    drawn = np.searchsorted(ends.reshape(-1), place + number, side="right") - number * table.shape[-1]
    codes = np.empty(n_records, dtype=np.int64)
    codes[order] = np.minimum(drawn, table.shape[-1] - 1)
    return codes


def dpmm_codes(
    algorithm: str, codes: Codes, sizes: list[int], epsilon: float, delta: float
) -> tuple[Codes, float]:
    """Records of dpmm's MST or AIM, shape (d, m), and the weight of each. Its own discretisation is off,
    because the input is codes.
    """
    import pandas as pd
    from dpmm.pipelines import AIMPipeline, MSTPipeline

    columns = [f"a{i}" for i in range(len(sizes))]
    settings: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "disable_processing": True, "n_jobs": 1}
    if algorithm == "aim":
        pipeline = AIMPipeline(**settings, max_model_size=_AIM_MEGABYTES)
    else:
        pipeline = MSTPipeline(**settings)
    pipeline.fit(pd.DataFrame(codes, columns=columns), domain=dict(zip(columns, sizes, strict=True)))
    n_records, weight = _records_and_weight(float(pipeline.gen.generator.model.total))
    records = pipeline.generate(n_records=n_records)
    return records[columns].to_numpy().T.astype(np.int64), weight


def _records_and_weight(noisy_total: float) -> tuple[int, float]:
    """The number of records to synthesise, and the weight of each."""
    total = max(1.0, noisy_total)
    n_records = max(_FEWEST_RECORDS, round(total))
    return n_records, total / n_records


def _despite_rounding(release: Callable[[float], Any], rho: float) -> Any:
    """Rounded shares of a budget may exceed it in the last digit, which OpenDP refuses; then try slightly
    less.

    Whether that happens depends on the budget and the number of attributes, not on the data, and nothing of a
    refused try is kept.
    """
    for tries in range(_MOST_TRIES):
        try:
            return release(rho * (1 - tries * 1e-6))
        except Exception as error:  # its own exceptions arrive wrapped, so only the message identifies them
            if "insufficient budget" not in str(error) or tries == _MOST_TRIES - 1:
                raise
    raise AssertionError


def main(source: str, target: str) -> None:
    """Read the input file, run the method, and write the output file."""
    given = np.load(source, allow_pickle=False)
    _limit_computing(float(given["seconds"]))
    package, _, algorithm = str(given["name"]).rpartition("-")
    release = dpmm_codes if package == "dpmm" else opendp_codes
    codes, weight = release(
        algorithm,
        given["codes"].astype(np.int64),
        given["sizes"].tolist(),
        float(given["epsilon"]),
        float(given["delta"]),
    )
    np.savez(target, codes=codes, weight=weight)


def _limit_computing(seconds: float) -> None:
    """End after so many seconds of CPU time, if the system supports it; keep a lower limit that is already
    set.
    """
    try:
        import resource
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    limits = [limit for limit in (soft, hard, math.ceil(seconds)) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_CPU, (min(limits), hard))
    resource.setrlimit(
        resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1])
    )  # a core dump would contain the records


def _end_with(parent: int) -> None:
    """End this process when its parent ends."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    main(*sys.argv[1:])
