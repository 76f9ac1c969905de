"""Public knowledge: what a table may contain, stated by a person and never read from the data.

attributes       what a column may hold, and the code of each value: numbers, categories, datetimes (calendar)
schema           all attributes of a table, and how its texts are written (text_format)
language         what a schema file may say in short; toml: such files read and written; places: lines of them
drafting         drafts with a ? where knowledge is needed; suggestions: what a column's name suggests
importing        drafts from descriptions that exist: Frictionless, SQL, data dictionaries
tables           which codes share a bin of a table
"""

from hdpview.domain.attributes import Attribute, Ordered
from hdpview.domain.categories import Boolean, Category
from hdpview.domain.datetimes import Date, Datetime
from hdpview.domain.numbers import Integer, Real
from hdpview.domain.schema import Schema
from hdpview.domain.text_format import TextFormat

__all__ = [
    "Attribute",
    "Boolean",
    "Category",
    "Date",
    "Datetime",
    "Integer",
    "Ordered",
    "Real",
    "Schema",
    "TextFormat",
]
