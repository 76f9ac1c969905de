"""Stand-in for query.errors.fields until it is there: K coherent draws of the errors of base sums."""
# mypy: ignore-errors
from __future__ import annotations

import itertools
import math
from functools import reduce

import numpy as np

from hdpview.query.interval.errors import mixture_errors
from hdpview.view.blocks import Blocks

FIELD_FEW, MISFIT = 2.0, 0.25


def draw_errors(view, scans, n_draws, seed):
    out = [np.zeros((n_draws, len(s.bases), s.n_groups)) for s in scans]
    for i, part in enumerate(view.parts):
        fields = Fields(n_draws, seed + i, scans)
        for s, o in zip(scans, out, strict=True):
            if not s.bases:
                continue
            o += (_of_blocks if isinstance(part.components, Blocks) else _of_mixture)(part, s, fields)
    return out


def _of_blocks(part, scan, fields):
    from hdpview.query.evaluate.scan import component_means

    z = part.components
    W = fields.once("blocks", lambda: fields.rng.laplace(0, z.noise_scale, (fields.K, len(z))))
    means = [component_means(z, c) for c in scan.clusters]
    out = []
    for j in range(len(scan.bases)):
        own = [m[:, c.of(j)] for c, m in zip(scan.clusters, means, strict=True)]
        table = W
        for m in own[:-1]:
            table = (table[:, None, :] * m[None]).reshape(-1, m.shape[1])
        out.append((table @ own[-1].T).reshape(len(W), -1))
    return np.stack(out, axis=1)


def _of_mixture(part, scan, fields):
    K, me = fields.K, mixture_errors(part)
    total, factors = me._total, part.quality.factors
    margin = [c.margin for c in me._codes]
    measured = {frozenset(t.attributes): i for i, t in enumerate(me._tables)}
    C = scan.clusters
    full = [_project(c, margin) for c in C]
    mean = [p[()] for p in full]
    own = [(ci, a) for ci, c in enumerate(C) for a in c.attributes]
    n_b, grid = len(scan.bases), scan.grid
    err = np.zeros((K, n_b, *grid))

    def spread(parts, scale):
        for j in range(n_b):
            term = scale if np.ndim(scale) == 0 else scale[j]
            x = None
            for ci, c in enumerate(C):
                if ci not in parts:
                    m = mean[ci][:, c.of(j)]
                    shape = [1] * len(C)
                    shape[ci] = len(m)
                    x = m.reshape(shape) if x is None else x * m.reshape(shape)
            err[:, j] += parts["field"][j] * (term if x is None else term * x)

    def placed(values, involved):
        shape = [len(values)] + [grid[ci] if ci in involved else 1 for ci in range(len(C))]
        return values.reshape(shape)

    independent = (
        np.stack([reduce(np.multiply.outer, [m[:, c.of(j)] for c, m in zip(C, mean, strict=True)]) for j in range(n_b)])
        * total
    )
    est = scan.estimate.reshape(n_b, *grid)
    with np.errstate(all="ignore"):
        more = np.sqrt(np.maximum(np.where(independent > 0, est / independent, 1.0), 1.0))
    counts = [j for j, b in enumerate(scan.bases) if b.summand is None]
    for j, b in enumerate(scan.bases):
        if b.summand is not None and counts:
            more[j] = more[counts[0]]

    def kernel(name, attributes, weigh, scale, by=None):
        order = sorted(attributes)
        involved = sorted({ci for ci, a in own if a in attributes})
        tensors = []
        for ci in involved:
            inside = tuple(a for a in C[ci].attributes if a in attributes)
            f = full[ci][inside]
            for axis, a in enumerate(inside):
                f = np.moveaxis(fields.coordinates(name, a, weigh, np.moveaxis(f, 2 + axis, -1)), -1, 2 + axis)
            tensors.append((ci, inside, f))
        size = {a: f.shape[2 + inside.index(a)] for _, inside, f in tensors for a in inside}
        z, found = fields.normals((name, *order), *(size[a] for a in order)), []
        for j in range(n_b):
            x, left = z, list(order)
            for ci, inside, f in tensors:
                x = np.tensordot(
                    x,
                    f[:, C[ci].of(j)],
                    axes=([1 + left.index(a) for a in inside], list(range(1, 1 + len(inside)))),
                )
                left = [a for a in left if a not in inside]
            found.append(placed(x, involved))
        spread(
            {"field": found, **{ci: True for ci in involved}},
            scale if by is None else [scale * by[j] for j in range(n_b)],
        )

    def weighted(a, f):
        return (f - (f @ margin[a])[..., None]) * np.sqrt(margin[a])

    def plain(a, f):
        return f - f.mean(axis=-1, keepdims=True)

    z = fields.normals("total", 1)
    spread({"field": [z.reshape(-1, *[1] * len(C))] * n_b}, math.sqrt(me.total_variance))
    for _, a in own:
        kernel("histogram", {a}, plain, math.sqrt(me.code_variance[a]))
        kernel("fit", {a}, weighted, factors[0] * total)
    for (_, a), (_, b) in itertools.combinations(own, 2):
        known = measured.get(frozenset((a, b)))
        if known is not None:
            t = me._tables[known]
            bins = dict(zip(t.attributes, t.shape.bin_of_code, strict=True))

            def in_bins(a_, f, bins=bins):
                n = int(bins[a_].max()) + 1
                weight = np.bincount(bins[a_], margin[a_], n)[bins[a_]]
                share = np.where(
                    weight > 0, margin[a_] / np.where(weight > 0, weight, 1), 1 / np.bincount(bins[a_])[bins[a_]]
                )
                M = np.zeros((f.shape[-1], n))
                M[np.arange(f.shape[-1]), bins[a_]] = share
                g = f @ M
                return g - g.mean(axis=-1, keepdims=True)

            kernel(("table", known), {a, b}, in_bins, math.sqrt(me._table_noise[known]))
        kernel("model", {a, b}, weighted, total * factors[1] * (MISFIT if known is not None else 1.0), more)
    n_at = len(own)
    z = fields.normals(("group", repr(scan.bases[0].key), repr([k.sql() for k in scan.keys])), *grid)
    for j in range(n_b):
        largest = reduce(
            np.multiply.outer, [np.abs(c.values[:, c.of(j)]).reshape(len(c.values), -1).max(axis=1, initial=0.0) for c in C]
        )
        few = FIELD_FEW * largest if n_at > 1 else 0.0
        var = 0.0
        if n_at >= 3:
            var = (total * factors[2]) ** 2 * more[j] ** 2 * reduce(
                np.multiply.outer, [_averaged(c.values**2, c, margin)[:, c.of(j)] for c in C]
            )
            low = (total * factors[2]) ** 2 * more[j] ** 2 * reduce(np.multiply.outer, [m[:, c.of(j)] ** 2 for c, m in zip(C, mean, strict=True)])
            var = np.maximum(var - low, 0) * 0.3
        err[:, j] += z * np.sqrt(var + few**2)
    return err.reshape(K, n_b, scan.n_groups)


class Fields:
    def __init__(self, K, seed, scans):
        self.K, self.rng, self.known, self.used, self.rows = K, np.random.default_rng(seed), {}, [], {}
        for c in (c for s in scans for c in s.clusters):
            for axis, a in enumerate(c.attributes):
                f = np.moveaxis(c.values, 2 + axis, -1).reshape(-1, c.values.shape[2 + axis])
                f = np.eye(f.shape[1]) if len(f) > f.shape[1] else f
                self.rows.setdefault(a, []).append(f @ c.shares[axis])

    def once(self, key, make):
        if key not in self.known:
            self.known[key] = make()
        return self.known[key]

    def coordinates(self, name, a, weigh, f):
        def make():
            m = weigh(a, np.concatenate(self.rows[a]))
            if min(m.shape) > 300:
                return np.eye(m.shape[1])
            _, size, v = np.linalg.svd(m, full_matrices=False)
            return v[size > 1e-9 * size.max(initial=0.0)].T

        return weigh(a, f) @ self.once(("basis", name, a), make)

    def normals(self, key, *shape):
        def make():
            n, half = math.prod(shape), self.K // 2
            z = self.rng.standard_normal((half, n))
            if n + sum(u.shape[1] for u in self.used) <= half:
                old = np.concatenate([*self.used, np.zeros((half, 0))], axis=1)
                z = np.linalg.qr(z - old @ (old.T @ z))[0]
                self.used.append(z)
                z = z * math.sqrt(half)
            return np.concatenate([z, -z]).reshape(self.K, *shape)

        return self.once(("z", key), make)


def _averaged(f, c, margin, some=()):
    for axis in range(len(c.attributes) - 1, -1, -1):
        a, S = c.attributes[axis], c.shares[axis]
        moved = np.moveaxis(f, 2 + axis, -1)
        f = moved @ (S @ margin[a]) if a not in some else np.moveaxis(moved @ S, -1, 2 + axis)
    return f


def _project(c, margin):
    sets = [some for n in range(min(2, len(c.attributes)) + 1) for some in itertools.combinations(c.attributes, n)]
    return {some: _averaged(c.values, c, margin, some) for some in sets}
