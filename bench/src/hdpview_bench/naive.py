"""A literal implementation of the paper's method in plain Python: it scores every cut by splitting the cells.

Slow but obviously correct: the baseline for speed. It uses Python's random numbers, so its output is not
private.
"""

from __future__ import annotations

import math
import random
import time

from hdpview.partition.parameters import PartitionParameters

Box = tuple[tuple[int, int], ...]  # half-open range of codes per attribute
Cell = tuple[tuple[int, ...], int]  # codes of an occupied cell, and its count


class OutOfTimeError(Exception):
    """The time limit was reached before the partition was complete."""


def deviation(cells: list[Cell], box: Box) -> float:
    """Σ |x − mean| over all cells of a block, empty ones included."""
    n_cells = math.prod(float(high - low) for low, high in box)
    mean = sum(count for _, count in cells) / n_cells
    return sum(abs(count - mean) for _, count in cells) + (n_cells - len(cells)) * mean


def split(
    cells: list[Cell], box: Box, attribute: int, cut: int
) -> tuple[tuple[list[Cell], Box], tuple[list[Cell], Box]]:
    """Both halves of a block: their cells and their boxes."""
    low, high = box[attribute]
    left = [cell for cell in cells if cell[0][attribute] < cut]
    right = [cell for cell in cells if cell[0][attribute] >= cut]
    before, after = box[:attribute], box[attribute + 1 :]
    return (left, (*before, (low, cut), *after)), (right, (*before, (cut, high), *after))


def score(cells: list[Cell], box: Box, attribute: int, cut: int) -> float:
    """−(AE_L + AE_R) of one cut."""
    return -sum(deviation(*half) for half in split(cells, box, attribute, cut))


def partition(
    cells: list[Cell], sizes: tuple[int, ...], parameters: PartitionParameters, seed: int, limit_s: float
) -> list[tuple[Box, int]]:
    """Leaves with their sums. Raises OutOfTimeError after `limit_s` seconds of CPU time."""
    rng = random.Random(seed)
    deadline = time.process_time() + limit_s
    leaves: list[tuple[Box, int]] = []
    work: list[tuple[list[Cell], Box, int]] = [(cells, tuple((0, size) for size in sizes), 1)]
    while work:
        inside, box, depth = work.pop()
        cuts = [(a, cut) for a, (low, high) in enumerate(box) for cut in range(low + 1, high)]
        if not cuts or _converges(deviation(inside, box), depth, parameters, rng):
            leaves.append((box, sum(count for _, count in inside)))
            continue
        if depth <= parameters.n_private_cut_levels:
            scores = []
            for candidate in cuts:
                scores.append(score(inside, box, *candidate))
                if time.process_time() > deadline:
                    raise OutOfTimeError
            chosen = _choose(cuts, scores, box, float(parameters.epsilon_cut), rng)
        else:
            a = rng.choice(sorted({a for a, _ in cuts}))
            chosen = rng.choice([candidate for candidate in cuts if candidate[0] == a])
        work += [(*half, depth + 1) for half in split(inside, box, *chosen)]
    return leaves


def _converges(
    absolute_deviation: float, depth: int, parameters: PartitionParameters, rng: random.Random
) -> bool:
    biased = max(parameters.converge_floor, absolute_deviation - depth * parameters.converge_bias_per_level)
    noise = parameters.converge_noise_scale * (rng.expovariate(1.0) - rng.expovariate(1.0))
    return biased + noise <= parameters.converge_threshold


def _choose(
    cuts: list[tuple[int, int]], scores: list[float], box: Box, epsilon: float, rng: random.Random
) -> tuple[int, int]:
    n_cells = math.prod(float(high - low) for low, high in box)
    sensitivity = 4 * (1 - 1 / n_cells)
    best = max(scores)
    weights = [math.exp(epsilon * (score - best) / (2 * sensitivity)) for score in scores]
    return rng.choices(cuts, weights)[0]
