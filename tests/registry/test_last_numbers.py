"""Ids and versions end at 2147483646: one without a successor is refused before it is written."""

from typing import Any

import pytest
import trio

from barnabas.registry.core.registry_core import RegistryCore
from barnabas.registry.core.schema_entities import SchemaContent
from barnabas.registry.core.topic_records import (
    SchemaKey,
    SchemaValue,
    TopicRecord,
    encode_key,
    encode_value,
)
from barnabas.registry.rest.registry_app import RegistryApp
from tests.registry import asgi_calls
from tests.registry.asgi_calls import HttpAnswer
from tests.registry.memory_backend import MemoryBackend

INT_MAX = 2**31 - 1
LAST = INT_MAX - 1


class Registry:
    """A registry without a server; `ask` sends one request."""

    def __init__(self) -> None:
        self.backend = MemoryBackend()
        self._app = RegistryApp(self.backend).asgi()

    def ask(self, method: str, target: str, body: Any = None) -> HttpAnswer:
        return trio.run(asgi_calls.ask, self._app, method, target, body)

    def register(self, subject: str, schema: str, **fields: Any) -> HttpAnswer:
        return self.ask("POST", f"/subjects/{subject}/versions", {"schema": schema, **fields})

    def write(self, subject: str, version: int, schema_id: int, text: str = '"bytes"') -> None:
        """Append what another registry wrote."""
        value = SchemaValue(subject, version, schema_id, SchemaContent("AVRO", text), False)
        self.backend.append(TopicRecord(SchemaKey(subject, version), value))


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture
def importing(registry: Registry) -> Registry:
    registry.ask("PUT", "/mode", {"mode": "IMPORT"})
    return registry


@pytest.mark.parametrize("subject", ["s", ":.x:s"])
@pytest.mark.parametrize("fields", [{"id": INT_MAX}, {"id": 5, "version": INT_MAX}])
def test_import_of_a_number_without_successor_is_refused_before_the_append(
    registry: Registry, subject: str, fields: Any
) -> None:
    registry.ask("PUT", f"/mode/{subject}", {"mode": "IMPORT"})
    written = len(registry.backend.records)
    answer = registry.register(subject, '"double"', **fields)
    assert (answer.status, answer.json["error_code"]) == (422, 42205)
    assert "2147483646" in answer.json["message"]
    assert len(registry.backend.records) == written
    registry.ask("PUT", f"/mode/{subject}", {"mode": "READWRITE"})
    found = registry.register(subject, '"int"')
    assert (found.status, found.json["id"], found.json["version"]) == (200, 1, 1)


def test_import_of_a_number_of_33_bits_is_refused(importing: Registry) -> None:
    for fields in ({"id": INT_MAX + 1}, {"id": 5, "version": INT_MAX + 1}, {"id": 10**30}):
        assert importing.register("s", '"double"', **fields).status == 400


def test_last_id_of_a_context_is_given_once_and_the_next_registration_is_refused(
    importing: Registry,
) -> None:
    assert importing.register("s", '"double"', id=LAST - 1).status == 200
    importing.ask("PUT", "/mode", {"mode": "READWRITE"})
    assert importing.register("t", '"int"').json["id"] == LAST
    written = len(importing.backend.records)
    for _ in range(2):
        refused = importing.register("t", '"long"')
        assert (refused.status, refused.json["error_code"]) == (422, 42205)
        assert "id" in refused.json["message"]
    assert len(importing.backend.records) == written
    # Equal content has its id already, and other contexts count by themselves.
    assert importing.register("u", '"int"').json["id"] == LAST
    assert importing.register(":.x:s", '"long"').json["id"] == 1


def test_last_version_of_a_subject_is_given_once_and_the_next_registration_is_refused(
    importing: Registry,
) -> None:
    assert importing.register("s", '"int"', id=5, version=LAST).json["version"] == LAST
    refused = importing.register("s", '"long"', id=6)
    assert (refused.status, refused.json["error_code"]) == (422, 42205)
    importing.ask("PUT", "/mode", {"mode": "READWRITE"})
    for fields in ({}, {"version": -1}, {"version": INT_MAX}):
        refused = importing.register("s", '"long"', **fields)
        assert (refused.status, refused.json["error_code"]) == (422, 42205)
    tags = {"metadata": {"properties": {"a": "b"}}}
    refused = importing.ask("POST", "/subjects/s/versions/latest/tags", tags)
    assert (refused.status, refused.json["error_code"]) == (422, 42205)
    for permanent in ("false", "true"):
        importing.ask("DELETE", f"/subjects/s/versions/{LAST}?permanent={permanent}")
    assert importing.register("s", '"long"').json["version"] == 1


def test_id_without_successor_of_another_registry_does_not_end_a_context(
    registry: Registry,
) -> None:
    registry.write("other", 1, 4)
    registry.write("other", 2, INT_MAX, '"boolean"')
    assert registry.ask("GET", f"/schemas/ids/{INT_MAX}").status == 200
    found = registry.register("s", '"int"')
    assert (found.status, found.json["id"]) == (200, 5)
    assert registry.ask("GET", "/schemas/ids/5").status == 200


def test_version_without_successor_of_another_registry_can_be_deleted(registry: Registry) -> None:
    registry.write("s", INT_MAX, 4)
    assert registry.register("s", '"int"').json["error_code"] == 42205
    for permanent in ("false", "true"):
        registry.ask("DELETE", f"/subjects/s/versions/{INT_MAX}?permanent={permanent}")
    found = registry.register("s", '"int"')
    assert (found.status, found.json["version"]) == (200, 1)


def test_record_that_cannot_be_read_back_is_not_encoded() -> None:
    """No decision leads to one; should one ever, it must not be acknowledged."""
    value = SchemaValue("s", INT_MAX + 1, 1, SchemaContent("AVRO", '"int"'), False)
    record = TopicRecord(SchemaKey("s", INT_MAX + 1), value)
    skipped = RegistryCore().replay(
        encode_key(record.key), encode_value(record), offset=0, timestamp_ms=0
    )
    assert skipped is not None
    with pytest.raises(ValueError, match="32 bits"):
        RegistryCore().encoded([record])


@pytest.mark.parametrize("path", ["/schemas/ids/--1", "/schemas/ids/²", "/schemas/ids/-"])
def test_path_whose_id_is_not_a_number_is_not_found(registry: Registry, path: str) -> None:
    target = path.encode().decode("latin-1")
    assert registry.ask("GET", target).status == 404


@pytest.mark.parametrize("query", ["limit=--1", "offset=--1", "limit=²", "offset=-"])
def test_page_that_is_not_a_number_is_the_default(registry: Registry, query: str) -> None:
    assert registry.ask("GET", f"/subjects?{query}").status == 200
