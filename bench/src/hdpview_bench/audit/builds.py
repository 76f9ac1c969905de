"""The builds to audit: made as users make them, with a fresh key and system noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from fractions import Fraction
from typing import Any
from unittest.mock import patch

from hdpview.build import build as build_from_table
from hdpview.build import release
from hdpview.counts.contributions import Contributions
from hdpview.methods import Method, mixture
from hdpview.methods.mixture.fit import Components
from hdpview.methods.mixture.measure import Floats, Measurements
from hdpview.privacy.randomness import Randomness
from hdpview.pview import PView
from hdpview_bench.audit.tables import PERSON, PersonsFile, Source

Build = Callable[[Source], PView]
Keys = Callable[[], Randomness]


def builds(
    method: Method,
    epsilon: Fraction,
    *,
    max_rows: int = 1,
    fits: bool = True,
    quality: bool = True,
    keys: Keys = Randomness.fresh,
) -> Build:
    """Builds of views by a method.

    fits: whether components are fitted; see `without_fits`. keys: returns the key of the next build that does
    not read a file.
    """
    limits = Contributions(None if max_rows == 1 else PERSON, max_rows)

    def build(source: Source) -> PView:
        with nullcontext() if fits else without_fits():
            if isinstance(source, PersonsFile):
                return build_file(source, method, epsilon, quality=quality)
            return release(source, epsilon, method, keys(), 1, limits=limits, quality=quality)

    return build


def build_file(source: PersonsFile, method: Method, epsilon: Fraction, **options: Any) -> PView:
    """Build from a file to a view: reading, encoding, bounding each person's contribution, noise."""
    return build_from_table(
        source.path,
        source.schema,
        epsilon,
        method=method,
        privacy_unit=PERSON,
        max_rows=source.max_rows,
        threads=1,
        ledger=False,
        **options,
    )


@contextmanager
def without_fits() -> Iterator[None]:
    """Replace fitted components by mixtures with independent attributes.

    Fitting, and smoothing histograms a second time, take most of the time of a small build. Both use released
    numbers only, and the audit examines these numbers itself, so whatever is computed from them reveals
    nothing more.
    """

    def independent(_starts: Any, _targets: Any, margins: Any, *_: Any) -> list[Components]:
        return [Components.independent(margins)]

    def first_shares(measured: Measurements) -> list[Floats]:
        if "first_shares" not in vars(measured):
            vars(measured)["first_shares"] = shares(measured)
        return list(vars(measured)["first_shares"])

    shares = Measurements.shares
    with (
        patch.object(mixture, "fits_side_by_side", independent),
        patch.object(Measurements, "shares", first_shares),
    ):
        yield
