"""From a table to its encoded rows or occupied cells, and to drafts and checks of schemas.

Private side: everything here is exact and leaves only through `privacy.mechanism`. It does not import
methods, views or queries.

sources          any source as a table of our own DuckDB (files, arrow_input, postgresql, spill)
encode           the SQL that encodes it, from the schema: one encoder for every source, locally and on Spark
contributions    limits the rows of each person; numbers of persons (person_counts)
ingest           both in one query: occupied cells (sparse) or streamed rows (stream, rows)
tally            sums rows into tables and counts of boxes, as methods request them (exact_statistics)
draft            drafts a schema from types, first lines (guess), or values at a cost (learn)
check            lists what a build would lose of a table, before spending (losses)
paid_check       the same check with differential privacy, at a cost
refusals         errors that quote no values
"""
