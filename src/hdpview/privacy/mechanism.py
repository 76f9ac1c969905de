"""The mechanism: the only place that charges a budget, reads exact values and draws.

Each call names a purpose, charges an amount and draws with that same amount. A purpose is used once,
nothing is drawn beyond the budget, and nothing may be left over at the end. Amounts are ε or, if the budget
has a δ, ρ of zero-concentrated privacy, into which (ε, δ) is converted as a whole. [P1] [P14]

Noise comes from OpenDP's exact samplers. With a test key, keyed samplers of the same distributions replace
them, so that engines and implementations can be compared bit for bit.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdpview.errors import BudgetError
from hdpview.privacy.choice import choose as _choose
from hdpview.privacy.exact import MOST_RECORDS, Exact
from hdpview.privacy.gradual import finer_noise
from hdpview.privacy.noise import Law, Noise, delta_of_one_record, laplace_scale, rho_of
from hdpview.privacy.randomness import Randomness, Uniform, draw_many
from hdpview.progress import Progress, silent

Integers = NDArray[np.int64]
Draw = Callable[[], list[NDArray[Any]]]

WITH_DELTA = "histograms and tables, with delta"
# Number of entries of a long vector drawn at once, which takes OpenDP about a second.
_ENTRIES_AT_ONCE = 2**17
# Records. Above this σ, no test can distinguish a rounded normal variable from the discrete Gaussian.
_WIDEST_TABLE = 2**12
# Minimum δ of a threshold, because OpenDP rounds up to the last bit of 1.
_LEAST_CERTIFIED_DELTA = Fraction(1, 2**53)
# OpenDP rounds its certificates up; they may exceed the requested loss by this much.
_CERTIFIED = 1 + Fraction(1, 10**9)
NOTHING = Fraction(0), Fraction(0)  # ε and δ


@dataclass(frozen=True)
class Charge:
    """Budget spent on one purpose, for everything that one person has in the table."""

    purpose: str
    epsilon: Fraction
    times: int = 1
    delta: Fraction = Fraction(0)


class Outcomes:
    """The draws so far, by purpose. `privacy/checkpoint.py` keeps them on the disk."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, list[NDArray[Any]]]] = {}
        self._unread = set[str]()  # purposes that an interrupted build drew for, not asked for again so far

    def recall(self, purpose: str, terms: str) -> list[NDArray[Any]] | None:
        """The earlier draw for a purpose; None if there is none. The terms of both draws must be equal.

        Draws come in a fixed order, so nothing new is drawn before all earlier draws have been used.
        """
        if purpose not in self._known:
            if self._unread:
                drawn = f"{purpose!r} is asked for where {min(self._unread)!r} was drawn before"
                raise BudgetError(f"{drawn}: both reveal more than was charged. Resume on the first machine.")
            return None
        self._unread.discard(purpose)
        then, arrays = self._known[purpose]
        if then != terms:
            raise BudgetError(f"{purpose!r} was drawn before with the terms {then}, not with {terms}.")
        return arrays

    def keep(self, purpose: str, terms: str, arrays: list[NDArray[Any]]) -> None:
        self._known[purpose] = terms, arrays

    def sync(self) -> None:
        """Flush the draws to disk, after a mechanism's last one."""

    def close(self, *, remove: bool) -> None:
        """End the record of draws. remove: delete it, because nothing is left to resume."""


class Mechanism:
    """One budget, its accounts and its randomness.

    epsilon, delta: for all records of one person, at most `max_rows`. `total` and all amounts are for one
        record. [P11]
    before: ε and δ spent earlier on Gaussian tables. The new ρ is that of both budgets minus the earlier one.
    outcomes: draws of an interrupted build to continue; they are not drawn again.
    """

    def __init__(
        self,
        epsilon: Fraction,
        randomness: Randomness,
        *,
        delta: Fraction = Fraction(0),
        max_rows: int = 1,
        law: Law | None = None,
        before: tuple[Fraction, Fraction] = NOTHING,
        outcomes: Outcomes | None = None,
    ) -> None:
        self.epsilon, self.delta, self.max_rows = epsilon, delta, max_rows
        self.law: Law = law or ("gaussian" if delta + before[1] else "laplace")
        self.total = epsilon / max_rows
        if self.law == "gaussian":
            self.total = self._rho(epsilon + before[0], delta + before[1])
            self.total -= self._rho(*before) if before[0] else 0  # [P17]
        self._spent: dict[str, Fraction] = {}
        self._charges: dict[str, Charge] = {}
        self._randomness, self._outcomes = randomness, outcomes or Outcomes()

    def _rho(self, epsilon: Fraction, delta: Fraction) -> Fraction:
        return rho_of(epsilon / self.max_rows, delta_of_one_record(delta, epsilon, self.max_rows))

    @property
    def remaining(self) -> Fraction:
        return self.total - sum(self._spent.values(), Fraction(0))

    def noise(self, amount: Fraction) -> Noise:
        """The noise that an amount buys for a table of counts. Draws nothing."""
        return Noise(self.law, amount)

    def noisy(
        self, purpose: str, exact: Exact, amount: Fraction, progress: Progress | None = None
    ) -> Integers:
        """A table of counts with noise on each, in its shape. [P6] [P8]"""
        _check_table(exact)
        noise, terms = self.noise(amount), f"noise on {exact.shape}"
        (noisy,) = self._once(
            purpose, amount, terms, lambda: [self._with_noise(exact._exact_value, noise, purpose, progress)]
        )
        return noisy

    def refined(
        self, purpose: str, exact: Exact, released: Integers, scale: float, amount: Fraction
    ) -> Integers:
        """Counts that were released before, again, with less noise for `amount` more. [P17]

        released, scale: the old release and the scale of its noise. The new noise has the scale of both
        amounts together. The old release equals the new one plus independent noise.
        """
        _check_table(exact)
        if self.law != "laplace" or released.shape != exact.shape:
            raise BudgetError("Only tables with Laplace noise can be refined.")
        rate = 1 / Fraction(scale)
        finer = 1 / Fraction(laplace_scale(rate + amount))

        def draw() -> list[NDArray[Any]]:
            exact_counts = exact._exact_value.reshape(-1)
            key = self._randomness.root_key("finer noise on " + purpose)
            noise = finer_noise(released.reshape(-1) - exact_counts, rate, finer, key)
            return [(exact_counts + noise).reshape(released.shape)]

        (counts,) = self._once(purpose, amount, f"less noise on {exact.shape} of {scale}", draw)
        return counts

    @staticmethod
    def could_have_released(exact: Exact, released: Integers, scale: float) -> bool:
        """False if noise of this scale explains the difference at most once in 10¹² times. For the curator
        only, who may have the wrong table.
        """
        distance, n = np.abs(released - exact._exact_value).sum() / scale, released.size
        return bool(distance <= n + 10 * math.sqrt(n) + 30)

    def choose(self, purpose: str, scores: Exact, amount: Fraction, prior: NDArray[np.float64]) -> int:
        """The exponential mechanism: i with probability ∝ prior_i · exp(ε · score_i / 2). [P9] [P15]"""
        if self.law != "laplace":
            raise BudgetError("Choices cost epsilon, but a budget with a delta is accounted in rho.")
        rate = amount / 2

        def draw() -> list[NDArray[Any]]:
            uniform = Uniform(self._randomness.root_key("choice of " + purpose), 0)
            exact_scores, weights = ([*map(Fraction, each.tolist())] for each in (scores._exact_value, prior))
            return [np.array([_choose(exact_scores, rate, weights, uniform)])]

        (chosen,) = self._once(purpose, amount, f"one of {len(prior)}", draw)
        return int(chosen[0])

    def grow(
        self, counts: Any, growth: Any, engine: Any, progress: Progress | None = None
    ) -> list[NDArray[Any]]:
        """The paper's blocks: lower and upper bounds, counts with noise, and depths. [P3] [P4] [P6]

        growth: `PartitionParameters`. engine: grows blocks by them, with randomness from the key alone.
        """
        if self.law != "laplace" or growth.converge_loss() > growth.epsilon_converge:
            raise BudgetError("These parameters of a partition reveal more than they are charged for.")
        cuts = growth.epsilon_cut * growth.n_private_cut_levels
        noise = Noise(self.law, growth.epsilon_counts)

        def draw() -> list[NDArray[Any]]:
            leaves = engine.grow(counts, growth, self._randomness.root_key("partition"), progress)
            noisy = self._with_noise(leaves.exact_sum, noise, "counts of blocks", progress)
            return [leaves.lower, leaves.upper, noisy, leaves.depth]

        self._charge("choose cuts", cuts, growth.n_private_cut_levels)
        self._charge("decide when to stop", growth.epsilon_converge)
        return self._once("noise on counts", growth.epsilon_counts, "blocks", draw)

    def frequent(self, purpose: str, texts: Exact, amount: Fraction, delta: Fraction) -> dict[str, int]:
        """Noisy counts of texts that are not listed beforehand, if they exceed a threshold. [P13]

        texts: records of each. A text held by one person exceeds it with probability at most δ.
        """
        exact_counts = texts._exact_value
        if not isinstance(exact_counts, dict) or any("\0" in text for text in exact_counts):
            raise BudgetError("Remove NUL characters from texts: OpenDP would cut the texts off there.")
        k, epsilon = self.max_rows, amount * self.max_rows

        def draw() -> list[NDArray[Any]]:
            passed = _laplace_with_threshold(exact_counts, laplace_scale(amount), epsilon, delta, k)
            names = sorted(passed)  # in an order that does not depend on texts below the threshold
            return [np.array(names, np.str_), np.array([passed[name] for name in names], np.int64)]

        names, counts = self._once(purpose, amount, "frequent texts", draw, delta)
        return dict(zip(names.tolist(), counts.tolist(), strict=True))

    def rng(self, purpose: str) -> np.random.Generator:
        """Randomness for post-processing, such as the start of a fit: not secret, no part of any noise."""
        (seed,) = self._recalled("public randomness: " + purpose, "a seed", lambda: [self._seed(purpose)])
        return np.random.default_rng(seed)

    def _seed(self, purpose: str) -> NDArray[np.uint32]:
        if self._randomness.is_test:
            return self._randomness.root_key("public randomness for " + purpose)
        return np.frombuffer(secrets.token_bytes(32), np.uint32)

    def close(self) -> tuple[Charge, ...]:
        """The budget spent, for one person. A remainder is an error, because it would waste accuracy."""
        if self.remaining != 0:
            raise BudgetError(f"{self.remaining} of {self.total} was not spent: a mistake in the method.")
        self._outcomes.sync()
        if self.law == "gaussian":
            return (Charge(WITH_DELTA, self.epsilon, delta=self.delta),)  # [P14]
        return tuple(self._charges.values())

    def _once(
        self, purpose: str, amount: Fraction, terms: str, draw: Draw, delta: Fraction = Fraction(0)
    ) -> list[NDArray[Any]]:
        """Charge for a purpose, then draw for it; or recall the draw of an interrupted build."""
        self._charge(purpose, amount, delta=delta)
        return self._recalled(purpose, f"{terms} for {amount}", draw)

    def _recalled(self, purpose: str, terms: str, draw: Draw) -> list[NDArray[Any]]:
        known = self._outcomes.recall(purpose, terms)
        if known is None:
            known = draw()
            self._outcomes.keep(purpose, terms, known)
        return known

    def _charge(self, purpose: str, amount: Fraction, times: int = 1, delta: Fraction = Fraction(0)) -> None:
        """Spend `amount` of one record's budget on a purpose that was not used before. [P1]"""
        if purpose in self._spent:
            raise BudgetError(f"{purpose!r} was already drawn; a second draw would cost budget again.")
        if amount <= 0 or delta < 0:
            raise BudgetError(f"{purpose!r} cannot be charged {amount}: charges must be positive.")
        spent_delta = sum((charge.delta for charge in self._charges.values()), Fraction(0))
        if amount > self.remaining or delta > self.delta - spent_delta:
            left = f"{float(self.remaining):g} of {float(self.total):g}"
            raise BudgetError(f"{purpose!r} needs a budget of {float(amount):g}; only {left} is left.")
        self._spent[purpose] = amount
        heading, of_all = purpose.split(": ")[0], amount * self.max_rows / times
        before = self._charges.get(heading, Charge(heading, Fraction(0), times))
        self._charges[heading] = Charge(heading, before.epsilon + of_all, before.times, before.delta + delta)

    def _with_noise(
        self, exact_counts: Integers, noise: Noise, purpose: str, progress: Progress | None = None
    ) -> Integers:
        """Counts of any shape with noise on each, part by part: millions of them take a minute."""
        flat = np.ascontiguousarray(exact_counts, np.int64).reshape(-1)
        noisy, report = np.empty_like(flat), progress or silent
        key = self._randomness.root_key("noise on " + purpose) if self._randomness.is_test else None
        for start in range(0, len(flat), _ENTRIES_AT_ONCE):
            report(start / len(flat), "adding noise")
            part = slice(start, start + _ENTRIES_AT_ONCE)
            noisy[part] = _sampled(flat[part], noise.law, noise.scale, key, start)
        return noisy.clip(-2 * MOST_RECORDS, 2 * MOST_RECORDS).reshape(np.shape(exact_counts))


def _check_table(exact: Exact) -> None:
    if exact.in_all != 1:
        raise BudgetError("A record counts more than once here, but this noise is for tables of counts.")


def _sampled(
    exact_counts: Integers, law: Law, scale: float, key: NDArray[np.uint32] | None, start: int
) -> Integers:
    """Counts with noise of this scale on each. key: a test key; noise uses its draws from 2·start on."""
    if key is not None:
        draws = np.empty(2 * len(exact_counts))
        draw_many(key, start // 4, draws)
        noise = _keyed_laplace if law == "laplace" else _keyed_gaussian
        return exact_counts + noise(draws.reshape(-1, 2), scale)
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    if law == "laplace":
        mechanism = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=scale)
        _check_certified(mechanism.map(1), 1 / Fraction(scale))
    else:
        mechanism = dp.m.make_gaussian(domain, dp.l2_distance(T="i64"), scale=scale)
        _check_certified(mechanism.map(1), 1 / (2 * Fraction(scale) ** 2))
    return np.array(mechanism(exact_counts.tolist()), dtype=np.int64)


def _laplace_with_threshold(
    exact_counts: dict[str, int], scale: float, epsilon: Fraction, delta: Fraction, k: int
) -> dict[str, int]:
    """Noisy counts above a threshold for which OpenDP certifies δ if k rows change."""
    import opendp.prelude as dp

    if delta < _LEAST_CERTIFIED_DELTA:
        raise BudgetError(f"OpenDP certifies no delta below {float(_LEAST_CERTIFIED_DELTA):.2g}.")
    dp.enable_features("contrib")
    space = (
        dp.map_domain(dp.atom_domain(T=str), dp.atom_domain(T="i64")),
        dp.l01inf_distance(dp.absolute_distance(T="i64")),
    )
    # One person can have k texts, each of which passes with probability at most δ/k.
    threshold = math.ceil(k + scale * math.log(k / float(delta)))
    while True:
        mechanism = dp.m.make_laplace_threshold(*space, scale=scale, threshold=threshold)
        certified_epsilon, certified_delta = mechanism.map((k, k, k))
        if Fraction(certified_delta) <= delta:
            break
        threshold += max(1, threshold // 1000)
    _check_certified(certified_epsilon, epsilon)
    return dict(mechanism(exact_counts))


def _check_certified(certified: float, amount: Fraction) -> None:
    if Fraction(certified) > amount * _CERTIFIED:
        raise BudgetError(f"OpenDP certifies {certified:g} where {float(amount):g} was charged.")


def _keyed_laplace(draws: NDArray[np.float64], scale: float) -> Integers:
    """Discrete Laplace as the difference of two geometric variables by inversion: (n, 2) to (n,)."""
    geometric = np.floor(-np.log1p(-draws) * scale).astype(np.int64)
    return geometric[:, 0] - geometric[:, 1]


def _keyed_gaussian(draws: NDArray[np.float64], scale: float) -> Integers:
    """Discrete Gaussian by inversion; a rounded normal variable where very wide: (n, 2) to (n,)."""
    if scale > _WIDEST_TABLE:
        normal = np.sqrt(-2 * np.log1p(-draws[:, 0])) * np.cos(2 * np.pi * draws[:, 1])
        wide: Integers = np.rint(scale * normal).astype(np.int64)
        return wide
    most = math.ceil(9 * scale) + 1
    values = np.arange(-most, most + 1)
    running = np.cumsum(np.exp(-(values**2) / (2 * scale**2)))
    places = np.searchsorted(running, draws[:, 0] * running[-1], side="right").clip(max=2 * most)
    drawn: Integers = values[places]
    return drawn
