"""Explore a sensitive table freely, under differential privacy, after paying the privacy budget once.

import hdpview as hv
schema = hv.Schema.load("adult.toml")
view = hv.build("adult.parquet", schema, epsilon=1.0)
view.count("age BETWEEN 30 AND 39 AND sex = 'Female'")
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from hdpview._version import __version__

if TYPE_CHECKING:
    from hdpview.build import build, preview
    from hdpview.counts.losses import SchemaWarning
    from hdpview.domain import Boolean, Category, Date, Datetime, Integer, Real, Schema, TextFormat
    from hdpview.errors import (
        BudgetError,
        DataError,
        HdpviewError,
        InternalError,
        LossError,
        MethodError,
        QueryError,
        SchemaError,
        ViewFileError,
    )
    from hdpview.forecast import Estimate, estimate
    from hdpview.methods import Hdpview
    from hdpview.pview import PView, merge
    from hdpview.pview import open_view as open  # noqa: A004
    from hdpview.query.interval.answers import Answer, Answers, Interval
    from hdpview.query.interval.statistics import Comparison, Statistic
    from hdpview.query.quality import QualityReport
    from hdpview.refine import refine
    from hdpview.wishes import Wishes

# Public names by module; they are imported on first use, so that the command line starts fast.
_NAMES = {
    "build": "build preview",
    "counts.losses": "SchemaWarning Concern",  # named Concern up to version 0.2
    "domain": "Boolean Category Date Datetime Integer Real Schema TextFormat",
    "errors": "BudgetError DataError HdpviewError InternalError LossError MethodError QueryError SchemaError "
    "ViewFileError",
    "forecast": "Estimate estimate",
    "methods": "Hdpview",
    "pview": "PView merge open",
    "query.interval.answers": "Answer Answers Interval",
    "query.interval.statistics": "Comparison Statistic",
    "query.quality": "QualityReport",
    "refine": "refine",
    "wishes": "Wishes",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "Answer", "Answers", "Boolean", "BudgetError", "Category", "Comparison", "DataError", "Date", "Datetime",
    "Estimate", "Hdpview", "HdpviewError", "Integer", "InternalError", "Interval", "LossError",
    "MethodError", "PView", "QualityReport", "QueryError", "Real", "Schema", "SchemaError", "SchemaWarning",
    "Statistic", "TextFormat", "ViewFileError", "Wishes", "__version__", "build", "estimate", "merge",
    "open", "preview", "refine",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOME:
        raise AttributeError(f"module 'hdpview' has no attribute {name!r}")
    try:
        home = import_module(f"hdpview.{_HOME[name]}")
    except ModuleNotFoundError as problem:
        from hdpview.errors import missing_extra

        raise missing_extra(problem) or problem from None
    globals()[name] = getattr(home, "open_view" if name == "open" else name)
    return globals()[name]


class _Package(ModuleType):
    def __setattr__(self, name: str, value: Any) -> None:
        """Keep the functions `build` and `refine` when the modules of these names are imported."""
        if not (name in ("build", "refine") and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return __all__
