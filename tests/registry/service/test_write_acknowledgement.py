"""A write is acknowledged when the registry has read it back, and its state says the same."""

from collections.abc import Sequence
from typing import Any

import pytest
import trio
import trio.testing

from barnabas.protocol.batches.record_decoding import Record
from barnabas.registry.core.registry_core import RegistryCore
from barnabas.registry.core.schema_entities import SchemaContent
from barnabas.registry.core.topic_records import SchemaKey, SchemaValue, TopicRecord
from barnabas.registry.rest.registry_app import RegistryApp
from barnabas.registry.service.election_protocol import InstanceAddress
from barnabas.registry.service.registry_service import RegistryService
from barnabas.registry.service.schemas_topic import Appended, SchemasTopic
from tests.registry.asgi_calls import HttpAnswer, ask

OWN = InstanceAddress("http", "127.0.0.1", 8081)


class FixedLeadership:
    """This instance leads."""

    own = leader = OWN
    is_leader = True

    async def known(self) -> InstanceAddress:
        return OWN


class ForgetfulTopic(SchemasTopic):
    """Acknowledges records without a replay, as a topic does that was deleted and created."""

    def __init__(self, core: RegistryCore, *, forgets: bool) -> None:
        super().__init__(None, "_schemas", core)  # type: ignore[arg-type]
        self._forgets = forgets

    async def end(self) -> int:
        return self.position

    async def append(self, records: Sequence[TopicRecord]) -> Appended:
        written = self._core.encoded(records)
        if not self._forgets:
            for offset, (key, value) in enumerate(written, self.position):
                self.replay(Record(offset, offset, key, value, ()))
        self.position += len(written)
        return Appended(self.position - len(written), len(written))


def answer_to(method: str, target: str, body: Any, *, forgets: bool) -> HttpAnswer:
    """Return the answer to a write after a schema and settings that the state holds."""
    core = RegistryCore()
    for method_of_setup, target_of_setup, body_of_setup in [
        ("POST", "/subjects/s/versions", {"schema": '"int"'}),
        ("PUT", "/mode/t", {"mode": "READWRITE"}),
    ]:
        found = _asked(core, method_of_setup, target_of_setup, body_of_setup, forgets=False)
        assert found.status == 200, found.body
    return _asked(core, method, target, body, forgets=forgets)


def _asked(core: RegistryCore, *request: Any, forgets: bool) -> HttpAnswer:
    async def main() -> HttpAnswer:
        topic = ForgetfulTopic(core, forgets=forgets)
        service = RegistryService(None, topic, core, FixedLeadership())  # type: ignore[arg-type]
        service.ready({})
        return await ask(RegistryApp(service).asgi(), *request)

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


WRITES = [
    ("POST", "/subjects/s/versions", {"schema": '"long"'}),
    ("PUT", "/config", {"compatibility": "FULL"}),
    ("PUT", "/config/s", {"alias": "", "compatibility": "FULL", "defaultMetadata": {}}),
    ("PUT", "/mode/s", {"mode": "READONLY"}),
    ("DELETE", "/mode/t", None),
    ("DELETE", "/subjects/s", None),
    ("DELETE", "/subjects/s/versions/1", None),
]


@pytest.mark.parametrize("request_parts", WRITES)
def test_write_that_is_not_read_back_is_not_acknowledged(request_parts: Any) -> None:
    answer = answer_to(*request_parts, forgets=True)
    assert (answer.status, answer.json["error_code"]) == (500, 50001)
    assert "does not hold" in answer.json["message"]


@pytest.mark.parametrize("request_parts", WRITES)
def test_write_that_is_read_back_is_acknowledged(request_parts: Any) -> None:
    assert answer_to(*request_parts, forgets=False).status == 200


def test_write_that_could_not_be_read_is_not_appended() -> None:
    value = SchemaValue("s", 2**31, 1, SchemaContent("AVRO", '"int"'), False)
    topic = ForgetfulTopic(RegistryCore(), forgets=False)
    with pytest.raises(ValueError, match="32 bits"):
        trio.run(topic.append, [TopicRecord(SchemaKey("s", 2**31), value)])
    assert topic.position == 0
