"""The components, released tables and quality of a .pview file.

Reading trusts nothing: every array is checked before it becomes part of a view.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from hdpview.domain import Schema
from hdpview.domain.table_shapes import TableShape
from hdpview.errors import ViewFileError
from hdpview.view.blocks import MAX_COUNT, Blocks, fault_in_tiling
from hdpview.view.data import ViewPart
from hdpview.view.manifest import Text
from hdpview.view.mixture import Mixture, fault_in_mixture
from hdpview.view.quality import N_ORDERS, Quality
from hdpview.view.released_tables import Table

SHARE_UNITS = 65_535  # files hold shares as integer multiples of 1/SHARE_UNITS
MAX_NOISE_SCALE = 1e12  # records; larger noise hides everything
_MAX_TABLES = 100_000  # released tables of one view
_MAX_CELLS = 100_000_000  # cells of one released table
_MAX_FACTOR = 1e6  # maximum factor of the model's error

Scale = Annotated[float, Field(gt=0, le=MAX_NOISE_SCALE)]
Factor = Annotated[float, Field(ge=0, le=_MAX_FACTOR)]


class Facts(BaseModel):
    """Fields of a file. Types must match exactly; unknown fields are ignored."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)


class QualityFacts(Facts):
    """The sizes of the view's errors."""

    factors: list[Factor] = Field(min_length=N_ORDERS, max_length=N_ORDERS)
    measured: bool
    within: dict[Text, Annotated[float, Field(ge=0, le=MAX_COUNT)]] = Field(max_length=100)


class TableFacts(Facts):
    """A released table; arrays are packed as text."""

    attributes: list[int] = Field(min_length=1)
    bins: list[str]
    noise: Literal["laplace", "gaussian"]
    scale: Scale
    counts: str


class BinFacts(Facts):
    """The bins of one attribute of a mixture; arrays are packed as text."""

    bins: str
    shape: str


class PartFacts(Facts):
    """One part of a view: `noise_scale` for blocks, `bins` for a mixture."""

    noise_scale: Scale | None = None
    bins: list[BinFacts | None] | None = None
    quality: QualityFacts
    tables: list[TableFacts] = Field(max_length=_MAX_TABLES)
    people: list[TableFacts] = Field([], max_length=_MAX_TABLES)


# Columns


def columns_of(parts: Sequence[ViewPart], schema: Schema) -> dict[str, pa.Array]:
    """The columns of a file: one row per component, part after part."""
    blocks = [part.components for part in parts if isinstance(part.components, Blocks)]
    mixtures = [part.components for part in parts if isinstance(part.components, Mixture)]
    values = _block_columns(blocks, schema) if blocks else _mixture_columns(mixtures, schema)
    values["part"] = np.repeat(np.arange(len(parts)), [len(part.components) for part in parts])
    types = column_types(schema, "blocks" if blocks else "mixture", len(parts))
    return {name: pa.array(values[name]).cast(kind) for name, kind in types.items()}


def column_types(schema: Schema, kind: str, n_parts: int = 1) -> dict[str, pa.DataType]:
    """Columns of a .pview file, in order.

    Blocks: inclusive bounds in the smallest unsigned type, the noisy count, and the depth of the block.
    Mixture: the weight, a list of shares per attribute, and the number of the fit.
    """
    part = {"part": pa.uint16()} if n_parts > 1 else {}
    if kind == "blocks":
        codes = {a.name: pa.uint8() if a.size <= 256 else pa.uint16() for a in schema}
        bounds = {f"{name}_{end}": code for name, code in codes.items() for end in ("lo", "hi")}
        return {**bounds, "count": pa.int64(), "depth": pa.uint16(), **part}
    shares = {f"{a.name}_share": pa.list_(pa.uint16()) for a in schema}
    return {"weight": pa.float64(), **shares, "member": pa.uint16(), **part}


def _block_columns(parts: Sequence[Blocks], schema: Schema) -> dict[str, Any]:
    lower, upper = (np.concatenate(own) for own in zip(*((b.lower, b.upper - 1) for b in parts), strict=True))
    columns = {f"{name}_lo": lower[:, a] for a, name in enumerate(schema.names)}
    columns |= {f"{name}_hi": upper[:, a] for a, name in enumerate(schema.names)}
    columns["count"] = np.concatenate([blocks.noisy_counts for blocks in parts])
    columns["depth"] = np.concatenate([blocks.depth for blocks in parts])
    return columns


def _mixture_columns(parts: Sequence[Mixture], schema: Schema) -> dict[str, Any]:
    columns: dict[str, Any] = {"weight": np.concatenate([mixture.weight for mixture in parts])}
    for a, name in enumerate(schema.names):
        units = [np.rint(mixture.share[a].T * SHARE_UNITS).astype(np.uint16) for mixture in parts]
        lengths = np.concatenate([np.full(len(each), each.shape[1]) for each in units])
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        values = pa.array(np.concatenate([each.reshape(-1) for each in units]))
        columns[f"{name}_share"] = pa.ListArray.from_arrays(pa.array(offsets), values)
    columns["member"] = np.concatenate([mixture.fit_index for mixture in parts])
    return columns


def quantised(share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shares as files hold them: integer multiples of 1/SHARE_UNITS; each column sums to 1 exactly."""
    units = np.floor(share * SHARE_UNITS)
    missing = np.rint(SHARE_UNITS - units.sum(axis=0)).astype(np.int64)
    order = np.argsort(units - share * SHARE_UNITS, axis=0, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(len(share))[:, None], axis=0)
    rounded: NDArray[np.float64] = (units + (rank < missing)) / SHARE_UNITS
    return rounded


def parts_from(
    table: pa.Table, facts: Sequence[Mapping[str, Any]], kind: str, schema: Schema
) -> tuple[ViewPart, ...]:
    """The parts of a view, from the columns of its file and the manifest's facts about each part."""
    number = numbers(table, "part") if len(facts) > 1 else np.zeros(len(table), np.uint16)
    starts = np.searchsorted(number, np.arange(len(facts) + 1))
    if (number[1:] < number[:-1]).any() or (np.diff(starts) == 0).any() or starts[-1] != len(table):
        raise ViewFileError("its parts are not those that the manifest lists")
    read = _blocks_from if kind == "blocks" else _mixture_from
    parts = []
    for i, part_facts in enumerate(map(PartFacts.model_validate, facts)):
        rows = table.slice(int(starts[i]), int(starts[i + 1] - starts[i]))
        tables = tuple(table_from(each, schema) for each in part_facts.tables)
        # A mixture needs a histogram of each attribute for guaranteed intervals.
        counted = {table.attributes[0] for table in tables if len(table.attributes) == 1}
        if kind == "mixture" and len(counted) < len(schema.names):
            raise ViewFileError("a histogram is missing")
        quality = Quality(
            tuple(part_facts.quality.factors), part_facts.quality.measured, part_facts.quality.within
        )
        people = tuple(table_from(each, schema) for each in part_facts.people)
        if any(len(table.attributes) > 1 or table.noise != "laplace" for table in people):
            raise ViewFileError("a count of persons is damaged")
        parts.append(ViewPart(read(rows, part_facts, schema), quality, tables, people, schema.cycles))
    return tuple(parts)


def _blocks_from(table: pa.Table, facts: PartFacts, schema: Schema) -> Blocks:
    names = schema.names
    lower = np.stack([numbers(table, f"{name}_lo") for name in names], axis=1).astype(np.int32)
    upper = np.stack([numbers(table, f"{name}_hi") for name in names], axis=1).astype(np.int32) + 1
    counts, depth = numbers(table, "count"), numbers(table, "depth").astype(np.int32)
    fault = fault_in_tiling(lower, upper, depth, schema.sizes)
    if fault is None and (np.abs(counts.astype(np.float64)) > MAX_COUNT).any():
        fault = "a count is larger than any table"
    if fault is not None or facts.noise_scale is None:
        raise ViewFileError(fault or "the noise of its counts is missing")
    return Blocks(lower, upper, counts.copy(), depth, facts.noise_scale)


def _mixture_from(table: pa.Table, facts: PartFacts, schema: Schema) -> Mixture:
    bins, shapes, shares = [], [], []
    for attribute, binning in zip(schema, facts.bins or (), strict=True):
        size = attribute.size
        bin_of_code = np.arange(size) if binning is None else unpacked(binning.bins, np.uint16, size)
        shape = np.ones(size) if binning is None else unpacked(binning.shape, np.float64, size)
        lists = table.column(f"{attribute.name}_share").combine_chunks()
        n_bins = int(bin_of_code.max()) + 1
        values, offsets = (each.astype(np.float64) for each in _elements(lists))
        if (np.diff(offsets) != n_bins).any() or len(values) != n_bins * len(table):
            raise ViewFileError("an attribute has the wrong number of shares")
        bins.append(bin_of_code.astype(np.int32))
        shapes.append(shape)
        shares.append(np.ascontiguousarray((values / SHARE_UNITS).reshape(-1, n_bins).T))
    weight, fit_index = numbers(table, "weight").copy(), numbers(table, "member").astype(np.int32)
    mixture = Mixture(weight, tuple(bins), tuple(shapes), tuple(shares), fit_index)
    fault = fault_in_mixture(mixture, schema.sizes)
    if fault is None and float(weight.sum()) > MAX_COUNT:
        fault = "its weights are larger than any table"
    if fault is not None:
        raise ViewFileError(fault)
    return mixture


def numbers(table: pa.Table, name: str) -> NDArray[Any]:
    """A column without missing values, through DLPack; Arrow's `to_numpy` would import pandas."""
    return np.from_dlpack(table.column(name).combine_chunks())


# Facts in the manifest


def facts_of(part: ViewPart) -> dict[str, Any]:
    """The manifest's facts about a part, as `PartFacts` reads them."""
    quality, within = part.quality, dict(part.quality.within)
    facts: dict[str, Any] = {
        "quality": {"factors": list(quality.factors), "measured": quality.measured, "within": within},
        "tables": [_table_as_data(each) for each in part.tables],
        **({"people": [_table_as_data(each) for each in part.people]} if part.people else {}),
    }
    components = part.components
    if isinstance(components, Blocks):
        return {"noise_scale": components.noise_scale, **facts}
    bins = []
    arrays = zip(components.bin_of_code, components.within_bin_share, components.share, strict=True)
    for bin_of_code, shape, share in arrays:
        each_its_own = len(share) == len(bin_of_code) and (bin_of_code == np.arange(len(bin_of_code))).all()
        binning = {"bins": packed(bin_of_code.astype(np.uint16)), "shape": packed(shape)}
        bins.append(None if each_its_own else binning)
    return {"bins": bins, **facts}


def _table_as_data(table: Table) -> dict[str, Any]:
    return {
        "attributes": list(table.attributes),
        "bins": [packed(bins.astype(np.uint16)) for bins in table.shape.bin_of_code],
        "noise": table.noise,
        "scale": table.scale,
        "counts": packed(table.counts),
    }


def table_from(facts: TableFacts, schema: Schema) -> Table:
    """A released table; ValueError if its arrays do not fit the schema."""
    attributes = tuple(facts.attributes)
    if (
        list(attributes) != sorted(set(attributes))
        or attributes[0] < 0
        or attributes[-1] >= len(schema.names)
    ):
        raise ValueError
    sizes = [schema.sizes[a] for a in attributes]
    bins = [unpacked(text, np.uint16, size) for text, size in zip(facts.bins, sizes, strict=True)]
    n_bins = [int(each.max()) + 1 for each in bins]
    if any(len(np.unique(each)) != n for each, n in zip(bins, n_bins, strict=True)):
        raise ValueError
    n_cells = int(np.prod(n_bins, dtype=np.float64))
    if n_cells > _MAX_CELLS:
        raise ValueError
    counts = unpacked(facts.counts, np.int64, n_cells)
    if (np.abs(counts.astype(np.float64)) > MAX_COUNT).any():
        raise ValueError
    shape = TableShape(attributes, tuple(each.astype(np.int32) for each in bins))
    return Table(shape, counts.reshape(n_bins), facts.noise, facts.scale)


def packed(array: NDArray[Any]) -> str:
    """An array as text: little-endian, bytes of equal significance together, zlib, base 64."""
    flat = np.ascontiguousarray(array).reshape(-1)
    planes = flat.astype(flat.dtype.newbyteorder("<")).view(np.uint8).reshape(-1, flat.dtype.itemsize).T
    return base64.b64encode(zlib.compress(np.ascontiguousarray(planes).tobytes(), 9)).decode()


def unpacked(text: str, dtype: Any, n: int) -> NDArray[Any]:
    """The inverse of `packed` for exactly `n` numbers; ValueError for anything else."""
    kind = np.dtype(dtype).newbyteorder("<")
    if n > _MAX_CELLS:
        raise ValueError
    try:
        stream = zlib.decompressobj()
        raw = stream.decompress(base64.b64decode(text, validate=True), n * kind.itemsize + 1)
    except (zlib.error, binascii.Error):
        raise ValueError from None
    if len(raw) != n * kind.itemsize:
        raise ValueError
    planes = np.frombuffer(raw, np.uint8).reshape(kind.itemsize, n).T
    array: NDArray[Any] = np.ascontiguousarray(planes).view(kind).reshape(-1).astype(np.dtype(dtype))
    if kind.kind == "f" and not np.isfinite(array).all():
        raise ValueError
    return array


# Checksum


def checksum(columns: Mapping[str, pa.Array], content: Mapping[str, Any]) -> str:
    """SHA-256 of all columns and of the manifest without its checksum."""
    digest = hashlib.sha256()
    for name, column in columns.items():
        digest.update(name.encode() + b"\0")
        if pa.types.is_list(column.type):
            values, offsets = _elements(column)
            digest.update(_bytes(np.diff(offsets.astype(np.int64))))
        else:
            values = np.from_dlpack(column)
        digest.update(_bytes(values))
    rest = {key: value for key, value in content.items() if key != "checksum"}
    digest.update(json.dumps(rest, sort_keys=True, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _elements(lists: pa.ListArray) -> tuple[NDArray[Any], NDArray[Any]]:
    """The elements of all lists, and their offsets. Arrow's `flatten` would import all its functions."""
    offsets = np.from_dlpack(lists.offsets)
    return np.from_dlpack(lists.values)[offsets[0] : offsets[-1]], offsets


def _bytes(array: NDArray[Any]) -> bytes:
    return array.astype(array.dtype.newbyteorder("<")).tobytes()
