"""Attributes without an order: categories and booleans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from hdpview.domain.attributes import Attribute


@dataclass(frozen=True, kw_only=True)
class Category(Attribute):
    """One of `values`, in the order given. `other` names where undeclared values go: a code of its own, or
    one of `values`.

    Without `other`, undeclared values count as missing where the attribute is nullable, else as the first
    value.
    """

    values: tuple[str, ...]
    other: str | None = None
    kind: ClassVar[str] = "category"
    _code_of: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def _check(self) -> None:
        if isinstance(self.values, str) or not self.values:
            raise self._fail("values must list the categories; at least one.")
        texts = tuple(self._text(value) for value in self.values)
        object.__setattr__(self, "values", texts)
        object.__setattr__(self, "_code_of", {text: code for code, text in enumerate(texts)})
        if len(self._code_of) < len(texts):
            twice = (
                min(text for text in self._code_of if texts.count(text) > 1)
                if len(texts) < 5_000
                else "a value"
            )
            raise self._fail(f"values lists {twice!r} twice.")
        if self.other is not None and not isinstance(self.other, str):
            raise self._fail(f"other must be a text, not {self.other!r}.")

    def _text(self, value: Any) -> str:
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, (str, int)):
            return str(value)
        raise self._fail(f"values must be texts or whole numbers, not {value!r}.")

    @property
    def n_values(self) -> int:
        return len(self.values) + (self.other is not None and self.other not in self._code_of)

    @property
    def unknown_code(self) -> int:
        """The code of a value that was not declared."""
        if self.other is not None:
            return self._code_of.get(self.other, len(self.values))
        return self.missing_code

    @property
    def missing_code(self) -> int:
        if self.nullable:
            return self.n_values
        return 0 if self.other is None else self.unknown_code

    def strays(self) -> str:
        return (
            f"undeclared → {self.labels()[self.unknown_code]}; missing → {self.labels()[self.missing_code]}"
        )

    def code_of(self, value: str) -> int | None:
        """The code of a declared value or of the name of `other`; None for anything else."""
        return self.unknown_code if value == self.other else self._code_of.get(value)

    def value_labels(self) -> list[str]:
        own_code = self.other is not None and self.other not in self._code_of
        return [*self.values, *([self.other] if own_code and self.other is not None else [])]

    def to_dict(self) -> dict[str, Any]:
        other = {} if self.other is None else {"other": self.other}
        return {
            "type": self.kind,
            "values": list(self.values),
            **other,
            **({"nullable": True} if self.nullable else {}),
        }


@dataclass(frozen=True, kw_only=True)
class Boolean(Attribute):
    """False and true, in this order."""

    kind: ClassVar[str] = "boolean"

    def _check(self) -> None:
        """Nothing beyond what all attributes check."""

    @property
    def n_values(self) -> int:
        return 2

    def value_labels(self) -> list[str]:
        return ["false", "true"]
