"""pg_catalog and information_schema, which clients query before any question.

layout     tables that describe the views served (relations, types, functions, settings: *.txt; derived.sql)
translate  PostgreSQL's SQL in DuckDB's words (functions: macros.sql)
catalogue  the tables, and synthetic records, in a sandboxed DuckDB in memory, which answers
"""
