"""Conditions on one attribute: which of its values a question is about, in the data's own units.

An ordered attribute's values are half-open ranges on its axis, so that conditions can be cut, joined and turned round exactly
before any bin is looked at; any other attribute's values are a set of codes. Missing values are outside both, as in SQL:
they satisfy `IS NULL` and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Attribute, Boolean, Category, Ordered
from hdpview.domain.attributes import LEAST_FRACTION
from hdpview.errors import QueryError, unknown_name

Range = tuple[float, float]  # half-open: low ≤ x < high; whole numbers stay whole


@dataclass(frozen=True)
class Condition:
    """A set of values of one attribute. `ranges` for ordered attributes, `codes` for the others; `null` adds missing values."""

    ranges: tuple[Range, ...] = ()
    codes: frozenset[int] = frozenset()
    null: bool = False

    def __and__(self, other: Condition) -> Condition:
        ranges = ((max(a, c), min(b, d)) for a, b in self.ranges for c, d in other.ranges)
        return Condition(_tidy(ranges), self.codes & other.codes, self.null and other.null)

    def __or__(self, other: Condition) -> Condition:
        return Condition(_tidy((*self.ranges, *other.ranges)), self.codes | other.codes, self.null or other.null)


def _tidy(ranges: Any) -> tuple[Range, ...]:
    """Sorted ranges without overlap and without empty ones."""
    merged: list[Range] = []
    for low, high in sorted(r for r in ranges if r[0] < r[1]):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def everything(attribute: Attribute) -> Condition:
    """All values that are not missing."""
    if isinstance(attribute, Ordered):
        return Condition(ranges=((-math.inf, math.inf),))
    return Condition(codes=frozenset(range(attribute.n_values)))


def missing(attribute: Attribute) -> Condition:
    """Missing values. Where an attribute has no code for them this is nothing: the schema's rule put them elsewhere."""
    return Condition(null=attribute.nullable)


def complement(attribute: Attribute, condition: Condition) -> Condition:
    """All other values that are not missing. (A negated `IS NULL` is `everything`; a negated comparison never finds nulls.)"""
    if isinstance(attribute, Ordered):
        ends = [-math.inf, *(end for pair in condition.ranges for end in pair), math.inf]
        return Condition(ranges=_tidy(zip(ends[0::2], ends[1::2], strict=True)), null=False)
    return Condition(codes=frozenset(range(attribute.n_values)) - condition.codes)


def compare(attribute: Attribute, operator: str, value: Any) -> Condition:
    """`attribute operator value` with operator one of = != < <= > >=."""
    if isinstance(attribute, Ordered):
        return _compare_ordered(attribute, operator, value)
    if operator not in ("=", "!="):
        raise QueryError(f"{attribute.name!r} has no order, so {operator} has no meaning for it. Use = or IN with its values.")
    code = _code(attribute, value)
    condition = Condition(codes=frozenset() if code is None else frozenset({code}))
    return condition if operator == "=" else complement(attribute, condition)


def between(attribute: Attribute, low: Any, high: Any) -> Condition:
    """`attribute BETWEEN low AND high`, both ends included."""
    if isinstance(attribute, Ordered):
        start, end = _places(attribute, low)[0], _places(attribute, high)[1]
        return Condition(ranges=((start, end),)) if start < end else Condition()
    return compare(attribute, ">=", low) & compare(attribute, "<=", high)


def one_of(attribute: Attribute, values: Any) -> Condition:
    """`attribute IN (values)`."""
    found = [compare(attribute, "=", value) for value in values]
    ranges = (pair for condition in found for pair in condition.ranges)
    return Condition(_tidy(ranges), frozenset(code for condition in found for code in condition.codes))


def _compare_ordered(attribute: Ordered, operator: str, value: Any) -> Condition:
    at, after = _places(attribute, value)
    if not attribute.whole and operator in ("=", "!="):
        raise QueryError(
            f"{attribute.name!r} is a real number counted in bins; a single value has no width. "
            f"Ask for a range, such as {attribute.name} BETWEEN {value} AND {value + attribute.width_at(at):g}."
        )
    if math.isnan(at):
        return Condition()
    match operator:
        case "=":
            return Condition(ranges=_tidy([(at, after)]))
        case "!=":
            return Condition(ranges=_tidy([(-math.inf, at), (after, math.inf)]))
        case "<":
            return Condition(ranges=((-math.inf, at),))
        case "<=":
            return Condition(ranges=((-math.inf, after),))
        case ">":
            return Condition(ranges=((after, math.inf),))
        case _:
            return Condition(ranges=((at, math.inf),))


def _places(attribute: Ordered, value: Any) -> tuple[float, float]:
    """Where on the axis values ≥ and values > a literal begin. On a whole axis these are one apart, or equal between numbers."""
    try:
        at = attribute.position(value)
        float(at)
    except OverflowError:
        if not isinstance(value, (int, float)):
            raise QueryError(f"{value!r} lies outside the calendar, which runs from year 1 to 9999.") from None
        at = math.inf if value > 0 else -math.inf
    except TypeError:
        kind = "a date such as DATE '2024-01-31'" if attribute.kind == "datetime" else "a number"
        raise QueryError(f"{attribute.name!r} is compared with {kind}, not with {value!r}.") from None
    if not attribute.whole or not math.isfinite(at):
        return at, at
    return math.ceil(at), math.floor(at) + 1


def _code(attribute: Attribute, value: Any) -> int | None:
    if isinstance(attribute, Boolean):
        truth: dict[Any, int] = {False: 0, True: 1, "false": 0, "true": 1}
        key = value.lower() if isinstance(value, str) else value
        if not isinstance(key, (str, bool, int)) or key not in truth:
            raise QueryError(f"{attribute.name!r} is true or false, not {value!r}.")
        return truth[key]
    assert isinstance(attribute, Category)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    code = attribute.code_of(text)
    if code is None:
        note = " Values that were not declared are counted together" + (f" as {attribute.other!r}." if attribute.other else ".")
        raise QueryError(unknown_name("value", text, attribute.value_labels(), f"{attribute.name!r} has") + note)
    return code


def like(attribute: Attribute, matches: Callable[[str], bool]) -> Condition:
    """The declared values of a category whose text matches."""
    if not isinstance(attribute, Category):
        raise QueryError(f"LIKE needs a category; {attribute.name!r} is of type {attribute.kind}.")
    return Condition(codes=frozenset(code for code, text in enumerate(attribute.value_labels()) if matches(text)))


def prefix_weights(attribute: Attribute, condition: Condition) -> NDArray[np.float64]:
    """Running sums, shape (size + 1,), of the share of each code that satisfies a condition.

    A share is 1, 0, or the fraction of a bin that is cut through: `prefix[hi] − prefix[lo]` codes of [lo, hi) satisfy it.
    """
    if isinstance(attribute, Ordered):
        bins = np.arange(attribute.size + 1, dtype=np.float64)
        prefix = np.zeros(attribute.size + 1)
        for start, end in condition.ranges:
            low, high = attribute.bin_place(start), attribute.bin_place(end)
            if high > 0.0 and low < attribute.n_values:
                high = max(high, low + LEAST_FRACTION)  # however narrow, it is not nothing: all records may lie there
            prefix += np.minimum(np.maximum(bins, low), high) - low
    else:
        share = np.zeros(attribute.size)
        share[list(condition.codes)] = 1.0
        prefix = np.concatenate([[0.0], np.cumsum(share)])
    if condition.null and attribute.null_code is not None:
        prefix[attribute.null_code + 1 :] += 1.0
    return prefix
