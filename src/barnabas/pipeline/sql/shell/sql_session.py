"""A session in this process: statements on a catalog in memory, and queries in its Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.pipeline.sql.shell.local_queries import LocalQueries
from barnabas.pipeline.sql.shell.session_statements import SessionStatements

if TYPE_CHECKING:
    from barnabas.pipeline.sql.shell.session_values import SessionSettings


class SqlSession(SessionStatements):
    """Runs statements: sources and types in a catalog, queries as apps of streams.

    `settings.name` is the prefix of the queries' groups: a script that runs again under the same
    name continues. Spark starts with the first statement that needs it.
    """

    def __init__(self, settings: SessionSettings) -> None:
        """Take the settings; nothing starts yet."""
        self.settings = settings
        self._queries = LocalQueries(settings)
        super().__init__(self._queries)

    @property
    def has_queries(self) -> bool:
        """True when persistent queries run."""
        return self._queries.has_queries

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of a query; return False when the time is over before.

        Raises StreamFailedError when a query failed.
        """
        return self._queries.wait(timeout_s)

    def close(self) -> None:
        """Stop the queries after their running transactions, then Spark."""
        self._queries.close()
