"""The manifest as files hold it: written as JSON, and read again without trusting anything in it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from hdpview.domain import Schema
from hdpview.errors import HdpviewError, ViewFileError
from hdpview.view.base import Base
from hdpview.view.manifest import MAX_PARTS, Manifest, Part, Spending

# Merged views have parts, which readers of version 1 do not know; views with a base or fitted counts, what
# readers of version 2 do not; and a view with a delta promises less than readers of version 3 would say.
FORMAT_VERSION, MERGED_FORMAT_VERSION, BASE_FORMAT_VERSION, DELTA_FORMAT_VERSION = 1, 2, 3, 4
MAX_EPSILON, MAX_NOISE_SCALE = (
    1e6,
    1e12,
)  # beyond, a view would hide nothing or tell nothing; intervals stay within doubles
MAX_MANIFEST_BYTES = 16_000_000


def to_json(manifest: Manifest, bases: Sequence[Base | None] = (), is_fitted: bool = False) -> str:
    """As files hold it. bases: of the blocks, one for each part; is_fitted: whether the file has fitted
    counts too.
    """
    inside = {"base": _bases_as_data(bases), "fitted": is_fitted} if any(bases) or is_fitted else {}
    version = (
        BASE_FORMAT_VERSION if inside else MERGED_FORMAT_VERSION if manifest.is_merged else FORMAT_VERSION
    )
    version = DELTA_FORMAT_VERSION if manifest.delta else version
    return json.dumps(
        {
            "format_version": version,
            "library_version": manifest.library_version,
            "private": manifest.is_private,
            "not_private_because": list(manifest.not_private_because),
            "epsilon": str(manifest.epsilon),
            "delta": str(manifest.delta) if manifest.delta else 0,
            "neighbours": manifest.neighbours,
            "privacy_unit": manifest.privacy_unit,
            "max_rows": manifest.max_rows,
            "count_column": manifest.count_column,
            "spending": [_spending_as_data(spending) for spending in manifest.spending],
            "noise": {"distribution": "discrete laplace", "scale": manifest.noise_scale},
            "method": {
                "name": manifest.method,
                "settings": dict(manifest.settings),
                "parameters": dict(manifest.parameters),
            },
            "schema": manifest.schema.to_dict(),
            **({"merged": manifest.merged_story()} if manifest.is_merged else {}),
            **inside,
        },
        ensure_ascii=False,
    )


def _spending_as_data(spending: Spending) -> dict[str, Any]:
    data = {"purpose": spending.purpose, "epsilon": str(spending.epsilon), "times": spending.times}
    return {**data, "delta": str(spending.delta)} if spending.delta else data


def _bases_as_data(bases: Sequence[Base | None]) -> Any:
    found = [None if base is None else base.to_dict() for base in bases]
    return found if len(found) != 1 else found[0]


def from_json(text: bytes) -> tuple[Manifest, tuple[Base | None, ...], bool]:
    """A manifest, the base of each part, and whether the file has fitted counts. Trusts nothing in the
    text.
    """
    content = _content(text)
    try:
        manifest = _manifest(content)
        return manifest, *_inside(content, manifest)
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
        noise_scale=_scale(content["noise"]["scale"]),
        settings=_numbers(method["settings"]),
        parameters=_numbers(method["parameters"]),
        library_version=_short(content["library_version"]),
        privacy_unit=_short(content["privacy_unit"]),
        not_private_because=tuple(_short(reason) for reason in content["not_private_because"][:100]),
        max_rows=_whole(content.get("max_rows", 1)),
        count_column=None if content.get("count_column") is None else _short(content["count_column"]),
        delta=_whole_delta(content),
        **(_merged_from(content["merged"]) if _is_merged(content) else {}),
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


def _content(text: bytes) -> dict[str, Any]:
    """The JSON of a manifest, of a version that is known."""
    if len(text) > MAX_MANIFEST_BYTES:
        raise ViewFileError(
            f"The manifest is larger than {MAX_MANIFEST_BYTES // 1_000_000} MB; this is not a file that hdpview wrote."
        )
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise ViewFileError("The manifest is not valid JSON; the file is damaged.") from None
    version = content.get("format_version") if isinstance(content, dict) else None
    if isinstance(version, bool) or version not in range(FORMAT_VERSION, DELTA_FORMAT_VERSION + 1):
        raise ViewFileError(
            f"The file has format version {str(version)[:20]}; this hdpview reads {FORMAT_VERSION} to {DELTA_FORMAT_VERSION}. "
            "Open it with a newer hdpview."
        )
    found: dict[str, Any] = content
    return found


def _is_merged(content: dict[str, Any]) -> bool:
    version = content["format_version"]
    return version == MERGED_FORMAT_VERSION or (version >= BASE_FORMAT_VERSION and "merged" in content)


def _inside(content: dict[str, Any], manifest: Manifest) -> tuple[tuple[Base | None, ...], bool]:
    """What a file of version 3 says of the inside of blocks, and one of version 4 may say."""
    version = content["format_version"]
    if version < BASE_FORMAT_VERSION or (version == DELTA_FORMAT_VERSION and "base" not in content):
        return (), False
    data, n_parts = content["base"], max(len(manifest.parts), 1)
    listed = data if isinstance(data, list) else [data]
    if not isinstance(content["fitted"], bool) or len(listed) != n_parts:
        raise ValueError
    return tuple(
        None if base is None else Base.from_dict(base, manifest.schema.sizes) for base in listed
    ), content["fitted"]


def _merged_from(content: dict[str, Any]) -> dict[str, Any]:
    parts = tuple(
        Part(
            _short(part["method"]),
            _epsilon(part["epsilon"]),
            _scale(part["noise_scale"]),
            _numbers(part["settings"]),
            _numbers(part["parameters"]),
            _short(part["library_version"]),
            _delta(part),
        )
        for part in content["parts"][: MAX_PARTS + 1]
    )
    if not 2 <= len(parts) <= MAX_PARTS or content["populations"] not in ("disjoint", "overlapping"):
        raise ValueError
    return {"parts": parts, "overlapping": content["populations"] == "overlapping"}


def _whole_delta(content: dict[str, Any]) -> Fraction:
    """The δ of a view: above 0 in files of version 4, and there alone."""
    if content["format_version"] == DELTA_FORMAT_VERSION and _delta(content) > 0:
        return _delta(content)
    if content["format_version"] == DELTA_FORMAT_VERSION or content["delta"] != 0:
        raise ValueError
    return Fraction(0)


def _delta(content: Mapping[str, Any]) -> Fraction:
    """The δ of a budget, where it has one."""
    delta = _fraction(content.get("delta", "0"))
    if not 0 <= delta <= 1:
        raise ValueError
    return delta


def _fraction(text: Any) -> Fraction:
    if (
        not isinstance(text, str) or len(text) > 1_000 or "e" in text.lower()
    ):  # an exponent could ask for a number of any length
        raise ValueError
    return Fraction(text)


def _epsilon(text: Any) -> Fraction:
    epsilon = _fraction(text)
    if not 0.0 < float(epsilon) <= MAX_EPSILON:
        raise ValueError
    return epsilon


def _scale(value: Any) -> float:
    if not 0.0 < _number(value) <= MAX_NOISE_SCALE:
        raise ValueError
    return float(value)


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
