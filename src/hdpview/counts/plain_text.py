"""Texts as a schema's [source] describes them, put into the one spelling that all other rules read.

Decimal commas become points, dates become ISO, marks for missing values become null: each by a rule for that
text alone, inside the database. What fits no rule is null where a number or a moment is expected.
"""

from __future__ import annotations

import ibis

from hdpview.counts.values import Column, exact_int, whole_number
from hdpview.domain import Attribute, Category, Datetime, Integer, Real, TextFormat
from hdpview.domain.text_format import date_parts, date_pattern

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_BLANKS = " \u00a0\u202f"
_IN_PARENTHESES = r"^ *\(([^()+-]+)\) *$"
_CALENDAR_SECONDS = (-62_135_596_800, 253_402_300_799)  # years 1 to 9999
_NEW_CENTURY = 69  # of two-digit years: below it 20.., from it on 19.., as POSIX has it


def plain_text(column: Column, attribute: Attribute, text: TextFormat) -> Column:
    """A column of texts in plain spelling. Columns of any other type come back as they are, save for moments
    as whole numbers, which become microseconds.
    """
    if isinstance(attribute, Datetime) and text.epoch is not None and not column.type().is_temporal():
        return _since_1970(column, text.epoch)
    if not column.type().is_string():
        return column
    if text.missing:
        declared = set(attribute.values) if isinstance(attribute, Category) else set()
        marks = [mark for mark in text.missing if mark not in declared]
        column = ibis.ifelse(column.strip().isin(marks), ibis.null("string"), column) if marks else column
    if isinstance(attribute, (Integer, Real)):
        return _plain_number(column, text)
    if isinstance(attribute, Datetime):
        return _plain_moment(column, text)
    return column.strip() if text.trim else column


def _since_1970(column: Column, epoch: str) -> Column:
    """Microseconds of moments that are whole numbers, held within the calendar so that none overflows."""
    per_second = {"s": 1, "ms": 1_000}[epoch]
    low, high = (end * per_second for end in _CALENDAR_SECONDS)
    number = whole_number(column)
    held = ibis.cases(
        (number < exact_int(low), exact_int(low)), (number > exact_int(high), exact_int(high)), else_=number
    )
    return held * exact_int(1_000_000 // per_second)


def _plain_number(column: Column, text: TextFormat) -> Column:
    """Digits with a decimal point. Signs of thousands count only where they part groups of three."""
    for unit in text.strip:
        column = column.replace(unit, "")
    column = column.strip() if text.strip else column
    if text.negative == "parentheses":
        column = ibis.ifelse(
            column.re_search(_IN_PARENTHESES), "-" + column.re_extract(_IN_PARENTHESES, 1), column
        )
    if text.thousands is not None:
        signs = _BLANKS if text.thousands == " " else text.thousands
        grouped = rf"^ *[+-]?[0-9]{{1,3}}([{signs}][0-9]{{3}})+([{text.decimal}][0-9]*)? *$"
        without = column
        for sign in signs:
            without = without.replace(sign, "")
        column = ibis.ifelse(column.re_search(grouped), without, column)
    if text.decimal == ",":
        # a point is no decimal sign here: 1.234 must not be read as a little more than 1
        column = ibis.ifelse(column.contains("."), ibis.null("string"), column.replace(",", "."))
    return column


def _plain_moment(column: Column, text: TextFormat) -> Column:
    """ISO text of what fits one of the formats, in their order; anything else stays as it is."""
    cases = [(column.re_search(date_pattern(each)), _iso(column, each)) for each in text.dates]
    return ibis.cases(*cases, else_=column) if cases else column


def _iso(column: Column, date_format: str) -> Column:
    pattern, parts = date_pattern(date_format), date_parts(date_format)
    found = {letter: column.re_extract(pattern, i) for i, letter in enumerate(parts, start=1)}
    day = _year(found) + "-" + _month(found) + "-" + found["d"].lpad(2, "0")
    if not {"H", "I"} & set(parts):
        return day
    return (
        day
        + "T"
        + _hour(found)
        + ":"
        + found.get("M", ibis.literal("00"))
        + ":"
        + found.get("S", ibis.literal("00"))
    )


def _year(found: dict[str, Column]) -> Column:
    if "Y" in found:
        return found["Y"]
    return ibis.ifelse(found["y"] < str(_NEW_CENTURY), ibis.literal("20"), ibis.literal("19")) + found["y"]


def _month(found: dict[str, Column]) -> Column:
    if "m" in found:
        return found["m"].lpad(2, "0")
    name = found["b"].lower()
    return ibis.cases(*((name == month, f"{i:02}") for i, month in enumerate(_MONTHS, start=1)), else_="00")


def _hour(found: dict[str, Column]) -> Column:
    """Two digits from 00 to 23; 00 for 12 AM. What is no hour stays, and is refused with the rest."""
    if "H" in found:
        return found["H"].lpad(2, "0")
    hour, is_afternoon = found["I"].lpad(2, "0"), found["p"].lower() == "p"
    cases = [
        ((hour == f"{h:02}") & (is_afternoon == ibis.literal(afternoon)), f"{h % 12 + 12 * afternoon:02}")
        for h in range(1, 13)
        for afternoon in (False, True)
    ]
    return ibis.cases(*cases, else_="99")
