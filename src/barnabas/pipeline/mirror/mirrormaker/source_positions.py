"""The positions of MirrorMaker 2's source tasks in a topic of Connect's offsets.

A key is `["CONNECTOR",{"cluster":ALIAS,"partition":NUMBER,"topic":NAME}]`. A value is
`{"offset":N}`: the source's offset of the last record that was copied. A flow that takes over
begins behind it; when it stops, it writes where it has ended, so that MirrorMaker 2 begins there.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, TypeAlias, cast

from barnabas.client import KafkaClient, NewRecord, Producer
from barnabas.pipeline.data.key_partitioner import partition_of
from barnabas.pipeline.mirror import cluster_queries
from barnabas.pipeline.mirror.flow_connector import PositionsTopic
from barnabas.pipeline.mirror.flow_values import Partition
from barnabas.pipeline.mirror.mirrormaker.maker_settings import DEDICATED_TOPICS
from barnabas.pipeline.mirror.mirrormaker.maker_topics import stored_records
from barnabas.protocol.errors import ErrorCode, KafkaError

_FIELDS: Final = {"cluster", "partition", "topic"}

JsonObject: TypeAlias = dict[str, Any]


def position_key(connector: str, cluster: str, where: Partition) -> bytes:
    """Return the key of a partition, as MirrorMaker 2 writes it."""
    fields = {"cluster": cluster, "partition": where[1], "topic": where[0]}
    return _json([connector, fields])


def position_value(position: int) -> bytes:
    """Return the value for the offset to copy next."""
    return _json({"offset": position - 1})


def read_key(topic: PositionsTopic, key: bytes | None) -> Partition | None:
    """Return the partition that a key is of; None for a key of another connector or source."""
    found = _parsed(key)
    if not isinstance(found, list):
        return None
    items = cast(list[Any], found)
    if len(items) != 2 or items[0] not in topic.connectors or not isinstance(items[1], dict):
        return None
    fields = cast(JsonObject, items[1])
    if fields.keys() != _FIELDS or fields["cluster"] != topic.cluster:
        return None
    name, number = fields["topic"], fields["partition"]
    return (name, number) if isinstance(name, str) and isinstance(number, int) else None


def read_value(value: bytes | None) -> int | None:
    """Return the offset to copy next; None for a position that was removed."""
    found = _parsed(value)
    offset = cast(JsonObject, found).get("offset") if isinstance(found, dict) else None
    return offset + 1 if isinstance(offset, int) else None


class SourcePositions:
    """Reads and writes the positions of one flow."""

    def __init__(self, topic: PositionsTopic, client: KafkaClient) -> None:
        self._topic = topic
        self._client = client
        self._partitions = 0
        self._keys: dict[Partition, tuple[int, bytes]] = {}
        self._positions: dict[Partition, int] = {}

    async def read(self) -> dict[Partition, int]:
        """Return the offset to copy next of each partition; none where the topic is missing.

        Raises KafkaError, ClientError.
        """
        name = self._topic.name
        try:
            existing = await cluster_queries.topics(self._client, [name])
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                raise
            existing = {}  # without a position, the flow refuses a topic that has records
        self._positions = {}
        self._partitions = existing[name].partitions if name in existing else 0
        for number in range(self._partitions):
            await self._read_partition(number)
        return dict(self._positions)

    async def write(self, positions: Mapping[Partition, int]) -> int:
        """Write positions that MirrorMaker 2 does not have; return their number.

        Only a topic that has positions of the flow, or is one of a dedicated MirrorMaker 2, is
        written. Raises KafkaError, ClientError.
        """
        has_positions = bool(self._keys) or self._topic.name.startswith(DEDICATED_TOPICS)
        if not self._partitions or not has_positions:
            return 0
        producer = Producer(self._client)
        changed = {
            where: position
            for where, position in positions.items()
            if position > self._positions.get(where, 0)
        }
        for where, position in changed.items():
            number, key = self._keys.get(where) or self._new_key(where)
            record = NewRecord(key=key, value=position_value(position))
            await producer.send(self._topic.name, number, [record])
            self._keys[where], self._positions[where] = (number, key), position
        return len(changed)

    def _new_key(self, where: Partition) -> tuple[int, bytes]:
        key = position_key(self._topic.connectors[0], self._topic.cluster, where)
        return partition_of(key, self._partitions), key

    async def _read_partition(self, number: int) -> None:
        records, _ = await stored_records(self._client, self._topic.name, number)
        for record in records:
            where = read_key(self._topic, record.key)
            if where is None or record.key is None:
                continue
            self._keys[where] = number, record.key
            position = read_value(record.value)
            if position is None:
                self._positions.pop(where, None)
            else:
                self._positions[where] = position


def _parsed(data: bytes | None) -> object:
    try:
        return json.loads(data or b"null")
    except ValueError:
        return None


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
