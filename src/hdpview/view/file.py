"""The .pview file: one Parquet file with a row per component, and the manifest under one key of its metadata.

Files are untrusted. Reading checks every part before using it: sizes before memory is allocated, types,
bounds, the consistency of components, and a checksum over everything. Writing goes to a temporary file beside
the target, which is then renamed, so that the target is never incomplete.
"""

from __future__ import annotations

import json
import os
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from hdpview.errors import ViewFileError
from hdpview.view.contents import checksum, column_types, columns_of, facts_of, parts_from
from hdpview.view.data import ViewData
from hdpview.view.manifest import MAX_MANIFEST_BYTES, content_of, from_dict, to_dict

MANIFEST_KEY = b"hdpview"
_MAX_FOOTER_BYTES = 64_000_000
_MAX_BYTES_IN_MEMORY = 8_000_000_000


def write(view: ViewData, path: str | PathLike[str]) -> None:
    """Write a view atomically. Overwrites only other views, and only if the new file can be read back."""
    _refuse_what_is_no_view(Path(path))
    with _replacing(Path(path)) as file:
        _write_to(file, view)
        file.flush()
        read(file.name)


@contextmanager
def written_whole(path: str | PathLike[str]) -> Iterator[IO[bytes]]:
    """Write any other file completely or not at all. Never replaces a view, which was paid for."""
    target = Path(path)
    if target.is_file() and _holds_a_view(target):
        raise ViewFileError(
            f"Cannot write {str(path)!r}: it is a view, and budget was paid for it. Name another file."
        )
    with _replacing(target) as file:
        yield file


@contextmanager
def _replacing(target: Path) -> Iterator[IO[bytes]]:
    """A new file beside the target that replaces it at the end, and is deleted if anything fails."""
    try:
        with tempfile.NamedTemporaryFile(
            dir=target.parent, prefix=f".{target.name}.", suffix=".part", delete=False
        ) as file:
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
                Path(file.name).chmod(0o666 & ~_umask())
                Path(file.name).replace(target)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
    except OSError as problem:
        reason = os.strerror(problem.errno) if problem.errno else problem
        raise ViewFileError(f"Cannot write {str(target)!r}: {reason}.") from None


def size_in_bytes(view: ViewData) -> int:
    """The size of a view's file."""
    sink = pa.MockOutputStream()
    _write_to(sink, view)
    return int(sink.size())


def _write_to(sink: Any, view: ViewData) -> None:
    """The manifest goes into the footer once: an Arrow schema would keep a second, longer copy."""
    columns = columns_of(view.parts, view.schema)
    manifest = _manifest_bytes(view, columns)
    fields = [pa.field(name, column.type, nullable=False) for name, column in columns.items()]
    table = pa.table(list(columns.values()), schema=pa.schema(fields))
    encodings = {
        f"{name}.list.element" if pa.types.is_list(column.type) else name: "PLAIN"
        for name, column in columns.items()
    }
    if "count" in columns:
        encodings["count"] = "DELTA_BINARY_PACKED"
    with pq.ParquetWriter(
        sink,
        table.schema,
        store_schema=False,
        compression="zstd",
        compression_level=19,
        use_dictionary=False,
        column_encoding=encodings,
    ) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({MANIFEST_KEY: manifest})


def _manifest_bytes(view: ViewData, columns: dict[str, pa.Array]) -> bytes:
    content = {
        **to_dict(view.manifest),
        "components": "blocks" if view.is_blocks else "mixture",
        "parts": [facts_of(part) for part in view.parts],
    }
    content["checksum"] = checksum(columns, content)
    manifest = json.dumps(content, ensure_ascii=False).encode()
    if len(manifest) > MAX_MANIFEST_BYTES:
        size, limit = (n // 1_000_000 for n in (len(manifest), MAX_MANIFEST_BYTES))
        raise ViewFileError(
            f"The manifest and released tables of this view take {size} MB; a file can hold {limit} MB. "
            "Give attributes with very many values wider bins in the schema, or merge fewer views."
        )
    return manifest


def checksum_of(view: ViewData) -> str:
    """The checksum that the file of a view holds."""
    digest: str = json.loads(_manifest_bytes(view, columns_of(view.parts, view.schema)))["checksum"]
    return digest


def check_place(path: str | PathLike[str]) -> None:
    """Refuse an unwritable path before budget is spent, because the view would be lost."""
    target = Path(path)
    if not target.parent.is_dir():
        raise ViewFileError(f"The folder of {str(path)!r} does not exist. Make it first.")
    _refuse_what_is_no_view(target)
    try:
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", suffix=".part"):
            pass
    except OSError as problem:
        raise ViewFileError(f"Cannot write {str(path)!r}: {problem.strerror or problem}.") from None


def read(path: str | PathLike[str]) -> ViewData:
    """Open a .pview file and check all of it."""
    target = Path(path)  # a number would open one of this process's open files
    try:
        # Opened here, because Arrow cannot open names that are not valid in the present locale.
        with target.open("rb") as opened:
            _check_footer(opened)
            with pq.ParquetFile(opened) as file:
                return _read_from(file)
    except OSError as problem:
        fault = f"Cannot read {str(path)!r}: {problem.strerror or 'the file is damaged'}."
    except ViewFileError as problem:
        # Messages that are not whole sentences complete this one.
        fault = str(problem)
        fault = fault if fault[:1].isupper() else f"{str(path)!r} {fault}."
    except (
        pa.ArrowException,
        MemoryError,
        ValueError,
        TypeError,
        KeyError,
        IndexError,
        OverflowError,
        AttributeError,
    ):
        fault = f"{str(path)!r} is damaged, or not a .pview file."
    raise ViewFileError(fault)


def _read_from(file: pq.ParquetFile) -> ViewData:
    text = (file.schema_arrow.metadata or {}).get(MANIFEST_KEY)
    if text is None:
        raise ViewFileError("is a Parquet file but not a .pview: it has no hdpview manifest")
    content = content_of(text)
    manifest = from_dict(content)
    facts, kind = content["parts"], content["components"]
    if not isinstance(facts, list) or len(facts) != len(manifest.as_parts()):
        raise ViewFileError("is damaged: its parts are not those of its manifest")
    if kind not in ("blocks", "mixture"):
        raise ViewFileError("is damaged: its components are of an unknown kind")
    _check_columns(file, column_types(manifest.schema, kind, len(facts)))
    table = file.read()
    columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    if any(column.null_count for column in columns.values()):
        raise ViewFileError("is damaged: values are missing")
    if checksum(columns, content) != content["checksum"]:
        raise ViewFileError("is damaged: its content does not match its checksum; download or copy it again")
    try:
        return ViewData(manifest, parts_from(table, facts, kind, manifest.schema))
    except ViewFileError as problem:
        raise ViewFileError(f"is damaged: {problem}") from None


def _check_footer(file: IO[bytes]) -> None:
    """A Parquet file ends with the length of its footer and a mark; check both before a parser sees them."""
    size = file.seek(0, os.SEEK_END)
    if size >= 12:
        file.seek(size - 8)
        length, mark = struct.unpack("<I4s", file.read(8))
        if mark == b"PAR1" and length <= min(size - 12, _MAX_FOOTER_BYTES):
            return
    raise ViewFileError("is damaged or cut short, or not a .pview file")


def _check_columns(file: pq.ParquetFile, expected: dict[str, pa.DataType]) -> None:
    types = {field.name: field.type for field in file.schema_arrow}
    if list(types) != list(expected) or not all(
        _is_alike(types[name], kind) for name, kind in expected.items()
    ):
        raise ViewFileError("is damaged: its columns are not those of its schema")
    # Not by column: asking damaged metadata for a column's size crashes Arrow; reading them raises an error.
    metadata = file.metadata
    n_bytes = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
    if max(n_bytes, metadata.num_rows * len(expected) * 8) > _MAX_BYTES_IN_MEMORY:
        raise ViewFileError("claims more components than fit in memory; it is damaged or hostile")


def _is_alike(actual: pa.DataType, expected: pa.DataType) -> bool:
    """Compare types; lists may differ in the name of their elements."""
    if pa.types.is_list(expected):
        return bool(pa.types.is_list(actual) and actual.value_type == expected.value_type)
    return bool(actual == expected)


def _refuse_what_is_no_view(target: Path) -> None:
    """A typo in a name must not overwrite a table or a schema."""
    if target.exists() and not (
        target.is_file() and (target.suffix.lower() == ".pview" or _holds_a_view(target))
    ):
        raise ViewFileError(
            f"Cannot write {str(target)!r}: the file exists and is not a view. Choose a name that "
            "ends in .pview."
        )


def _holds_a_view(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return MANIFEST_KEY in (pq.read_schema(file).metadata or {})
    except (OSError, pa.ArrowException):
        return False


def _umask() -> int:
    """The process's mask for new files. It can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
