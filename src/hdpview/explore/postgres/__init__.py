"""A view as a PostgreSQL database: a read-only server that speaks the wire protocol, for the tools analysts
already have.

types        PostgreSQL's types, and how values travel as text and in binary
parameters   the same on the way in
settings     settings of a session as it starts
names        what outputs, casts, parameters and tables are called
columns      names and types of a statement's result, known before it runs
catalog/     pg_catalog and information_schema, answered by DuckDB over tables in memory
records      statements that ask for rows: answered from synthetic records
rewrite      what tools add to a statement, in the view's own SQL
answers      a question answered: by a view, by its synthetic records, or by the catalogue
statements   what a text asks for: settings, transactions, cursors, copies or a question
commands     the state of a session, and what each statement does to it (copying)
errors       refusals, with the codes that clients understand
wire         messages to and from a socket
scram        passwords, without either side sending one
login        who is let in
session      one client from its first message to its last
server       the listening socket, its limits, and TLS
"""

from hdpview.explore.postgres.server import PostgresServer, ServerSettings

__all__ = ["PostgresServer", "ServerSettings"]
