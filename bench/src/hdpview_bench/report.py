"""The report: the paper's tables beside ours, its figures from our measurements, and a verdict on its
claims.
"""

from __future__ import annotations

import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hdpview.machine import available_cores
from hdpview.progress import Progress
from hdpview_bench import cells as store
from hdpview_bench import experiments, figures, page
from hdpview_bench.accuracy import DEFAULT_LIMITS, Plan, run, summary
from hdpview_bench.cells import Cell
from hdpview_bench.claims import Claim, chosen, judge, number, relative
from hdpview_bench.datasets import DATASETS, dataset_title, in_order
from hdpview_bench.experiments import EPSILON, Scope
from hdpview_bench.originals import ORIGINALS
from hdpview_bench.page import Figure, Part, items, table
from hdpview_bench.report_tables import method_name, paper_tables
from hdpview_bench.workers import Limits

Row = Mapping[str, Any]
NAME = "benchmarks"
_SETTINGS = {
    "partition_share": "ratio ε_r/ε_b",
    "converge_share": "γ",
    "cut_levels_factor": "β",
    "bias_ratio": "α",
}


def write_report(
    scope: Scope,
    folder: Path,
    cells_folder: Path,
    limits: Limits = DEFAULT_LIMITS,
    n_workers: int | None = None,
    progress: Progress | None = None,
) -> tuple[Path, Path]:
    """Measure what is missing in `cells_folder` and write the report into `folder`. Returns the Markdown and
    the HTML page.
    """
    known = store.load(cells_folder)
    run(scope.plans, cells_folder, known, limits, n_workers, progress)
    if progress is not None:
        progress(None, "drawing figures")
    return page.write(report_parts(scope, known), folder, NAME)


def all_rows(scope: Scope, cells_folder: Path) -> list[Row]:
    """The rows behind a finished report."""
    known = store.load(cells_folder)
    return [row for plan in scope.plans for row in summary(plan, known)]


def report_parts(scope: Scope, known: dict[store.Key, Cell]) -> list[Part]:
    """The whole report from finished cells."""
    rows = summary(scope.main, known)
    cuts = [row for plan in scope.cuts for row in summary(plan, known)]
    growth, at_map = summary(scope.growth, known), summary(scope.map, known)
    claims = judge(rows, cuts, growth, at_map)
    return [
        *_opening(scope, rows, claims),
        *paper_tables(scope, rows),
        *_comparison(rows),
        *_blocks(scope, rows, at_map),
        *_cuts_and_growth(cuts, growth),
        *_tuning(scope.tuning, known),
        *_left_out(rows),
        *_data(scope),
    ]


def _opening(scope: Scope, rows: Sequence[Row], claims: Sequence[Claim]) -> list[Part]:
    plan = scope.main
    trials = {row["trials"] for row in rows if row["kind"] == "measured"} or {0}
    told = "–".join(map(str, sorted({min(trials), max(trials)})))
    verdict = {True: "holds", False: "does **not** hold", None: "not measured"}
    held = [sum(claim.holds is wanted for claim in claims) for wanted in (True, False)]
    return [
        "# Benchmarks: the paper's evaluation, measured again",
        (
            f"This page measures {len(plan.methods)} methods on {len(plan.datasets)} datasets and "
            f"{len(plan.workloads)} workloads at ε = {EPSILON} (one record added or removed), with {told} "
            "trials per method and dataset, each with fresh noise, on "
            f"{available_cores()} cores under Python {platform.python_version()}. "
            "An RMSE is the mean over trials of the RMSE over **all** questions of a workload; *relative* "
            "means divided by that of the paper's method (`hdpview`) in the same run. Every method works on "
            "the same codes: the paper's discretisation, which takes bounds from the data and is therefore "
            "**not private** by itself."
        ),
        "Written by `hdpview bench paper`; single rows by `hdpview bench accuracy`.",
        "## The paper's claims",
        (
            f"Of {len(claims)} claims {held[0]} hold here, {held[1]} do not, {len(claims) - sum(held)} were "
            "not measured."
        ),
        table(
            ["the paper says", "here", "measured"],
            [(claim.text, verdict[claim.holds], claim.evidence) for claim in claims],
        ),
    ]


def _comparison(rows: Sequence[Row]) -> list[Part]:
    """Relative errors as a picture, then every RMSE."""
    datasets = in_order([row["dataset"] for row in rows])
    methods = list(dict.fromkeys(row["method"] for row in rows))

    def by_method(value: Callable[[str, str], float | None]) -> str:
        """A table of a value per method and dataset."""
        lines = [(method_name(m), *(number(value(m, name)) for name in datasets)) for m in methods]
        return table(["method", *map(dataset_title, datasets)], lines)

    def mean_relative(method: str, dataset: str) -> float | None:
        errors = relative(rows, method=method, dataset=dataset)
        return statistics.fmean(errors) if errors else None

    def seconds(method: str, dataset: str) -> float | None:
        own = (row["build_s"] for row in chosen(rows, dataset=dataset, method=method))
        return next((each for each in own if each is not None), None)

    most = f"{figures.MOST_TIMES:g}"
    told = f"RMSE relative to HDPView by dataset and workload; larger values are drawn at {most}."
    parts: list[Part] = [
        "## Relative errors",
        Figure("relative-errors", figures.relative_errors(rows), told),
        "Mean over workloads, relative to HDPView:",
        by_method(mean_relative),
        "## All errors",
        "RMSE in records; \\* marks an expected error, known without a release; – is explained below.",
    ]
    for name in datasets:
        errors = _error_rows(chosen(rows, dataset=name), methods)
        parts += [f"### {dataset_title(name)}", table(["workload", *map(method_name, methods)], errors)]
    return [
        *parts,
        "Seconds per release (median over trials, one thread; a peer starts a process of its own):",
        by_method(seconds),
    ]


def _error_rows(rows: Sequence[Row], methods: Sequence[str]) -> list[list[str]]:
    by_cell = {(row["workload"], row["method"]): row for row in rows}
    lines = []
    for workload in dict.fromkeys(row["workload"] for row in rows):
        of_workload = [by_cell.get((workload, method)) for method in methods]
        least = min((row["rmse"] for row in of_workload if row and row["rmse"] is not None), default=None)
        lines.append([workload, *(_error(row, least) for row in of_workload)])
    return lines


def _error(row: Row | None, least: float | None) -> str:
    if row is None or row["rmse"] is None:
        return "–"
    text = number(row["rmse"]) + ("\\*" if row["kind"] == "expected" else "")
    return f"**{text}**" if row["rmse"] == least else text


def _blocks(scope: Scope, rows: Sequence[Row], at_map: Sequence[Row]) -> list[Part]:
    """Numbers of blocks, their deviations on Adult, and the map."""
    data_dir, grown = scope.main.data_dir, scope.blocks_dataset
    kinds = {"HDPView": "hdpview", "PrivTree": "privtree"}
    deviations = {name: experiments.deviations(method, grown, data_dir) for name, method in kinds.items()}
    boxes = {
        name: experiments.one_release(method, scope.map.datasets[0], data_dir)[1].boxes()
        for name, method in kinds.items()
    }
    told = ", ".join(
        f"{method_name(row['method'])} {number(row['rmse'])} ({number(row['blocks'])} blocks)"
        for row in at_map
        if row["rmse"]
    )
    deviating = (
        f"Blocks by absolute deviation on {dataset_title(grown)}, one release each; empty ones are at 0."
    )
    mapped = f"Blocks of {dataset_title(scope.map.datasets[0])}, one release each: "
    mapped += f"{' (left), '.join(kinds)} (right)."
    by_dataset = figures.numbers_of_blocks(chosen(rows, workload=rows[0]["workload"]))
    return [
        "## Blocks",
        Figure("blocks", by_dataset, "Number of blocks by dataset."),
        Figure("deviations", figures.deviation_histogram(deviations), deviating),
        Figure("map", figures.partitions(boxes), mapped, as_pixels=True),
        f"RMSE of 3,000 random 2-D ranges there: {told}.",
    ]


def _cuts_and_growth(cuts: Sequence[Row], growth: Sequence[Row]) -> list[Part]:
    with_numbers = []
    for row in cuts:
        if row["method"].startswith("privtree"):
            (ours,) = chosen(cuts, dataset=row["dataset"], method="hdpview")
            place = {"at a time": int(row["method"].split("=")[-1])}
            with_numbers += [{**row, "method": "PrivTree", **place}, {**ours, "method": "HDPView", **place}]
    steps = [{**row, "attributes": int(row["dataset"].split("@")[1])} for row in growth]
    parts: list[Part] = ["## PrivTree with fewer cuts, and more attributes"]
    if with_numbers:
        chart = figures.lines(with_numbers, "at a time", "attributes cut at a time", "dataset", log=True)
        told = "RMSE of random 2-D ranges when PrivTree cuts this many attributes at a time, in turns."
        parts.append(Figure("cuts", chart, told))
    if steps:
        chart = figures.lines(steps, "attributes", "first so many attributes", "workload", log=True)
        told = "RMSE as attributes are added one by one, in the order of the table."
        parts.append(Figure("growth", chart, told))
    return parts


def _tuning(plans: Sequence[Plan], known: dict[store.Key, Cell]) -> list[Part]:
    """RMSE of random 2-D ranges against each setting, and noise and bias against α."""
    rows: list[dict[str, Any]] = []
    best = []
    for plan in plans:
        measured = [row for row in summary(plan, known) if row["rmse"] is not None]
        swept = [row for row in measured if ":" in row["method"]]
        for row in swept:
            setting, value = row["method"].split(":")[1].split("=")
            panel = f"{_SETTINGS[setting]} on {dataset_title(row['dataset'])}"
            rows.append({**row, "method": "HDPView", "value": float(value), "panel": panel})
        if swept:
            least = min(rows[-len(swept) :], key=lambda row: row["rmse"])
            default = next((row["rmse"] for row in measured if row["method"] == "hdpview"), None)
            told = f"; {number(default / least['rmse'])} times that with the default" if default else ""
            best.append(f"{least['panel']}: least at {least['value']} (RMSE {number(least['rmse'])}{told})")
    if not rows:
        return []
    ratios = [1.05 + 0.05 * i for i in range(60)]
    told = "RMSE of 3,000 random 2-D ranges when one setting varies and the others keep the paper's values."
    return [
        "## Hyperparameters",
        "The paper finds the least error for a ratio of 0.7 to 0.9, γ near 0.9 and α from 1.4 to 1.8. Here:",
        items(best),
        Figure("settings", figures.lines(rows, "value", "value", "panel"), told),
        Figure("noise-and-bias", figures.noise_and_bias(ratios), "λ and δ against α for γ·ε_r = 1."),
    ]


def _left_out(rows: Sequence[Row]) -> list[Part]:
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row["reason"]:
            places = reasons.setdefault(f"{method_name(row['method'])}: {row['reason']}", [])
            if dataset_title(row["dataset"]) not in places:
                places.append(dataset_title(row["dataset"]))
    if not reasons:
        return []
    return [
        "## What was not measured",
        items([f"{reason} ({', '.join(places)})" for reason, places in reasons.items()]),
    ]


def _data(scope: Scope) -> list[Part]:
    """The origin of each table, and how its copy was checked."""
    shape = "its rows and columns are checked, because no checksum could be established"
    told = []
    for name in in_order([*scope.main.datasets, *scope.map.datasets]):
        dataset = DATASETS.get(name.partition("@")[0])
        original = None if dataset is None else ORIGINALS.get(dataset.file)
        origin = "records from a local file"
        if dataset is None:
            origin = "invented records that come with the library"
        elif original is not None:
            checked = "SHA-256" if all(checksum for _, checksum in original.files) else shape
            place = f"of {original.rows:,} published at {original.files[0][0]}"
            origin = f"records used here, {place} ({checked})"
        n_records = experiments.table_facts(name, scope.main.data_dir)["records"]
        told.append(f"{dataset_title(name)}: {n_records:,} {origin}")
    checks = (
        "Without `--data-dir`, tables are downloaded from their publishers and cached. The two files of "
        "Adult are checked by SHA-256, with the sums that several other projects use; for the others, only "
        "rows and columns are checked. Local copies are not checked."
    )
    return ["## The data", checks, items(told)]
