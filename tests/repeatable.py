"""The same noise in every run, for tests of what people see after a build and not of the noise itself.

Keys are numbered, and OpenDP's samplers, which nobody can seed, give way to samplers of the same scale. All
else is as in a real build: views are stamped as private, and ledgers are charged.
"""

from __future__ import annotations

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

from hdpview.counts import learn
from hdpview.privacy import noise
from hdpview.privacy.randomness import Randomness

Integers = NDArray[np.int64]


@contextmanager
def repeatable_noise(seed: int = 1) -> Iterator[None]:
    """While it lasts, builds and learning in this process draw what they drew the last time."""
    rng, numbers = np.random.default_rng(seed), itertools.count()

    def fresh() -> Randomness:
        return Randomness(hashlib.blake2b(b"%d %d" % (seed, next(numbers)), digest_size=32).digest())

    def laplace(exact_counts: Integers, scale: float) -> Integers:
        chance, shape = -math.expm1(-1 / scale), np.shape(exact_counts)
        return exact_counts + rng.geometric(chance, shape) - rng.geometric(chance, shape)

    def gaussian(exact_counts: Integers, scale: float, rho: Fraction) -> Integers:
        return exact_counts + np.rint(rng.normal(0, scale, np.shape(exact_counts))).astype(np.int64)

    def with_threshold(
        exact_counts: dict[str, int], epsilon: Fraction, delta: Fraction, max_rows: int = 1
    ) -> dict[str, int]:
        scale = float(max_rows / epsilon)
        noisy = laplace(np.array([*exact_counts.values()], np.int64), scale)
        least = max_rows + scale * math.log(1 / float(delta))
        return {text: int(count) for text, count in zip(exact_counts, noisy, strict=True) if count >= least}

    with ExitStack() as stack:
        stack.enter_context(patch.object(Randomness, "fresh", fresh))
        for module in (noise, learn):
            stack.enter_context(patch.object(module, "opendp_laplace", laplace))
            stack.enter_context(patch.object(module, "laplace_with_threshold", with_threshold))
        stack.enter_context(patch.object(noise, "opendp_gaussian", gaussian))
        yield


def environment() -> dict[str, str]:
    """Of processes whose noise is repeatable."""
    places = [str(Path(__file__).parent / "same_noise"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
