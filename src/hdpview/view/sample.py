"""Synthetic records drawn from a view. Post-processing: costs no budget, and any seed may be used."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hdpview.domain import Attribute, Datetime, Ordered
from hdpview.errors import QueryError
from hdpview.view.data import ViewData, ViewPart

MAX_ROWS = 1_000_000_000
_BATCH = 1_000_000  # records drawn at a time: about 16 MB, and 4 MB per attribute


def draw(view: ViewData, n: int, seed: int | None = None) -> pa.Table:
    """`n` records in random order, with the schema's columns.

    Each record is drawn from a component, chosen in proportion to its weight: a code of each attribute, and a
    uniform value in its bin. Integers are int64, reals double, datetimes timestamps, categories text, and
    missing values null.
    """
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or not 0 <= n <= MAX_ROWS:
        raise QueryError(f"The number of records must be an integer from 0 to {MAX_ROWS:,}, not {n!r}.")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0):
        raise QueryError(f"The seed must be a non-negative integer, not {seed!r}.")
    rng = np.random.default_rng(seed)
    codes = draw_codes(view.parts, int(n), rng)
    columns = [_values(attribute, codes[a].astype(np.int64), rng) for a, attribute in enumerate(view.schema)]
    return pa.table(columns, names=list(view.schema.names))


def draw_codes(parts: Sequence[ViewPart], n: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """Codes of `n` records, shape (n_attributes, n), in random order."""
    weight = np.concatenate([part.components.weight for part in parts])
    starts = np.cumsum([0, *(len(part.components) for part in parts)])
    reach = np.cumsum(weight)
    if n and reach[-1] <= 0:
        raise QueryError("The view counts no records, so none can be drawn.")
    codes = np.empty((len(parts[0].components.sizes), n), np.int32)
    last = int(np.flatnonzero(weight)[-1]) if n else 0
    for first in range(0, n, _BATCH):
        numbers = np.arange(first, min(first + _BATCH, n))
        drawn = np.minimum(np.searchsorted(reach, rng.random(len(numbers)) * reach[-1], side="right"), last)
        for part, start, end in zip(parts, starts, starts[1:], strict=False):
            of_part = np.flatnonzero((start <= drawn) & (drawn < end))
            codes[:, numbers[of_part]] = part.components.draw(drawn[of_part] - start, rng)
    return codes


def _values(attribute: Attribute, codes: NDArray[np.int64], rng: np.random.Generator) -> pa.Array:
    if not isinstance(attribute, Ordered):
        names: list[object] = [False, True] if attribute.kind == "boolean" else list(attribute.value_labels())
        return pa.array(names + [None] * attribute.nullable).take(pa.array(codes))
    missing = codes == attribute.null_code if attribute.nullable else np.zeros(len(codes), dtype=bool)
    bins = np.where(missing, 0, codes)
    start, width = attribute.edges[bins], np.diff(attribute.edges)[bins]
    inside = rng.random(len(codes)) * width
    if not attribute.whole:
        last = np.nextafter(attribute.edges[bins + 1], -np.inf)  # rounding must not reach the next bin
        return pa.array(np.minimum(start + inside, last), mask=missing)
    whole_numbers = start + np.minimum(inside.astype(np.int64), width - 1)
    if not isinstance(attribute, Datetime):
        return pa.array(whole_numbers, pa.int64(), mask=missing)
    moments = pa.array(whole_numbers, pa.timestamp("us"), mask=missing)
    return moments.cast(pa.date32(), safe=False) if attribute.kind == "date" else moments
