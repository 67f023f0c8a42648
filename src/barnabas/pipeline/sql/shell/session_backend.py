"""The protocol of what runs the statements of a session: this process, or a runner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from barnabas.pipeline.sql.catalog.catalog_changes import Catalog
    from barnabas.pipeline.sql.shell.catalog_change import AppliedChange, CatalogChange
    from barnabas.pipeline.sql.shell.key_lookups import KeyLookup
    from barnabas.pipeline.sql.shell.session_values import SessionSettings
    from barnabas.pipeline.sql.statement_values import QueryControl
    from barnabas.pipeline.streams.stream_app import App


class Backend(Protocol):
    """Keeps the catalog, and runs its queries. Calls block; several threads may make them."""

    @property
    def settings(self) -> SessionSettings:
        """Return the cluster and the registry."""
        ...

    @property
    def catalog(self) -> Catalog:
        """Return the catalog as it is now."""
        ...

    @property
    def app(self) -> App:
        """Return an app whose Spark session runs SELECT and INSERT."""
        ...

    def new_app(self) -> App:
        """Return an app of which nothing is known but its session, to describe a query."""
        ...

    def change(self, change: CatalogChange) -> AppliedChange:
        """Change the catalog and what runs; return once it is stored.

        Raises SqlError, UnresolvedError.
        """
        ...

    def looked_up(self, lookup: KeyLookup) -> tuple[list[list[Any]], int] | None:
        """Return the rows of a key, and how recent they are; None: Spark reads the topic.

        Raises UnresolvedError.
        """
        ...

    def state_of(self, query: str) -> str:
        """Return the state of a query, such as RUNNING, PAUSED or FAILED."""
        ...

    def control(self, statement: QueryControl) -> str:
        """Pause or resume a query, or all; return what was done. Raises UnresolvedError."""
        ...
