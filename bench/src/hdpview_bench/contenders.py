"""The participants of a comparison, named as on the command line: `hdpview`, `hdpview:bias_ratio=1.8`,
`hdpview:a=1;b=2`, `mst`.

They share one interface, so the runner has no special cases.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

from hdpview.counts.sparse import SparseCounts
from hdpview.domain import Schema
from hdpview.errors import MethodError
from hdpview.methods.protocol import Method, Release, release_with
from hdpview.partition.local import LocalEngine
from hdpview.privacy.randomness import Randomness
from hdpview_bench.peers import PEERS, package_of, peer_release
from hdpview_bench.rivals import METHODS, method_named

_MOST_SECONDS = 86_400.0  # the runner sets its own, lower limits on the processes it starts
ALL = "all"


class Contender(Protocol):
    """The interface of all contenders."""

    @property
    def needs_workload(self) -> bool:
        """Whether it is built separately for each workload."""
        ...

    def for_workload(self, workload: str) -> Contender:
        """The contender tuned to this workload."""
        ...

    def why_absent(self) -> str | None:
        """The software to install; None if it is installed."""
        ...

    def why_infeasible(self, schema: Schema, epsilon: Fraction) -> str | None: ...

    def expected_rmse(self, workload: str, schema: Schema, epsilon: Fraction) -> float | None:
        """Its exact expected error if known without a release, otherwise None."""
        ...

    def release(self, counts: SparseCounts, epsilon: Fraction, randomness: Randomness) -> Release: ...


@runtime_checkable
class KnownError(Protocol):
    """A method whose expected error is known exactly, even if its release would be too large to compute."""

    def expected_rmse(self, workload: str, schema: Schema, epsilon: float) -> float:
        """Root of the mean expected squared error over the questions of a workload."""
        ...


@dataclass(frozen=True)
class MethodContender:
    """One of our methods, or a rival in our implementation, with its settings."""

    name: str
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def _method(self) -> Method:
        return method_named(self.name, self.settings)

    @property
    def needs_workload(self) -> bool:
        return "workload" in METHODS[self.name].__dataclass_fields__ and "workload" not in self.settings

    def for_workload(self, workload: str) -> MethodContender:
        return MethodContender(self.name, {**self.settings, "workload": workload})

    def why_absent(self) -> str | None:
        return None

    def why_infeasible(self, schema: Schema, epsilon: Fraction) -> str | None:
        return self._method.why_infeasible(schema, float(epsilon))

    def expected_rmse(self, workload: str, schema: Schema, epsilon: Fraction) -> float | None:
        method = self._method
        return (
            method.expected_rmse(workload, schema, float(epsilon)) if isinstance(method, KnownError) else None
        )

    def release(self, counts: SparseCounts, epsilon: Fraction, randomness: Randomness) -> Release:
        released, _ = release_with(self._method, counts, epsilon, randomness, LocalEngine(threads=1))
        return released


@dataclass(frozen=True)
class PeerContender:
    """An independent implementation with its own noise and δ > 0. It takes minutes, so it runs only on
    request.
    """

    name: str
    needs_workload = False

    def for_workload(self, workload: str) -> PeerContender:
        return self

    def why_absent(self) -> str | None:
        package = package_of(self.name)
        return None if package.interpreter() is not None else package.how_to_install

    def why_infeasible(self, schema: Schema, epsilon: Fraction) -> str | None:
        return None

    def expected_rmse(self, workload: str, schema: Schema, epsilon: Fraction) -> float | None:
        return None

    def release(self, counts: SparseCounts, epsilon: Fraction, randomness: Randomness) -> Release:
        return peer_release(self.name, counts, float(epsilon), seconds=_MOST_SECONDS)


def all_names() -> tuple[str, ...]:
    """Our methods and the rivals implemented here."""
    return tuple(METHODS)


def with_all(names: Sequence[str]) -> tuple[str, ...]:
    """The distinct names; `all`, or no name, means all of `all_names`."""
    all_chosen = [one for name in names or (ALL,) for one in (all_names() if name == ALL else (name,))]
    return tuple(dict.fromkeys(all_chosen))


def contender(text: str) -> Contender:
    """Parse a contender from its name and settings. Raises MethodError if the name is unknown."""
    name, _, written = text.partition(":")
    if text in PEERS:
        return PeerContender(text)
    chosen = MethodContender(name, dict(_setting(part, text) for part in written.split(";") if part))
    method_named(name, chosen.settings)
    return chosen


def _setting(part: str, text: str) -> tuple[str, Any]:
    key, equals, value = part.partition("=")
    if not equals:
        raise MethodError(f"Cannot read {text!r}: settings are written as name:setting=value;setting=value.")
    try:
        return key.strip(), ast.literal_eval(value.strip())
    except (ValueError, SyntaxError):
        return key.strip(), value.strip()
