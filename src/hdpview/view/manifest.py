"""The manifest: what a reader must know of a view to use it and to judge its privacy. Plain data, all of it public."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from hdpview.domain import Schema
from hdpview.errors import HdpviewError, ViewFileError
from hdpview.view.base import Base

# Merged views have parts, which readers of version 1 do not know; views with a base or fitted counts, what readers of version 2 do not;
# and a view with a delta promises less than readers of version 3 would say.
FORMAT_VERSION, MERGED_FORMAT_VERSION, BASE_FORMAT_VERSION, DELTA_FORMAT_VERSION = 1, 2, 3, 4
MAX_PARTS = 1_000
MAX_EPSILON, MAX_NOISE_SCALE = 1e6, 1e12  # beyond, a view would hide nothing or tell nothing; intervals stay within doubles
MAX_MANIFEST_BYTES = 16_000_000
NEIGHBOURS = "tables that differ by adding or removing one record"


@dataclass(frozen=True)
class Spending:
    """Budget spent on one purpose: `times` uses of `epsilon` each, and `delta` for all of them."""

    purpose: str
    epsilon: Fraction
    times: int
    delta: Fraction = Fraction(0)


class _Facts:
    """Facts that nobody can change: mappings become read-only, and can be pickled all the same."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, Mapping):
                object.__setattr__(self, name, MappingProxyType(dict(value)))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(dict(value) if isinstance(value, Mapping) else value for value in vars(self).values())


@dataclass(frozen=True)
class Part(_Facts):
    """Facts about one of the views that a merged view was made from."""

    method: str
    epsilon: Fraction
    noise_scale: float
    settings: Mapping[str, float]
    parameters: Mapping[str, float]
    library_version: str
    delta: Fraction = Fraction(0)


@dataclass(frozen=True)
class Manifest(_Facts):
    """Facts about a view.

    epsilon, delta: the whole budget; `spending` adds up to it exactly. delta is 0 for pure differential privacy.
    settings: what the curator chose for the method; parameters: what followed from it and from the domain.
    privacy_unit: whose presence is hidden: a row's, or that of whoever a column of this name stands for; max_rows: of their records in the
        counts, at most; count_column: where rows of the table stood for several records, the column that said how many.
    not_private_because: empty for a private view.
    parts: of a merged view, the views it was made from, in the order of their blocks; overlapping: whether somebody may be in several of
        them, so that their budgets were added up.
    """

    schema: Schema
    method: str
    epsilon: Fraction
    spending: tuple[Spending, ...]
    noise_scale: float
    settings: Mapping[str, float]
    parameters: Mapping[str, float]
    library_version: str
    privacy_unit: str = "row"
    not_private_because: tuple[str, ...] = ()
    max_rows: int = 1
    count_column: str | None = None
    parts: tuple[Part, ...] = ()
    overlapping: bool = False
    delta: Fraction = Fraction(0)

    @property
    def is_private(self) -> bool:
        return not self.not_private_because

    @property
    def is_merged(self) -> bool:
        return bool(self.parts)

    def as_parts(self) -> tuple[Part, ...]:
        """The parts of a merged view, or this view as the one part of itself."""
        own = Part(self.method, self.epsilon, self.noise_scale, self.settings, self.parameters, self.library_version, self.delta)
        return self.parts or (own,)

    @property
    def budget(self) -> str:
        """In words: epsilon, and delta where there is one."""
        return f"epsilon {float(self.epsilon):g}" + (f" and delta {float(self.delta):g}" if self.delta else "")

    @property
    def neighbours(self) -> str:
        """In words: the tables that the view hardly tells apart."""
        if self.privacy_unit != "row":
            return f"tables that differ by adding or removing all records of one {self.privacy_unit}"
        return NEIGHBOURS if self.max_rows == 1 else f"tables that differ by adding or removing up to {self.max_rows} records"

    @property
    def change(self) -> str:
        """In a few words: what hardly changes the view."""
        if self.privacy_unit != "row":
            return f"add or remove all records of one {self.privacy_unit}, of which {self.max_rows} at most are counted"
        return "add or remove one record" if self.max_rows == 1 else f"add or remove up to {self.max_rows} records"

    def to_json(self, bases: Sequence[Base | None] = (), is_fitted: bool = False) -> str:
        """As files hold it. bases: of the blocks, one for each part; is_fitted: whether the file has fitted counts too."""
        inside = {"base": _bases_as_data(bases), "fitted": is_fitted} if any(bases) or is_fitted else {}
        version = BASE_FORMAT_VERSION if inside else MERGED_FORMAT_VERSION if self.is_merged else FORMAT_VERSION
        version = DELTA_FORMAT_VERSION if self.delta else version
        return json.dumps(
            {
                "format_version": version,
                "library_version": self.library_version,
                "private": self.is_private,
                "not_private_because": list(self.not_private_because),
                "epsilon": _text(self.epsilon),
                "delta": _text(self.delta) if self.delta else 0,
                "neighbours": self.neighbours,
                "privacy_unit": self.privacy_unit,
                "max_rows": self.max_rows,
                "count_column": self.count_column,
                "spending": [
                    {"purpose": s.purpose, "epsilon": _text(s.epsilon), "times": s.times, **_delta_as_data(s.delta)} for s in self.spending
                ],
                "noise": {"distribution": "discrete laplace", "scale": self.noise_scale},
                "method": {"name": self.method, "settings": dict(self.settings), "parameters": dict(self.parameters)},
                "schema": self.schema.to_dict(),
                **({"merged": self.merged_story()} if self.is_merged else {}),
                **inside,
            },
            ensure_ascii=False,
        )

    def merged_story(self) -> dict[str, Any]:
        """What a merged view was made from, as plain data."""
        parts = [
            {
                **{name: value for name, value in vars(part).items() if name != "delta"},
                "epsilon": _text(part.epsilon),
                **_delta_as_data(part.delta),
                "settings": dict(part.settings),
                "parameters": dict(part.parameters),
            }
            for part in self.parts
        ]
        return {"populations": "overlapping" if self.overlapping else "disjoint", "parts": parts}

    @classmethod
    def from_json(cls, text: bytes) -> Manifest:
        """Read a manifest, trusting nothing in it."""
        return cls.with_bases_from_json(text)[0]

    @classmethod
    def with_bases_from_json(cls, text: bytes) -> tuple[Manifest, tuple[Base | None, ...], bool]:
        """The same, with the base of each part, and whether the file has fitted counts."""
        content = _content(text)
        try:
            manifest = cls._from_content(content)
            return manifest, *_inside(content, manifest)
        except HdpviewError as problem:
            raise ViewFileError(f"The manifest is damaged: {problem}") from None
        except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError, OverflowError):
            raise ViewFileError("The manifest is damaged: a field is missing or of the wrong type.") from None

    @classmethod
    def _from_content(cls, content: dict[str, Any]) -> Manifest:
        method = content["method"]
        spending = tuple(
            Spending(_short(s["purpose"]), _fraction(s["epsilon"]), _whole(s["times"]), _delta(s)) for s in content["spending"][:MAX_PARTS]
        )
        manifest = cls(
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
        if sum(s.delta for s in spending) != manifest.delta or max((part.delta for part in manifest.parts), default=0) > manifest.delta:
            raise ValueError
        if manifest.max_rows < 1 or any(s.epsilon < 0 for s in spending) or sum(s.epsilon * s.times for s in spending) != manifest.epsilon:
            raise ValueError
        return manifest


def _content(text: bytes) -> dict[str, Any]:
    """The JSON of a manifest, of a version that is known."""
    if len(text) > MAX_MANIFEST_BYTES:
        raise ViewFileError(f"The manifest is larger than {MAX_MANIFEST_BYTES // 1_000_000} MB; this is not a file that hdpview wrote.")
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


def _bases_as_data(bases: Sequence[Base | None]) -> Any:
    found = [None if base is None else base.to_dict() for base in bases]
    return found if len(found) != 1 else found[0]


def _inside(content: dict[str, Any], manifest: Manifest) -> tuple[tuple[Base | None, ...], bool]:
    """What a file of version 3 says of the inside of blocks, and one of version 4 may say."""
    version = content["format_version"]
    if version < BASE_FORMAT_VERSION or (version == DELTA_FORMAT_VERSION and "base" not in content):
        return (), False
    data, n_parts = content["base"], max(len(manifest.parts), 1)
    listed = data if isinstance(data, list) else [data]
    if not isinstance(content["fitted"], bool) or len(listed) != n_parts:
        raise ValueError
    return tuple(None if base is None else Base.from_dict(base, manifest.schema.sizes) for base in listed), content["fitted"]


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


def _delta_as_data(delta: Fraction) -> dict[str, str]:
    return {"delta": _text(delta)} if delta else {}


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


def _text(fraction: Fraction) -> str:
    return str(fraction)


def _fraction(text: Any) -> Fraction:
    if not isinstance(text, str) or len(text) > 1_000 or "e" in text.lower():  # an exponent could ask for a number of any length
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
