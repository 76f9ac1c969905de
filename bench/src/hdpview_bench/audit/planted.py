"""Builds with a planted bug, for the audit to catch. Each charges for one thing and then does another.

    python -m hdpview_bench.audit.planted

prints what the audit finds of each, and of the same build without the bug.

Keys are numbered, one for each build: views are as random as with keys from the system, and a test passes
always or never.
"""

from __future__ import annotations

import dataclasses
import itertools
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

from hdpview.build import release
from hdpview.counts import ingest, sources
from hdpview.counts.sparse import SparseCounts
from hdpview.methods import Hdpview, Method, Mixture
from hdpview.partition.grow import ExactBlocks, grow, root
from hdpview.partition.parameters import PartitionParameters
from hdpview.privacy import mechanism
from hdpview.privacy.mechanism import Mechanism
from hdpview.privacy.randomness import Randomness
from hdpview.pview import PView
from hdpview.view.blocks import Blocks
from hdpview.view.data import ViewPart
from hdpview.view.quality import prior_quality
from hdpview_bench.audit import tables
from hdpview_bench.audit.builds import Build, build_file, builds
from hdpview_bench.audit.run import CONFIDENCE, Audit, Claim, audit_builds, claim_of
from hdpview_bench.audit.tables import Neighbours, PersonsFile, Source, pair

Patch = Callable[[], AbstractContextManager[object]]
Change = Callable[[PartitionParameters], dict[str, Any]]

MOSTLY_COUNTS = Hdpview(partition_share=0.01)  # nearly all of the budget on noise
MOSTLY_CONVERGE = Hdpview(partition_share=0.95, converge_share=0.98, bias_ratio=1000.0)
WITH_DELTA = Mixture(delta=Fraction(1, 1000))
# An epsilon with which a choice is the best one for certain.
CERTAIN = Fraction(10**9)


def numbered_keys() -> Callable[[], Randomness]:
    """Keys 0, 1, 2 and so on."""
    numbers = itertools.count()
    return lambda: Randomness.from_test_key(b"%d" % next(numbers))


def honest(
    method: Method, epsilon: Fraction, *, max_rows: int = 1, quality: bool = False, fits: bool = False
) -> Build:
    """What it should be."""
    return builds(method, epsilon, max_rows=max_rows, fits=fits, quality=quality, keys=numbered_keys())


def with_bug(build: Build, bug: Patch) -> Build:
    """The build with something replaced."""

    def wrong(source: Source) -> PView:
        with bug():
            return build(source)

    return wrong


def noise_replaced(
    is_meant: Callable[[Any, str], bool], replaced: Callable[[Any, Callable[[Any], Any]], Any]
) -> Patch:
    """Other noise on some vectors. is_meant: by their exact values and purpose; replaced: from the exact
    values and the right noise.
    """
    right = Mechanism._with_noise

    def wrong(self: Mechanism, exact: Any, law: Any, purpose: str, *rest: Any) -> Any:
        def add(values: Any) -> Any:
            return right(self, values, law, purpose, *rest)

        return replaced(exact, add) if is_meant(exact, purpose) else add(exact)

    return lambda: patch.object(Mechanism, "_with_noise", wrong)


def no_noise(exact: Any, _add: Callable[[Any], Any]) -> Any:
    return exact.copy()


def half_the_noise(exact: Any, add: Callable[[Any], Any]) -> Any:
    return add(2 * exact) // 2


def best_choices() -> Patch:
    """Always choose the best: an exponential mechanism without its randomness."""
    right: Any = mechanism._choose  # type: ignore[attr-defined]

    def wrong(scores: Any, _rate: Fraction, *rest: Any) -> Any:
        return right(scores, CERTAIN, *rest)

    return lambda: patch.object(mechanism, "_choose", wrong)


@contextmanager
def one_row_too_many() -> Iterator[None]:
    """One row more of every person is counted than noise was made for."""
    right: Any = ingest.bounded_sql  # type: ignore[attr-defined]

    def wrong(rows: str, columns: Any, codes: Any, limits: Any, salt: str) -> Any:
        return right(rows, columns, codes, dataclasses.replace(limits, max_rows=limits.max_rows + 1), salt)

    with patch.object(ingest, "bounded_sql", wrong):
        yield


@contextmanager
def one_noise_for_all() -> Iterator[None]:
    """The same noise on the counts of all leaves."""
    right = mechanism._keyed_laplace

    def wrong(draws: Any, scale: float) -> Any:
        return np.repeat(right(draws[:1], scale), len(draws))

    with patch.object(mechanism, "_keyed_laplace", wrong):
        yield


@contextmanager
def _half_on_leaves() -> Iterator[None]:
    right = mechanism._keyed_laplace
    with patch.object(mechanism, "_keyed_laplace", lambda draws, scale: right(draws, scale / 2)):
        yield


@contextmanager
def one_database() -> Iterator[None]:
    """One DuckDB reads the files of all builds: to start one takes longer than to read them."""
    with (
        sources._private_duckdb(None, 1) as started,
        patch.object(sources, "_private_duckdb", lambda *_: nullcontext(started)),
    ):
        yield


def from_file(epsilon: Fraction) -> Build:
    """Whole builds from a file."""
    numbers = itertools.count()

    def build(source: Source) -> PView:
        assert isinstance(source, PersonsFile)
        return build_file(source, Mixture(), epsilon, quality=False, test_key=b"%d" % next(numbers))

    return build


def one_key_for_all(method: Method, epsilon: Fraction) -> Build:
    """The same key for every build, noise included: what a fixed seed does."""
    return builds(method, epsilon, quality=False, keys=lambda: Randomness.from_test_key(b"0"))


def partition(method: Hdpview, epsilon: Fraction, change: Change, halves_share_a_key: bool = False) -> Build:
    """The partition alone, with parameters changed after they were charged. Its counts carry no information:
    the noise on them is huge.
    """
    keys = numbered_keys()

    def build(counts: Source) -> PView:
        assert isinstance(counts, SparseCounts)
        chosen = PartitionParameters.choose(method, epsilon, counts.schema.n_cells)
        changed = dataclasses.replace(chosen, **change(chosen))
        parameters: Any = SimpleNamespace(
            numbers=(*changed.numbers[:-1], chosen.converge_floor),
            **{**vars(changed), "converge_floor": chosen.converge_floor},
        )
        rows = counts.exact_codes.copy(), counts.exact_counts.copy()
        start = root(counts.schema.sizes, rows[1], keys().root_key("partition"))
        grown, halves = grow(*rows, start, parameters, max_steps=1)
        leaves = [grown]
        for half in (halves[i : i + 1] for i in range(len(halves))):
            keyed = dataclasses.replace(half, keys=halves.keys[:1]) if halves_share_a_key else half
            leaves.append(grow(*rows, keyed, parameters)[0])
        return _view(counts, ExactBlocks.concatenate(leaves), method)

    return build


def _view(counts: SparseCounts, leaves: ExactBlocks, method: Hdpview) -> PView:
    blocks = Blocks(leaves.lower, leaves.upper, np.zeros(len(leaves), np.int64), leaves.depth, np.inf)
    empty = release(counts, Fraction(1), method, Randomness.from_test_key(b""), 1)
    return PView(empty.manifest, (ViewPart(blocks, prior_quality(blocks)),))


@dataclasses.dataclass(frozen=True)
class Planted:
    """A bug, the same build without it, and where to look for it with how many builds of each table."""

    claim: Claim
    right: Build
    wrong: Build
    tables: Callable[[Path], Neighbours]
    runs: int
    search_runs: int | None = None
    confidence: float = CONFIDENCE

    def audit(self, is_wrong: bool) -> Audit:
        with tempfile.TemporaryDirectory() as folder, one_database():
            return audit_builds(
                "planted",
                self.claim,
                self.wrong if is_wrong else self.right,
                [self.tables(Path(folder))],
                self.runs if is_wrong else max(100, self.runs // 4),
                search_runs=self.search_runs,
                confidence=self.confidence,
            )


def planted(
    epsilon: int, method: Method, bug: Patch, tables: Neighbours, runs: int, *, quality: bool = False
) -> Planted:
    """A bug in builds by a method."""
    budget = Fraction(epsilon)

    def build() -> Build:
        return honest(method, budget, quality=quality)

    claim = claim_of(method, budget, quality=quality)
    return Planted(claim, build(), with_bug(build(), bug), lambda _: tables, runs)


def planted_in_partition(
    epsilon: int, method: Hdpview, change: Change, tables: Neighbours, runs: int, **options: Any
) -> Planted:
    """A bug in the parameters of a partition."""
    budget = Fraction(epsilon)
    right, wrong = partition(method, budget, lambda _: {}), partition(method, budget, change)
    return Planted(Claim(epsilon), right, wrong, lambda _: tables, runs, **options)


def _path_to_a_crowd() -> Neighbours:
    cells = np.zeros((2,) * 10, np.int64)
    cells[(1,) * 10] = 5  # with one more, the deviation lies on the threshold: each level is a toss-up
    return pair("a path", cells, (1,) * 10)


def is_table(exact: Any, _purpose: str) -> bool:
    return bool(exact.ndim > 1)


def is_total(_exact: Any, purpose: str) -> bool:
    return purpose == "number of records"


def is_first_histogram(_exact: Any, purpose: str) -> bool:
    return purpose == "histograms of attributes: 0"


NOBODY = pair("one", np.zeros(4, np.int64), (1,))
CROWD = pair("crowd", np.full((2, 2), tables.CROWD), (0, 1))
# The second attribute has one value, so no pair of attributes is worth a table.
TWO_HISTOGRAMS = pair("two histograms", np.full((27, 1), tables.CROWD), (1, 0))
THREE_ATTRIBUTES = pair("three attributes", np.full((2, 2, 2), tables.CROWD), (0, 0, 1))
ONE = Fraction(1)
PLANTED = {
    "mixture: tables of pairs without noise": planted(
        1, Mixture(), noise_replaced(is_table, no_noise), CROWD, 100
    ),
    "mixture: number of records without noise": planted(
        1, Mixture(), noise_replaced(is_total, no_noise), CROWD, 100
    ),
    "mixture: half the noise on one of two histograms": planted(
        2, Mixture(), noise_replaced(is_first_histogram, half_the_noise), TWO_HISTOGRAMS, 1_000
    ),
    "mixture: sizes of errors chosen by exact argmax": planted(
        1, Mixture(), best_choices(), tables.undecided_quality(1.0), 200, quality=True
    ),
    "mixture with delta: half the noise": planted(
        4, WITH_DELTA, noise_replaced(lambda *_: True, half_the_noise), THREE_ATTRIBUTES, 1_000
    ),
    "mixture from a file: one row more of a person than noise is for": Planted(
        Claim(1.5),
        from_file(Fraction(3, 2)),
        with_bug(from_file(Fraction(3, 2)), one_row_too_many),
        lambda folder: tables.persons(folder, 1),
        200,
        search_runs=80,
    ),
    "hdpview: cuts by exact argmax": planted_in_partition(
        1, Hdpview(), lambda _: {"epsilon_cut": Fraction(1_000)}, tables.undecided_cut(), 400
    ),
    "hdpview: converge without noise": planted_in_partition(
        1, Hdpview(), lambda _: {"converge_noise_scale": 1e-3}, tables.undecided_stop(1.0), 200
    ),
    "hdpview: both halves with one key": Planted(
        Claim(1.0),
        partition(Hdpview(), ONE, lambda _: {}),
        partition(Hdpview(), ONE, lambda _: {}, halves_share_a_key=True),
        lambda _: tables.equal_halves(1.0),
        1_400,
    ),
    "hdpview: one noise value for all leaves": planted(
        1, Hdpview(), one_noise_for_all, tables.equal_halves(1.0), 200
    ),
    "hdpview: half the noise on counts": planted(1, MOSTLY_COUNTS, _half_on_leaves, NOBODY, 1_000),
    "hdpview: one key for all builds": Planted(
        Claim(1.0), honest(Hdpview(), ONE), one_key_for_all(Hdpview(), ONE), lambda _: NOBODY, 200
    ),
    "hdpview: three rows of a person, noise for one": Planted(
        Claim(1.0),
        honest(MOSTLY_COUNTS, ONE, max_rows=3),
        honest(MOSTLY_COUNTS, ONE),
        lambda _: pair("three", np.zeros(4, np.int64), (1,), 3),
        500,
    ),
}
# Found too, by more builds than a test has time for; tests/security/test_path_losses.py adds up these losses
# exactly.
RARE = {
    "hdpview: no bias with depth": planted_in_partition(
        2, MOSTLY_CONVERGE, lambda _: {"converge_bias_per_level": 0.0}, _path_to_a_crowd(), 12_000
    )
}


if __name__ == "__main__":
    for name, bug in {**PLANTED, **RARE}.items():
        for is_wrong in (False, True):
            result = bug.audit(is_wrong)
            title = name if is_wrong else f"{name}, put right"
            rho = (
                ""
                if result.rho_lower_bound is None
                else f", rho {result.claimed_rho:.3g} {result.rho_lower_bound:.3g}"
            )
            sys.stdout.write(
                f"{title}: claimed {result.claimed:g}, found {result.lower_bound:.2f}{rho} "
                f"({result.runs:,} builds of each table; {result.event}; {result.hits})\n"
            )
            sys.stdout.flush()
