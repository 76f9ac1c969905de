"""Draws of the errors of all base sums of a statement: small Gaussian fields, shared by all its scans.

Every kernel of the error model is a product over attributes, so that a draw of it is a small random tensor
contracted with functions of codes: G groups cost n_draws · G numbers, never G × G covariances. All scans of a
statement share the tensors, so a part and its whole, or a share and its complement, have the same errors.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdpview.query.bounds.noise import NoiseLaw
from hdpview.query.errors.blocks import cut_deviation, hidden_records
from hdpview.query.errors.kernels import MIN_ERROR_RECORDS, ErrorModel, error_model, lifts
from hdpview.view.blocks import Blocks
from hdpview.view.data import ViewPart
from hdpview.view.quality import N_ORDERS

Floats = NDArray[np.float64]
_MAX_DRAWS, _MIN_DRAWS = 200, 32
_MAX_DRAWN_GROUPS = 400_000  # draws × groups, above which there are fewer draws
_MAX_FIELD_ORDER = 3  # maximum number of attributes of a field; errors of more are drawn per group
_MAX_FIELD = 100_000  # numbers of one draw of a field of three attributes; larger ones are drawn per group
_CODES = ("bins", 0)  # deviations of codes from the mean over records
_MAX_BASIS = 300  # functions of an attribute, above which a field is not reduced to their span


@dataclass(frozen=True, eq=False)
class ErrorCluster:
    """Attributes that expressions tie together.

    functions: shape (n_keys, n_functions, *n_classes): the contribution of a record of these classes.
    classes: per attribute, shape (n_classes, n_codes): share of a code's records in each class.
    function: per base sum, which function it multiplies.
    """

    attributes: tuple[int, ...]
    functions: Floats
    classes: Sequence[Floats]
    function: Sequence[int]

    def of(self, j: int) -> int:
        """The function of base sum j."""
        return int(self.function[j]) if self.attributes else 0


@dataclass(frozen=True, eq=False)
class ErrorScan:
    """Base sums of one SELECT over the view. Groups are the cells of the grid of the clusters' keys.

    is_count: per base sum, whether it counts records. estimate: shape (n_bases, n_groups).
    signature: scans with the same one are about the same groups.
    """

    clusters: Sequence[ErrorCluster]
    is_count: Sequence[bool]
    estimate: Floats
    signature: str = ""

    @property
    def grid(self) -> tuple[int, ...]:
        return tuple(len(cluster.functions) for cluster in self.clusters)

    @property
    def n_bases(self) -> int:
        return len(self.is_count)


def n_draws_for(n_groups: int) -> int:
    """The number of draws for this many groups; it is even."""
    return int(np.clip(_MAX_DRAWN_GROUPS // max(n_groups, 1), _MIN_DRAWS, _MAX_DRAWS)) // 2 * 2


def seed_of(checksum: str, statement: str) -> int:
    """The seed of a statement's draws, so that answers repeat."""
    return int.from_bytes(hashlib.sha256(f"{checksum}\n{statement}".encode()).digest()[:8])


def draw_errors(part: ViewPart, scans: Sequence[ErrorScan], n_draws: int, seed: int) -> list[Floats]:
    """Draw the errors of all scans of a statement, shape (n_draws, n_bases, n_groups) each, with mean 0.

    Draw i of all scans is one possible truth. The second half of the draws is the negated first half.
    """
    normals, with_groups = _Normals(n_draws, seed), [scan for scan in scans if math.prod(scan.grid)]
    if isinstance(part.components, Blocks):
        drawn = _draw_block_errors(part, part.components, with_groups, normals)
    else:
        drawn = map(_Fields(error_model(part), with_groups, normals).errors, with_groups)
    return [next(drawn) if math.prod(scan.grid) else np.zeros((n_draws, scan.n_bases, 0)) for scan in scans]


class _Normals:
    """Random tensors by name, each drawn once, shape (n_draws, …)."""

    def __init__(self, n_draws: int, seed: int) -> None:
        self.n_draws = n_draws
        self._rng = np.random.default_rng(seed)
        self._known: dict[Hashable, Floats] = {}
        self._used = np.zeros((n_draws // 2, 0))

    def __call__(self, key: Hashable, *shape: int) -> Floats:
        """Antithetic. While there are fewer numbers than half the draws, each is orthonormal to all earlier
        ones, so covariances of linear functions of them have no sampling error.
        """
        if key not in self._known:
            n, half = math.prod(shape), self.n_draws // 2
            z = self._rng.standard_normal((half, n))
            if n + self._used.shape[1] <= half:
                z = np.linalg.qr(z - self._used @ (self._used.T @ z))[0]
                self._used = np.concatenate([self._used, z], axis=1)
                z = z * math.sqrt(half)
            self._known[key] = np.concatenate([z, -z]).reshape(self.n_draws, *shape)
        return self._known[key]


class _Map:
    """A linear map from functions of an attribute's codes to coordinates, one for each normal of a field.

    apply: (n, size) → (n, n_features). functions: all of a statement, whose span coordinates are reduced to.
    """

    def __init__(
        self, apply: Callable[[Floats], Floats], n: int = 1, functions: Floats | None = None
    ) -> None:
        self._apply, self._basis, self.n = apply, None, n
        self._known: dict[int, tuple[Floats, Floats]] = {}
        if functions is not None:
            features = apply(functions)
            self.n = features.shape[1]
            if self.n > 1 and min(features.shape) <= _MAX_BASIS:
                self._basis = _row_space(features)
                self.n = self._basis.shape[1]

    def __call__(self, classes: Floats) -> Floats:
        """Coordinates of functions, shape (n, self.n); those of the same array are computed once."""
        if id(classes) not in self._known:
            mapped = self._apply(classes)
            self._known[id(classes)] = classes, mapped if self._basis is None else mapped @ self._basis
        return self._known[id(classes)][1]


def _row_space(features: Floats) -> Floats:
    """An orthonormal basis of the rows, shape (n_features, rank)."""
    wide = features.shape[0] < features.shape[1]
    squares, vectors = np.linalg.eigh(features @ features.T if wide else features.T @ features)
    kept = squares > 1e-14 * squares.max(initial=0.0)
    return features.T @ (vectors[:, kept] / np.sqrt(squares[kept])) if wide else vectors[:, kept]


class _Fields:
    """The fields of one statement and one part of a view."""

    def __init__(self, model: ErrorModel, scans: Sequence[ErrorScan], normals: _Normals) -> None:
        self.model, self.normals, self.n_draws = model, normals, normals.n_draws
        self._maps: dict[Hashable, _Map] = {}
        functions: dict[int, list[Floats]] = {}
        for cluster in (cluster for scan in scans for cluster in scan.clusters):
            for axis, a in enumerate(cluster.attributes):
                classes = cluster.classes[axis]
                rows = np.moveaxis(cluster.functions, 2 + axis, -1).reshape(-1, len(classes))
                functions.setdefault(a, []).append(rows @ classes if len(rows) < len(classes) else classes)
        self._functions = {a: np.concatenate(rows) for a, rows in functions.items()}

    def _map(self, a: int, *features: tuple[str, int]) -> _Map:
        """Coordinates of `Codes`, by kind and binning, reduced to what the statement's functions span."""
        if (a, features) not in self._maps:
            codes = self.model.codes[a]

            def apply(values: Floats) -> Floats:
                return np.concatenate([codes.coordinates(values, *each) for each in features], axis=1)

            self._maps[a, features] = _Map(apply, functions=self._functions[a])
        return self._maps[a, features]

    def _weight(self, a: int, others: tuple[int, ...] | None = None) -> _Map:
        """The factor of joint counts of other attributes, as in `closed`; None for the mean over records."""
        codes, (_, kept, binning) = self.model.codes[a], self.model.of_pairs
        key = others if others is not None and len(others) < 2 else None
        if (a, key) not in self._maps:
            share, number = (kept[a, key[0]], binning[a, key[0]]) if key else (float(key == ()), 0)
            weights = codes.margin + share * (codes.of_noise[number] - codes.margin)
            self._maps[a, key] = _Map(lambda values: (values @ weights)[:, None])
        return self._maps[a, key]

    # Errors of a scan.

    def errors(self, scan: ErrorScan) -> Floats:
        """Shape (n_draws, n_bases, n_groups)."""
        model, own = self.model, sorted(a for cluster in scan.clusters for a in cluster.attributes)
        shape = self.n_draws, scan.n_bases, *scan.grid
        errors = np.zeros(shape)
        means = _grid_products(scan, lambda cluster: self._record_means(cluster, np.positive))
        drawn_second_moment = np.square(means)
        places = [(c, *each) for c in scan.clusters for each in enumerate(c.attributes)]
        # Per base sum, the attributes that it depends on; functions of others alone have no error.
        depends = [
            {a for c, axis, a in places if np.ptp(c.functions[:, c.of(j)], axis=1 + axis).any()}
            for j in range(scan.n_bases)
        ]
        for order in range(min(_MAX_FIELD_ORDER, len(own)) + 1):
            for some in combinations(own, order):
                bases = [j for j, known in enumerate(depends) if known.issuperset(some)]
                if not bases:
                    continue
                piece = model.pieces.get(some)
                weights = {a: self._weight(a, some) for a in own if a not in some}
                if order < 2:
                    variance = model.code_variance[some[0]] if some else model.total_variance
                    maps = {a: self._map(a, ("noise", 0)) for a in some}
                    self._add(errors, scan, bases, ("noise", some), maps, weights, math.sqrt(variance))
                elif piece is not None:
                    maps = {a: self._map(a, ("noise", n)) for a, n in zip(some, piece.binnings, strict=True)}
                    self._add(errors, scan, bases, ("noise", some), maps, weights, math.sqrt(piece.noise))
                if not order:
                    continue
                scale = model.total * math.sqrt(model.levels[order - 1])
                whole = {a: self._map(a, _CODES) for a in some}
                if order > 2 and math.prod(each.n for each in whole.values()) > _MAX_FIELD:
                    continue
                drawn_second_moment += _grid_products(scan, partial(self._squares, maps=whole))
                if piece is None:
                    self._add(errors, scan, bases, ("model", some), whole, {}, scale)
                    continue
                # What is unknown inside bins of the first attribute, and then inside those of the second.
                (a, n), (b, m) = zip(some, piece.binnings, strict=True)
                first = {a: self._map(a, ("inside", n)), b: self._map(b, ("bins", m), ("inside", m))}
                second = {a: self._map(a, ("bins", n)), b: self._map(b, ("inside", m))}
                for i, maps in enumerate((first, second)):
                    self._add(errors, scan, bases, ("model", some, i), maps, {}, scale)
        rest = np.zeros(shape[1:])
        if len(own) > 2:
            squares = _grid_products(scan, self._second_moments)
            left = np.maximum(squares - drawn_second_moment, 0.0) * model.total**2
            rest = model.levels[min(len(own), N_ORDERS) - 1] * left
        independent = model.total * means.reshape(scan.n_bases, -1)
        lift = np.sqrt(lifts(scan.estimate, independent, scan.is_count)).reshape(shape[1:])
        if len(own) > 1:
            largest = _grid_products(
                scan, lambda c: abs(c.functions).reshape(*c.functions.shape[:2], -1).max(2)
            )
            rest = rest + (MIN_ERROR_RECORDS * largest / lift) ** 2
        errors = lift * (errors + self.normals(_group_key(scan), 1, *scan.grid) * np.sqrt(rest))
        missed = np.zeros((1, *shape[1:]))
        for some, (binnings, cells) in model.residuals.items():
            if bases := [j for j, known in enumerate(depends) if known.issuperset(some)]:
                maps = {
                    a: _Map(partial(model.codes[a].over_bins, binning=i), n)
                    for a, i, n in zip(some, binnings, cells.shape, strict=True)
                }
                self._add(missed, scan, bases, cells[None], maps, {}, 1.0)
        errors += np.multiply.outer(self.normals("residuals", 1)[:, 0], missed[0])
        return errors.reshape(self.n_draws, scan.n_bases, -1)

    def _add(
        self,
        errors: Floats,
        scan: ErrorScan,
        bases: Sequence[int],
        tensor: tuple[Any, ...] | Floats,
        maps: dict[int, _Map],
        weights: dict[int, _Map],
        scale: float,
    ) -> None:
        """Add one kernel to some base sums: coordinates of the mapped attributes times a random tensor, times
        the weights of all others, which are means over records where none are given.

        tensor: its name; or numbers that are not random, in place of draws.
        """
        if not scale or not all(each.n for each in maps.values()):
            return
        order = sorted(maps)
        z = tensor if isinstance(tensor, np.ndarray) else self.normals(tensor, *(maps[a].n for a in order))
        contracted = {}
        for c, cluster in enumerate(scan.clusters):
            inside = {a: maps.get(a) or weights.get(a) or self._weight(a) for a in cluster.attributes}
            contracted[c] = _contract(cluster, inside)
        for j in bases:
            field, left = z, list(order)
            placed = []  # clusters whose keys have become axes of the field, in order
            rest: Floats = np.ones(())
            for c, cluster in enumerate(scan.clusters):
                values = contracted[c][:, cluster.of(j)]  # (n_keys, *coordinates)
                own = [a for a in cluster.attributes if a in maps]
                if own:
                    values = values.reshape(len(values), *(maps[a].n for a in own))
                    axes = [1 + left.index(a) for a in own]
                    field = np.tensordot(field, values, (axes, list(range(1, 1 + len(own)))))
                    left = [a for a in left if a not in own]
                    placed.append(c)
                    rest = rest[..., None]
                else:
                    rest = rest[..., None] * values.reshape(-1)
            shape = [n if c in placed else 1 for c, n in enumerate(scan.grid)]
            errors[:, j] += field.reshape(len(z), *shape) * (scale * rest)

    def _squares(self, cluster: ErrorCluster, maps: dict[int, _Map]) -> Floats:
        """Squared norms of coordinates times squared means of other attributes, (n_keys, n_functions)."""
        values = _contract(cluster, {a: maps.get(a) or self._weight(a) for a in cluster.attributes})
        norms: Floats = (values**2).sum(axis=tuple(range(2, values.ndim)))
        return norms

    def _second_moments(self, cluster: ErrorCluster) -> Floats:
        """Squared norms of all coordinates, those of the mean among them, shape (n_keys, n_functions). Of
        tied attributes a bound: mean squares over records.
        """
        if len(cluster.attributes) != 1:
            return self._record_means(cluster, np.square)
        (a,) = cluster.attributes
        return self._squares(cluster, {a: self._map(a, _CODES)}) + self._squares(cluster, {})

    def _record_means(self, cluster: ErrorCluster, of_values: Callable[[Floats], NDArray[Any]]) -> Floats:
        """Means over records of a function of their contributions, shape (n_keys, n_functions)."""
        values: Floats = of_values(cluster.functions).astype(np.float64)
        for axis in reversed(range(len(cluster.attributes))):
            a = cluster.attributes[axis]
            values = np.moveaxis(values, 2 + axis, -1) @ (cluster.classes[axis] @ self.model.margins[a])
        return values


def _group_key(scan: ErrorScan) -> Hashable:
    return "group", scan.signature or id(scan), scan.grid


def _contract(cluster: ErrorCluster, maps: dict[int, _Map]) -> Floats:
    """Functions of classes in coordinates, shape (n_keys, n_functions, *n_coordinates)."""
    values = cluster.functions
    for axis, a in enumerate(cluster.attributes):
        moved = _times(np.moveaxis(values, 2 + axis, -1), maps[a](cluster.classes[axis]))
        values = np.moveaxis(moved, -1, 2 + axis)
    return values


def _times(rows: Floats, coordinates: Floats) -> Floats:
    """The matrix product; keys that are classes, such as days, have one entry in each row."""
    if np.count_nonzero(rows, axis=-1).max(initial=0) > 1:
        return rows @ coordinates
    place = np.abs(rows).argmax(axis=-1)
    product: Floats = np.take_along_axis(rows, place[..., None], axis=-1) * coordinates[place]
    return product


def _grid_products(scan: ErrorScan, of_cluster: Callable[[ErrorCluster], Floats]) -> Floats:
    """Products over clusters of numbers per key and function, shape (n_bases, *grid)."""
    products = np.ones(scan.n_bases)
    for cluster in scan.clusters:
        specs = [cluster.of(j) for j in range(scan.n_bases)]
        factors = of_cluster(cluster)[:, specs].T  # (n_bases, n_keys)
        products = products[..., None] * factors.reshape(len(specs), *[1] * (products.ndim - 1), -1)
    return products


def _draw_block_errors(
    part: ViewPart, blocks: Blocks, scans: Sequence[ErrorScan], normals: _Normals
) -> Iterator[Floats]:
    """Noise on the blocks' counts, and records that lie unevenly in blocks, alike for all sums of a group."""
    noise = normals("noise", len(blocks)) * math.sqrt(NoiseLaw(blocks.noise_scale).variance)
    for scan in scans:
        n_attributes = sum(len(cluster.attributes) for cluster in scan.clusters)
        factor = part.quality.factors[min(max(n_attributes, 1), N_ORDERS) - 1]
        of_groups = normals(_group_key(scan), 1, *scan.grid).reshape(normals.n_draws, -1)
        errors = np.zeros((normals.n_draws, scan.n_bases, of_groups.shape[1]))
        means, squares = ([_block_means(blocks, c, power) for c in scan.clusters] for power in (1, 2))
        for j in range(scan.n_bases):
            weight, square = (_over_grid(scan, j, each) for each in (means, squares))  # (n_groups, n_blocks)
            spread = cut_deviation(weight, square)
            records = spread @ blocks.weight + hidden_records(blocks) * spread.max(axis=1, initial=0.0)
            errors[:, j] = noise @ weight.T + of_groups * (factor * records)
        yield errors


def _block_means(blocks: Blocks, cluster: ErrorCluster, power: int) -> Floats:
    """Means of functions, or of their squares, over each block, shape (n_keys, n_functions, n_blocks)."""
    values: Floats = cluster.functions**power
    if not cluster.attributes:
        return np.repeat(values[..., None], len(blocks), axis=-1)
    shares = [blocks.factors(a, own) for a, own in zip(cluster.attributes, cluster.classes, strict=True)]
    values = values @ shares[-1]  # (…, n_classes) @ (n_classes, n_blocks)
    for own in reversed(shares[:-1]):
        values = np.einsum("...cb,cb->...b", values, own)
    return values


def _over_grid(scan: ErrorScan, j: int, of_clusters: Sequence[Floats]) -> Floats:
    """Products over clusters for a base sum in every group, shape (n_groups, n_blocks)."""
    product = np.ones((1, of_clusters[0].shape[-1]))
    for cluster, values in zip(scan.clusters, of_clusters, strict=True):
        product = (product[:, None] * values[None, :, cluster.of(j)]).reshape(-1, product.shape[1])
    return product
