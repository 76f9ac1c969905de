"""The result of a forecast: expected errors by kind of question, size, time and memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Error(NamedTuple):
    """Root mean square error, in records: the expected one, and those of favourable and bad tables."""

    expected: float
    low: float
    high: float


@dataclass(frozen=True)
class Estimate:
    """The expected accuracy and cost of a build."""

    epsilon: float
    n_rows: int
    errors: dict[str, Error]
    n_blocks: int
    file_bytes: int
    build_seconds: float
    memory_bytes: int
    risk: str
    delta: float = 0.0
    max_rows: int = 1
    relations: dict[str, Error] = field(default_factory=dict)  # by kind, in shares of the span and of records
    n_at_once: int | None = None  # attributes simulated together, if not all

    def __str__(self) -> str:
        also = f" and delta {self.delta:g}" if self.delta else ""
        persons = f", {self.max_rows} of a person" if self.max_rows > 1 else ""
        budget = f"epsilon {self.epsilon:.3g}{also} on {self.n_rows:,} rows{persons}"
        lines = [
            f"With {budget}, expect errors (root mean square, in records) of about",
            *(_line(kind, *map(_records, error)) for kind, error in self.errors.items()),
        ]
        if self.relations:
            lines += [
                "and, within groups of at least one in a hundred records,",
                *(
                    _line(kind, *(f"{100 * part:.2g} %" for part in error))
                    for kind, error in self.relations.items()
                ),
                "(rates in percentage points, means in percent of the attribute's span).",
            ]
        lines.append(
            "The ranges cover invented tables, from concentrated on a few values to evenly spread; real "
            "tables can lie outside."
        )
        if self.n_at_once is not None:
            lines.append(
                f"Simulated with {self.n_at_once} attributes at a time; with all of them, fewer pairs can be "
                "counted together. The ranges allow for that."
            )
        lines.append(
            f"About {self.n_blocks:,} blocks, {self.file_bytes / 1e3:,.0f} kB; {self.build_seconds:.1f} s "
            f"and {self.memory_bytes / 1e6:,.0f} MB to build, once the table is read."
        )
        return "\n".join([*lines, self.risk])


def _records(number: float) -> str:
    """A number of records; fractions are not rounded to 0."""
    return f"{number:,.0f}" if number >= 9.5 else f"{number:.1g}"


def _line(kind: str, expected: str, low: str, high: str) -> str:
    return f"  {expected:>10}  on a {kind} ({low} to {high})"
