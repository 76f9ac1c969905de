"""The manifest as files hold it: written as JSON, and read again without trusting anything in it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from hdpview.domain import Schema
from hdpview.errors import HdpviewError, ViewFileError
from hdpview.view.manifest import MAX_PARTS, Manifest, Part, Spending

FORMAT_VERSION = 2
# Beyond the first, a view would hide nothing; beyond the second, it would say nothing.
MAX_EPSILON, MAX_NOISE_SCALE = 1e6, 1e12
MAX_MANIFEST_BYTES = 16_000_000


def to_dict(manifest: Manifest) -> dict[str, Any]:
    """The manifest as plain data, as files hold it."""
    return {
        "format_version": FORMAT_VERSION,
        "library_version": manifest.library_version,
        "created": manifest.created,
        "private": manifest.is_private,
        "not_private_because": list(manifest.not_private_because),
        "epsilon": str(manifest.epsilon),
        "delta": str(manifest.delta) if manifest.delta else 0,
        "neighbours": manifest.neighbours,
        "privacy_unit": manifest.privacy_unit,
        "max_rows": manifest.max_rows,
        "count_column": manifest.count_column,
        "table": manifest.table,
        "spent_on_table": None if manifest.spent_on_table is None else str(manifest.spent_on_table),
        "spending": [_spending_as_data(spending) for spending in manifest.spending],
        "method": {
            "name": manifest.method,
            "settings": dict(manifest.settings),
            "parameters": dict(manifest.parameters),
            "focus": [list(names) for names in manifest.focus],
        },
        "schema": manifest.schema.to_dict(),
        **({"merged": manifest.describe_merge()} if manifest.is_merged else {}),
    }


def _spending_as_data(spending: Spending) -> dict[str, Any]:
    data = {"purpose": spending.purpose, "epsilon": str(spending.epsilon), "times": spending.times}
    return {**data, "delta": str(spending.delta)} if spending.delta else data


def from_dict(content: dict[str, Any]) -> Manifest:
    """A manifest from plain data. Trusts nothing in it."""
    try:
        return _manifest(content)
    except HdpviewError as problem:
        raise ViewFileError(f"The manifest is damaged: {problem}") from None
    except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError, OverflowError):
        raise ViewFileError("The manifest is damaged: a field is missing or of the wrong type.") from None


def _manifest(content: dict[str, Any]) -> Manifest:
    method = content["method"]
    spending = tuple(
        Spending(_short(s["purpose"]), _fraction(s["epsilon"]), _whole(s["times"]), _delta(s))
        for s in content["spending"][:MAX_PARTS]
    )
    manifest = Manifest(
        schema=Schema.from_dict(content["schema"]),
        method=_short(method["name"]),
        epsilon=_epsilon(content["epsilon"]),
        spending=spending,
        settings=_numbers(method["settings"]),
        parameters=_numbers(method["parameters"]),
        library_version=_short(content["library_version"]),
        privacy_unit=_short(content["privacy_unit"]),
        not_private_because=tuple(_short(reason) for reason in content["not_private_because"][:100]),
        max_rows=_whole(content.get("max_rows", 1)),
        count_column=None if content.get("count_column") is None else _short(content["count_column"]),
        delta=_whole_delta(content),
        created=_short(content["created"]),
        table=None if content["table"] is None else _short(content["table"]),
        spent_on_table=None if content["spent_on_table"] is None else _fraction(content["spent_on_table"]),
        focus=tuple(tuple(_short(name) for name in names) for names in method["focus"][:1_000]),
        **(_merged_from(content["merged"]) if "merged" in content else {}),
    )
    if content["private"] is not manifest.is_private or content["neighbours"] != manifest.neighbours:
        raise ValueError
    if (
        sum(s.delta for s in spending) != manifest.delta
        or max((part.delta for part in manifest.parts), default=0) > manifest.delta
    ):
        raise ValueError
    if (
        manifest.max_rows < 1
        or any(s.epsilon < 0 for s in spending)
        or sum(s.epsilon * s.times for s in spending) != manifest.epsilon
    ):
        raise ValueError
    return manifest


def content_of(text: bytes) -> dict[str, Any]:
    """The JSON of a manifest, of a version that is known."""
    if len(text) > MAX_MANIFEST_BYTES:
        raise ViewFileError(
            f"The manifest is larger than {MAX_MANIFEST_BYTES // 1_000_000} MB; this is not a file "
            "that hdpview wrote."
        )
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise ViewFileError("The manifest is not valid JSON; the file is damaged.") from None
    version = content.get("format_version") if isinstance(content, dict) else None
    if isinstance(version, bool) or version != FORMAT_VERSION or "checksum" not in content:
        raise ViewFileError(
            f"The file has format version {str(version)[:20]}; this hdpview reads version {FORMAT_VERSION}. "
            "Open it with the hdpview that wrote it."
        )
    found: dict[str, Any] = content
    return found


def _merged_from(content: dict[str, Any]) -> dict[str, Any]:
    parts = tuple(
        Part(
            _short(part["method"]),
            _epsilon(part["epsilon"]),
            _numbers(part["settings"]),
            _numbers(part["parameters"]),
            _short(part["library_version"]),
            _delta(part),
            None if part.get("table") is None else _short(part["table"]),
        )
        for part in content["parts"][: MAX_PARTS + 1]
    )
    if not 2 <= len(parts) <= MAX_PARTS or content["populations"] not in ("disjoint", "overlapping"):
        raise ValueError
    return {"parts": parts, "overlapping": content["populations"] == "overlapping"}


def _whole_delta(content: dict[str, Any]) -> Fraction:
    """The δ of a view; written as 0 where there is none."""
    return Fraction(0) if content["delta"] == 0 else _delta(content)


def _delta(content: Mapping[str, Any]) -> Fraction:
    """The δ of a budget, where it has one."""
    delta = _fraction(content.get("delta", "0"))
    if not 0 <= delta <= 1:
        raise ValueError
    return delta


def _fraction(text: Any) -> Fraction:
    # an exponent could ask for a number of any length
    if not isinstance(text, str) or len(text) > 1_000 or "e" in text.lower():
        raise ValueError
    return Fraction(text)


def _epsilon(text: Any) -> Fraction:
    epsilon = _fraction(text)
    if not 0.0 < float(epsilon) <= MAX_EPSILON:
        raise ValueError
    return epsilon


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError
    return value


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise ValueError
    return value


def _numbers(value: Any) -> dict[str, float]:
    return {_short(key): _number(number) for key, number in list(value.items())[:100]}


def _short(value: Any) -> str:
    if not isinstance(value, str) or len(value) > 1_000:
        raise ValueError
    return value
