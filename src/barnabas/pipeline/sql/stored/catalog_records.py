"""The records of a change of the catalog, and the catalog that records make.

`changes` and `CatalogReplay` are inverse: replaying the records of all changes gives the catalog
again, also after compaction has removed those that later ones replace.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, cast

from barnabas.pipeline.sql.catalog.catalog_changes import Catalog, PersistentQuery, query_number
from barnabas.pipeline.sql.stored.object_codec import (
    VERSION,
    Json,
    UnreadableObjectError,
    check_version,
    query_json,
    read_query,
    read_source,
    read_type,
    source_json,
    type_json,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.pipeline.sql.catalog.source_values import Source
    from barnabas.pipeline.sql.sql_types import SqlType

KeyValue = tuple[bytes, bytes | None]

SOURCE: Final = "source"
TYPE: Final = "type"
QUERY: Final = "query"
COUNT: Final = "count"
"""The number of queries that were started, under the name `queries`."""
_QUERIES: Final = "queries"


def changes(before: Catalog, after: Catalog) -> list[KeyValue]:
    """Return the records that make one catalog of another, in the order in which to write them."""
    old, new = _objects(before), _objects(after)
    found: list[KeyValue] = [(_key(*each), None) for each in old if each not in new]
    found += [(_key(*each), _value(value)) for each, value in new.items() if old.get(each) != value]
    return found


def _objects(catalog: Catalog) -> dict[tuple[str, str], Json]:
    """Return all objects by kind and name."""
    found: dict[tuple[str, str], Json] = {}
    for name, kind in catalog.types.items():
        found[TYPE, name] = {"type": type_json(kind)}
    for name, source in catalog.sources.items():
        found[SOURCE, name] = source_json(source)
    for query in catalog.queries:
        found[QUERY, query.name] = query_json(query)
    if catalog.started:
        found[COUNT, _QUERIES] = {"started": catalog.started}
    return found


def _key(kind: str, name: str) -> bytes:
    return _json({"kind": kind, "name": name})


def _value(found: Json) -> bytes:
    return _json({"version": VERSION, **found})


def _json(found: Json) -> bytes:
    return json.dumps(found, separators=(",", ":"), ensure_ascii=False).encode()


class CatalogReplay:
    """The catalog that records make. An object that cannot be read makes it incomplete."""

    def __init__(self) -> None:
        self._sources: dict[str, Source] = {}
        self._types: dict[str, SqlType] = {}
        self._queries: dict[str, PersistentQuery] = {}
        self._started = 0
        self._unreadable: dict[bytes, str] = {}

    @property
    def catalog(self) -> Catalog:
        """Return what was replayed, without objects that cannot be read."""
        queries = sorted(self._queries.values(), key=lambda each: query_number(each.name))
        return Catalog(dict(self._sources), dict(self._types), tuple(queries), self._started)

    @property
    def problem(self) -> str | None:
        """Return why the catalog is not complete: the first object that cannot be read, or None."""
        return next(iter(self._unreadable.values()), None)

    def apply(self, key: bytes | None, value: bytes | None, place: str) -> None:
        """Apply a record; `place` names it in the message of one that cannot be read."""
        named = key or b""
        self._unreadable.pop(named, None)
        try:
            self._apply(_loaded(named), None if value is None else _loaded(value))
        except (ValueError, TypeError, KeyError) as error:
            shown = named.decode(errors="replace")
            self._unreadable[named] = f"the record {shown} at {place} cannot be read: {error}"

    def _apply(self, key: Json, value: Json | None) -> None:
        kind, name = str(key["kind"]), str(key["name"])
        if value is not None:
            check_version(value)
        objects: dict[str, dict[str, Any]] = {
            SOURCE: self._sources,
            TYPE: self._types,
            QUERY: self._queries,
        }
        if kind == COUNT:
            self._started = 0 if value is None else int(value["started"])
        elif kind not in objects:
            raise UnreadableObjectError(f"the kind {kind} is unknown")
        elif value is None:
            objects[kind].pop(name, None)
        else:
            objects[kind].pop(name, None)
            objects[kind][name] = _READERS[kind](value)


def _read_type_object(value: Json) -> SqlType:
    return read_type(value["type"])


_READERS: Final[Mapping[str, Any]] = {
    SOURCE: read_source,
    TYPE: _read_type_object,
    QUERY: read_query,
}


def _loaded(data: bytes) -> Json:
    found: Any = json.loads(data)
    if not isinstance(found, dict):
        raise UnreadableObjectError("it is not an object of JSON")
    return cast("Json", found)
