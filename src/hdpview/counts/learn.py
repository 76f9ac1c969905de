"""Learn bounds and frequent categories from a table, for a price: noisy histograms over bins that are fixed
beforehand.

    column ─ bin of each value, by a rule for that value alone ─▶ counts ─ OpenDP noise ─▶ bins that clearly
    hold something ─▶ bounds

Numbers fall into bins by sign and power of two, moments by year: the bins are public, so this is purely
    ε-private. Which texts there
are is not public, so categories need a δ: a text is shown if its noisy count passes a threshold, which a text
    that a single row has
passes with probability δ at most.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import ibis
import numpy as np
from numpy.typing import NDArray

from hdpview.counts.sources import OpenSource, describe, open_source
from hdpview.counts.values import Column, exact_float, harmless, real_number
from hdpview.domain import Attribute, Boolean, Category, Datetime, Integer, Real
from hdpview.errors import DataError, HdpviewError
from hdpview.privacy.budget import Budget
from hdpview.privacy.noise import laplace_scale, laplace_with_threshold, opendp_laplace

_LEAST_POWER, _LARGEST_POWER = (
    -20,
    62,
)  # of two; what is nearer to 0 counts as 0, what is beyond as the last bin
_POWERS = _LARGEST_POWER - _LEAST_POWER + 1
_FIRST_YEAR, _LAST_YEAR = 1900, 2099
_CALENDAR = Datetime(name="any", min=f"{_FIRST_YEAR}-01-01", max=f"{_LAST_YEAR}-12-31", every="1y")
_FALSE_BINS = 0.01  # chance that noise alone passes the threshold anywhere in a column
_MOST_BINS, _MOST_CATEGORIES = 1_000, 1_000


@dataclass(frozen=True)
class Learnt:
    """attributes: what was found; open: columns that need a person's knowledge, such as texts where no δ was
    given or too few rows.
    """

    attributes: tuple[Attribute, ...]
    open: tuple[tuple[str, str], ...]
    charges: tuple[tuple[str, Fraction], ...]


def learn(source: Any, kinds: Mapping[str, str], epsilon: Fraction, delta: Fraction) -> Learnt:
    """Bounds and categories of the columns of a table, for ε in all and δ in all. [P13]

    kinds: per column, the type of attribute it becomes. A row has one value in each column, so the budget is
        divided among the columns.
    """
    asked = {
        name: kind for name, kind in kinds.items() if kind != "boolean" and (kind != "category" or delta > 0)
    }
    budget = Budget(epsilon)
    share = budget.charge(
        "bounds and categories", epsilon / max(1, len(asked)), times=max(1, len(asked))
    )  # [P13]
    n_texts = sum(kind == "category" for kind in asked.values())
    found: dict[str, Attribute | None] = {}
    problem: DataError | None = None
    try:
        with open_source(source, list(kinds)) as opened:
            for name, kind in asked.items():
                found[name] = _learn_column(opened, name, kind, share, delta / max(1, n_texts))
    except HdpviewError:
        raise
    except Exception as refusal:  # its words may quote values
        problem = DataError(
            f"Cannot learn from {describe(source)} ({type(refusal).__name__}). Check that it is complete."
        )
    if problem is not None:
        raise problem
    plain: dict[str, Attribute | None] = {
        name: Boolean(name=name, nullable=True) for name, kind in kinds.items() if kind == "boolean"
    }
    every = {**plain, **found}
    return Learnt(
        attributes=tuple(attribute for name in kinds if (attribute := every.get(name)) is not None),
        open=tuple((name, kind) for name, kind in kinds.items() if every.get(name) is None),
        charges=tuple((charge.purpose, charge.total) for charge in budget.close()),
    )


def _learn_column(
    opened: OpenSource, name: str, kind: str, epsilon: Fraction, delta: Fraction
) -> Attribute | None:
    column = opened.table[name]
    if kind == "category":
        return _category(opened, column, name, epsilon, delta)
    if kind == "datetime":
        bins = _noticed(_counts(opened, _year_bin(column), _LAST_YEAR - _FIRST_YEAR + 1), epsilon)
        if not len(bins):
            return None
        first, last = _FIRST_YEAR + bins[0], _FIRST_YEAR + bins[-1]
        return Datetime(name=name, min=f"{first}-01-01", max=f"{last}-12-31", every="1mo", nullable=True)
    bins = _noticed(_counts(opened, _power_bin(column), 2 * _POWERS + 1), epsilon)
    if not len(bins):
        return None
    low, high = _edges(bins[0])[0], _edges(bins[-1])[1]
    if kind == "real":
        return Real(name=name, min=low, max=high if high > low else low + 1.0, bins=100, nullable=True)
    beyond = (
        math.ceil(high) - 1 if high > 0 else math.floor(high)
    )  # bins of positive numbers lack their upper end, the others have it
    least = math.ceil(low)
    greatest = max(least, min(beyond, 2**62))
    return Integer(
        name=name,
        min=least,
        max=greatest,
        every=max(1, -(-(greatest - least + 1) // _MOST_BINS)),
        nullable=True,
    )


def _power_bin(column: Column) -> Column:
    """0 for the most negative numbers, `_POWERS` for those near 0, 2·`_POWERS` for the largest; null stays
    null. No value raises.
    """
    number = real_number(column)
    size, least = number.abs(), exact_float(2.0**_LEAST_POWER)
    safe = ibis.cases(
        (size < least, least),
        (size > exact_float(2.0**_LARGEST_POWER), exact_float(2.0**_LARGEST_POWER)),
        else_=size,
    )
    power = safe.log2().floor().cast("int64") - (_LEAST_POWER - 1)
    return ibis.cases(
        (number.isnull(), ibis.null("int64")),
        (size < least, _POWERS),
        (number > 0, _POWERS + power),
        else_=_POWERS - power,
    )


def _year_bin(column: Column) -> Column:
    """Years from the first one; moments beyond the calendar are clamped before their year is taken, so none
    raises.
    """
    year = harmless(column, _CALENDAR).year().cast("int64") - _FIRST_YEAR
    last = _LAST_YEAR - _FIRST_YEAR
    return ibis.cases((year < 0, 0), (year > last, last), else_=year)


def _edges(power_bin: int) -> tuple[float, float]:
    """Least and greatest number of a bin."""
    if power_bin == _POWERS:
        return 0.0, 0.0
    power = abs(power_bin - _POWERS) + _LEAST_POWER - 1
    low, high = 2.0**power, 2.0 ** (power + 1)
    return (low, high) if power_bin > _POWERS else (-high, -low)


def _counts(opened: OpenSource, bin_of: Column, n_bins: int) -> NDArray[np.int64]:
    """Rows per bin, shape (n_bins,). One row is in one bin at most."""
    binned = opened.table.select(bin=bin_of)
    kept = binned.filter(binned["bin"].notnull())
    exact_counts = np.zeros(n_bins, np.int64)
    for batch in opened.batches(kept.group_by("bin").aggregate(n=kept.count()), 10_000):
        places = np.clip(np.array(batch["bin"].to_pylist(), dtype=np.int64), 0, n_bins - 1)
        np.add.at(exact_counts, places, np.array(batch["n"].to_pylist(), dtype=np.int64))
    return exact_counts


def _noticed(exact_counts: NDArray[np.int64], epsilon: Fraction) -> list[int]:
    """Bins whose noisy counts noise alone would hardly reach."""
    scale = laplace_scale(epsilon)
    threshold = scale * math.log(len(exact_counts) / (2 * _FALSE_BINS))
    noticed: list[int] = np.flatnonzero(opendp_laplace(exact_counts, scale) > threshold).tolist()
    return noticed


def _category(
    opened: OpenSource, column: Column, name: str, epsilon: Fraction, delta: Fraction
) -> Attribute | None:
    texts = opened.table.select(text=column.cast("string"))
    kept = texts.filter(
        texts["text"].notnull() & (texts["text"].length() > 0) & (texts["text"].length() <= 200)
    )
    exact_counts: dict[str, int] = {}
    for batch in opened.batches(kept.group_by("text").aggregate(n=kept.count()), 100_000):
        exact_counts.update(zip(batch["text"].to_pylist(), batch["n"].to_pylist(), strict=True))
    noisy = laplace_with_threshold(exact_counts, epsilon, delta)
    values = sorted(noisy, key=lambda text: (-noisy[text], text))[:_MOST_CATEGORIES]
    return Category(name=name, values=tuple(sorted(values)), other="other", nullable=True) if values else None
