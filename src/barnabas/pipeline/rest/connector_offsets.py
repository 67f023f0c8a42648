"""Positions of connectors: offsets of a sink's group, records of the offsets topic of a source."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar, cast

import trio

from barnabas.pipeline.connect.rest_errors import ConnectRestError, bad_request
from barnabas.pipeline.data.connect_errors import ConnectError
from barnabas.pipeline.delivery.driver.group_offsets import GroupOffsets, GroupOffsetsError
from barnabas.pipeline.jobs.core.store_records import JsonObject, OffsetRecord
from barnabas.pipeline.jobs.job_config import group_of, job_kind
from barnabas.pipeline.jobs.runner_store import RunnerStore
from barnabas.pipeline.jobs.source_topics import SourceTopics
from barnabas.pipeline.rest.connector_service import ConnectorService

T = TypeVar("T")

_TOPIC: Final = "kafka_topic"
_PARTITION: Final = "kafka_partition"
_OFFSET: Final = "kafka_offset"
_CHECKPOINT: Final = "checkpoint.location"

Alteration = tuple[JsonObject, JsonObject | None]


class StoredOffsets:
    """Reads and changes positions."""

    def __init__(
        self,
        service: ConnectorService,
        store: RunnerStore,
        groups: GroupOffsets,
        topics: SourceTopics,
        forget_state: Callable[[str, str, str | None], None],
    ) -> None:
        """`forget_state` removes the state of a job, where it has any.

        It gets the job's name, its group, and the checkpoint that its configuration names. It
        blocks, and raises any error.
        """
        self._service = service
        self._store = store
        self._groups = groups
        self._topics = topics
        self._forget_state = forget_state

    async def read(self, name: str) -> list[dict[str, Any]]:
        """Return partitions with their offsets. Raises ConnectRestError."""
        self._service.entry(name)
        if self._service.is_source(name):
            await self._store.catch_up_offsets()
            records = self._store.state.offsets.get(name, {}).values()
            return [{"partition": each.partition, "offset": each.offset} for each in records]
        found = await self._of_group(self._groups.committed(self._group(name)))
        return [
            {"partition": {_TOPIC: topic, _PARTITION: partition}, "offset": {_OFFSET: offset}}
            for (topic, partition), offset in sorted(found.items())
        ]

    async def alter(self, name: str, offsets: Any) -> None:
        """Set positions of a stopped connector. Raises ConnectRestError."""
        self._service.check_stopped(name)
        self._check_changeable(name)
        changes = _alterations(offsets)
        if self._service.is_source(name):
            self._check_source(name, changes)
            await self._store.write_offsets(
                [OffsetRecord(name, partition, offset) for partition, offset in changes]
            )
            return
        positions = {_topic_partition(each): _offset(each) for each in changes}
        await self._of_group(self._groups.alter(self._group(name), positions))
        await self._topics.forget(name, {topic for topic, _ in positions})

    async def reset(self, name: str) -> None:
        """Remove all positions of a stopped connector, and its state. Raises ConnectRestError."""
        entry = self._service.check_stopped(name)
        checkpoint = None
        if not self._service.is_source(name):
            self._check_changeable(name)
        elif self._keeps_positions(name):
            checkpoint = entry.config.get(_CHECKPOINT)
        group = self._group(name)
        if not self._service.is_source(name):
            await self._of_group(self._groups.reset(group))
        forget = partial(self._forget, name, group, checkpoint)
        await self._of_group(trio.to_thread.run_sync(forget))
        await self._topics.forget(name)
        await self._store.catch_up_offsets()
        records = list(self._store.state.offsets.get(name, {}).values())
        if records:
            await self._store.write_offsets(
                [OffsetRecord(name, each.partition, None) for each in records]
            )

    def _forget(self, name: str, group: str, checkpoint: str | None) -> None:
        """Remove the state of a job. Raises GroupOffsetsError."""
        try:
            self._forget_state(name, group, checkpoint)
        except Exception as error:
            raise GroupOffsetsError(f"the state of {name} was not removed: {error}") from error

    def _check_changeable(self, name: str) -> None:
        """Raise ConnectRestError (400) for a connector that ignores positions set from outside."""
        if self._keeps_positions(name):
            raise bad_request(
                f"The position of connector {name} is in the checkpoint of its Spark query: to "
                "read from elsewhere, create a connector with another name, path and checkpoint"
            )

    def _keeps_positions(self, name: str) -> bool:
        """True for a connector whose position is in the checkpoint of its query."""
        connector = self._service.plugin(name).load()
        return bool(getattr(connector, "keeps_positions_in_checkpoint", False))

    def _check_source(self, name: str, changes: Sequence[Alteration]) -> None:
        """Raise ConnectRestError (400) for positions that the connector does not understand."""
        connector = self._service.plugin(name).load()()
        try:
            for partition, offset in changes:
                connector.check_offset(partition, offset)
        except ConnectError as error:
            raise bad_request(str(error)) from None

    def _group(self, name: str) -> str:
        kind = job_kind(self._service.plugin(name))
        return group_of(name, kind, self._service.entry(name).config)

    async def _of_group(self, call: Awaitable[T]) -> T:
        try:
            return await call
        except GroupOffsetsError as error:
            raise ConnectRestError(500, str(error)) from None


def _alterations(offsets: Any) -> list[Alteration]:
    """Return the changes of a request. Raises ConnectRestError (400)."""
    if not isinstance(offsets, list):
        raise bad_request("offsets must be a list")
    found: list[Alteration] = []
    for each in cast(list[Any], offsets):
        fields = cast(JsonObject, each) if isinstance(each, dict) else JsonObject()
        partition: Any = fields.get("partition")
        offset: Any = fields.get("offset")
        if not isinstance(partition, dict) or not isinstance(offset, dict | None):
            raise bad_request("each of offsets must have a partition and an offset")
        found.append((cast(JsonObject, partition), cast("JsonObject | None", offset)))
    return found


def _topic_partition(change: Alteration) -> tuple[str, int]:
    partition, _ = change
    topic, number = partition.get(_TOPIC), partition.get(_PARTITION)
    if topic is None or number is None:
        raise bad_request(
            f"The partition for a sink connector offset must contain the keys '{_TOPIC}' and "
            f"'{_PARTITION}'"
        )
    return str(topic), _whole(number, "Kafka partition value", "Partition values")


def _offset(change: Alteration) -> int | None:
    _, offset = change
    if offset is None:
        return None
    if _OFFSET not in offset:
        raise bad_request(
            f"The offset for a sink connector should either be null or contain the key '{_OFFSET}'"
        )
    return _whole(offset[_OFFSET], "Kafka offset value", "Offset values")


def _whole(value: Any, what: str, whats: str) -> int:
    text = str(value)
    if isinstance(value, bool) or not text.isascii() or not text.isdecimal():
        raise bad_request(
            f"Failed to parse the following {what} in the provided offsets: '{value}'. {whats} for "
            "sink connectors need to be integers."
        )
    return int(text)
