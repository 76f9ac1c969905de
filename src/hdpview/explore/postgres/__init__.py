"""A view as a PostgreSQL database: a read-only server of the wire protocol, for analysts' existing tools. It
serves released views only, and evaluates statements in child processes.

types           PostgreSQL's types and those of DuckDB that hold their values
values          values as text and in binary, on their way out and in
names           names of outputs, casts, parameters and tables
sqlstates       refusals, with the codes that clients understand
settings        settings of a session
statements      the statements of a text, and the forms of those that are not questions
catalog/        pg_catalog, information_schema and synthetic records, answered by DuckDB
answerer        questions answered, in a child process: by a view or by the catalogue
commands        the state of a session, and what each statement does to it (copying)
wire            messages to and from a socket, limited in length and time
login           who is let in: encryption and passwords, without either side sending one
client_session  one client from its first message to its last, in a thread of its own
listener        the listening socket, its limits, TLS and the child processes
"""

from hdpview.explore.postgres.listener import PostgresServer, ServerSettings

__all__ = ["PostgresServer", "ServerSettings"]
