"""Hospital admissions, all invented: EVERY RECORD IS FICTITIOUS. No person, hospital or district behind them
exists and no real data went into them, so the table may be shipped and its exact counts shown.

`admissions.parquet` holds them in few bytes; `tests/hospital.py` in the repository draws and writes it.
"""

from __future__ import annotations

from importlib import resources

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hdpview.domain import Schema

FIRST_MINUTE = np.datetime64("2020-01-01T00:00", "m")
# Stored as whole numbers of so much: half the bytes.
STORED_UNITS = {"cost": 0.01, "systolic_bp": 0.1}


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
    with resources.as_file(resources.files(__package__) / "admissions.parquet") as path:
        table = pq.read_table(path)
    minutes = table["admitted"].to_numpy().astype("timedelta64[m]")
    columns = {"admitted": pa.array((FIRST_MINUTE + minutes).astype("datetime64[us]"))}
    for name, unit in STORED_UNITS.items():
        stored = table[name].combine_chunks()
        values = stored.fill_null(0).to_numpy() / round(1 / unit)
        columns[name] = pa.array(values, mask=stored.is_null().to_numpy(zero_copy_only=False))
    for name, column in columns.items():
        table = table.set_column(table.column_names.index(name), name, column)
    return table
