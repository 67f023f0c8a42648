"""Requests about quotas, for tests of quotas of each kind. All clients are User:ANONYMOUS."""

import time
from typing import Any

from barnabas.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from barnabas.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.testing.batches import batch
from compat_tests import wire

OK = (0, None)
PRODUCER, CONSUMER = "producer_byte_rate", "consumer_byte_rate"
Parts = tuple[tuple[str, str | None], ...]
Values = tuple[tuple[str, float | None], ...]


def alter(bootstrap: str, *changes: tuple[Parts, Values], validate_only: bool = False) -> Any:
    """Set and remove quotas; return the error code and message of each entity."""
    data = AlterClientQuotasRequest
    entries = [
        data.EntryData(
            entity=[data.EntityData(entity_type=kind, entity_name=name) for kind, name in parts],
            ops=[
                data.OpData(key=key, value=value or 0.0, remove=value is None)
                for key, value in values
            ],
        )
        for parts, values in changes
    ]
    answer = wire.call(bootstrap, data(entries=entries, validate_only=validate_only), 1)
    return {
        tuple((part.entity_type, part.entity_name) for part in each.entity): (
            each.error_code,
            each.error_message,
        )
        for each in answer.entries
    }


def describe(
    bootstrap: str, *components: tuple[str, int, str | None], strict: bool = False
) -> dict[Parts, dict[str, float]]:
    """Return the quotas that a filter matches, by entity."""
    part = DescribeClientQuotasRequest.ComponentData
    request = DescribeClientQuotasRequest(
        components=[part(entity_type=t, match_type=m, match=x) for t, m, x in components],
        strict=strict,
    )
    answer = wire.call(bootstrap, request, 1)
    assert (answer.error_code, answer.error_message) == (0, "")
    return {
        tuple((part.entity_type, part.entity_name) for part in entry.entity): {
            each.key: each.value for each in entry.values
        }
        for entry in answer.entries
    }


def wait_for(bootstrap: str, user: str, quotas: dict[str, float]) -> None:
    """Wait until the broker has the quotas of a user, as it applies metadata a moment later."""
    deadline = time.monotonic() + 120
    while describe(bootstrap, ("user", 0, user), strict=True).get((("user", user),), {}) != quotas:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def limit(bootstrap: str, client_id: str, key: str, value: float) -> None:
    """Set a quota of a client id, and wait until the broker applies it."""
    parts: Parts = (("client-id", client_id),)
    assert alter(bootstrap, (parts, ((key, value),))) == {parts: OK}
    deadline = time.monotonic() + 120
    while describe(bootstrap, ("client-id", 0, client_id)) != {parts: {key: value}}:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.5)  # Kafka changes its meters after its image


def produce_request(topic: str, size: int, acks: int = 1) -> ProduceRequest:
    """Return a request with one record of a size."""
    now_ms = int(time.time() * 1000)
    partition = ProduceRequest.PartitionProduceData(
        index=0, records=batch(b"x" * size, timestamps=[now_ms])
    )
    data = ProduceRequest.TopicProduceData(name=topic, partition_data=[partition])
    return ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=[data])


def fetch_request(topic: str) -> FetchRequest:
    """Return a fetch of a topic from its beginning, without a session."""
    partition = FetchRequest.FetchPartition(partition=0, partition_max_bytes=1 << 20)
    return FetchRequest(
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=[partition])],
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
    )
