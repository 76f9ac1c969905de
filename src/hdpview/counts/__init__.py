"""From a table to its encoded rows or occupied cells. Private side: everything here is exact.

sources          any source as a table of our own DuckDB (files, frames, postgresql, transcode, spill)
encode           the SQL that encodes it, from the schema: one encoder for every source, locally and on Spark
contributions    limits the rows of each person; numbers of persons (people)
ingest           both in one query: occupied cells (sparse) or streamed rows (stream, rows)
tally            sums rows into tables and counts of boxes, as methods request them (protocol)
draft            drafts a schema from types, first lines (guess), or values at a cost (learn)
check            lists what a build would lose of a table, before spending (losses, structure of files)
paid_check       the same check with differential privacy, at a cost
refusals         errors that quote no values
"""
