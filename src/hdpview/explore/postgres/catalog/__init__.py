"""pg_catalog and information_schema: what clients ask before they ask a question.

tables     rows that describe the views served (layout, types, functions and settings: *.txt; derived.sql)
translate  PostgreSQL's SQL in DuckDB's words (functions: macros.sql)
engine     the tables in a sandboxed DuckDB in memory, which answers
"""
