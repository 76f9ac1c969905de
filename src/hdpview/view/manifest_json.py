"""The manifest as JSON: written to files, and validated when read.

The models below check types, lengths and ranges of every field; `from_dict` then checks that they agree.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hdpview.domain import Schema
from hdpview.errors import HdpviewError, ViewFileError, shortened
from hdpview.view.facts import Delta, Epsilon, Exact, Numbers, Text
from hdpview.view.manifest import MAX_PARTS, Manifest, Part, Spending

FORMAT_VERSION = 2
MAX_NOISE_SCALE = 1e12  # records; larger noise hides everything
MAX_MANIFEST_BYTES = 16_000_000


class Facts(BaseModel):
    """Fields of a file. Types must match exactly; unknown fields are ignored."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False, protected_namespaces=())


class MethodFacts(Facts):
    """The entry `method`."""

    name: Text
    settings: Numbers
    parameters: Numbers
    focus: list[list[Text]] = Field(max_length=1_000)


class MergedFacts(Facts):
    """The entry `merged`."""

    populations: Literal["disjoint", "overlapping"]
    parts: list[Part] = Field(min_length=2, max_length=MAX_PARTS)


class ManifestFacts(Facts):
    """A whole manifest. Attributes are checked by `Schema.from_dict`, components by `contents`."""

    library_version: Text
    created: Text
    private: bool
    not_private_because: list[Text] = Field(max_length=100)
    epsilon: Epsilon
    delta: Delta
    neighbours: Text
    privacy_unit: Text
    max_rows: int = Field(1, ge=1, lt=2**31)
    count_column: Text | None = None
    table: Text | None
    choice: Text | None = None
    spent_on_table: Exact | None
    spending: list[Spending] = Field(max_length=MAX_PARTS)
    method: MethodFacts
    attributes: dict[str, Any] = Field(alias="schema")
    merged: MergedFacts | None = None


# Facts with the same form in files and manifests.
_PLAIN = ("library_version", "created", "privacy_unit", "max_rows", "count_column", "table", "choice")


def to_dict(manifest: Manifest) -> dict[str, Any]:
    """The manifest as plain data, as files hold it."""
    return {
        "format_version": FORMAT_VERSION,
        **{name: getattr(manifest, name) for name in _PLAIN},
        "private": manifest.is_private,
        "not_private_because": list(manifest.not_private_because),
        "epsilon": str(manifest.epsilon),
        "delta": str(manifest.delta) if manifest.delta else 0,
        "neighbours": manifest.neighbours,
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
    """A manifest from unchecked plain data."""
    try:
        facts = ManifestFacts.model_validate(content)
        manifest = _manifest(facts)
    except ValidationError as problem:
        place = ".".join(map(str, problem.errors(include_url=False, include_input=False)[0]["loc"]))
        raise ViewFileError(
            f"The manifest is damaged: the field {shortened(place)!r} is missing or invalid."
        ) from None
    except HdpviewError as problem:
        raise ViewFileError(f"The manifest is damaged: {problem}") from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise ViewFileError("The manifest is damaged: its schema cannot be read.") from None
    contradiction = _contradiction(manifest, facts)
    if contradiction is not None:
        raise ViewFileError(f"The manifest is damaged: {contradiction}.")
    return manifest


def _manifest(facts: ManifestFacts) -> Manifest:
    method, merged = facts.method, facts.merged
    return Manifest(
        schema=Schema.from_dict(facts.attributes),
        method=method.name,
        epsilon=facts.epsilon,
        delta=facts.delta,
        spending=tuple(facts.spending),
        settings=method.settings,
        parameters=method.parameters,
        not_private_because=tuple(facts.not_private_because),
        spent_on_table=facts.spent_on_table,
        focus=tuple(map(tuple, method.focus)),
        parts=tuple(merged.parts) if merged else (),
        overlapping=merged is not None and merged.populations == "overlapping",
        **{name: getattr(facts, name) for name in _PLAIN},
    )


def _contradiction(manifest: Manifest, facts: ManifestFacts) -> str | None:
    """A contradiction between facts of a manifest; None if they agree."""
    spending = manifest.spending
    if facts.private is not manifest.is_private or facts.neighbours != manifest.neighbours:
        return "its statements about privacy contradict each other"
    if any(s.epsilon < 0 for s in spending) or sum(s.epsilon * s.times for s in spending) != manifest.epsilon:
        return "its spending does not add up to epsilon"
    if sum(s.delta for s in spending) != manifest.delta:
        return "its spending does not add up to delta"
    if max((part.delta for part in manifest.parts), default=0) > manifest.delta:
        return "a part has a larger delta than the whole"
    return None


def content_of(text: bytes) -> dict[str, Any]:
    """The JSON of a manifest, if its format version is known."""
    if len(text) > MAX_MANIFEST_BYTES:
        limit = MAX_MANIFEST_BYTES // 1_000_000
        raise ViewFileError(f"The manifest is larger than {limit} MB; hdpview did not write this file.")
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
    return dict(content)
