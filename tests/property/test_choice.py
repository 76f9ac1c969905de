"""Choices follow their law to the last bit, on whichever side of a boundary a uniform number falls."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from hdpview.methods import Hdpview
from hdpview.partition import decide, rational
from hdpview.partition import grow as growing
from hdpview.partition.grow import ExactBlocks, grow, root
from hdpview.partition.parameters import PartitionParameters
from hdpview.partition.top import halves
from hdpview.privacy.choice import choose, exp_bounds, is_below
from hdpview.privacy.randomness import Bounds, Randomness, Uniform

RATES = st.fractions(min_value="1/1000", max_value=3, max_denominator=1000)
SCORES = st.lists(st.integers(-400, 400).map(lambda n: n / 8), min_size=2, max_size=9)


@dataclass(frozen=True)
class Written:
    """A chosen uniform number: 53 bits, followed by endless zeros or ones."""

    bits: int
    ones: bool = False

    @property
    def first(self) -> float:
        return self.bits / 2**53

    def bounds(self, n_blocks: int) -> Bounds:
        more = 512 * n_blocks
        whole = (self.bits << more) + (2**more - 1 if self.ones else 0)
        return Fraction(whole, 2 ** (53 + more)), Fraction(whole + 1, 2 ** (53 + more))


def fractions(numbers: Sequence[float]) -> list[Fraction]:
    return list(map(Fraction, numbers))


def running_shares(scores: list[float], rate: Fraction, prior: list[int]) -> list[Fraction]:
    """The boundaries between outcomes, by their definition, to 120 digits."""
    with localcontext(prec=140):
        exponents = [rate * (Fraction(score) - Fraction(max(scores))) for score in scores]
        weights = [
            weight * (Decimal(x.numerator) / Decimal(x.denominator)).exp()
            for weight, x in zip(prior, exponents, strict=True)
        ]
        total, running, boundaries = sum(weights), Decimal(0), []
        for weight in weights[:-1]:
            running += weight
            boundaries.append(Fraction(running / total))
    return boundaries


@settings(max_examples=60, deadline=None)
@given(SCORES, RATES, st.randoms(use_true_random=False))
def test_a_choice_is_the_one_of_the_exact_law_next_to_every_boundary(scores, rate, random):
    """The two doubles next to each boundary, against an oracle with 120 digits; doubles alone err here."""
    prior = [random.choice([1, 1, 3]) for _ in scores]
    boundaries = running_shares(scores, rate, prior)
    for boundary in boundaries:
        place = math.floor(boundary * 2**53)
        for number in (Written(place - 1), Written(place), Written(place, True), Written(place + 1)):
            # A number equal to a boundary in all bits can never be decided, and is never drawn.
            if not 0 <= number.bits < 2**53 or abs(boundary - number.bounds(1)[number.ones]) < Fraction(
                1, 2**400
            ):
                continue
            value = number.bounds(1)[number.ones]
            expected = sum(value >= other for other in boundaries)
            uniform: Any = number
            assert choose(fractions(scores), rate, fractions(prior), uniform) == expected


def test_equal_scores_are_parted_where_fractions_say():
    """A third is no double: the number whose first bits are those of 1/3 goes by the bits behind."""
    place = 2**53 // 3
    low, high = (
        choose(fractions([0] * 3), Fraction(1), fractions([1] * 3), uniform)
        for uniform in (Written(place), Written(place, True))
    )
    assert (low, high) == (0, 1)


@pytest.mark.parametrize("scores", [[1e300, 0.0], [0.0, -(2.0**52), 2.0**52], [5.0]])
def test_scores_far_apart_leave_no_doubt(scores):
    """Where all weight is on one outcome, any number but one of no likelihood leads there."""
    for bits in (1, 2**52, 2**53 - 1):
        uniform: Any = Written(bits)
        chosen = choose(fractions(scores), Fraction(1), fractions([1] * len(scores)), uniform)
        assert chosen == int(np.argmax(scores))


@given(st.fractions(min_value=0, max_value=50, max_denominator=10**6), st.integers(20, 80))
def test_exponentials_lie_within_their_bounds(x, digits):
    with localcontext(prec=140):
        value = Fraction((-Decimal(x.numerator) / Decimal(x.denominator)).exp())
    low, high = exp_bounds(x, digits)
    slack = Fraction(1, 10**130)
    assert low - slack <= value <= high + slack
    assert high - low <= Fraction(3, 10**digits)


def test_a_decision_follows_e_to_the_minus_x():
    """5,000 decisions of probability e^−1/2 from fixed keys: accepted at 1e-6; 10% more is rejected."""
    key, n = Randomness.from_test_key(b"decisions").root_key("x"), 5_000
    hits = sum(is_below(Uniform(key, i), lambda digits: exp_bounds(Fraction(1, 2), digits)) for i in range(n))
    assert stats.binomtest(hits, n, math.exp(-0.5)).pvalue > 1e-6
    assert stats.binomtest(hits, n, math.exp(-0.5) * 1.1).pvalue < 1e-6


def test_further_bits_are_a_numbers_own():
    """Bits beyond the first 53 differ between draws and blocks, and repeat for each."""
    key = Randomness.from_test_key(b"bits").root_key("x")
    low = {(i, n): Uniform(key, i).bounds(n)[0] for i in range(8) for n in range(3)}
    assert len(set(low.values())) == len(low)
    assert all(0 <= low[i, 2] - low[i, 0] < Fraction(1, 2**53) for i in range(8))
    assert low[3, 2] == Uniform(key, 3).bounds(2)[0]


def grown_exactly(
    codes: NDArray[np.uint8],
    counts: NDArray[np.int64],
    block: ExactBlocks,
    parameters: PartitionParameters,
    sizes: Any,
) -> list[tuple[Any, ...]]:
    """Leaves of a tree each of whose decisions is taken without doubles."""
    decision = decide.decide_from_rows(codes, counts, block, parameters, sizes)
    if decision is None:
        return [(block.lower.tolist(), block.upper.tolist(), block.exact_sum.tolist())]
    rows = slice(int(block.exact_first[0]), int(block.exact_last[0]))
    left = codes[rows, decision[0]] < decision[1]
    order = np.argsort(~left, kind="stable")
    codes[rows], counts[rows] = codes[rows][order], counts[rows][order]
    sides = halves(block, *decision, int(left.sum()), int(counts[rows][: left.sum()].sum()))
    return [leaf for side in sides for leaf in grown_exactly(codes, counts, side, parameters, sizes)]


@settings(max_examples=12, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([(4,), (3, 5), (2, 3, 4), (5, 6)]),
    st.sampled_from([1, 40, 2**40]),
)
def test_trees_are_the_same_with_and_without_doubles(seed, sizes, largest):
    rng = np.random.default_rng(seed)
    cells = np.unique(rng.integers(0, sizes, (rng.integers(1, 30), len(sizes))), axis=0).astype(np.uint8)
    counts = rng.integers(1, largest + 1, len(cells))
    parameters = PartitionParameters.choose(Hdpview(), Fraction(2), math.prod(sizes))
    start = root(sizes, counts, Randomness.from_test_key(b"%d" % seed).root_key("partition"))
    slow = grown_exactly(cells.copy(), counts.copy(), start, parameters, sizes)
    fast = grow(cells.copy(), counts.copy(), start, parameters)[0]
    assert slow == [
        ([low.tolist()], [high.tolist()], [total])
        for low, high, total in zip(fast.lower, fast.upper, fast.exact_sum.tolist(), strict=True)
    ]


def test_kernels_hand_over_what_doubles_cannot_tell(monkeypatch):
    """With counts near 2⁶⁰ doubles are off by records, so exact numbers decide."""
    handed: list[tuple[int, int]] = []
    before = growing._decide_exactly

    def seen(*words: Any) -> tuple[int, int]:
        handed.append(before(*words))
        return handed[-1]

    monkeypatch.setattr(growing, "_decide_exactly", seen)
    codes = np.arange(16, dtype=np.uint8)[:, None]
    counts = 2**57 + np.arange(16, dtype=np.int64) * 3
    parameters = PartitionParameters.choose(Hdpview(), Fraction(1, 10), 16)
    start = root((16,), counts, Randomness.from_test_key(b"large").root_key("partition"))
    leaves, pending = grow(codes, counts, start, parameters)
    assert handed
    assert len(pending) == 0
    assert leaves.exact_sum.sum() == counts.sum()
    assert (leaves.upper - leaves.lower).sum() == 16


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 2**60), min_size=2, max_size=8), st.integers(0, 7),
    st.fractions(min_value="1/1000", max_value=100, max_denominator=1000), st.integers(1, 40),
)  # fmt: skip
def test_a_record_moves_exact_deviations_by_less_than_two(counts, place, epsilon, depth):
    """In doubles, a record moved the deviation of counts near 2⁶⁰ by hundreds."""
    more = list(counts)
    more[place % len(counts)] += 1

    def deviation(x: list[int]) -> Fraction:
        above = [count for count in x if count > Fraction(sum(x), len(x))]
        return rational.deviation(sum(x), len(above), sum(above), len(x))

    assert deviation(counts) == sum(
        (abs(Fraction(sum(counts), len(counts)) - x) for x in counts), Fraction(0)
    )
    assert abs(deviation(more) - deviation(counts)) <= 2 * (1 - Fraction(1, len(counts)))
    parameters = PartitionParameters.choose(Hdpview(), epsilon, 2**depth)
    scale, bias = Fraction(parameters.converge_noise_scale), Fraction(parameters.converge_bias_per_level)
    loss = 2 / scale * (1 / (1 - exp_bounds(bias / scale, 60)[1]) + 2)
    assert loss <= parameters.epsilon_converge
    assert Fraction(parameters.converge_floor) >= Fraction(parameters.converge_threshold) + 2 - bias
