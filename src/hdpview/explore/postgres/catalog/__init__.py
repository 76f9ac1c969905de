"""pg_catalog and information_schema: what clients ask before they ask a question.

tables     the rows that describe the views served (layout, types, functions and settings: *.txt; derived.sql)
translate  PostgreSQL's SQL as SQLite understands it
engine     the tables in an SQLite database in memory, which answers
"""
