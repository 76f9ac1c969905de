"""Public knowledge: what a table may contain, stated by a person and never read from the data."""

from hdpview.domain.attributes import Attribute, Boolean, Category, Datetime, Integer, Ordered, Real
from hdpview.domain.schema import Schema

__all__ = ["Attribute", "Boolean", "Category", "Datetime", "Integer", "Ordered", "Real", "Schema"]
