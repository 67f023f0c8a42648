"""PRINT: the records of a topic, each as a line of text."""

from __future__ import annotations

import threading
import time
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from barnabas.pipeline.delivery.writing.record_producer import QUIET
from barnabas.pipeline.sql.shell.printed_values import PrintedValues
from barnabas.pipeline.sql.sql_failures import UnresolvedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barnabas.pipeline.sql.statement_values import PrintTopic

_ROWS_MAX: Final = 500
_POLL_S: Final = 0.1
_TIMEOUT_S: Final = 30.0


class TopicLines:
    """The records of a topic, from its start or its present end, until `close`."""

    def __init__(
        self, statement: PrintTopic, properties: Mapping[str, Any], registry: str = ""
    ) -> None:
        """Start reading. Raises UnresolvedError when there is no such topic.

        With a registry, records that begin with the id of a schema are decoded.
        """
        self._values = PrintedValues(registry)
        self._left = statement.limit
        self._interval = statement.interval or 1
        self._seen = 0
        self._is_closed = False
        self._using = threading.Lock()
        self._consumer: Any = Consumer(
            {
                **properties,
                "group.id": f"barnabas-print-{uuid.uuid4()}",
                "enable.auto.commit": False,
                "logger": QUIET,
            }
        )
        try:
            self._consumer.assign(self._positions(statement))
        except BaseException:
            self._consumer.close()
            raise

    def _positions(self, statement: PrintTopic) -> list[TopicPartition]:
        topic = statement.topic
        try:
            known = self._consumer.list_topics(timeout=_TIMEOUT_S).topics
            if topic not in known:
                raise UnresolvedError(f"There is no topic {topic}: SHOW TOPICS lists them")
            places = [TopicPartition(topic, number) for number in known[topic].partitions]
            for place in places:
                low, high = self._consumer.get_watermark_offsets(place, timeout=_TIMEOUT_S)
                place.offset = low if statement.from_beginning else high
        except KafkaException as error:
            raise UnresolvedError(f"The topic {topic} cannot be read: {error}") from None
        return places

    def take(self, timeout_s: float) -> list[Sequence[Any]] | None:
        """Return the lines of the records that are there, waiting for the first."""
        until = time.monotonic() + timeout_s
        lines: list[Sequence[Any]] = []
        while not lines and time.monotonic() < until:
            with self._using:
                if self._left == 0 or self._is_closed:
                    return None
                lines = self._lines(self._consumer.consume(_ROWS_MAX, _POLL_S))
        return lines

    def _lines(self, records: list[Any]) -> list[Sequence[Any]]:
        """Return the lines of those records that INTERVAL and LIMIT select."""
        lines: list[Sequence[Any]] = []
        for record in records:
            if record.error() is not None:
                raise UnresolvedError(f"The topic cannot be read: {record.error().str()}")
            self._seen += 1
            if self._left != 0 and (self._seen - 1) % self._interval == 0:
                lines.append([self._line(record)])
                self._left = None if self._left is None else self._left - 1
        return lines

    def close(self) -> None:
        """End the reading."""
        with self._using:
            if not self._is_closed:
                self._is_closed = True
                self._consumer.close()

    def _line(self, record: Any) -> str:
        _, time_ms = record.timestamp()
        moment = datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y/%m/%d %H:%M:%S.%f")[:-3]
        key, value = (self._values.text(each) for each in (record.key(), record.value()))
        return f"rowtime: {moment} Z, key: {key}, value: {value}, partition: {record.partition()}"
