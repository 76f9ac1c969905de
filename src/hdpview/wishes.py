"""Wishes: counts that analysts need more precisely, in a small file that they send to the curator."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hdpview.errors import QueryError, shortened
from hdpview.query.interval.answers import count_many
from hdpview.query.question.where import boxes_of
from hdpview.view.data import ViewData
from hdpview.view.file import written_whole

_MOST_BYTES = 1_000_000
# Attributes; a table of more would have too many cells for its records.
_MOST_TOGETHER = 3
_STRICT = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)


class Wish(BaseModel):
    """A condition, and the wanted half-width, in records, of the 95% interval of its count."""

    model_config = _STRICT
    where: str = Field(min_length=1, max_length=10_000)
    within: float = Field(gt=0, le=1e12)


class Wishes(BaseModel):
    """Counts that analysts need more precisely. `view.wish(…)` makes one, `+` joins several.

    >>> wishes = view.wish("age >= 60", within=50) + view.wish("ward = 'a'", within=20)   # doctest: +SKIP
    """

    model_config = _STRICT
    format: Literal["hdpview wishes 1"] = "hdpview wishes 1"
    wishes: tuple[Wish, ...] = Field(max_length=1_000)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Wishes:
        """Read and check a file of wishes."""
        try:
            with Path(path).open("rb") as file:
                text = file.read(_MOST_BYTES + 1)
            if len(text) <= _MOST_BYTES:
                return cls.model_validate_json(text)
            what = "it is too large"
        except OSError as problem:
            what = str(problem.strerror or problem)
        except ValidationError as problem:
            first = problem.errors(include_url=False, include_input=False)[0]
            what = shortened(f"{'.'.join(map(str, first['loc']))}: {first['msg']}".lstrip(": "))
        raise QueryError(f"Cannot read wishes from {str(path)!r}: {what}.")

    def save(self, path: str | PathLike[str]) -> None:
        """Write a file to send to the curator."""
        with written_whole(path) as file:
            file.write(f"{self.model_dump_json(indent=2)}\n".encode())

    def __add__(self, other: Wishes) -> Wishes:
        return Wishes(wishes=tuple(dict.fromkeys((*self.wishes, *other.wishes))))

    def __len__(self) -> int:
        return len(self.wishes)

    def reach(self, view: ViewData) -> NDArray[np.float64]:
        """Half-widths of the view's 95% intervals for these wishes, in records, shape (n,)."""
        answers = count_many(view, [wish.where for wish in self.wishes])
        half_widths: NDArray[np.float64] = answers.typical[:, 1] - answers.estimate
        return half_widths

    def report(self, view: ViewData) -> list[dict[str, Any]]:
        """Each wish, the precision that the view has now, and whether that is enough."""
        reached = self.reach(view).tolist()
        return [
            {"where": wish.where, "within": wish.within, "now": now, "met": now <= wish.within}
            for wish, now in zip(self.wishes, reached, strict=True)
        ]

    def focus(self, view: ViewData) -> tuple[tuple[str, ...], ...]:
        """The attributes of each unmet wish, if one table can count them together."""
        names, groups = view.schema.names, dict[tuple[str, ...], None]()
        for wish, now in zip(self.wishes, self.report(view), strict=True):
            about = sorted({a for box in boxes_of(wish.where, view.schema) for a in box})
            if not now["met"] and 1 <= len(about) <= _MOST_TOGETHER:
                groups[tuple(names[a] for a in about)] = None
        return tuple(groups)


def wish(view: ViewData, where: str, within: float) -> Wishes:
    """Make one wish. Raises a QueryError if the view cannot answer its condition."""
    try:
        made = Wishes(wishes=(Wish(where=where, within=float(within)),))
    except (ValidationError, TypeError, ValueError):
        raise QueryError(
            f"A wish needs a condition as text and a number above 0, not {where!r} and {within!r}."
        ) from None
    made.reach(view)
    return made
