"""The types of single facts in a manifest, as pydantic checks them when a file is read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any

from pydantic import ConfigDict, Field, PlainValidator

# Dataclasses with these types are read from dicts; strict mode would accept instances only.
FROM_DICT = ConfigDict(strict=False)
MAX_EPSILON = 1e6  # a larger ε hides nothing


def _fraction(text: Any) -> Fraction:
    # An exponent could ask for a number of any length.
    if not isinstance(text, str) or len(text) > 1_000 or "e" in text.lower():
        raise ValueError("not an exact number")
    try:
        return Fraction(text)
    except ZeroDivisionError:
        raise ValueError("not an exact number") from None


def _epsilon(text: Any) -> Fraction:
    epsilon = _fraction(text)
    if epsilon <= 0 or epsilon > MAX_EPSILON or float(epsilon) == 0.0:
        raise ValueError("not a budget")
    return epsilon


def _delta(text: Any) -> Fraction:
    delta = Fraction(0) if type(text) is int and text == 0 else _fraction(text)
    if not 0 <= delta <= 1:
        raise ValueError("not a probability")
    return delta


def _number(value: Any) -> float:
    """A finite number; integers stay integers."""
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or abs(value) > 1e300
        or math.isnan(value)
    ):
        raise ValueError("not a finite number")
    return value


Text = Annotated[str, Field(strict=True, max_length=1_000)]
Whole = Annotated[int, Field(strict=True, ge=0, lt=2**31)]
Exact = Annotated[Fraction, PlainValidator(_fraction)]
Epsilon = Annotated[Fraction, PlainValidator(_epsilon)]
Delta = Annotated[Fraction, PlainValidator(_delta)]
Numbers = Annotated[Mapping[Text, Annotated[float, PlainValidator(_number)]], Field(max_length=100)]
