"""Public knowledge: what a table may contain, stated by a person and never read from the data."""

from hdpview.domain.attributes import Attribute, Ordered
from hdpview.domain.categories import Boolean, Category
from hdpview.domain.moments import Datetime
from hdpview.domain.numbers import Integer, Real
from hdpview.domain.schema import Schema
from hdpview.domain.text_format import TextFormat

__all__ = [
    "Attribute",
    "Boolean",
    "Category",
    "Datetime",
    "Integer",
    "Ordered",
    "Real",
    "Schema",
    "TextFormat",
]
