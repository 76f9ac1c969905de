"""Types of Arrow, Polars and pandas: schemas of Parquet and Arrow files, Polars schemas, pandas dtypes.

Only what a type itself says is used. An `Enum` of Polars and a categorical dtype of pandas list their values;
a person has to answer for the latter, since pandas makes such lists from data where nobody gave one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hdpview.domain.drafting import Draft
from hdpview.domain.importing.columns import Facts, draft_of
from hdpview.errors import SchemaError

_WIDTH = re.compile(r"[0-9]+;")  # in Polars's list of an Enum's values, the length in bytes before each
_PATTERNS = (  # of the name of a type, in small letters → type of attribute
    (r"bool(ean)?(\[.*)?", "boolean"),
    (r"u?int[0-9]*(\[.*)?|integer|(u?int|long)", "integer"),
    (r"(float|double|decimal|halffloat)[0-9]*.*|numeric|half_float", "real"),
    (r"(datetime|timestamp|date).*", "datetime"),
    (r"(large_)?(string|utf8|str).*|object|category|categorical.*|enum.*|dictionary<.*", "category"),
)


def kind_of_dtype(name: str) -> str | None:
    """The type of attribute for the name of a data type; None where there is none."""
    text = name.strip().lower()
    return next((kind for pattern, kind in _PATTERNS if re.fullmatch(pattern, text)), None)


def from_file(path: Path) -> Draft:
    """The schema of a Parquet or Arrow file. Its rows are not read."""
    import pyarrow as pa
    import pyarrow.ipc
    import pyarrow.parquet as pq

    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            schema = pq.read_schema(path)
        else:
            with pa.ipc.open_file(path) as file:
                schema = file.schema
    except (OSError, pa.ArrowException):
        raise SchemaError(
            f"Cannot read the schema of {str(path)!r}: it is no Parquet or Arrow file."
        ) from None
    return from_object(schema)


def from_object(described: Any) -> Draft:
    """An Arrow schema, a Polars schema, or pandas dtypes: a Series or a dictionary of them by column."""
    fields = _fields(described)
    if not fields:
        raise SchemaError(
            f"A {type(described).__name__} is no description of columns. Pass a Pandera, Arrow or "
            "Polars schema, or pandas dtypes."
        )
    return draft_of(_facts(*field) for field in fields)


def _fields(described: Any) -> list[tuple[str, Any, Mapping[bytes, bytes]]]:
    """Name, type and metadata of each column."""
    if hasattr(described, "field") and hasattr(described, "names"):
        return [(each.name, each.type, each.metadata or {}) for each in described]
    if hasattr(described, "dtypes") and not isinstance(described, Mapping) and hasattr(described, "columns"):
        raise SchemaError(
            "A frame holds data. Pass its types alone: frame.dtypes, or frame.schema in Polars."
        )
    if hasattr(described, "items"):
        return [(str(name), dtype, {}) for name, dtype in described.items()]
    return []


def _facts(name: str, dtype: Any, metadata: Mapping[bytes, bytes]) -> Facts:
    kind = kind_of_dtype(str(getattr(dtype, "name", None) or dtype))
    values = listed(getattr(dtype, "categories", None)) or _enum_of_metadata(metadata)
    ordered = bool(getattr(dtype, "ordered", False)) and bool(values)
    label = metadata.get(b"title") or metadata.get(b"description") or b""
    text = label.decode("utf-8", "replace")
    return Facts(name, kind, values=values, ordered=ordered, label=text, dtype=dtype)


def listed(categories: Any) -> list[Any]:
    """Values that a type lists, of whatever kind the list is; empty where it lists none."""
    if categories is None or callable(categories) or not isinstance(categories, Iterable):
        return []
    found = categories.to_list() if hasattr(categories, "to_list") else list(categories)
    return found if all(isinstance(value, (str, int, float, bool)) for value in found) else []


def _enum_of_metadata(metadata: Mapping[bytes, bytes]) -> list[str]:
    """Values of a Polars `Enum` that was written to a file: lengths and texts in turn."""
    encoded = metadata.get(b"_PL_ENUM_VALUES2") or metadata.get(b"_PL_ENUM_VALUES")
    values: list[str] = []
    while encoded:
        width = _WIDTH.match(encoded.decode("latin-1"))
        if width is None:
            return []
        end = width.end() + int(width[0][:-1])
        values.append(encoded[width.end() : end].decode("utf-8", "replace"))
        encoded = encoded[end:]
    return values
