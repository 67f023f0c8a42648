"""Writing configurations in transactions, so that a runner that was deposed cannot write.

All runners of a group use the transactional id `connect-cluster-GROUP`, as Java's leader does
(KIP-618). The runner that becomes active takes it over; a write of the earlier one fails.
"""

import contextlib
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

import trio
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from barnabas.pipeline.jobs.storage_topics import KeyValue

logger = logging.getLogger(__name__)

_TIMEOUT_S: Final = 30.0
_PARTITION: Final = 0


class ConfigsWriteError(Exception):
    """The records were not written. `is_fenced` is True when another runner has taken over."""

    def __init__(self, reason: str, *, is_fenced: bool = False) -> None:
        super().__init__(reason)
        self.is_fenced = is_fenced


class ConfigsWriter:
    """Writes to the configs topic as the active runner."""

    def __init__(self, properties: Mapping[str, Any], group_id: str, topic: str) -> None:
        self._properties = {
            **properties,
            "transactional.id": f"connect-cluster-{group_id}",
            "transaction.timeout.ms": 10_000,
            "log_level": 0,
        }
        self._topic = topic
        self._producer: Any = None
        self._lock = trio.Lock()

    async def take_over(self) -> None:
        """Fence every earlier writer. Raises ConfigsWriteError."""
        async with self._lock:
            await trio.to_thread.run_sync(self._take_over)

    async def release(self) -> None:
        """Close the producer: this runner is not active any longer. The next `take_over` opens one.

        A write in progress continues, and then closes it.
        """
        await trio.to_thread.run_sync(self._release)

    async def write(self, records: Sequence[KeyValue]) -> int:
        """Write records in one transaction; return the offset behind the last one.

        Raises ConfigsWriteError.
        """
        return (await self.write_all({self._topic: records}))[self._topic]

    async def write_all(self, records: Mapping[str, Sequence[KeyValue]]) -> dict[str, int]:
        """Write records of several topics in one transaction; each topic has one partition.

        Returns the offset behind the last record of each topic. Readers of committed records may
        see them later: the coordinator writes the end of the transaction to the topics after it has
        answered. Raises ConfigsWriteError.
        """
        async with self._lock:
            return await trio.to_thread.run_sync(self._write, records)

    def _take_over(self) -> None:
        self._producer = Producer(self._properties)
        try:
            self._producer.init_transactions(_TIMEOUT_S)
        except KafkaException as error:
            raise _failure(error) from None

    def _release(self) -> None:
        self._producer = None  # librdkafka's client ends with the last reference

    def _write(self, records: Mapping[str, Sequence[KeyValue]]) -> dict[str, int]:
        producer = self._producer
        if producer is None:
            raise ConfigsWriteError("this runner is not active", is_fenced=True)
        refused: list[KafkaError] = []
        offsets = dict.fromkeys(records, -1)

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                refused.append(error)
            else:
                topic = message.topic() or ""
                offsets[topic] = max(offsets[topic], message.offset() or 0)

        try:
            producer.begin_transaction()
            for topic, pairs in records.items():
                for key, value in pairs:
                    producer.produce(topic, value, key, _PARTITION, on_delivery=delivered)
            producer.commit_transaction(_TIMEOUT_S)
        except KafkaException as error:
            failure = _failure(error, refused)
            if not failure.is_fenced:
                with contextlib.suppress(KafkaException):
                    producer.abort_transaction(_TIMEOUT_S)
            raise failure from None
        return {topic: offset + 1 for topic, offset in offsets.items()}


def _failure(error: KafkaException, refused: Sequence[KafkaError] = ()) -> ConfigsWriteError:
    """Return the error of a write; the reports of its records say more than the commit."""
    cause = error.args[0]
    reason = refused[0].str() if refused else cause.str()
    return ConfigsWriteError(reason, is_fenced=bool(cause.fatal()))
