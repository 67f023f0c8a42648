"""An id is never given twice: not after its schema is deleted for good, compacted, and replayed."""

import json
from typing import Any

import trio

from barnabas.registry.core.registry_core import RegistryCore
from barnabas.registry.core.topic_records import NoopKey, TopicRecord, decode_record
from barnabas.registry.rest.registry_app import RegistryApp
from tests.registry.asgi_calls import HttpAnswer, ask
from tests.registry.memory_backend import MemoryBackend, StoredRecord


class Registry:
    """A registry whose topic can be compacted while it is stopped."""

    def __init__(self, records: list[StoredRecord] | None = None) -> None:
        self.backend = MemoryBackend(records=records or [])
        for offset, (key, value) in enumerate(self.backend.records):
            assert self.backend.core.replay(key, value, offset=offset, timestamp_ms=0) is None
        self._app = RegistryApp(self.backend).asgi()

    def asked(self, method: str, target: str, body: Any = None) -> HttpAnswer:
        return trio.run(ask, self._app, method, target, body)

    def register(self, subject: str, schema: str, **fields: Any) -> int:
        body = {"schema": schema, **fields}
        answer = self.asked("POST", f"/subjects/{subject}/versions", body)
        assert answer.status == 200, answer.body
        return answer.json["id"]

    def delete(self, *targets: str) -> None:
        for target in targets:
            for permanent in ("false", "true"):
                answer = self.asked("DELETE", f"{target}?permanent={permanent}")
                assert answer.status == 200, answer.body

    def compacted(self) -> "Registry":
        """Return the registry after compaction, the end of all tombstones, and a restart."""
        last = dict(self.backend.records)
        return Registry([(key, value) for key, value in last.items() if value is not None])


def test_id_of_a_subject_deleted_for_good_is_not_given_again() -> None:
    registry = Registry()
    assert registry.register("a", '"int"') == 1
    assert registry.register("b", '"long"') == 2
    registry.delete("/subjects/b")
    assert registry.compacted().register("c", '"string"') == 3


def test_id_of_a_version_deleted_for_good_is_not_given_again_in_its_context() -> None:
    registry = Registry()
    assert registry.register(":.x:a", '"int"') == 1
    assert registry.register(":.x:a", '"long"') == 2
    registry.delete("/subjects/:.x:a/versions/2")
    again = registry.compacted()
    assert again.register("a", '"string"') == 1
    assert again.register(":.x:b", '"string"') == 3
    again.delete("/subjects/:.x:b", "/subjects/:.x:a")
    assert again.asked("DELETE", "/contexts/.x").status == 204
    assert again.compacted().register(":.x:c", '"bytes"') == 4


def test_id_that_an_import_replaces_is_not_given_again() -> None:
    registry = Registry()
    registry.asked("PUT", "/mode/a", {"mode": "IMPORT"})
    assert registry.register("a", '"int"', id=100, version=1) == 100
    assert registry.register("a", '"long"', id=7, version=1) == 7
    assert registry.compacted().register("b", '"string"') == 101


def test_id_that_another_registry_deleted_is_kept_by_the_next_write() -> None:
    """The reference keeps no highest id; what it deletes is noted while it is in the topic."""
    registry = Registry()
    assert registry.register("a", '"int"') == 1
    key, value = registry.backend.records[-1]
    registry.delete("/subjects/a")
    foreign = Registry([(key, value), (key, None)])
    assert foreign.register("b", '"long"') == 2
    foreign.delete("/subjects/b")
    assert foreign.compacted().register("c", '"string"') == 3
    foreign = Registry([(key, value), (key, None)])
    foreign.asked("PUT", "/config", {"compatibility": "NONE"})
    assert foreign.compacted().register("c", '"string"') == 2


def test_highest_id_is_written_only_when_its_schema_goes() -> None:
    registry = Registry()
    registry.register("a", '"int"')
    registry.register("a", '"long"')
    registry.register("b", '"long"')
    registry.delete("/subjects/a")
    assert _kept(registry) == []
    registry.delete("/subjects/b")
    assert _kept(registry) == [2]
    registry.register("b", '"string"')
    registry.delete("/subjects/b")
    assert _kept(registry) == [2, 3]


def _kept(registry: Registry) -> list[int]:
    return [
        json.loads(value)["highestId"]
        for key, value in registry.backend.records
        if value is not None and json.loads(key)["keytype"] == "NOOP"
    ]


def test_highest_id_is_a_record_that_other_registries_take_for_a_noop() -> None:
    """The reference reads no value of a NOOP and ignores other fields of its key."""
    registry = Registry()
    registry.register(":.x:a", '"int"')
    registry.delete("/subjects/:.x:a")
    ((key, value),) = [each for each in registry.backend.records if b"NOOP" in each[0]]
    assert key == b'{"keytype":"NOOP","context":".x","magic":0}'
    assert value == b'{"context":".x","highestId":1}'
    noop = b'{"keytype":"NOOP","magic":0}'
    assert decode_record(noop, None) == TopicRecord(NoopKey(), None)
    core = RegistryCore()
    assert core.replay(key, b'{"context":".x"}', offset=0, timestamp_ms=0) is not None
    assert core.replay(key, None, offset=1, timestamp_ms=0) is None
