"""The paper's four tables with our figures beside its own, and display names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hdpview_bench import experiments, published
from hdpview_bench.claims import averages, blocks_of, chosen, number, relative
from hdpview_bench.datasets import dataset_title, in_order
from hdpview_bench.experiments import BYTES_PER_CELL, Scope
from hdpview_bench.page import table

Row = Mapping[str, Any]


_AVERAGES = (
    "method | relative RMSE, paper | relative RMSE, here | cells it could do | relative size, paper | "
    "relative size, here"
)
_PROPERTIES = (
    "workload independence | analytical reliability | noise resistance in many attributes | space efficiency"
)
_DATASETS = (
    "dataset | records | columns (categories) | cells, paper | cells, here | variance, paper | variance, here"
)
_SIZES = "dataset | all cells, paper | view, paper | all cells, here | view, here"
_ON_DOMAINS = "The paper's domains of Adult, Bitcoin and Phoneme do not follow from its own binning; ours do:"


def paper_tables(scope: Scope, rows: Sequence[Row]) -> list[str]:
    """The paper's four tables, each with our figures beside its own."""
    data_dir, means, sizes = scope.main.data_dir, averages(rows), _relative_sizes(scope, rows)
    facts = {name: experiments.table_facts(name, data_dir) for name in in_order(scope.main.datasets)}
    offered, n_cells = published.PROPERTIES, len(chosen(rows, method="hdpview"))
    properties = zip(_PROPERTIES.split(" | "), *offered.values(), strict=True)
    compared = [
        (
            method_name(method),
            number(published.AVERAGE_RELATIVE_RMSE.get(method)),
            number(means.get(method)),
            f"{len(relative(rows, method=method))} of {n_cells}",
            number(published.AVERAGE_RELATIVE_SIZE.get(method)),
            number(sizes.get(method)),
        )
        for method in dict.fromkeys([*published.AVERAGE_RELATIVE_RMSE, *means])
    ]
    stored = [
        (
            dataset_title(name),
            *published.SIZES.get(name, ("–", "–")),
            bytes_told(known["cells"] * BYTES_PER_CELL),
            bytes_told(experiments.file_bytes(name, data_dir)),
        )
        for name, known in facts.items()
    ]
    return [
        "## The paper's tables",
        "Table 1, what each method offers, as the paper states it:",
        table(["", *map(method_name, offered)], list(properties)),
        "Table 2, averages over datasets and workloads, relative to HDPView. Sizes are numbers of blocks:",
        table(_AVERAGES.split(" | "), compared),
        f"Table 3, the datasets. {_ON_DOMAINS}",
        table(_DATASETS.split(" | "), [_dataset_row(*each) for each in facts.items()]),
        "Table 4, sizes: a noisy count of four bytes for every cell, and the view as a file:",
        table(_SIZES.split(" | "), stored),
    ]


def _relative_sizes(scope: Scope, rows: Sequence[Row]) -> dict[str, float]:
    """Mean over datasets of the number of blocks relative to HDPView's. A method that releases all cells has
    one block per cell.
    """
    sizes = {}
    for method in scope.main.methods:
        ratios = []
        for dataset in scope.main.datasets:
            ours, theirs = blocks_of(rows, dataset, "hdpview"), blocks_of(rows, dataset, method)
            if method in published.DENSE:
                theirs = float(experiments.table_facts(dataset, scope.main.data_dir)["cells"])
            if ours and theirs:
                ratios.append(theirs / ours)
        if ratios:
            sizes[method] = sum(ratios) / len(ratios)
    return sizes


def _dataset_row(name: str, facts: Mapping[str, Any]) -> tuple[str, ...]:
    paper = published.DATASETS.get(name)
    return (
        dataset_title(name),
        f"{facts['records']:,}",
        f"{facts['columns']} ({facts['categories']})",
        number(paper[3]) if paper else "–",
        number(float(facts["cells"])),
        f"{paper[4]:.4f}" if paper else "–",
        f"{facts['variance']:.4f}",
    )


def method_name(method: str) -> str:
    return published.METHOD_NAMES.get(method, method)


def bytes_told(n: float) -> str:
    units = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB")
    power = 0
    while n >= 1024 and power < len(units) - 1:
        n, power = n / 1024, power + 1
    return f"{n:.3g} {units[power]}" if n < 1000 else f"{n:,.0f} {units[power]}"
