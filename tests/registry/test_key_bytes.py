"""Keys that others wrote in other bytes: a record replaces all records of its key."""

import json
from typing import Any

import pytest
import trio

from barnabas.registry.core.registry_core import RegistryCore
from barnabas.registry.core.topic_records import decode_record
from barnabas.registry.rest.registry_app import RegistryApp
from tests.registry.asgi_calls import HttpAnswer, ask
from tests.registry.memory_backend import MemoryBackend, StoredRecord
from tests.registry.test_replay_property import compacted

SORTED = b'{"keytype":"SCHEMA","magic":1,"subject":"s","version":1}'
SPACED = b'{"magic": 0, "keytype": "SCHEMA", "version": 1, "subject": ":.:s"}'
OURS = b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'


def schema(text: str = "int", schema_id: int = 1, **fields: Any) -> bytes:
    value = {"subject": "s", "version": 1, "id": schema_id, "schema": f'"{text}"', **fields}
    return json.dumps(value).encode()


class Registry:
    """A registry on records that others wrote."""

    def __init__(self, *records: StoredRecord) -> None:
        self.backend = MemoryBackend(records=list(records))
        for offset, (key, value) in enumerate(records):
            assert self.backend.core.replay(key, value, offset=offset, timestamp_ms=0) is None
        self._app = RegistryApp(self.backend).asgi()

    def asked(self, method: str, target: str, body: Any = None) -> HttpAnswer:
        return trio.run(ask, self._app, method, target, body)

    def handed_over(self) -> "Registry":
        """Return another registry on the topic after compaction and the end of tombstones."""
        return Registry(*(each for each in compacted(self.backend.records) if each[1] is not None))


@pytest.mark.parametrize("key", [SORTED, SPACED, OURS])
@pytest.mark.parametrize("target", ["/subjects/s", "/subjects/s/versions/1"])
def test_version_deleted_for_good_stays_deleted(key: bytes, target: str) -> None:
    registry = Registry((key, schema()))
    assert registry.asked("DELETE", target).status == 200
    assert registry.asked("DELETE", f"{target}?permanent=true").status == 200
    assert (key, None) in registry.backend.records
    assert registry.handed_over().asked("GET", "/subjects?deleted=true").json == []


def test_version_under_several_keys_stays_deleted() -> None:
    registry = Registry((SORTED, schema()), (OURS, schema()), (SPACED, schema()))
    registry.asked("DELETE", "/subjects/s")
    registry.asked("DELETE", "/subjects/s?permanent=true")
    assert registry.handed_over().asked("GET", "/subjects?deleted=true").json == []


@pytest.mark.parametrize("deleted", [SORTED, OURS, SPACED])
def test_version_that_another_registry_deleted_under_one_key_stays_deleted(deleted: bytes) -> None:
    """The leader deletes the other records of the key with its next write."""
    keys = (SORTED, OURS, SPACED)
    registry = Registry(*((key, schema()) for key in keys), (deleted, None))
    registry.asked("PUT", "/config", {"compatibility": "NONE"})
    assert registry.handed_over().asked("GET", "/subjects?deleted=true").json == []
    written = len(registry.backend.records)
    registry.asked("PUT", "/config", {"compatibility": "FULL"})
    assert len(registry.backend.records) == written + 1


def test_soft_delete_and_settings_hold_under_any_key() -> None:
    config = b'{"magic":0,"subject":"s","keytype":"CONFIG"}'
    mode = b'{"magic":0,"keytype":"MODE"}'
    registry = Registry(
        (SORTED, schema()),
        (config, b'{"compatibilityLevel":"FULL"}'),
        (mode, b'{"mode":"FORWARD"}'),
    )
    registry.asked("DELETE", "/config/s")
    registry.asked("DELETE", "/mode")
    registry.asked("DELETE", "/subjects/s/versions/1")
    again = registry.handed_over()
    assert again.asked("GET", "/config/s").status == 404
    assert again.asked("GET", "/mode").json == {"mode": "READWRITE"}
    assert again.asked("GET", "/subjects").json == []
    assert again.asked("GET", "/subjects?deleted=true").json == ["s"]


def test_import_replaces_the_id_of_a_version_under_another_key() -> None:
    registry = Registry((SORTED, schema()), (b'{"keytype":"MODE","magic":0}', b'{"mode":"IMPORT"}'))
    body = {"schema": '"long"', "id": 9, "version": 1}
    assert registry.asked("POST", "/subjects/s/versions", body).status == 200
    registry.asked("PUT", "/mode", {"mode": "READWRITE"})
    assert registry.handed_over().asked("GET", "/subjects/s/versions/1").json["id"] == 9


def test_restored_version_counts_though_its_rival_has_other_bytes() -> None:
    """Two instances wrote version 1; compaction keeps the one that does not count, too."""
    registry = Registry((OURS, schema("int", 1)), (SORTED, schema("long", 2)))
    registry.asked("PUT", "/config", {"compatibility": "NONE"})
    found = registry.handed_over().asked("GET", "/subjects/s/versions/1").json
    assert (found["id"], found["schema"]) == (1, '"int"')


def test_keys_in_our_bytes_are_not_remembered() -> None:
    registry = Registry((OURS, schema()))
    core = registry.backend.core
    record = decode_record(OURS, schema())
    assert [key for key, _ in core.encoded([record])] == [OURS]
    core.replay(SORTED, schema(), offset=1, timestamp_ms=0)
    assert [key for key, _ in core.encoded([record])] == [SORTED, OURS]
    core.replay(SORTED, None, offset=2, timestamp_ms=0)
    assert [key for key, _ in core.encoded([record])] == [OURS]
    assert RegistryCore().encoded([record]) == [(OURS, core.encoded([record])[0][1])]
