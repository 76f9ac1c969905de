"""From a table to its encoded rows or occupied cells. Private side: everything here is exact.

sources          any source as a table of our own DuckDB (files, frames, postgresql, transcode, spill)
encode           the SQL that encodes it, from the schema: one encoder for every source, here and on Spark
contributions    of each person at most so many rows; numbers of persons (people)
ingest           both as one query: occupied cells (sparse) or streamed rows (stream, rows)
tally            rows added up into tables and counts of boxes, which is what methods ask for (protocol)
draft            a schema drafted from a table: from types, first lines (guess), or values for a price (learn)
check            what a build would lose of a table, before anything is paid (losses, structure of files);
paid_check       the same under privacy, for a price
refusals         errors that quote no value
"""
