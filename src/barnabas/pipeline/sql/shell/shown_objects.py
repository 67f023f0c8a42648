"""SHOW and DESCRIBE: what the catalog, the session and the cluster have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from barnabas.pipeline.sql.functions.resolution import all_functions, function
from barnabas.pipeline.sql.shell import answer_values as av
from barnabas.pipeline.sql.shell.asserted_objects import TIMEOUT_MS, TIMEOUTS
from barnabas.pipeline.sql.sql_failures import UnresolvedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from barnabas.pipeline.sql.catalog.catalog_changes import Catalog, PersistentQuery
    from barnabas.pipeline.sql.catalog.source_values import Source
    from barnabas.pipeline.sql.shell.session_values import SessionSettings, SessionState
    from barnabas.pipeline.sql.statement_values import Describe, Show, SourceKind

_DEFAULTS: Final = {
    "auto.offset.reset": "earliest",
    "barnabas.sql.query.name": None,
    **dict.fromkeys(TIMEOUTS.values(), TIMEOUT_MS),
    "ksql.functions.collect_list.limit": None,
    "ksql.functions.collect_set.limit": None,
    "ksql.persistence.default.format.key": "KAFKA",
    "ksql.persistence.default.format.value": None,
    "ksql.persistence.wrap.single.values": "true",
    "ksql.streams.cache.max.bytes.buffering": None,
}
"""The properties that SET changes, with their defaults."""


StateOf: TypeAlias = "Callable[[str], str]"
"""Returns the state of a query's job."""
_State: TypeAlias = Literal["RUNNING", "PAUSED", "ERROR"]
_RUNNING: Final[_State] = "RUNNING"
_STATES: Final[Mapping[str, _State]] = {
    "PAUSED": "PAUSED",
    "STOPPED": "PAUSED",
    "FAILED": "ERROR",
}
"""States of jobs as ksqlDB names them; others are RUNNING."""
_KINDS: Final[Mapping[str, SourceKind]] = {"STREAMS": "STREAM", "TABLES": "TABLE"}


def shown(
    statement: Show,
    catalog: Catalog,
    session: SessionState,
    settings: SessionSettings,
    topics: Callable[[], Sequence[av.ListedTopic]],
    state_of: StateOf,
) -> av.Answer:
    """Return the objects that SHOW lists. Raises UnresolvedError for a kind that is missing."""
    subject = statement.subject
    if subject in ("STREAMS", "TABLES"):
        if statement.extended:
            return _all_details(subject, catalog, topics, state_of, is_extended=True)
        return _sources(catalog, _KINDS[subject])
    if subject == "QUERIES":
        return av.QueryList(tuple(running(each, catalog, state_of) for each in catalog.queries))
    if subject == "TOPICS":
        shows = [each for each in topics() if statement.all or not each.name.startswith("_")]
        return av.TopicList(tuple(shows))
    if subject == "PROPERTIES":
        return av.PropertyList(_properties(session, settings))
    if subject == "TYPES":
        return av.TypeList(catalog.types)
    if subject == "VARIABLES":
        return av.VariableList(dict(session.variables))
    if subject == "FUNCTIONS":
        return av.FunctionList(tuple(all_functions()))
    raise UnresolvedError(f"SHOW {subject} does not run yet")


def _sources(catalog: Catalog, kind: SourceKind) -> av.SourceList:
    found = [each for each in catalog.sources.values() if each.kind == kind]
    return av.SourceList(kind, tuple(sorted(found, key=lambda each: each.name)))


def running(query: PersistentQuery, catalog: Catalog, state_of: StateOf) -> av.RunningQuery:
    """Return a persistent query as a value to show."""
    sink = catalog.sources.get(query.sink)
    topic = None if sink is None else sink.topic
    state: _State = _STATES.get(state_of(query.name), _RUNNING)
    return av.RunningQuery(
        query.name,
        query.text,
        query.sink,
        topic,
        query.reads,
        state,
        is_building=query.is_pending,
    )


def _properties(session: SessionState, settings: SessionSettings) -> tuple[av.SqlProperty, ...]:
    fixed = {
        "bootstrap.servers": settings.bootstrap,
        "ksql.schema.registry.url": settings.registry,
        "ksql.service.id": settings.name,
    }
    values = {**fixed, **_DEFAULTS, **session.properties}
    return tuple(
        av.SqlProperty(name, values[name], name in session.properties) for name in sorted(values)
    )


def described(
    statement: Describe,
    catalog: Catalog,
    topics: Callable[[], Sequence[av.ListedTopic]],
    state_of: StateOf,
) -> av.Answer:
    """Return what a source or a function is. Raises UnresolvedError."""
    if statement.subject == "FUNCTION":
        return av.FunctionDetails(function(statement.name or ""))
    if statement.subject == "SOURCE":
        known = {each.name: each for each in topics()}
        source = catalog.source(statement.name or "")
        return _details(source, catalog, known, state_of, is_extended=statement.extended)
    subject, is_extended = statement.subject, statement.extended
    return _all_details(subject, catalog, topics, state_of, is_extended=is_extended)


def _all_details(
    subject: str,
    catalog: Catalog,
    topics: Callable[[], Sequence[av.ListedTopic]],
    state_of: StateOf,
    *,
    is_extended: bool,
) -> av.SourceDetailsList:
    known = {each.name: each for each in topics()}
    found = [each for each in catalog.sources.values() if each.kind == _KINDS[subject]]
    return av.SourceDetailsList(
        tuple(_details(each, catalog, known, state_of, is_extended=is_extended) for each in found)
    )


def _details(
    source: Source,
    catalog: Catalog,
    topics: Mapping[str, av.ListedTopic],
    state_of: StateOf,
    *,
    is_extended: bool,
) -> av.SourceDetails:
    writers = [each for each in catalog.queries if each.sink == source.name]
    readers = [each for each in catalog.queries if source.name in each.reads]
    made = [each.text for each in writers if each.name.startswith("C")]
    return av.SourceDetails(
        source,
        made[0] if made else "",
        tuple(running(each, catalog, state_of) for each in readers),
        tuple(running(each, catalog, state_of) for each in writers),
        topics.get(source.topic),
        is_extended,
    )
