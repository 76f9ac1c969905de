"""Settings of a session as it starts, and what they mean."""

from __future__ import annotations

from hdpview.explore.postgres.functions import SERVER_VERSION


def first_settings() -> dict[str, tuple[str, str]]:
    """Settings of a session: value at the start and what it means."""
    return {
        "server_version": (SERVER_VERSION, "The version of PostgreSQL that is spoken."),
        "server_version_num": ("150000", "The same as a number."),
        "server_encoding": ("UTF8", "All text is UTF-8."),
        "client_encoding": ("UTF8", "All text is UTF-8."),
        "application_name": ("", "What the client calls itself."),
        "datestyle": ("ISO, MDY", "Dates are written as 2024-01-31."),
        "intervalstyle": ("postgres", "How spans of time are written."),
        "timezone": ("UTC", "Views hold no time zones."),
        "integer_datetimes": ("on", "Moments are whole microseconds."),
        "standard_conforming_strings": ("on", "Backslashes in texts are plain characters."),
        "is_superuser": ("off", "Nobody can change anything here."),
        "session_authorization": ("hdpview", "The user."),
        "default_transaction_read_only": ("on", "Nothing can be written."),
        "transaction_read_only": ("on", "Nothing can be written."),
        "in_hot_standby": ("off", "There is one server."),
        "transaction_isolation": ("read committed", "A view never changes."),
        "default_transaction_isolation": ("read committed", "A view never changes."),
        "search_path": ('"$user", public', "Where names are looked up."),
        "extra_float_digits": ("3", "Numbers are written in full."),
        "bytea_output": ("hex", "How bytes are written."),
        "statement_timeout": ("0", "The server has a limit of its own."),
        "lock_timeout": ("0", "There are no locks."),
        "idle_in_transaction_session_timeout": ("0", "The server has a limit of its own."),
        "max_identifier_length": ("63", "Longest name."),
        "max_index_keys": ("32", "There are no indexes."),
        "lc_collate": ("C.UTF-8", "Order of texts."),
        "lc_ctype": ("C.UTF-8", "Kinds of letters."),
        "lc_monetary": ("C", "Money."),
        "xmloption": ("content", "Unused."),
        "client_min_messages": ("notice", "Which messages the client sees."),
        "row_security": ("on", "Unused."),
        "standard_compliant": ("on", "Unused."),
        "jit": ("off", "Unused."),
        "default_table_access_method": ("heap", "Unused."),
        "default_tablespace": ("", "Unused."),
        "max_connections": ("200", "Clients at once."),
        "shared_preload_libraries": ("", "Unused."),
        "hdpview.intervals": ("off", "on: each aggregate n is followed by n_lower and n_upper."),
        "hdpview.confidence": ("0.95", "Of the intervals."),
        "hdpview.interval": ("typical", "typical, guaranteed or noise."),
        "hdpview.counts": ("consistent", "consistent: not below 0; raw: unbiased, adds up."),
    }
