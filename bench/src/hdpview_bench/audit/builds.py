"""What is audited: builds as everyone makes them, with a fresh key and the system's noise."""

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

    fits: whether components are fitted; see `without_fits`.
    keys: gives the key of the next build that is not of a file.
    """
    limits = Contributions(None if max_rows == 1 else PERSON, max_rows)

    def build(source: Source) -> PView:
        with nullcontext() if fits else without_fits():
            if isinstance(source, PersonsFile):
                return build_file(source, method, epsilon, quality=quality)
            return release(source, epsilon, method, keys(), 1, limits=limits, quality=quality)

    return build


def build_file(source: PersonsFile, method: Method, epsilon: Fraction, **options: Any) -> PView:
    """The whole way from a file to a view: reading, encoding, bounding what a person counts for, noise."""
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
    """Mixtures with independent attributes in place of fitted components, as histograms alone tell them.

    Fits, and histograms smoothed once more with what tables tell of them, take most of the time of a small
    build. Both work on released numbers alone, which the audit looks at themselves; whatever is computed from
    them cannot tell more than they do.
    """

    def independent(_starts: Any, _targets: Any, margins: Any, *_: Any) -> list[Components]:
        return [Components.independent(margins)]

    def first_shares(measured: Measurements) -> list[Floats]:
        return list(measured._known[1]) or shares(measured)

    shares = Measurements.shares
    with (
        patch.object(mixture, "fits_side_by_side", independent),
        patch.object(Measurements, "shares", first_shares),
    ):
        yield
