"""What a budget means for one person, in one sentence."""

from __future__ import annotations

import math
from fractions import Fraction


def largest_belief(epsilon: float | Fraction, prior: float = 0.5) -> float:
    """How sure anyone can become that a record is in the table who was `prior` sure before."""
    odds = math.exp(min(float(epsilon), 700.0)) * prior / (1 - prior)
    return odds / (1 + odds)


def risk_sentence(epsilon: float | Fraction, unit: str = "row", delta: float | Fraction = 0) -> str:
    """The risk of a budget, for people who do not know what ε is."""
    whose = "a record" if unit == "row" else f"one {unit}"
    belief = largest_belief(epsilon)
    bound = f"at most {belief:.1%} sure of it" if belief < 0.999 else "as good as certain of it"
    sentence = (
        f"Someone who thinks it 50 % likely that {whose} is in the table can become {bound}, whatever else "
        "they know."
    )
    return (
        sentence
        if not delta
        else f"{sentence} Delta loosens this: {float(delta):g} of all probability may lie outside."
    )
