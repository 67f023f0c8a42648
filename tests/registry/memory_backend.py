"""A backend whose topic is a list: what is appended is replayed from its bytes."""

from collections.abc import Callable, Mapping

import attrs

from barnabas.registry.core.registry_core import RegistryCore
from barnabas.registry.core.schema_requests import Decision
from barnabas.registry.core.topic_records import TopicRecord
from barnabas.registry.rest.registry_app import ForwardAnswer, ForwardRequest

StoredRecord = tuple[bytes, bytes | None]


@attrs.define
class MemoryBackend:
    """Appends to a list and replays it."""

    core: RegistryCore = attrs.Factory(RegistryCore)
    clusters: Mapping[str, str] = attrs.Factory(
        lambda: {"kafka-cluster": "abc", "schema-registry-cluster": "schema-registry"}
    )
    records: list[StoredRecord] = attrs.Factory(list)
    not_ready: str | None = None
    now_ms: int = 1_700_000_000_000

    async def submit(
        self, decide: Callable[[], Decision], request: ForwardRequest, *, was_forwarded: bool
    ) -> Decision | ForwardAnswer:
        self.append(*self.core.take_repairs())
        decision = decide()
        self.append(*decision.records)
        assert self.core.has_applied(decision.records)
        return decision

    def append(self, *records: TopicRecord) -> None:
        for key, value in self.core.encoded(records):
            self.now_ms += 1
            offset = len(self.records)
            self.records.append((key, value))
            skipped = self.core.replay(key, value, offset=offset, timestamp_ms=self.now_ms)
            assert skipped is None

    async def catch_up(self) -> bool:
        return False
