"""The rights that a statement needs: on topics that it reads, and on those that it writes.

With ACLs, the caller of a request needs READ on the topics of the sources that a statement reads,
WRITE on the topic that it writes, creates or drops, and both are checked before it runs. A
statement of all queries needs WRITE on the topic name `*`, which only ACLs of all topics give.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from barnabas.pipeline.connect.rest_errors import ConnectRestError
from barnabas.pipeline.rest.job_rights import ANY_TOPIC
from barnabas.pipeline.rest.sql.sql_errors import FORBIDDEN, FORBIDDEN_TOPIC, SqlRestError
from barnabas.pipeline.sql import statement_values as st

if TYPE_CHECKING:
    from barnabas.pipeline.rest.job_rights import CallerRights, RestAccess
    from barnabas.pipeline.sql.catalog.catalog_changes import Catalog

_READING: Final = (
    st.Select,
    st.Show,
    st.Describe,
    st.Explain,
    st.PrintTopic,
    st.SetProperty,
    st.DefineVariable,
    st.AssertTopic,
    st.AssertSchema,
    st.ShowConnectors,
    st.ShowConnectorPlugins,
    st.DescribeConnector,
)
"""Statements that read-only users may run."""


@attrs.frozen
class Topics:
    """Topics that a statement reads and writes."""

    read: tuple[str, ...] = ()
    written: tuple[str, ...] = ()


def topics_of(statement: st.Statement, catalog: Catalog) -> Topics:
    """Return the topics of a statement; of sources that do not exist it names none."""
    if isinstance(statement, st.Select):
        return Topics(_read(statement, catalog))
    if isinstance(statement, st.PrintTopic):
        return Topics((statement.topic,))
    if isinstance(statement, st.CreateSource):
        return _created(statement, catalog)
    if isinstance(statement, st.InsertSelect):
        return Topics(_read(statement.query, catalog), _topic(statement.target, catalog))
    if isinstance(statement, st.InsertValues):
        return Topics((), _topic(statement.target, catalog))
    if isinstance(statement, st.DropSource | st.AddColumns):
        return Topics((), _topic(statement.name, catalog))
    if isinstance(statement, st.QueryControl):
        return Topics((), _controlled(statement, catalog))
    if isinstance(statement, st.Explain) and statement.statement is not None:
        return Topics(topics_of(statement.statement, catalog).read)
    return Topics()


def _created(statement: st.CreateSource, catalog: Catalog) -> Topics:
    given = {name.upper(): each for name, each in statement.properties.items()}
    topic = str(given.get("KAFKA_TOPIC") or statement.name)
    if statement.query is not None:
        return Topics(_read(statement.query, catalog), (topic,))
    return Topics((topic,), (topic,) if "PARTITIONS" in given else ())


def _controlled(statement: st.QueryControl, catalog: Catalog) -> tuple[str, ...]:
    if statement.query is None:
        return (ANY_TOPIC,)
    return tuple(
        topic
        for each in catalog.queries
        if each.name == statement.query
        for topic in _topic(each.sink, catalog)
    )


def _read(query: st.Select, catalog: Catalog) -> tuple[str, ...]:
    relations = (query.source, *(each.relation for each in query.joins))
    return tuple(topic for each in relations for topic in _topic(each.source, catalog))


def _topic(name: str, catalog: Catalog) -> tuple[str, ...]:
    source = catalog.sources.get(name)
    return () if source is None else (source.topic,)


@attrs.frozen
class Caller:
    """The sender of a request."""

    name: str
    host: str
    access: RestAccess

    async def check(self, statement: st.Statement, catalog: Catalog) -> None:
        """Raise SqlRestError (403) unless the caller may run a statement."""
        is_reading = isinstance(statement, _READING)
        await self.check_topics(topics_of(statement, catalog), is_change=not is_reading)

    async def rights(self, *, is_change: bool) -> CallerRights:
        """Return the rights. Raises SqlRestError (403) for a change by a read-only user."""
        try:
            return await self.access.rights(self.name, self.host, "POST" if is_change else "GET")
        except ConnectRestError as error:
            raise SqlRestError(FORBIDDEN, error.message) from None

    async def check_topics(self, topics: Topics, *, is_change: bool) -> None:
        """Raise SqlRestError (403) unless the caller has the rights on topics."""
        rights = await self.rights(is_change=is_change)
        if rights.topics is None:
            return
        for topic in topics.read:
            if not rights.topics.may_read(topic):
                raise self._refusal("READ", topic)
        for topic in topics.written:
            if not rights.topics.may_write(topic):
                raise self._refusal("WRITE", topic)

    def _refusal(self, operation: str, topic: str) -> SqlRestError:
        return SqlRestError(
            FORBIDDEN_TOPIC, f"User {self.name} needs {operation} on the topic {topic}"
        )
