"""The same noise in every run, for tests of everything after a build except the noise itself.

Keys are numbered, and samplers of the same scale replace OpenDP's, which cannot be seeded. Everything else is
as in a real build: views are stamped as private, and ledgers are charged."""

import hashlib
import itertools
import math
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from pathlib import Path
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from hdpview.privacy import mechanism
from hdpview.privacy.mechanism import Mechanism
from hdpview.privacy.randomness import Randomness

Integers = NDArray[np.int64]


@contextmanager
def repeatable_noise(seed: int = 1) -> Iterator[None]:
    """Inside the block, builds and learning in this process repeat their draws of the previous run."""
    rng, numbers = np.random.default_rng(seed), itertools.count()

    def fresh() -> Randomness:
        return Randomness(hashlib.blake2b(b"%d %d" % (seed, next(numbers)), digest_size=32).digest())

    def sampled(exact_counts: Integers, law: str, scale: float, *_: object) -> Integers:
        chance, shape = -math.expm1(-1 / scale), np.shape(exact_counts)
        if law == "gaussian":
            return exact_counts + np.rint(rng.normal(0, scale, shape)).astype(np.int64)
        return exact_counts + rng.geometric(chance, shape) - rng.geometric(chance, shape)

    def with_threshold(
        exact_counts: dict[str, int], scale: float, epsilon: Fraction, delta: Fraction, k: int
    ) -> dict[str, int]:
        noisy = sampled(np.array([*exact_counts.values()], np.int64), "laplace", scale)
        least = k + scale * math.log(k / float(delta))
        return {text: int(count) for text, count in zip(exact_counts, noisy, strict=True) if count >= least}

    def seed_of(mechanism: Mechanism, purpose: str) -> NDArray[np.uint32]:
        return mechanism._randomness.root_key("public randomness for " + purpose)

    with ExitStack() as stack:
        stack.enter_context(patch.object(Randomness, "fresh", fresh))
        stack.enter_context(patch.object(mechanism, "_sampled", sampled))
        stack.enter_context(patch.object(mechanism, "_laplace_with_threshold", with_threshold))
        stack.enter_context(patch.object(Mechanism, "_seed", seed_of))
        yield


def environment() -> dict[str, str]:
    """Environment of processes whose noise is repeatable."""
    places = [str(Path(__file__).parent / "same_noise"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
