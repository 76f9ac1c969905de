"""Public knowledge: possible values, stated by a person, never read from data. Imports no other room.

attributes       a column's possible values and their codes: numbers, categories, datetimes (calendar)
schema           all attributes of a table, and the format of its texts (text_format)
language         abbreviations in schema files; toml: writes such files, and finds lines in them
drafting         drafts with a ? for every missing fact, and facts that a column's name suggests
importing        drafts from existing descriptions: Frictionless, SQL, data dictionaries
table_shapes     the attributes and bins of a table
"""

from hdpview.domain.attributes import Attribute, Ordered
from hdpview.domain.categories import Boolean, Category
from hdpview.domain.datetimes import Date, Datetime
from hdpview.domain.numbers import Integer, Real
from hdpview.domain.schema import Schema
from hdpview.domain.text_format import TextFormat

__all__ = [
    "Attribute", "Boolean", "Category", "Date", "Datetime", "Integer", "Ordered", "Real", "Schema",
    "TextFormat",
]  # fmt: skip
