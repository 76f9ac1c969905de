"""The manifest: the facts a reader needs to use a view and judge its privacy. All of them are public.

Files hold it as JSON. When it is read, pydantic checks the type, length and range of every field, and
`_contradiction` compares fields with each other. Code that builds views fills in the same classes unchecked.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import ConfigDict, Field, PlainValidator, TypeAdapter, ValidationError

from hdpview.domain import Schema
from hdpview.errors import HdpviewError, ViewFileError, shortened

FORMAT_VERSION = 2
MAX_MANIFEST_BYTES = 16_000_000
_BYTES_PER_CODE = 20  # of an attribute in the tables and bins of a view; 4 to 9 measured with 40,000 codes
MAX_PARTS = 1_000  # views in a merged view, and purposes of spending
MAX_REASONS = 100  # why a view is not private
MAX_FOCUS = 1_000  # groups of attributes
MIN_EPSILON = 1e-300  # a smaller ε is 0 as a double
MAX_EPSILON = 1e6  # a larger ε hides nothing
# Dataclasses are read from dicts; strict mode would accept instances only.
_FROM_DICT = ConfigDict(strict=False)


def _fraction(text: Any) -> Fraction:
    # An exponent could ask for a number of any length.
    if not isinstance(text, str) or len(text) > 1_000 or "e" in text.lower():
        raise ValueError("not an exact number")
    try:
        return Fraction(text)
    except ZeroDivisionError:
        raise ValueError("not an exact number") from None


def _zero_or_fraction(value: Any) -> Fraction:
    return Fraction(0) if type(value) is int and value == 0 else _fraction(value)


def _number(value: Any) -> float:
    """A finite number; integers stay integers."""
    if type(value) not in (int, float) or not abs(value) <= 1e300:
        raise ValueError("not a finite number")
    return value  # type: ignore[no-any-return]


Text = Annotated[str, Field(strict=True, max_length=1_000)]
Whole = Annotated[int, Field(strict=True, ge=0, lt=2**31)]
Exact = Annotated[Fraction, PlainValidator(_fraction)]
Epsilon = Annotated[Exact, Field(gt=MIN_EPSILON, le=MAX_EPSILON)]
# Files write a delta of 0 as the number 0.
Delta = Annotated[Fraction, PlainValidator(_zero_or_fraction), Field(ge=0, le=1)]
Numbers = Annotated[Mapping[Text, Annotated[float, PlainValidator(_number)]], Field(max_length=100)]


@dataclass(frozen=True)
class Spending:
    """Budget spent on one purpose: `times` uses of `epsilon` each, and `delta` for all of them."""

    __pydantic_config__ = _FROM_DICT
    purpose: Text
    epsilon: Exact
    times: Whole
    delta: Delta = Fraction(0)


class _Facts:
    """Immutable facts: mappings become read-only, and can still be pickled."""

    __pydantic_config__ = _FROM_DICT

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, Mapping):
                object.__setattr__(self, name, MappingProxyType(dict(value)))

    def __reduce__(self) -> tuple[Any, ...]:
        values = vars(self).values()
        return type(self), tuple(dict(value) if isinstance(value, Mapping) else value for value in values)


@dataclass(frozen=True)
class Part(_Facts):
    """Facts about one of the views in a merged view."""

    method: Text
    epsilon: Epsilon
    settings: Numbers
    parameters: Numbers
    library_version: Text
    delta: Delta = Fraction(0)
    table: Text | None = None


@dataclass(frozen=True)
class Manifest(_Facts):
    """Facts about a view.

    epsilon, delta: the whole budget, exactly the sum of `spending`. delta is 0 for pure differential privacy.
    settings: the curator's choices for the method; parameters: values derived from them and the domain.
    privacy_unit: "row", or the name of the column that identifies the protected person or unit.
    max_rows: maximum records counted per person.
    count_column: the column that gives the number of records per row, if rows stand for several.
    not_private_because: empty for a private view.
    created: the day of the build, such as 2026-01-31; empty if unknown.
    table: the name of the table in the curator's ledger. spent_on_table: the ε of all charges to it so far,
        including this view's. None if no ledger was kept.
    focus: sets of attributes that the curator asked to count together.
    choice: fingerprint of the random choice of each person's rows; None without a choice.
    parts: the views in a merged view, in the order of their blocks. overlapping: True if a person may be in
        several of them, so their budgets add up.
    """

    schema: Annotated[Schema, PlainValidator(Schema.from_dict)]
    method: Text
    epsilon: Epsilon
    spending: Annotated[tuple[Spending, ...], Field(max_length=MAX_PARTS)]
    settings: Numbers
    parameters: Numbers
    library_version: Text
    privacy_unit: Text = "row"
    not_private_because: Annotated[tuple[Text, ...], Field(max_length=MAX_REASONS)] = ()
    max_rows: Annotated[Whole, Field(ge=1)] = 1
    count_column: Text | None = None
    parts: Annotated[tuple[Part, ...], Field(max_length=MAX_PARTS)] = ()
    overlapping: bool = False
    delta: Delta = Fraction(0)
    created: Text = ""
    table: Text | None = None
    spent_on_table: Exact | None = None
    focus: Annotated[tuple[tuple[Text, ...], ...], Field(max_length=MAX_FOCUS)] = ()
    choice: Text | None = None

    @property
    def is_private(self) -> bool:
        return not self.not_private_because

    @property
    def is_merged(self) -> bool:
        return bool(self.parts)

    def as_parts(self) -> tuple[Part, ...]:
        """The parts of a merged view, or this view as its only part."""
        own = {fact.name: getattr(self, fact.name) for fact in fields(Part)}
        return self.parts or (Part(**own),)

    @property
    def learning(self) -> Spending | None:
        """The cost of learning the schema's bounds and categories before this view; None if nothing."""
        epsilon, delta = (
            Fraction(cost or 0) for cost in (self.schema.learnt_epsilon, self.schema.learnt_delta)
        )
        return Spending("learning the schema", epsilon, 1, delta) if epsilon or delta else None

    @property
    def total(self) -> tuple[Fraction, Fraction]:
        """Epsilon and delta of the view and of learning its schema."""
        learning = self.learning or Spending("", Fraction(0), 1)
        return self.epsilon + learning.epsilon, self.delta + learning.delta

    @property
    def budget(self) -> str:
        """The total budget as text: epsilon, and delta if it is not 0."""
        epsilon, delta = map(float, self.total)
        return f"epsilon {epsilon:g}" + (f" and delta {delta:g}" if delta else "")

    @property
    def neighbours(self) -> str:
        """Describe the pairs of tables that the view can hardly distinguish."""
        return f"tables that differ by adding or removing {self.protected}"

    @property
    def change(self) -> str:
        """Describe briefly the change that is hidden."""
        most = "" if self.privacy_unit == "row" else f" (at most {self.max_rows} count)"
        return f"add or remove {self.protected}{most}"

    @property
    def protected(self) -> str:
        """Describe the records whose presence is hidden."""
        if self.privacy_unit != "row":
            return f"all records of one {self.privacy_unit}"
        return "one record" if self.max_rows == 1 else f"up to {self.max_rows} records"

    @property
    def estimand(self) -> str:
        """Describe the records that the view counts."""
        if self.privacy_unit == "row":
            return "all records of the table"
        rows = "one row" if self.max_rows == 1 else f"up to {self.max_rows:,} rows"
        return f"{rows} of each {self.privacy_unit}, chosen at random; other rows are not counted"

    def describe_merge(self) -> dict[str, Any]:
        """The parts of a merged view as plain data."""
        return {"populations": "overlapping" if self.overlapping else "disjoint", "parts": _plain(self.parts)}


def _plain(value: Any) -> Any:
    """Facts as JSON holds them: exact numbers as text. A delta of 0 is left out."""
    if isinstance(value, Schema):
        return value.to_dict()
    if isinstance(value, (Spending, _Facts)):
        return {name: _plain(each) for name, each in vars(value).items() if name != "delta" or each}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, Fraction) else value


def largest_belief(epsilon: float | Fraction, prior: float = 0.5) -> float:
    """The largest posterior belief that a record is in the table, starting from the belief `prior`."""
    odds = math.exp(min(float(epsilon), 700.0)) * prior / (1 - prior)
    return odds / (1 + odds)


def risk_sentence(epsilon: float | Fraction, unit: str = "row", delta: float | Fraction = 0) -> str:
    """The meaning of a budget for one person, without the word ε."""
    whose = "a record" if unit == "row" else f"one {unit}"
    belief = largest_belief(epsilon)
    bound = f"at most {belief:.1%} sure of it" if belief < 0.999 else "virtually certain of it"
    sentence = (
        f"Someone who is 50% sure that {whose} is in the table can become {bound}, whatever else they know."
    )
    return sentence if not delta else f"{sentence} This may fail with probability {float(delta):g} (delta)."


# Fields of a manifest that files keep in groups.
_OF_METHOD = ("settings", "parameters", "focus")
_OF_MERGE = ("parts", "overlapping")
# Fields that files of earlier versions lack.
_ADDED_LATER = ("max_rows", "count_column", "choice")


def to_dict(manifest: Manifest) -> dict[str, Any]:
    """The manifest as plain data, as files hold it."""
    facts = {"delta": 0, **_plain(manifest)}
    method = {"name": facts.pop("method"), **{name: facts.pop(name) for name in _OF_METHOD}}
    return {
        "format_version": FORMAT_VERSION,
        **{name: fact for name, fact in facts.items() if name not in _OF_MERGE},
        "method": method,
        "private": manifest.is_private,
        "neighbours": manifest.neighbours,
        **({"merged": manifest.describe_merge()} if manifest.is_merged else {}),
    }


def check_writable(manifest: Manifest) -> None:
    """Raise, before budget is spent, if no file could hold a view with these facts."""
    content, n_codes = to_dict(manifest), sum(manifest.schema.sizes)
    size = len(json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    if size + _BYTES_PER_CODE * n_codes > MAX_MANIFEST_BYTES:
        raise ViewFileError(
            f"No file could hold histograms of {n_codes:,} values. Nothing was spent. Give attributes with "
            "very many values wider bins in the schema, or leave some out."
        )
    try:
        from_dict(content)
    except ViewFileError as problem:
        raise ViewFileError(f"No file could hold this view, so nothing was spent. {problem}") from None


def from_dict(content: Mapping[str, Any]) -> Manifest:
    """A manifest from unchecked plain data."""
    try:
        grouped = {"method", *_OF_METHOD, *_OF_MERGE}
        names = {each.name for each in fields(Manifest)} - grouped
        facts = {name: content[name] for name in names if name in content or name not in _ADDED_LATER}
        method, merged = content["method"], content.get("merged")
        facts |= {"method": method["name"], **{name: method[name] for name in _OF_METHOD}}
        if merged is not None:
            facts |= {"parts": merged["parts"], "overlapping": merged["populations"] == "overlapping"}
        manifest = _adapter().validate_python(facts)
        fault = _contradiction(manifest, content)
    except ValidationError as problem:
        place = ".".join(map(str, problem.errors(include_url=False, include_input=False)[0]["loc"]))
        fault = f"the field {shortened(place)!r} is missing or invalid"
    except HdpviewError as problem:
        raise ViewFileError(f"The manifest is damaged: {problem}") from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        fault = "a field is missing, or its schema cannot be read"
    if fault is not None:
        raise ViewFileError(f"The manifest is damaged: {fault}.")
    return manifest


@cache
def _adapter() -> TypeAdapter[Manifest]:
    return TypeAdapter(Manifest)


def _contradiction(manifest: Manifest, content: Mapping[str, Any]) -> str | None:
    """A contradiction between facts of a manifest; None if they agree."""
    spending, merged = manifest.spending, content.get("merged")
    if content["private"] is not manifest.is_private or content["neighbours"] != manifest.neighbours:
        return "its statements about privacy contradict each other"
    if any(s.epsilon < 0 for s in spending) or sum(s.epsilon * s.times for s in spending) != manifest.epsilon:
        return "its spending does not add up to epsilon"
    if sum(s.delta for s in spending) != manifest.delta:
        return "its spending does not add up to delta"
    if max((part.delta for part in manifest.parts), default=0) > manifest.delta:
        return "a part has a larger delta than the whole"
    populations = manifest.describe_merge()["populations"]
    if merged is not None and (len(manifest.parts) < 2 or merged["populations"] != populations):
        return "it does not list the parts of a merged view"
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
