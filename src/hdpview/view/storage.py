"""The .pview file: one Parquet file with a row per block, and the manifest under one key of its metadata.

Files come from strangers. Reading checks every part before using it, and refuses in words: sizes before
memory is taken, types, bounds, and that the blocks tile the domain. Writing goes to a temporary file beside
the target and is renamed into place, so that a file is there whole or not at all.
"""

from __future__ import annotations

import os
import struct
import tempfile
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hdpview.domain import Schema
from hdpview.errors import ViewFileError
from hdpview.view.base import Base
from hdpview.view.blocks import MAX_COUNT, Blocks, fault_in_parts
from hdpview.view.data import ViewData
from hdpview.view.manifest import Manifest
from hdpview.view.manifest_json import MAX_MANIFEST_BYTES, from_json, to_json

MANIFEST_KEY = b"hdpview"
_MAX_FOOTER_BYTES = 64_000_000
_MAX_BYTES_IN_MEMORY = 8_000_000_000
_MAX_BLOCKS_TIMES_BINS = 200_000_000
_DEPTH_TYPE, _COUNT_TYPE, _PART_TYPE, _FITTED_TYPE = pa.uint16(), pa.int64(), pa.uint16(), pa.float64()


def write(view: ViewData, path: str | PathLike[str]) -> None:
    """Write a view, whole or not at all, and over nothing but an older view."""
    target = Path(path)
    try:
        _refuse_what_is_no_view(target)
        with tempfile.NamedTemporaryFile(
            dir=target.parent, prefix=f".{target.name}.", suffix=".part", delete=False
        ) as file:
            try:
                _write_to(file, view)
                file.flush()
                os.fsync(file.fileno())
                Path(file.name).chmod(0o666 & ~_umask())
                Path(file.name).replace(target)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
    except OSError as problem:
        raise ViewFileError(f"Cannot write {str(path)!r}: {problem.strerror or problem}.") from None


def size_in_bytes(view: ViewData) -> int:
    """How large the file of a view would be."""
    sink = pa.MockOutputStream()
    _write_to(sink, view)
    return int(sink.size())


def _write_to(sink: Any, view: ViewData) -> None:
    """The manifest goes into the footer once: as part of an Arrow schema, Parquet would keep a second, longer
    copy of it.
    """
    table = _table(view)
    columns = table.replace_schema_metadata(None)
    how = {
        "compression": "zstd",
        "compression_level": 9,
        "use_dictionary": False,
        "column_encoding": _encodings(view),
    }
    with pq.ParquetWriter(sink, columns.schema, store_schema=False, **how) as writer:
        writer.write_table(columns)
        writer.add_key_value_metadata(table.schema.metadata)


def check_place(path: str | PathLike[str]) -> None:
    """Refuse a place that a view cannot be written to. Ask before the budget is spent: a view that finds no
    place is lost.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise ViewFileError(f"The folder of {str(path)!r} does not exist. Make it first.")
    try:
        _refuse_what_is_no_view(target)
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", suffix=".part"):
            pass
    except OSError as problem:
        raise ViewFileError(f"Cannot write {str(path)!r}: {problem.strerror or problem}.") from None


def read(path: str | PathLike[str]) -> ViewData:
    """Open a .pview file and check all of it."""
    try:
        _check_size_of_footer(path)
        with pq.ParquetFile(path, memory_map=False) as file:
            text = (file.schema_arrow.metadata or {}).get(MANIFEST_KEY) or _no_manifest(path)
            manifest, bases, is_fitted = from_json(text)
            _check_columns(file, manifest, is_fitted, path)
            _check_bases(file.metadata.num_rows, bases, path)
            table = file.read()
    except OSError as problem:
        raise ViewFileError(
            f"Cannot read {str(path)!r}: {problem.strerror or 'the file is damaged'}."
        ) from None
    except (pa.ArrowException, MemoryError, ValueError, TypeError, IndexError, OverflowError):
        raise ViewFileError(f"{str(path)!r} is damaged, or not a .pview file.") from None
    return ViewData(manifest, _blocks(table, manifest, bases, is_fitted, path))


def _refuse_what_is_no_view(target: Path) -> None:
    """A slip of the pen in a name must not cost a table or a schema."""
    if target.exists() and not (
        target.is_file() and (target.suffix.lower() == ".pview" or _holds_a_view(target))
    ):
        raise ViewFileError(
            f"Cannot write {str(target)!r}: it is there already and is no view. Choose a name that ends in .pview."
        )


def _holds_a_view(file: Path) -> bool:
    try:
        return MANIFEST_KEY in (pq.read_schema(file).metadata or {})
    except (OSError, pa.ArrowException):
        return False


def column_types(schema: Schema, is_merged: bool = False, is_fitted: bool = False) -> dict[str, pa.DataType]:
    """Columns of a .pview file, in order: inclusive bounds in the smallest unsigned type, the noisy count,
    the depth.

    A merged view has one more: the number of the part; a view with fitted counts another.
    """
    bounds = {
        f"{a.name}_{end}": pa.uint8() if a.size <= 256 else pa.uint16()
        for a in schema
        for end in ("lo", "hi")
    }
    more = {**({"part": _PART_TYPE} if is_merged else {}), **({"fitted": _FITTED_TYPE} if is_fitted else {})}
    return {**bounds, "count": _COUNT_TYPE, "depth": _DEPTH_TYPE, **more}


def _types(view: ViewData) -> dict[str, pa.DataType]:
    return column_types(view.schema, view.manifest.is_merged, view.blocks.fitted is not None)


def _table(view: ViewData) -> pa.Table:
    blocks, types = view.blocks, _types(view)
    columns: list[NDArray[np.generic]] = []
    for a in range(len(view.schema)):
        columns += [blocks.lower[:, a], blocks.upper[:, a] - 1]
    columns += [blocks.noisy_counts, blocks.depth, *([blocks.parts] if view.manifest.is_merged else [])]
    columns += [] if blocks.fitted is None else [blocks.fitted]
    arrays = [pa.array(column).cast(kind) for column, kind in zip(columns, types.values(), strict=True)]
    fields = [pa.field(name, kind, nullable=False) for name, kind in types.items()]
    manifest = to_json(view.manifest, blocks.base_of_parts, blocks.fitted is not None).encode()
    if len(manifest) > MAX_MANIFEST_BYTES:
        size, limit = (n // 1_000_000 for n in (len(manifest), MAX_MANIFEST_BYTES))
        raise ViewFileError(
            f"The facts about this view and its base measure take {size} MB, and a file holds {limit} MB of them. "
            "Give attributes with very many values wider bins in the schema, or merge fewer views."
        )
    return pa.table(arrays, schema=pa.schema(fields, metadata={MANIFEST_KEY: manifest}))


def _encodings(view: ViewData) -> dict[str, str]:
    return {name: "DELTA_BINARY_PACKED" if name == "count" else "PLAIN" for name in _types(view)}


def _umask() -> int:
    """The process's mask for new files. It can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _no_manifest(path: str | PathLike[str]) -> bytes:
    raise ViewFileError(f"{str(path)!r} is a Parquet file but not a .pview: it has no hdpview manifest.")


def _check_size_of_footer(path: str | PathLike[str]) -> None:
    """A Parquet file ends with the length of its footer and a mark; check both before a parser sees them."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        if size >= 12:
            file.seek(size - 8)
            length, mark = struct.unpack("<I4s", file.read(8))
            if mark == b"PAR1" and length <= min(size - 12, _MAX_FOOTER_BYTES):
                return
    raise ViewFileError(f"{str(path)!r} is damaged or cut short, or not a .pview file.")


def _check_columns(
    file: pq.ParquetFile, manifest: Manifest, is_fitted: bool, path: str | PathLike[str]
) -> None:
    expected = column_types(manifest.schema, manifest.is_merged, is_fitted)
    found = {field.name: field.type for field in file.schema_arrow}
    if found != expected or len(file.schema_arrow) != len(expected):
        raise ViewFileError(f"{str(path)!r} is damaged: its columns are not those of its schema.")
    if file.metadata.num_rows * sum(kind.bit_width // 8 for kind in expected.values()) > _MAX_BYTES_IN_MEMORY:
        raise ViewFileError(f"{str(path)!r} claims more blocks than fit in memory; it is damaged or hostile.")


def _check_bases(n_blocks: int, bases: tuple[Base | None, ...], path: str | PathLike[str]) -> None:
    """Answering takes a few numbers for each block and each bin of an attribute."""
    if (
        n_blocks * max((sum(base.n_bins) for base in bases if base is not None), default=0)
        > _MAX_BLOCKS_TIMES_BINS
    ):
        raise ViewFileError(
            f"{str(path)!r} claims a base measure of more bins than fit in memory; it is damaged or hostile."
        )


def _blocks(
    table: pa.Table,
    manifest: Manifest,
    bases: tuple[Base | None, ...],
    is_fitted: bool,
    path: str | PathLike[str],
) -> Blocks:
    if any(column.null_count for column in table.columns):
        raise ViewFileError(f"{str(path)!r} is damaged: values are missing.")
    names = manifest.schema.names
    lower = np.stack([_numbers(table, f"{name}_lo") for name in names], axis=1).astype(np.int32)
    upper = np.stack([_numbers(table, f"{name}_hi") for name in names], axis=1).astype(np.int32) + 1
    counts, depth = _numbers(table, "count"), _numbers(table, "depth").astype(np.int32)
    part = _numbers(table, "part") if manifest.is_merged else np.zeros(len(depth), np.uint16)
    fault = fault_in_parts(lower, upper, depth, part, max(len(manifest.parts), 1), manifest.schema.sizes)
    if fault is None and (np.abs(counts.astype(np.float64)) > MAX_COUNT).any():
        fault = "a count is beyond any table's"
    fitted = _numbers(table, "fitted").copy() if is_fitted else None
    if fault is None and fitted is not None and not ((fitted >= 0) & (fitted <= MAX_COUNT)).all():
        fault = "a fitted count is negative, or beyond any table's"
    if fault is not None:
        raise ViewFileError(f"{str(path)!r} is damaged: {fault}.")
    base = (bases if manifest.is_merged else bases[0]) if any(bases) else None
    return Blocks(
        lower, upper, counts.copy(), depth, part.copy() if manifest.is_merged else None, base, fitted
    )


def _numbers(table: pa.Table, name: str) -> NDArray[Any]:
    """A column without missing values. By DLPack, since Arrow's own way to NumPy loads pandas, which takes
    longer than all else here.
    """
    return np.from_dlpack(table.column(name).combine_chunks())
