"""PRINT: the records of a topic, each as a line of text."""

from __future__ import annotations

import threading
import time
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from barnabas.pipeline.delivery.writing.record_producer import QUIET
from barnabas.pipeline.sql.sql_failures import UnresolvedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barnabas.pipeline.sql.statement_values import PrintTopic

_ROWS_MAX: Final = 500
_POLL_S: Final = 0.1
_TIMEOUT_S: Final = 30.0
_BYTES_SHOWN_MAX: Final = 16_384
_UNPRINTED: Final = frozenset(map(chr, (*range(32), 127))) - {"\n", "\t"}


class TopicLines:
    """The records of a topic, from its start or its present end, until `close`."""

    def __init__(self, statement: PrintTopic, properties: Mapping[str, Any]) -> None:
        """Start reading. Raises UnresolvedError when there is no such topic."""
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
                lines.append([_line(record)])
                self._left = None if self._left is None else self._left - 1
        return lines

    def close(self) -> None:
        """End the reading."""
        with self._using:
            if not self._is_closed:
                self._is_closed = True
                self._consumer.close()


def _line(record: Any) -> str:
    _, time_ms = record.timestamp()
    moment = datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y/%m/%d %H:%M:%S.%f")[:-3]
    return (
        f"rowtime: {moment} Z, key: {_text(record.key())}, value: {_text(record.value())}, "
        f"partition: {record.partition()}"
    )


def _text(data: bytes | None) -> str:
    """Return UTF-8 as text, other bytes as hexadecimal digits, null as <null>."""
    if data is None:
        return "<null>"
    shown = data[:_BYTES_SHOWN_MAX]
    more = "" if len(shown) == len(data) else f".. ({len(data)} bytes)"
    try:
        text = shown.decode()
    except UnicodeDecodeError:
        return f"0x{shown.hex()}{more}"
    return (f"0x{shown.hex()}" if _UNPRINTED & set(text) else text) + more
