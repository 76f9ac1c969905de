"""A view as a PostgreSQL database: a read-only server that speaks the wire protocol, for the tools analysts
already have.

types        PostgreSQL's types, and how values travel as text and in binary
columns      names and types of a statement's result, known before it runs
catalog/     pg_catalog and information_schema, answered by SQLite over tables in memory
records      statements that ask for rows: answered from synthetic records
statements   what a text asks for: settings, transactions, cursors, copies or a question
answers      a question answered: by a view, by its synthetic records, or by the catalogue
scram        passwords, without either side sending one
wire         messages to and from a socket
session      one client from its first message to its last
server       the listening socket, its limits, and TLS
"""

from hdpview.explore.postgres.server import PostgresServer, ServerSettings

__all__ = ["PostgresServer", "ServerSettings"]
