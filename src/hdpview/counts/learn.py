"""Learn bounds and frequent categories from a table, for a price: noisy histograms over bins fixed
beforehand.

    column ─ bin of each value, by a rule for that value alone ─▶ counts ─ noise ─▶ bins that hold something

Numbers fall into bins by sign and power of two, moments by year: the bins are public, so this is purely
ε-private. Which texts there are is not public, so categories need a δ: a text is reported if its noisy count
exceeds a threshold; a text held by one row does so with probability at most δ.
"""

from __future__ import annotations

import math
import secrets
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import ibis
import numpy as np

from hdpview.counts.contributions import EACH_ROW, EACH_ROW_UNIT, Contributions, bounded, md5
from hdpview.counts.plain_text import plain_text
from hdpview.counts.refusals import quoting_no_value
from hdpview.counts.sources import OpenSource, open_source, step_by_step
from hdpview.counts.values import Column, exact_float, make_castable, real_number
from hdpview.domain import Attribute, Boolean, Category, Datetime, Integer, Real, TextFormat
from hdpview.domain.text_format import PLAIN
from hdpview.errors import BudgetError, DataError
from hdpview.privacy.exact import Exact
from hdpview.privacy.ledger import Ledger, Receipt
from hdpview.privacy.mechanism import Mechanism, Outcomes
from hdpview.privacy.randomness import Randomness

# Powers of two: what is nearer to 0 counts as 0, what is beyond as the last bin.
_LEAST_POWER = -20
_LARGEST_POWER = 62
_POWERS = _LARGEST_POWER - _LEAST_POWER + 1
_FIRST_YEAR = 1900
_LAST_YEAR = 2099
_CALENDAR = Datetime(name="any", min=f"{_FIRST_YEAR}-01-01", max=f"{_LAST_YEAR}-12-31", every="1y")
# An attribute of each kind, by which texts are put into plain spelling.
_PLAIN_KINDS: dict[str, Attribute] = {
    "integer": Integer(name="any", min=0, max=1),
    "real": Real(name="any", min=0.0, max=1.0, bins=1),
    "datetime": _CALENDAR,
    "category": Category(name="any", values=("any",)),
}
_FALSE_BINS = 0.01  # chance that noise alone passes the threshold anywhere in a column
_MOST_BINS = 1_000
MOST_CATEGORIES = 1_000
_LONGEST_TEXT = 200  # characters of a category
# OpenDP certifies down to 2⁻⁵³, of which a thousand columns of texts get a share each.
_LEAST_DELTA = Fraction(1, 10**12)


@dataclass(frozen=True)
class Learnt:
    """kinds: per column, the type of attribute it becomes. attributes: what was learnt, by column; the others
    need a person's knowledge, such as texts where no δ was given or too few rows.
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
    """As `learn`, for a budget that is charged to a ledger when all that can fail has been tried. [P12]

    resume: finish a learning of the same terms that broke off, and charge nothing. None: if there is one.
    on_charge: called with the receipt, whose `name_view` ends the chance to resume: call it when the result
        is written.
    """
    if 0 < delta < _LEAST_DELTA:
        raise BudgetError(
            f"Categories are learnt for a delta of {float(_LEAST_DELTA):g} or more, such as 1e-9, not "
            f"{float(delta):g}."
        )
    order = {"learn": dict(kinds), "text": text.to_dict(), "limits": repr(limits)}
    order |= {"epsilon": str(epsilon), "delta": str(delta)}
    resume = ledger.is_unfinished(table, order) if resume is None else resume
    if not resume:
        ledger.check(table, epsilon, delta)

    @contextmanager
    def charged() -> Iterator[Outcomes]:
        terms = ("learn bounds", limits.unit or EACH_ROW_UNIT, limits.max_rows, delta)
        with ledger.charged(table, epsilon, *terms, order=order, resume=resume) as receipt:
            on_charge(receipt)
            yield receipt.outcomes

    return learn(source, kinds, epsilon, delta, limits, text, charged)


def learn(
    source: Any,
    kinds: Mapping[str, str],
    epsilon: Fraction,
    delta: Fraction,
    limits: Contributions = EACH_ROW,
    text: TextFormat = PLAIN,
    charged: Callable[[], AbstractContextManager[Outcomes]] = lambda: nullcontext(Outcomes()),
) -> Learnt:
    """Bounds and categories of the columns of a table, for ε in all and δ in all. [P13]

    kinds: per column, the type of attribute it becomes, by a draft. A row has one value in each column, so
        the budget is divided among the columns.
    limits: who is protected. Of each person at most `max_rows` rows are looked at.
    text: how texts are written, by the curator's word: signs, dates and marks for missing values.
    charged: entered after all checks of public facts, before any draw; gives what was drawn before.
    """
    _check_learnable(kinds, delta)

    def read() -> Learnt:
        columns = [*kinds, *limits.columns]
        with open_source(source, columns, exact_text=limits.columns, text=text) as opened:
            limits.check(opened.types)
            learning = _Learning(opened, limits, text, delta)
            # Read the rows as learning will, so that a refusal of the table comes before the charge.
            learning.prepare(kinds)
            with charged() as outcomes:
                return Learnt(dict(kinds), learning.attributes(kinds, epsilon, outcomes))

    return quoting_no_value(source, read)


def _check_learnable(kinds: Mapping[str, str], delta: Fraction) -> None:
    """Refuse what cannot succeed, before anything is charged: names no schema can have, nothing to learn."""
    for name in kinds:
        Boolean(name=name)
    texts = [name for name, kind in kinds.items() if kind == "category"]
    if all(kind in ("boolean", "category") for kind in kinds.values()) and not (texts and delta):
        why = (
            "These columns hold only texts. Learning text values needs a delta, because the list of values "
            "is itself private. Nothing was spent. Add a delta such as 1e-9."
            if texts
            else "The columns to learn are truth values, of which everything is known. Nothing was spent."
        )
        raise DataError(why)


class _Learning:
    """What one budget learns about the columns of a table that is open."""

    def __init__(self, opened: OpenSource, limits: Contributions, text: TextFormat, delta: Fraction) -> None:
        self.opened, self.limits, self.text, self.delta = opened, limits, text, delta
        self._known: tuple[dict[str, str] | None, ibis.Table] = (None, opened.table)

    def attributes(
        self, kinds: Mapping[str, str], epsilon: Fraction, outcomes: Outcomes
    ) -> dict[str, Attribute]:
        """What was learnt of each column, in their order. outcomes: what was drawn for that before."""
        budget = {"delta": self.delta, "max_rows": self.limits.max_rows, "outcomes": outcomes}
        self.mechanism = Mechanism(epsilon, Randomness.fresh(), law="laplace", **budget)  # type: ignore[arg-type]
        asked, rows = self._asked(kinds), self.prepare(kinds)
        amount = self.mechanism.total / len(asked)
        learnt: dict[str, Attribute | None] = {
            name: Boolean(name=name, nullable=True) for name, kind in kinds.items() if kind == "boolean"
        }
        n_texts = sum(kind == "category" for kind in asked.values())
        for name, kind in asked.items():
            if kind == "category":
                learnt[name] = self._category(rows, name, amount, self.delta / n_texts)
            else:
                learnt[name] = self._ordered(rows, name, kind, amount)
        self.mechanism.close()
        return {name: attribute for name in kinds if (attribute := learnt.get(name)) is not None}

    def _asked(self, kinds: Mapping[str, str]) -> dict[str, str]:
        """Columns that budget is spent on."""
        return {
            name: kind
            for name, kind in kinds.items()
            if kind != "boolean" and (kind != "category" or self.delta > 0)
        }

    def prepare(self, kinds: Mapping[str, str]) -> ibis.Table:
        """The rows that count, with the bins and texts of all columns that are asked about. Read once."""
        asked = self._asked(kinds)
        if asked == self._known[0]:
            return self._known[1]
        table = _plain_table(self.opened.table, asked, self.text, self.limits)
        texts = {name: table[name].cast("string") for name, kind in asked.items() if kind == "category"}
        bins = {
            name: _year_bin(table[name]) if kind == "datetime" else _power_bin(table[name])
            for name, kind in asked.items()
            if kind != "category"
        }
        self._known = asked, self._rows(table, bins, texts)
        return self._known[1]

    def _rows(self, table: ibis.Table, bins: Mapping[str, Column], texts: Mapping[str, Column]) -> ibis.Table:
        """Bins and texts of the rows that count: all, or of each person a choice of at most k. [P13]

        Columns `bin of …` and `text of …`. In a database of our own they are stored, since a stream is read
        once.
        """
        limits, opened = self.limits, self.opened
        columns = [column.name(f"bin of {name}") for name, column in bins.items()]
        columns += [column.name(f"text of {name}") for name, column in texts.items()]
        if limits.unit is None:
            rows = table.select(*columns)
        else:
            numbered = [*bins.values(), *(md5(text) for text in texts.values())]
            words = [column.name(f"word_{i}") for i, column in enumerate(numbered)]
            kept = table.select(table[limits.unit].name("unit"), *words, *columns)
            names = [column.get_name() for column in columns]
            rows = bounded(kept, limits, secrets.token_hex(16), is_ours=opened.is_ours).select(*names)
        if not opened.is_ours:
            return rows
        stored = f"learnt_{secrets.token_hex(4)}"
        with step_by_step(), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Ibis calls DuckDB by names that it renamed
            opened.backend.con.execute(f"CREATE TEMP TABLE {stored} AS {opened.backend.compile(rows)}")
            return opened.backend.table(stored)

    def _counts(self, rows: ibis.Table, name: str, n_bins: int) -> Exact:
        """Rows per bin of a column, shape (n_bins,). One row is in one bin at most."""
        binned = rows.select(bin=rows[f"bin of {name}"])
        kept = binned.filter(binned["bin"].notnull())
        exact_counts = np.zeros(n_bins, np.int64)
        for batch in self.opened.batches(kept.group_by("bin").aggregate(n=kept.count()), 10_000):
            places = np.clip(np.array(batch["bin"].to_pylist(), dtype=np.int64), 0, n_bins - 1)
            np.add.at(exact_counts, places, np.array(batch["n"].to_pylist(), dtype=np.int64))
        return Exact(exact_counts)

    def _ordered(self, rows: ibis.Table, name: str, kind: str, amount: Fraction) -> Attribute | None:
        """Bounds of numbers or moments."""
        n_bins = _LAST_YEAR - _FIRST_YEAR + 1 if kind == "datetime" else 2 * _POWERS + 1
        bins = self._noticed(rows, name, n_bins, amount)
        if not bins:
            return None
        if kind == "datetime":
            first, last = _FIRST_YEAR + bins[0], _FIRST_YEAR + bins[-1]
            return Datetime(name=name, min=f"{first}-01-01", max=f"{last}-12-31", every="1mo", nullable=True)
        low, high = _edges(bins[0])[0], _edges(bins[-1])[1]
        if kind == "real":
            return real_between(name, low, high, nullable=True)
        # bins of positive numbers lack their upper end, the others have it
        beyond = math.ceil(high) - 1 if high > 0 else math.floor(high)
        least = math.ceil(low)
        return integer_between(name, least, max(least, min(beyond, 2**62)), nullable=True)

    def _noticed(self, rows: ibis.Table, name: str, n_bins: int, amount: Fraction) -> list[int]:
        """Bins whose noisy counts noise alone would hardly reach."""
        exact_counts = self._counts(rows, name, n_bins)
        threshold = self.mechanism.noise(amount).scale * math.log(n_bins / (2 * _FALSE_BINS))
        noisy = self.mechanism.noisy(f"bounds and categories: {name}", exact_counts, amount)  # [P13]
        noticed: list[int] = np.flatnonzero(noisy > threshold).tolist()
        return noticed

    def _category(self, rows: ibis.Table, name: str, amount: Fraction, delta: Fraction) -> Attribute | None:
        """Frequent texts. Longer ones than a schema holds, and those with a NUL, are none. [P13]"""
        texts = rows.select(text=rows[f"text of {name}"])
        length = texts["text"].length()
        kept = texts.filter(texts["text"].notnull() & (length > 0) & (length <= _LONGEST_TEXT))
        exact_counts: dict[str, int] = {}
        for batch in self.opened.batches(kept.group_by("text").aggregate(n=kept.count()), 100_000):
            counted = zip(batch["text"].to_pylist(), batch["n"].to_pylist(), strict=True)
            exact_counts.update((text, n) for text, n in counted if "\0" not in text)
        purpose = f"bounds and categories: {name}"
        noisy = self.mechanism.frequent(purpose, Exact(exact_counts), amount, delta)  # [P13]
        values = sorted(noisy, key=lambda text: (-noisy[text], text))[:MOST_CATEGORIES]
        if not values:
            return None
        return Category(name=name, values=tuple(sorted(values)), other="other", nullable=True)


def _plain_table(
    table: ibis.Table, asked: Mapping[str, str], text: TextFormat, limits: Contributions
) -> ibis.Table:
    """The columns in plain spelling, moments clamped to the calendar; in steps, since an expression that is
    used several times would be written as often.
    """
    own = [name for name in limits.columns if name not in asked]
    plain = table.select(
        *own,
        *(plain_text(table[name], _PLAIN_KINDS[kind], text).name(name) for name, kind in asked.items()),
    )
    moments = [name for name, kind in asked.items() if kind == "datetime"]
    return (
        plain.mutate(*(make_castable(plain[name], _CALENDAR).name(name) for name in moments))
        if moments
        else plain
    )


def integer_between(name: str, least: int, greatest: int, nullable: bool) -> Integer:
    """Whole numbers in bins of the least width that makes no more than a thousand of them."""
    every = max(1, -(-(greatest - least + 1) // _MOST_BINS))
    return Integer(name=name, min=least, max=greatest, every=every, nullable=nullable)


def real_between(name: str, low: float, high: float, nullable: bool) -> Real:
    """Real numbers in a hundred bins; from `low` to one more where all are equal."""
    return Real(name=name, min=low, max=high if high > low else low + 1.0, bins=100, nullable=nullable)


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
    """Years from the first one. column: moments clamped to the calendar, so that none raises."""
    written = column.substr(0, 4) if column.type().is_string() else column.year()
    year = written.cast("int64") - _FIRST_YEAR
    last = _LAST_YEAR - _FIRST_YEAR
    return ibis.cases((year < 0, 0), (year > last, last), else_=year)


def _edges(power_bin: int) -> tuple[float, float]:
    """Least and greatest number of a bin."""
    if power_bin == _POWERS:
        return 0.0, 0.0
    power = abs(power_bin - _POWERS) + _LEAST_POWER - 1
    low, high = 2.0**power, 2.0 ** (power + 1)
    return (low, high) if power_bin > _POWERS else (-high, -low)
