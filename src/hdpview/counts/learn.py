"""Learn bounds and frequent categories from a table, at a cost: noisy histograms over fixed bins.

    column ─ bin of each value, from this value alone ─▶ counts ─ noise ─▶ bins that hold something

Numbers fall into bins by sign and power of two, dates by year. The bins are public, so this needs no δ. The
list of texts is private, so categories need a δ: a text is reported if its noisy count exceeds a threshold; a
text held by one row does so with probability at most δ.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from hdpview.counts.contributions import EACH_ROW, EACH_ROW_UNIT, Contributions
from hdpview.counts.encode import State, name_sql, plain_sql
from hdpview.counts.ingest import ReadOptions, rows_sql
from hdpview.counts.refusals import quoting_no_value
from hdpview.counts.sources import OpenSource, open_source
from hdpview.domain import Attribute, Boolean, Category, Datetime, Integer, Real, Schema, TextFormat
from hdpview.domain.text_format import PLAIN
from hdpview.errors import BudgetError, DataError
from hdpview.privacy.exact import Exact
from hdpview.privacy.ledger import Ledger, Receipt
from hdpview.privacy.mechanism import Mechanism
from hdpview.privacy.randomness import Randomness

# Powers of two from 2⁻²⁰ to 2⁶³: values nearer to 0 count as 0, values beyond fall into the last bin.
_POWERS = [2.0**power for power in range(-20, 64)]
# Ends of the bins of numbers; the middle bin holds 0.
EDGES = (*(-power for power in reversed(_POWERS)), *_POWERS)
_FIRST_YEAR = 1900
_NUMBERS = Real(name="any", explicit_edges=EDGES, nullable=True)
# Attribute whose codes serve as the bins of a column, by the column's kind.
_BINS: dict[str, Attribute] = {
    "integer": _NUMBERS,
    "real": _NUMBERS,
    "datetime": Datetime(name="any", min=f"{_FIRST_YEAR}-01-01", max="2099-12-31", every="1y", nullable=True),
    "category": Category(name="any", values=("any",)),
}
_PURPOSE = "bounds and categories"
_FALSE_BINS = 0.01  # chance that noise alone passes the threshold anywhere in a column
_MOST_BINS = 1_000
MOST_CATEGORIES = 1_000
_LONGEST_TEXT = 200  # characters of a category
# OpenDP certifies δ down to 2⁻⁵³ per column; this leaves room for a thousand text columns.
_LEAST_DELTA = Fraction(1, 10**12)


@dataclass(frozen=True)
class Learnt:
    """kinds: per column, the type of its attribute. attributes: learnt attributes by column; the curator must
    describe the others, such as texts without a δ, or with too few rows.
    """

    kinds: dict[str, str]
    attributes: dict[str, Attribute]


def learn_charged(
    ledger: Ledger,
    table: str,
    source: Any,
    kinds: Mapping[str, str],
    epsilon: Fraction,
    delta: Fraction,
    limits: Contributions,
    text: TextFormat = PLAIN,
    *,
    resume: bool | None = False,
    on_charge: Callable[[Receipt], object],
) -> Learnt:
    """Like `learn`, but charges a ledger once everything that can fail has succeeded. [P12]

    resume: finish an interrupted learning with the same terms, and charge nothing. None: if there is one.
    on_charge: called with the receipt; call its `name_view` once the result is written, which rules out a
        later resume.
    """
    if 0 < delta < _LEAST_DELTA:
        least = f"{float(_LEAST_DELTA):g} or more, such as 1e-9"
        raise BudgetError(f"Categories are learnt for a delta of {least}, not {float(delta):g}.")
    order = {"learn": dict(kinds), "text": text.to_dict(), "limits": repr(limits)}
    order |= {"epsilon": str(epsilon), "delta": str(delta)}
    resume = bool(ledger.unfinished(table, order)) if resume is None else resume
    if not resume:
        ledger.check(table, epsilon, delta)
    terms = ("learn bounds", limits.unit or EACH_ROW_UNIT, limits.max_rows, delta)
    charged = ledger.charged(table, epsilon, *terms, order=order, resume=resume)
    return learn(source, kinds, epsilon, delta, limits, text, charged, on_charge)


def learn(
    source: Any,
    kinds: Mapping[str, str],
    epsilon: Fraction,
    delta: Fraction,
    limits: Contributions = EACH_ROW,
    text: TextFormat = PLAIN,
    charged: AbstractContextManager[Receipt] | None = None,
    on_charge: Callable[[Receipt], object] = lambda _: None,
) -> Learnt:
    """Bounds and categories of the columns of a table, for a total ε and δ. [P13]

    kinds: per column, the type of its attribute from a draft. A row has one value in each column, so the
        budget is divided among the columns.
    limits: the privacy unit, and the most rows used per person.
    text: the format that the curator states: signs, dates and marks for missing values.
    charged: entered after all checks of public facts, before any draw.
    """
    _check_learnable(kinds, delta)
    asked = {  # columns that budget is spent on
        name: kind for name, kind in kinds.items() if kind != "boolean" and (kind != "category" or delta > 0)
    }
    delta_of_text = delta / max(1, list(asked.values()).count("category"))

    def read() -> Learnt:
        columns = [*kinds, *limits.columns]
        with open_source(source, columns, exact_text=limits.columns, text=text) as opened:
            limits.check(opened.types)
            # Read the rows as learning will, so that a refusal of the table comes before the charge.
            _keep_rows(opened, asked, limits, text)
            with charged or nullcontext() as receipt:
                if receipt is not None:
                    on_charge(receipt)
                mechanism = Mechanism(
                    epsilon,
                    Randomness.fresh(),
                    delta=delta,
                    max_rows=limits.max_rows,
                    law="laplace",
                    outcomes=None if receipt is None else receipt.outcomes,
                )
                amount = mechanism.total / len(asked)
                learnt: dict[str, Attribute | None] = {
                    name: _category(opened, mechanism, i, name, amount, delta_of_text)
                    if kind == "category"
                    else _ordered(opened, mechanism, i, name, kind, amount)
                    for i, (name, kind) in enumerate(asked.items())
                }
                mechanism.close()
        learnt |= {name: Boolean(name=name, nullable=True) for name in kinds if kinds[name] == "boolean"}
        return Learnt(dict(kinds), {name: own for name in kinds if (own := learnt.get(name)) is not None})

    return quoting_no_value(source, read)


def _check_learnable(kinds: Mapping[str, str], delta: Fraction) -> None:
    """Refuse before any charge if learning cannot succeed: invalid names, or nothing to learn."""
    for name in kinds:
        Boolean(name=name)
    free = {"boolean"} if delta else {"boolean", "category"}
    if free.issuperset(kinds.values()):
        raise DataError(
            "These columns hold only texts. Learning text values needs a delta, because the list of values "
            "is itself private. Nothing was spent. Add a delta such as 1e-9."
            if "category" in kinds.values()
            else "The columns to learn are all truth values, which need no learning. Nothing was spent."
        )


def _keep_rows(opened: OpenSource, asked: Mapping[str, str], limits: Contributions, text: TextFormat) -> None:
    """Keep bins and texts of the rows that count: all, or at most k random ones per person. [P13]"""
    schema = Schema([replace(_BINS[kind], name=name) for name, kind in asked.items()], source=text)
    texts = {
        f"t_{i}": f"CAST({plain_sql(name_sql(name), opened.types[name], _BINS[kind], text)} AS VARCHAR)"
        for i, (name, kind) in enumerate(asked.items())
        if kind == "category"
    }
    rows = rows_sql(opened.types, schema, ReadOptions(limits, secrets.token_hex(16)), texts)
    opened.connection.execute(f"CREATE OR REPLACE TEMP TABLE learnt AS {rows}")


def _ordered(
    opened: OpenSource, mechanism: Mechanism, position: int, name: str, kind: str, amount: Fraction
) -> Attribute | None:
    """Bounds of numbers or dates: the first and last bins with noisy counts unlikely to be noise alone."""
    n_bins = _BINS[kind].n_values
    exact_counts = np.zeros(n_bins + len(State), np.int64)  # a row is in at most one bin
    for row in opened.rows(f"SELECT o_{position} AS o, count(*) AS n FROM learnt GROUP BY o"):
        exact_counts[row["o"]] = row["n"]
    exact_bins, exact_states = np.split(exact_counts, [n_bins])
    exact_bins[0] += exact_states[State.BELOW]
    exact_bins[-1] += exact_states[State.ABOVE]
    threshold = mechanism.noise(amount).scale * math.log(n_bins / (2 * _FALSE_BINS))
    noisy = mechanism.noisy(f"{_PURPOSE}: {name}", Exact(exact_bins), amount)  # [P13]
    noticed = [int(bin_) for bin_ in np.flatnonzero(noisy > threshold)]
    if not noticed:
        return None
    if kind == "datetime":
        first, last = _FIRST_YEAR + noticed[0], _FIRST_YEAR + noticed[-1]
        return Datetime(name=name, min=f"{first}-01-01", max=f"{last}-12-31", every="1mo", nullable=True)
    low, high = EDGES[noticed[0]], EDGES[noticed[-1] + 1]
    low, high = 0.0 if low == -_POWERS[0] else low, 0.0 if high == _POWERS[0] else high  # the middle bin
    if kind == "real":
        return real_between(name, low, high, nullable=True)
    least, beyond = math.ceil(low), math.ceil(high) - 1 if high else 0  # bins exclude their upper end
    return integer_between(name, least, max(least, min(beyond, 2**62)), nullable=True)


def _category(
    opened: OpenSource, mechanism: Mechanism, position: int, name: str, amount: Fraction, delta: Fraction
) -> Attribute | None:
    """Frequent texts, except those too long for a schema or with a NUL. [P13]"""
    text = f"t_{position}"
    query = (
        f"SELECT {text} AS text, count(*) AS n FROM learnt "
        f"WHERE length({text}) BETWEEN 1 AND {_LONGEST_TEXT} GROUP BY text"
    )
    exact_counts = {row["text"]: row["n"] for row in opened.rows(query) if "\0" not in row["text"]}
    noisy = mechanism.frequent(f"{_PURPOSE}: {name}", Exact(exact_counts), amount, delta)  # [P13]
    values = sorted(noisy, key=lambda text: (-noisy[text], text))[:MOST_CATEGORIES]
    return Category(name=name, values=tuple(sorted(values)), other="other", nullable=True) if values else None


def integer_between(name: str, least: int, greatest: int, nullable: bool) -> Integer:
    """Whole numbers in at most a thousand bins of the smallest possible width."""
    every = max(1, -(-(greatest - least + 1) // _MOST_BINS))
    return Integer(name=name, min=least, max=greatest, every=every, nullable=nullable)


def real_between(name: str, low: float, high: float, nullable: bool) -> Real:
    """Real numbers in a hundred bins; from `low` to `low` + 1 if all are equal."""
    return Real(name=name, min=low, max=high if high > low else low + 1.0, bins=100, nullable=nullable)
