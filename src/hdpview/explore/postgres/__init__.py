"""A view as a PostgreSQL database: a read-only server that speaks the wire protocol, for the tools analysts
already have. It knows released views only, and evaluates statements in child processes.

types             PostgreSQL's types, and how values travel as text and in binary
parameter_values  the same on the way in
names             what outputs, casts, parameters and tables are called
sqlstates         refusals, with the codes that clients understand
statements        what a text asks for: settings (settings), transactions, cursors, copies or a question
catalog/          pg_catalog, information_schema and synthetic records, answered by DuckDB
answerer          questions answered, in a child process: by a view or by the catalogue
commands          the state of a session, and what each statement does to it (copying)
wire              messages to and from a socket
scram, login      passwords, without either side sending one; who is let in
client_session    one client from its first message to its last
listener          the listening socket, its limits, TLS and the child processes
"""

from hdpview.explore.postgres.listener import PostgresServer, ServerSettings

__all__ = ["PostgresServer", "ServerSettings"]
