"""The meaning of a budget for one person, in one sentence."""

from __future__ import annotations

import math
from fractions import Fraction


def largest_belief(epsilon: float | Fraction, prior: float = 0.5) -> float:
    """The largest posterior belief that a record is in the table, starting from the belief `prior`."""
    odds = math.exp(min(float(epsilon), 700.0)) * prior / (1 - prior)
    return odds / (1 + odds)


def risk_sentence(epsilon: float | Fraction, unit: str = "row", delta: float | Fraction = 0) -> str:
    """The meaning of a budget for one person, without the word ε."""
    whose = "a record" if unit == "row" else f"one {unit}"
    belief = largest_belief(epsilon)
    bound = f"at most {belief:.1%} sure of it" if belief < 0.999 else "virtually certain of it"
    sentence = (
        f"Someone who is 50% sure that {whose} is in the table can become {bound}, whatever else they know."
    )
    return sentence if not delta else f"{sentence} This may fail with probability {float(delta):g} (delta)."
