"""From a table to its encoded rows or occupied cells. Private side: everything here is exact.

sources          any source as an Ibis table (files, frames, transcode, spill)
plain_text       texts put into one spelling, as the schema's [source] says
values           a column as values on its attribute's axis
encode           values as codes; pack: codes of a row as a few whole numbers, unpack: back again
contributions    of each person at most so many rows
ingest           all of this as one query: occupied cells (sparse) or streamed rows (stream, rows, postgres)
tally            rows added up into tables and counts of boxes, which is what methods ask for (protocol)
draft            a schema drafted from a table: from types, first lines (guess), or values for a price (learn)
check            what a build would lose of a table, before anything is paid (losses, structure of files);
paid_check       the same under privacy, for a price
refusals         errors that quote no value
"""
