"""Committed offsets of consumer groups, by librdkafka's admin client. All calls block."""

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Final

import confluent_kafka
from confluent_kafka import KafkaException, TopicPartition

_TIMEOUT_S: Final = 30.0


class GroupOffsetsError(Exception):
    """The offsets could not be read or changed."""


def _admin_module() -> Any:
    """Return confluent_kafka.admin, which has too few annotations to be type-checked."""
    import confluent_kafka.admin

    return confluent_kafka.admin


class GroupOffsets:
    """Reads, sets and removes the offsets of groups."""

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self._properties = {**properties, "log_level": 0}
        self._client: Any = None

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """Return the offset of each partition; none for a group that does not exist.

        Raises GroupOffsetsError.
        """
        request = _groups_kind()(group)
        found = self._result(self._admin().list_consumer_group_offsets([request])[group])
        return {
            (each.topic, each.partition): each.offset
            for each in found.topic_partitions
            if each.offset >= 0
        }

    def alter(self, group: str, positions: Mapping[tuple[str, int], int | None]) -> None:
        """Set positions; None removes the offset of a partition. Raises GroupOffsetsError."""
        kept = [TopicPartition(*where, at) for where, at in positions.items() if at is not None]
        if kept:
            request = _groups_kind()(group, kept)
            self._result(self._admin().alter_consumer_group_offsets([request])[group])
        removed = [where for where, at in positions.items() if at is None]
        if removed:
            raise GroupOffsetsError("removing the offset of one partition is not supported")

    def reset(self, group: str) -> None:
        """Remove the group with all its offsets. Raises GroupOffsetsError."""
        try:
            self._result(self._admin().delete_consumer_groups([group])[group])
        except GroupOffsetsError as error:
            if "GROUP_ID_NOT_FOUND" not in str(error):
                raise

    def _admin(self) -> Any:
        if self._client is None:
            self._client = _admin_module().AdminClient(self._properties)
        return self._client

    def _result(self, future: "Future[Any]") -> Any:
        try:
            return future.result(_TIMEOUT_S)
        except KafkaException as error:
            cause = error.args[0]
            raise GroupOffsetsError(f"{cause.name()}: {cause.str()}") from None
        except TimeoutError:
            raise GroupOffsetsError(f"no answer within {_TIMEOUT_S:g} s") from None


def _groups_kind() -> Any:
    """Return the class of librdkafka's requests about groups."""
    module: Any = confluent_kafka
    return module.ConsumerGroupTopicPartitions
