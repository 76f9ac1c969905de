"""Hospital admissions, all invented: EVERY RECORD IS FICTITIOUS. No person, hospital or district behind them
exists and no real data went into them, so the table may be shipped and its exact counts shown.

`admissions.parquet` holds them in few bytes; `hdpview_bench.hospital` in the repository draws and writes it.
"""

from __future__ import annotations

from importlib import resources
from typing import NamedTuple

import duckdb
import pyarrow as pa

from hdpview.domain import Schema

# Datetimes are stored in minutes, and amounts in hundredths or tenths, which halves the file.
_READ = """
SELECT * REPLACE (
    TIMESTAMP '2020-01-01' + to_minutes(admitted) AS admitted,
    cost / 100 AS cost,
    systolic_bp / 10 AS systolic_bp
) FROM read_parquet(?)
"""


def hospital_schema_text() -> str:
    """The commented schema file, as a curator would write it."""
    return (resources.files(__package__) / "hospital.toml").read_text(encoding="utf-8")


def hospital_schema() -> Schema:
    """The public description of `hospital_table`, from the commented file `hospital.toml` beside this one."""
    with resources.as_file(resources.files(__package__) / "hospital.toml") as path:
        return Schema.load(path)


def hospital_table() -> pa.Table:
    """50,000 invented admissions, in order of patient and date: the columns of `hospital_schema`,
    `patient_id` and `insurance`.

    A patient has 1 to 6 rows, which agree on what does not change.
    """
    with (
        resources.as_file(resources.files(__package__) / "admissions.parquet") as path,
        duckdb.connect() as db,
    ):
        return db.sql(_READ, params=[str(path)]).to_arrow_table()


class Question(NamedTuple):
    """A question in plain English, and the SQL condition for it: one text for view and table."""

    text: str
    where: str


QUESTIONS: tuple[Question, ...] = (  # from broad to narrow
    Question("How many admissions were emergencies?", "admission = 'emergency'"),
    Question("For how many admissions was it not recorded whether the patient smokes?", "smoker IS NULL"),
    Question(
        "How many women over 65 were admitted as an emergency?",
        "sex = 'Female' AND age > 65 AND admission = 'emergency'",
    ),
    Question(
        "How many admissions of people aged 45 to 64 showed a systolic blood pressure from 140 up to 180?",
        "age BETWEEN 45 AND 64 AND systolic_bp >= 140 AND systolic_bp < 180",
    ),
    Question(
        "How many people from Northmoor or Eastvale were admitted for cancer or a circulatory disease "
        "and cost 10,000 crowns or more?",
        "region IN ('Northmoor', 'Eastvale') AND diagnosis IN ('cancer', 'circulatory') AND cost >= 10000",
    ),
    Question(
        "How many respiratory admissions were there in the winter from December 2022 to February 2023?",
        "diagnosis = 'respiratory' AND admitted >= DATE '2022-12-01' AND admitted < DATE '2023-03-01'",
    ),
    Question(
        "How many male smokers over 60 came back to cardiology within 30 days of going home?",
        "sex = 'Male' AND age > 60 AND smoker = TRUE AND ward = 'cardiology' AND readmitted = TRUE",
    ),
)
