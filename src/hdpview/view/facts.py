"""The types of single facts in a manifest, as pydantic checks them when a file is read."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any

from pydantic import ConfigDict, Field, PlainValidator

# Dataclasses with these types are read from dicts; strict mode would accept instances only.
FROM_DICT = ConfigDict(strict=False)
MIN_EPSILON = 1e-300  # a smaller ε is 0 as a double
MAX_EPSILON = 1e6  # a larger ε hides nothing


def _fraction(text: Any) -> Fraction:
    # An exponent could ask for a number of any length.
    if not isinstance(text, str) or len(text) > 1_000 or "e" in text.lower():
        raise ValueError("not an exact number")
    try:
        return Fraction(text)
    except ZeroDivisionError:
        raise ValueError("not an exact number") from None


def _zero_or_fraction(value: Any) -> Fraction:
    return Fraction(0) if type(value) is int and value == 0 else _fraction(value)


def _number(value: Any) -> float:
    """A finite number; integers stay integers."""
    if type(value) not in (int, float) or not abs(value) <= 1e300:
        raise ValueError("not a finite number")
    return value  # type: ignore[no-any-return]


Text = Annotated[str, Field(strict=True, max_length=1_000)]
Whole = Annotated[int, Field(strict=True, ge=0, lt=2**31)]
Exact = Annotated[Fraction, PlainValidator(_fraction)]
Epsilon = Annotated[Exact, Field(gt=MIN_EPSILON, le=MAX_EPSILON)]
# Files write a delta of 0 as the number 0.
Delta = Annotated[Fraction, PlainValidator(_zero_or_fraction), Field(ge=0, le=1)]
Numbers = Annotated[Mapping[Text, Annotated[float, PlainValidator(_number)]], Field(max_length=100)]
