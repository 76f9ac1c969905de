"""Draws of the errors of all base sums of a statement: small Gaussian fields, shared by all its scans.

Every kernel of the error model is a product over attributes, so that a draw of it is a small random tensor
contracted with functions of codes: G groups cost n_draws · G numbers, never G × G covariances. All scans of a
statement meet the same tensors, so that a part and its whole, or a share and its complement, err together.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Hashable, Sequence
from functools import reduce
from itertools import combinations
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hdpview.query.bounds.noise import NoiseLaw
from hdpview.query.errors.blocks import cut_deviation, hidden_records
from hdpview.query.errors.codes import unlike
from hdpview.query.errors.kernels import MAX_PIECE_ORDER, MIN_ERROR_RECORDS, ErrorModel, error_model
from hdpview.view.blocks import Blocks
from hdpview.view.data import ViewPart
from hdpview.view.quality import N_ORDERS

Floats = NDArray[np.float64]
_MAX_DRAWS, _MIN_DRAWS = 200, 32
_MAX_DRAWN_GROUPS = 400_000  # draws × groups, above which there are fewer draws
_MAX_FIELD = 100_000  # numbers of one draw of a field of three attributes; larger ones are drawn per group
_MAX_BASIS = 300  # functions of an attribute up to which a field is reduced to what they span


class _Cluster(Protocol):
    """Attributes that expressions tie together.

    functions: shape (n_keys, n_specs, *n_classes): what a record of these classes adds.
    classes: per attribute, shape (n_classes, n_codes): share of a code's records in each class.
    spec: per base sum, which function it multiplies.
    """

    @property
    def attributes(self) -> Sequence[int]: ...
    @property
    def functions(self) -> Floats: ...
    @property
    def classes(self) -> Sequence[Floats]: ...
    @property
    def spec(self) -> Sequence[int]: ...


class Scan(Protocol):
    """Base sums of one SELECT over the view. Groups are the cells of the grid of the clusters' keys.

    estimate: shape (n_bases, n_groups).
    """

    @property
    def clusters(self) -> Sequence[Any]: ...
    @property
    def bases(self) -> Sequence[Any]: ...
    @property
    def grid(self) -> tuple[int, ...]: ...
    @property
    def estimate(self) -> Floats: ...


def n_draws_for(n_groups: int) -> int:
    """How many draws answers with so many groups get: an even number."""
    return int(np.clip(_MAX_DRAWN_GROUPS // max(n_groups, 1), _MIN_DRAWS, _MAX_DRAWS)) // 2 * 2


def seed_of(checksum: str, statement: str) -> int:
    """The seed of a statement's draws, so that answers repeat."""
    return int.from_bytes(hashlib.sha256(f"{checksum}\n{statement}".encode()).digest()[:8])


def draw_errors(part: ViewPart, scans: Sequence[Scan], n_draws: int, seed: int) -> list[Floats]:
    """Errors of all scans of a statement, shape (n_draws, n_bases, n_groups) each: mean 0, coherent.

    The second half of the draws is minus the first.
    """
    with_groups = [scan for scan in scans if math.prod(scan.grid)]
    if isinstance(part.components, Blocks):
        drawn = iter(_draw_block_errors(part, with_groups, n_draws, seed))
    else:
        fields = _Fields(error_model(part), with_groups, n_draws, seed)
        drawn = iter([fields.errors(scan) for scan in with_groups])
    empty = (np.zeros((n_draws, len(scan.bases), 0)) for scan in scans if not math.prod(scan.grid))
    return [next(drawn if math.prod(scan.grid) else empty) for scan in scans]


class _Normals:
    """Random tensors by name, each drawn once, shape (n_draws, …)."""

    def __init__(self, n_draws: int, seed: int) -> None:
        self.n_draws = n_draws
        self._rng = np.random.default_rng(seed)
        self._known: dict[Hashable, Floats] = {}
        self._used = np.zeros((n_draws // 2, 0))

    def __call__(self, key: Hashable, *shape: int) -> Floats:
        """Antithetic. As long as there are fewer numbers than half the draws, orthonormal to all before, so
        that covariances of what is linear in them have no sampling error.
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

    apply: (n, size) → (n, n_features). functions: all of a statement; coordinates span what they need.
    """

    def __init__(self, apply: Callable[[Floats], Floats], functions: Floats | None = None) -> None:
        self._apply, self._basis = apply, None
        self._known: dict[int, tuple[Floats, Floats]] = {}
        self.n = 1
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

    def __init__(self, model: ErrorModel, scans: Sequence[Scan], n_draws: int, seed: int) -> None:
        self.model, self.n_draws = model, n_draws
        self.normals = _Normals(n_draws, seed)
        self._maps: dict[tuple[int, Hashable], _Map] = {}
        functions: dict[int, list[Floats]] = {}
        for cluster in (cluster for scan in scans for cluster in scan.clusters):
            for axis, a in enumerate(cluster.attributes):
                classes = cluster.classes[axis]
                rows = np.moveaxis(cluster.functions, 2 + axis, -1).reshape(-1, len(classes))
                functions.setdefault(a, []).append(rows @ classes if len(rows) < len(classes) else classes)
        self._functions = {a: np.concatenate(rows) for a, rows in functions.items()}

    def _map(self, a: int, name: Hashable, apply: Callable[[Floats], Floats]) -> _Map:
        """The map of this name, reduced to what the statement's functions span."""
        if (a, name) not in self._maps:
            self._maps[a, name] = _Map(apply, self._functions[a])
        return self._maps[a, name]

    def _weighing(self, a: int, name: Hashable, weights: Floats) -> _Map:
        """The sum over codes with these weights."""
        if (a, name) not in self._maps:
            self._maps[a, name] = _Map(lambda values: (values @ weights)[:, None])
        return self._maps[a, name]

    def _mean(self, a: int) -> _Map:
        return self._weighing(a, "mean", self.model.margins[a])

    def _plain(self, a: int, binning: int) -> _Map:
        """Deviations of bins' averages from their plain mean, weighted by the noise that the fit keeps."""
        codes = self.model.codes[a]

        def apply(values: Floats) -> Floats:
            of_bins = codes.over_bins(values, binning)
            moved: Floats = (of_bins - of_bins.mean(axis=1, keepdims=True)) * np.sqrt(codes.kept[binning])
            if binning:
                return moved
            of_cycles = (values - (values @ codes.margin)[:, None]) @ codes.of_classes
            return np.concatenate([moved, of_cycles], axis=1)

        return self._map(a, ("plain", binning), apply)

    def _codes(self, a: int) -> _Map:
        """Deviations of codes from the mean over records, weighted by their shares of the records."""
        margin, weight = self.model.margins[a], np.sqrt(self.model.codes[a].of_codes[:, 0])
        return self._map(a, "codes", lambda values: (values - (values @ margin)[:, None]) * weight)

    def _bins(self, a: int, binning: int, scatter: float = 0.0, codes_only: bool = False) -> _Map:
        """Deviations of bins' averages from the mean over records, weighted by the bins' shares; and those of
        codes from their bins' averages, as far as they are left inside bins.
        """
        codes, bins = self.model.codes[a], self.model.binnings[a][binning - 1]
        weight = np.sqrt(unlike(np.bincount(bins, codes.margin)))

        def apply(values: Floats) -> Floats:
            of_bins = codes.over_bins(values, binning)
            between = (of_bins - (values @ codes.margin)[:, None]) * weight
            if not scatter:
                return between
            inside = (values - of_bins[:, bins]) * np.sqrt(scatter * codes.of_codes[:, binning])
            return inside if codes_only else np.concatenate([between, inside], axis=1)

        return self._map(a, ("bins", binning, scatter, codes_only), apply)

    def _weight(self, a: int, others: tuple[int, ...]) -> _Map:
        """What the counts of other attributes together are multiplied with, as in `closed`."""
        codes = self.model.codes[a]
        piece = self.model.pieces.get(tuple(sorted((*others, a))))
        if not others:
            return self._weighing(a, "plain mean", codes.even[0])
        if piece is None:
            return self._mean(a)
        even = codes.even[piece.binnings[piece.attributes.index(a)]]
        return self._weighing(a, ("mean", others), codes.margin + piece.kept * (even - codes.margin))

    # Errors of a scan.

    def errors(self, scan: Scan) -> Floats:
        """Shape (n_draws, n_bases, n_groups)."""
        model, own = self.model, sorted(a for cluster in scan.clusters for a in cluster.attributes)
        shape = self.n_draws, len(scan.bases), *scan.grid
        found = np.zeros(shape)
        drawn_second_moment = self._squares(scan, {})
        for order in range(min(MAX_PIECE_ORDER, len(own)) + 1):
            for some in combinations(own, order):
                piece = model.pieces.get(some)
                weights = {a: self._weight(a, some) for a in own if a not in some}
                if order < 2:
                    variance = model.code_variance[some[0]] if some else model.total_variance
                    maps = {a: self._plain(a, 0) for a in some}
                    self._add(found, scan, ("noise", some), maps, weights, math.sqrt(variance))
                elif piece is not None:
                    maps = {a: self._plain(a, n) for a, n in zip(some, piece.binnings, strict=True)}
                    self._add(found, scan, ("noise", some), maps, weights, math.sqrt(piece.noise))
                if not order:
                    continue
                level = model.levels[order - 1] + (piece.within if piece else 0.0)
                scale = model.total * math.sqrt(level)
                whole = {a: self._codes(a) for a in some}
                if order > 2 and math.prod(each.n for each in whole.values()) > _MAX_FIELD:
                    continue
                drawn_second_moment += self._squares(scan, whole)
                if piece is None:
                    self._add(found, scan, ("model", some), whole, {}, scale)
                    continue
                # What is scattered inside bins: all less that of bins, one attribute after the other.
                described = list(zip(some, piece.binnings, piece.scatter, strict=True))
                for i in range(order):
                    maps = {a: self._bins(a, n) for a, n, _ in described[:i]}
                    maps |= {
                        a: self._bins(a, n, scatter, codes_only=j == 0)
                        for j, (a, n, scatter) in enumerate(described[i:])
                    }
                    self._add(found, scan, ("model", some, i), maps, {}, scale)
        rest = np.zeros(shape[1:])
        if len(own) > 2:
            second = np.stack([_grid_product(scan, j, self._second_moments) for j in range(len(scan.bases))])
            left = np.maximum(second - drawn_second_moment, 0.0) * model.total**2
            rest = model.levels[min(len(own), N_ORDERS) - 1] * left
        lift = np.sqrt(self._lifts(scan)).reshape(shape[1:])
        if len(own) > 1:
            rest = rest + (MIN_ERROR_RECORDS * self._usual_sizes(scan) / lift) ** 2
        found += self.normals(_group_key(scan), 1, *scan.grid) * np.sqrt(rest)
        return (lift * found).reshape(self.n_draws, len(scan.bases), -1)

    def _add(
        self,
        errors: Floats,
        scan: Scan,
        name: Hashable,
        maps: dict[int, _Map],
        weights: dict[int, _Map],
        scale: float,
    ) -> None:
        """Add one kernel: coordinates of the mapped attributes times a random tensor, times the weights of
        all others, which are means over records where none are given.
        """
        if not scale or not all(each.n for each in maps.values()):
            return
        order = sorted(maps)
        z = self.normals(name, *(maps[a].n for a in order))
        contracted = {}
        for c, cluster in enumerate(scan.clusters):
            inside = {a: maps.get(a, weights.get(a, self._mean(a))) for a in cluster.attributes}
            contracted[c] = _contract(cluster, inside)
        for j in range(len(scan.bases)):
            field, left = z, list(order)
            placed = []  # clusters whose keys have become axes of the field, in order
            rest: Floats = np.ones(())
            for c, cluster in enumerate(scan.clusters):
                values = contracted[c][:, _spec(cluster, j)]  # (n_keys, *coordinates)
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
            errors[:, j] += field.reshape(self.n_draws, *shape) * (scale * rest)

    def _squares(self, scan: Scan, maps: dict[int, _Map]) -> Floats:
        """Squared norms of coordinates times squared means of other attributes, shape (n_bases, *grid)."""
        products = []
        for j in range(len(scan.bases)):

            def squares(cluster: _Cluster) -> Floats:
                inside = {a: maps.get(a, self._mean(a)) for a in cluster.attributes}
                values = _contract(cluster, inside)
                norms: Floats = (values**2).sum(axis=tuple(range(2, values.ndim)))
                return norms

            products.append(_grid_product(scan, j, squares))
        return np.stack(products)

    def _second_moments(self, cluster: _Cluster) -> Floats:
        """Squared norms of all coordinates, those of the mean among them, shape (n_keys, n_specs); of tied
        attributes a bound, mean squares over records.
        """
        if len(cluster.attributes) != 1:
            return self._record_means(cluster, np.square)
        both = (
            _contract(cluster, {a: own(a) for a in cluster.attributes}) for own in (self._codes, self._mean)
        )
        norms: Floats = sum((each**2).sum(axis=-1) for each in both)
        return norms

    def _record_means(self, cluster: _Cluster, of_values: Callable[[Floats], NDArray[Any]]) -> Floats:
        """Means over records of a function of what they add, shape (n_keys, n_specs)."""
        values: Floats = of_values(cluster.functions).astype(np.float64)
        for axis in reversed(range(len(cluster.attributes))):
            a = cluster.attributes[axis]
            values = np.moveaxis(values, 2 + axis, -1) @ (cluster.classes[axis] @ self.model.margins[a])
        return values

    def _usual_sizes(self, scan: Scan) -> Floats:
        """Root mean squares over records of what they add to each sum, if not 0, shape (n_bases, *grid)."""

        def usual(cluster: _Cluster) -> Floats:
            squares, records = (self._record_means(cluster, f) for f in (np.square, lambda x: x != 0.0))
            return np.sqrt(np.divide(squares, records, out=np.zeros_like(squares), where=records > 0))

        return np.stack([_grid_product(scan, j, usual) for j in range(len(scan.bases))])

    def _lifts(self, scan: Scan) -> Floats:
        """How many times more records lie in each group than if attributes were independent, at least 1,
        shape (n_bases, n_groups). Sums of values have the lift of the largest count.
        """

        def means(cluster: _Cluster) -> Floats:
            inside = {a: self._mean(a) for a in cluster.attributes}
            values = _contract(cluster, inside)
            return values.reshape(len(values), -1)

        independent = [
            self.model.total * _grid_product(scan, j, means).reshape(-1) for j in range(len(scan.bases))
        ]
        n_groups = scan.estimate.shape[1]
        lifts = np.ones((len(scan.bases), n_groups))
        largest, of_largest = np.full(n_groups, -np.inf), np.ones(n_groups)
        for j, (base, expected) in enumerate(zip(scan.bases, independent, strict=True)):
            if base.is_count:
                np.divide(scan.estimate[j], expected, out=lifts[j], where=expected > 0)
                of_largest = np.where(scan.estimate[j] > largest, lifts[j], of_largest)
                largest = np.maximum(scan.estimate[j], largest)
        lifts[[not base.is_count for base in scan.bases]] = of_largest
        return np.maximum(lifts, 1.0)


def _group_key(scan: Scan) -> Hashable:
    return "group", getattr(scan, "signature", id(scan)), scan.grid


def _spec(cluster: _Cluster, j: int) -> int:
    """Which function of a cluster a base sum multiplies."""
    return int(cluster.spec[j]) if cluster.attributes else 0


def _contract(cluster: _Cluster, maps: dict[int, _Map]) -> Floats:
    """Functions of classes in coordinates, shape (n_keys, n_specs, *n_coordinates)."""
    values = cluster.functions
    for axis, a in enumerate(cluster.attributes):
        moved = np.moveaxis(values, 2 + axis, -1) @ maps[a](cluster.classes[axis])
        values = np.moveaxis(moved, -1, 2 + axis)
    return values


def _grid_product(scan: Scan, j: int, of_cluster: Callable[[_Cluster], Floats]) -> Floats:
    """Products over clusters of numbers per key and function, for a base sum, in the shape of the grid."""
    factors = [of_cluster(cluster)[:, _spec(cluster, j)] for cluster in scan.clusters]
    return reduce(np.multiply.outer, factors, np.ones(()))


def _draw_block_errors(part: ViewPart, scans: Sequence[Scan], n_draws: int, seed: int) -> list[Floats]:
    """Noise on the blocks' counts, and records that lie unevenly in blocks, alike for all sums of a group."""
    blocks, normals = part.components, _Normals(n_draws, seed)
    assert isinstance(blocks, Blocks)
    noise = normals("noise", len(blocks)) * math.sqrt(NoiseLaw(blocks.noise_scale).variance)
    draws = []
    for scan in scans:
        n_attributes = sum(len(cluster.attributes) for cluster in scan.clusters)
        factor = part.quality.factors[min(max(n_attributes, 1), N_ORDERS) - 1]
        of_groups = normals(_group_key(scan), 1, *scan.grid).reshape(n_draws, -1)
        errors = np.zeros((n_draws, len(scan.bases), of_groups.shape[1]))
        means, squares = ([_block_means(blocks, c, power) for c in scan.clusters] for power in (1, 2))
        for j in range(len(scan.bases)):
            weight, square = (_over_grid(scan, j, each) for each in (means, squares))  # (n_groups, n_blocks)
            spread = cut_deviation(weight, square)
            records = spread @ blocks.weight + hidden_records(blocks) * spread.max(axis=1, initial=0.0)
            errors[:, j] = noise @ weight.T + of_groups * (factor * records)
        draws.append(errors)
    return draws


def _block_means(blocks: Blocks, cluster: _Cluster, power: int) -> Floats:
    """Means of functions, or of their squares, over each block, shape (n_keys, n_specs, n_blocks)."""
    values: Floats = cluster.functions**power
    if not cluster.attributes:
        return np.repeat(values[..., None], len(blocks), axis=-1)
    shares = [blocks.factors(a, own) for a, own in zip(cluster.attributes, cluster.classes, strict=True)]
    values = values @ shares[-1]  # (…, n_classes) @ (n_classes, n_blocks)
    for own in reversed(shares[:-1]):
        values = np.einsum("...cb,cb->...b", values, own)
    return values


def _over_grid(scan: Scan, j: int, of_clusters: Sequence[Floats]) -> Floats:
    """Products over clusters for a base sum in every group, shape (n_groups, n_blocks)."""
    product = np.ones((1, of_clusters[0].shape[-1]))
    for cluster, values in zip(scan.clusters, of_clusters, strict=True):
        product = (product[:, None] * values[None, :, _spec(cluster, j)]).reshape(-1, product.shape[1])
    return product
