"""Objects of the catalog as JSON: sources, types and queries.

Fields that a reader does not know are ignored, and fields that are at their default are left out: a
later version may add some. A change that an earlier version would misread raises `VERSION`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from barnabas.pipeline.sql.catalog.catalog_changes import PersistentQuery, Replacement
from barnabas.pipeline.sql.catalog.source_values import (
    Format,
    HeaderColumn,
    Source,
    SourceColumn,
    SourceWindow,
    Timestamp,
)
from barnabas.pipeline.sql.sql_types import SqlType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from barnabas.pipeline.sql.catalog.catalog_changes import Catalog

Json = dict[str, Any]
T = TypeVar("T")

VERSION: Final = 1
_KINDS: Final = ("STREAM", "TABLE")
_PHASES: Final = ("BUILDING", "SWAPPING", "REMOVING")
_WINDOWS: Final = ("TUMBLING", "HOPPING", "SESSION")


class UnreadableObjectError(ValueError):
    """A value that is damaged, or of a later version."""


@dataclass(frozen=True)
class Definitions:
    """The sources and types that a query needs to be planned alone."""

    sources: Mapping[str, Source]
    types: Mapping[str, SqlType]

    @classmethod
    def of(cls, catalog: Catalog, names: Iterable[str]) -> Definitions:
        """Return the definitions of these sources, and all types."""
        return cls({name: catalog.sources[name] for name in names}, dict(catalog.types))


def type_json(kind: SqlType) -> Any:
    """Return a type: its name, or an object where it has parts."""
    if not (kind.elements or kind.fields or kind.numbers or kind.name == "STRUCT"):
        return kind.name
    found: Json = {"name": kind.name}
    if kind.elements:
        found["elements"] = [type_json(each) for each in kind.elements]
    if kind.fields:
        found["fields"] = [[name, type_json(each)] for name, each in kind.fields]
    if kind.numbers:
        found["numbers"] = list(kind.numbers)
    return found


def read_type(found: Any) -> SqlType:
    """Return the type of `type_json`. Raises UnreadableObjectError."""
    if isinstance(found, str):
        return SqlType(found)
    given = _object(found)
    return SqlType(
        _text(given, "name"),
        tuple(read_type(each) for each in _list(given, "elements")),
        tuple((str(name), read_type(kind)) for name, kind in _list(given, "fields")),
        tuple(int(each) for each in _list(given, "numbers")),
    )


def source_json(source: Source) -> Json:
    """Return a stream or a table."""
    found: Json = {
        "kind": source.kind,
        "name": source.name,
        "topic": source.topic,
        "key": _columns(source.key),
        "value": _columns(source.value),
        "key_format": _plain(source.key_format),
        "value_format": _plain(source.value_format),
    }
    if source.headers:
        found["headers"] = [
            [each.name, type_json(each.type), each.header] for each in source.headers
        ]
    for name in ("window", "timestamp"):
        value = getattr(source, name)
        if value is not None:
            found[name] = _plain(value)
    return found | _changed(source, ("partitions", "replicas", "retention_ms", "is_read_only"))


def read_source(found: Any) -> Source:
    """Return the stream or the table of `source_json`. Raises UnreadableObjectError."""
    given = _object(found)
    kind = _text(given, "kind")
    window = given.get("window")
    if kind not in _KINDS or (window is not None and _object(window).get("kind") not in _WINDOWS):
        raise UnreadableObjectError(f"kind {kind} or window {window} is unknown")
    return Source(
        kind=cast("Any", kind),
        name=_text(given, "name"),
        topic=_text(given, "topic"),
        key=_read_columns(given, "key"),
        value=_read_columns(given, "value"),
        key_format=_read(Format, given.get("key_format")),
        value_format=_read(Format, given.get("value_format")),
        headers=tuple(
            HeaderColumn(str(name), read_type(each), header)
            for name, each, header in _list(given, "headers")
        ),
        window=None if window is None else _read(SourceWindow, window),
        timestamp=_read(Timestamp, given["timestamp"]) if "timestamp" in given else None,
        partitions=given.get("partitions"),
        replicas=given.get("replicas"),
        retention_ms=given.get("retention_ms"),
        is_read_only=bool(given.get("is_read_only", False)),
    )


def query_json(query: PersistentQuery) -> Json:
    """Return a query."""
    found: Json = {
        "name": query.name,
        "sink": query.sink,
        "reads": list(query.reads),
        "text": query.text,
    }
    if query.replacement is not None:
        found["replacement"] = {
            "query": query.replacement.query,
            "sink": source_json(query.replacement.sink),
            "phase": query.replacement.phase,
            **({"stays_stopped": True} if query.replacement.stays_stopped else {}),
        }
    return found


def read_query(found: Any) -> PersistentQuery:
    """Return the query of `query_json`. Raises UnreadableObjectError."""
    given = _object(found)
    return PersistentQuery(
        _text(given, "name"),
        _text(given, "sink"),
        tuple(map(str, _list(given, "reads"))),
        _text(given, "text"),
        _read_replacement(given["replacement"]) if "replacement" in given else None,
    )


def _read_replacement(found: Any) -> Replacement:
    given = _object(found)
    phase = _text(given, "phase")
    if phase not in _PHASES:
        raise UnreadableObjectError(f"the phase {phase} is unknown")
    stays_stopped = given.get("stays_stopped") is True
    sink = read_source(given.get("sink"))
    return Replacement(_text(given, "query"), sink, cast("Any", phase), stays_stopped)


def definitions_json(definitions: Definitions) -> Json:
    """Return definitions, with their version."""
    return {
        "version": VERSION,
        "sources": [source_json(each) for each in definitions.sources.values()],
        "types": {name: type_json(each) for name, each in definitions.types.items()},
    }


def read_definitions(found: Any) -> Definitions:
    """Return the definitions of `definitions_json`. Raises UnreadableObjectError."""
    given = _object(found)
    check_version(given)
    try:
        sources = [read_source(each) for each in _list(given, "sources")]
        types = {name: read_type(each) for name, each in _object(given.get("types")).items()}
    except (TypeError, ValueError, KeyError) as error:
        raise UnreadableObjectError(f"the definitions are damaged: {error}") from None
    return Definitions({each.name: each for each in sources}, types)


def check_version(given: Json) -> None:
    """Raise UnreadableObjectError for an object of a later version."""
    version = given.get("version")
    if not isinstance(version, int) or isinstance(version, bool):
        raise UnreadableObjectError("it has no version")
    if version > VERSION:
        raise UnreadableObjectError(
            f"it has version {version}, and this version of barnabas reads up to {VERSION}"
        )


def _plain(value: Any) -> Json:
    """Return the fields of a value of texts and numbers that are not at their default."""
    return _changed(value, tuple(each.name for each in fields(value)))


def _changed(value: Any, names: tuple[str, ...]) -> Json:
    defaults = {each.name: each.default for each in fields(value)}
    return {name: getattr(value, name) for name in names if getattr(value, name) != defaults[name]}


def _read(kind: type[T], found: Any) -> T:
    given = _object(found)
    known = {each.name for each in fields(cast("Any", kind))}
    try:
        return kind(**{name: value for name, value in given.items() if name in known})
    except TypeError as error:
        raise UnreadableObjectError(f"{kind.__name__}: {error}") from None


def _columns(columns: tuple[SourceColumn, ...]) -> list[Any]:
    return [[each.name, type_json(each.type)] for each in columns]


def _read_columns(given: Json, name: str) -> tuple[SourceColumn, ...]:
    return tuple(SourceColumn(str(each), read_type(kind)) for each, kind in _list(given, name))


def _object(found: Any) -> Json:
    if not isinstance(found, dict):
        raise UnreadableObjectError(f"{found!r} is not an object")
    return cast("Json", found)


def _text(given: Json, name: str) -> str:
    found = given.get(name)
    if not isinstance(found, str):
        raise UnreadableObjectError(f"{name} is {found!r}, and not a text")
    return found


def _list(given: Json, name: str) -> list[Any]:
    found = given.get(name, [])
    if not isinstance(found, list):
        raise UnreadableObjectError(f"{name} is {found!r}, and not a list")
    return cast("list[Any]", found)
