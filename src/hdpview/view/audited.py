"""What audits of each method found, for privacy cards, as the named commands print it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Audited:
    """claimed, lower_bound: of ε; runs: builds of each table that the bound rests on."""

    claimed: float
    lower_bound: float
    runs: int
    confidence: float
    command: str


AUDITED: dict[str, Audited] = {
    "mixture": Audited(1.0, 0.70, 1_000, 0.999, "hdpview audit --method mixture --epsilon 1 --runs 1000"),
    "hdpview": Audited(1.0, 0.00, 1_000, 0.999, "hdpview audit --method hdpview --epsilon 1 --runs 1000"),
}
