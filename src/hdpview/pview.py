"""PView: a released view as people use it. It holds data; the functions of `query` do the work."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np

from hdpview.query import answers
from hdpview.query.answers import Answer, Answers, Interval, Where
from hdpview.query.compare import Comparison, compare
from hdpview.query.intervals import Kind, Reading
from hdpview.query.noise_width import NoiseLaw
from hdpview.query.paper_bound import error_bound
from hdpview.view import storage
from hdpview.view.data import ViewData


class PView(ViewData):
    """A differentially private view of a table. Ask any number of questions; none costs further budget.

    >>> view.count("age BETWEEN 30 AND 39 AND sex = 'Female'").estimate   # doctest: +SKIP
    """

    def count(self, where: Where = None, *, confidence: float = 0.95, counts: Reading = "consistent", interval: Kind = "typical") -> Answer:
        """How many records satisfy a condition: SQL text, or a dictionary such as {"age": (30, 39), "sex": "Female"}.

        `lower` and `upper` of the answer are the ends of the interval named: typical, guaranteed or noise; all three are there.
        """
        found: Answer = self.count_many([where], confidence=confidence, counts=counts, interval=interval)[0]
        return found

    def count_many(
        self, wheres: Sequence[Where], *, confidence: float = 0.95, counts: Reading = "consistent", interval: Kind = "typical"
    ) -> Answers:
        """Answer many counting questions at once: much faster than one by one."""
        return answers.count_many(self, wheres, confidence, counts, interval)

    def compare(self, first: Where, second: Where, *, confidence: float = 0.95) -> Comparison:
        """Whether two counts really differ: their difference and ratio, with intervals that know what the counts share."""
        return compare(self, first, second, confidence)

    def error_bound(self, where: Where = None, *, mu: float = 0.05, xi: float = 1.0) -> Interval:
        """The paper's bounds Θ_min and Θ_max on the error of a raw count, for given μ and ξ."""
        return error_bound(self, where, mu, xi)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the view to a .pview file, whole or not at all."""
        storage.write(self, path)

    @classmethod
    def open(cls, path: str | PathLike[str]) -> PView:
        """Open a .pview file. All of it is checked first."""
        data = storage.read(path)
        return cls(data.manifest, data.blocks)

    def info(self) -> dict[str, Any]:
        """The public facts about this view, as plain data."""
        manifest = self.manifest
        return {
            "private": manifest.is_private,
            "not_private_because": list(manifest.not_private_because),
            "epsilon": float(manifest.epsilon),
            "neighbours": "add or remove one record",
            "privacy_unit": manifest.privacy_unit,
            "spending": {spent.purpose: float(spent.epsilon * spent.times) for spent in manifest.spending},
            "method": manifest.method,
            "settings": dict(manifest.settings),
            "parameters": dict(manifest.parameters),
            "noise_scale": manifest.noise_scale,
            "n_blocks": len(self.blocks),
            "estimated_records": self.count(None, counts="raw").estimate,
            "n_attributes": len(self.schema),
            "n_cells": float(self.schema.n_cells),
            "attributes": self.schema.to_dict()["attributes"],
            "library_version": manifest.library_version,
        }

    def smallest_meaningful_count(self, confidence: float = 0.95) -> float:
        """How large the count of a single block must be to tell it from 0."""
        one = np.ones(1)
        return float(NoiseLaw(self.manifest.noise_scale).half_width(one, one, one, confidence)[0])

    def __repr__(self) -> str:
        facts = self.info()
        private = "" if facts["private"] else " — NOT PRIVATE: " + "; ".join(facts["not_private_because"])
        return (
            f"PView of about {facts['estimated_records']:,.0f} records, {facts['n_attributes']} attributes, {facts['n_blocks']:,} blocks\n"
            f"epsilon {facts['epsilon']:g} (adding or removing one {facts['privacy_unit']}), method {facts['method']}{private}\n"
            f"attributes: {', '.join(self.schema.names)}"
        )


def open_view(path: str | PathLike[str]) -> PView:
    """Open a .pview file. All of it is checked first; a broken or foreign file is refused in words."""
    return PView.open(path)
