"""Many rows to a message: how encoded rows come from PostgreSQL.

A value per row and column would cost the driver microseconds each, far more than the encoding. So the server
puts the numbers of thousands of rows into one value of bytes, which is read as an array.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import ibis
import numpy as np
import pyarrow as pa

# parts that the driver holds at a time
_PARTS_AT_ONCE = 2


def batches_of_numbers(backend: Any, query: ibis.Table, n_rows: int) -> Iterator[pa.RecordBatch]:
    """The result of a query whose columns are all 64-bit numbers, none null, in batches of up to `n_rows`.

    One statement, so one snapshot of the table. The server gathers rows part by part, within its `work_mem`.
    """
    # brings tables of categories along, as Ibis does for its own queries
    backend._run_pre_execute_hooks(query)
    numbers = ", ".join(f"string_agg(int8send({name}), ''::bytea)" for name in query.columns)
    numbered = (
        f"SELECT *, (row_number() OVER () - 1) / {n_rows} AS part FROM ({backend.compile(query)}) AS rows"
    )
    statement = f"SELECT {numbers} FROM ({numbered}) AS numbered GROUP BY part"
    with backend.con.transaction(), backend.con.cursor(name=f"hdpview_{secrets.token_hex(8)}") as cursor:
        cursor.execute(statement, binary=True)
        while parts := cursor.fetchmany(_PARTS_AT_ONCE):
            for part in parts:
                # the wire has the most significant byte first
                columns = [np.frombuffer(column, ">i8").astype(np.int64) for column in part]
                yield pa.record_batch(columns, names=list(query.columns))
