"""Hospital admissions, all invented: EVERY RECORD IS FICTITIOUS. No person, hospital or district behind them
exists and no real data went into them, so the table may be shipped and its exact counts shown.

`admissions.parquet` holds them in few bytes; `hdpview_bench.hospital` in the repository draws and writes it.
"""

from __future__ import annotations

from importlib import resources

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
