"""Results of the privacy audits, for privacy cards. The commands reproduce them."""

from __future__ import annotations

from typing import NamedTuple


class Audited(NamedTuple):
    """One audit: the ε claimed, the lower bound on ε that the attack proved, and the builds per table."""

    claimed: float
    lower_bound: float
    runs: int
    confidence: float
    command: str


AUDITED: dict[str, Audited] = {
    "mixture": Audited(1.0, 0.70, 1_000, 0.999, "hdpview audit --method mixture --epsilon 1 --runs 1000"),
    "hdpview": Audited(1.0, 0.00, 1_000, 0.999, "hdpview audit --method hdpview --epsilon 1 --runs 1000"),
}
