"""Records of offset ranges, read in Spark's Python workers by librdkafka.

A worker keeps the consumer of a job's partition from one batch to the next, with the records that
it has fetched ahead. The offset at which a range starts is the caller's: where the consumer is
elsewhere, it seeks.
"""

import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from barnabas.pipeline.delivery.forward.poll_size import PollSize
from barnabas.pipeline.delivery.plan.offset_ranges import OffsetRange, Partition
from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError
from barnabas.pipeline.delivery.rows.arrow_rows import PartitionRows
from barnabas.pipeline.delivery.writing.record_producer import QUIET

_READERS_MAX: Final = 32
_IDLE_S: Final = 1.0
_CLOSED_AFTER_S: Final = 30.0
_POLL_S: Final = 0.1
_METADATA_S: Final = 30.0
_STALLED_S: Final = 30.0
_DEFAULTS: Final[Mapping[str, Any]] = {
    # The end of a range may be a control record: only the answer to a fetch at the end of the
    # partition shows that nothing follows, so a fetch must not wait there.
    "fetch.wait.max.ms": 5,
    # A task takes records faster than librdkafka looks again whether its queue has room (1 s).
    "fetch.queue.backoff.ms": 5,
    # As Java's consumer does.
    "check.crcs": True,
    # Records that were fetched ahead are dropped when another worker reads them.
    "queued.max.messages.kbytes": 8_192,
}
_SETTINGS: Final[Mapping[str, Any]] = {
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "logger": QUIET,
}
# librdkafka continues after any other error; the time without a record limits it.
_PERMANENT: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError._AUTHENTICATION,
    }
)

Trimmed: TypeAlias = Callable[[Partition, int], int]
"""Takes a partition and an offset that the broker does not have; returns where to continue."""
_Messages: TypeAlias = Sequence[Any]
"""librdkafka's records and events; the fields of events may be None."""


class RangeReader:
    """A consumer that reads ranges. It needs `group.id`, but joins no group."""

    def __init__(self, properties: Mapping[str, Any], poll_records_max: int) -> None:
        self._poll = PollSize(poll_records_max)
        self._consumer = Consumer({**_DEFAULTS, **properties, **_SETTINGS})
        self._positions: dict[Partition, int] = {}
        """The assigned partitions with the offset of the record to come."""
        self._known: set[Partition] = set()
        """Partitions whose leader the consumer knows, or looks for."""

    def rows(
        self, ranges: Sequence[OffsetRange], trimmed: Trimmed, limit_s: float
    ) -> Iterator[PartitionRows]:
        """Yield the records of ranges, each partition's in the order of offsets.

        It ends at the ends of all ranges, when the largest number of records was read, or when the
        caller has taken records for `limit_s`; `finish` returns where. Records that were written
        after the end of a range may be among them. Raises TaskFailureError, KafkaException.
        """
        self._assign({each.where: each.start for each in ranges})
        ends = {each.where: each.end for each in ranges}
        left = sum(each.records_max for each in ranges)
        deadline = time.monotonic() + _STALLED_S
        until_s = float("inf")
        newest: KafkaError | None = None
        while left > 0 and time.monotonic() < until_s and self._is_behind(ends):
            messages = self._messages(left)
            records = [message for message in messages if message.error() is None]
            if records:
                began_s = time.monotonic()
                until_s = min(until_s, began_s + limit_s)
                left -= len(records)
                yield from self._runs(records)
                deadline = time.monotonic() + _STALLED_S
                self._poll.note(len(records), time.monotonic() - began_s)
            if len(records) < len(messages):
                newest = self._serve(messages, trimmed) or newest
            if time.monotonic() > deadline:
                raise _stalled(self._positions, ends, newest)

    def finish(self, ranges: Sequence[OffsetRange]) -> dict[Partition, int]:
        """Return the offsets after what `rows` read; leave partitions that were read whole."""
        found = {each.where: self._positions[each.where] for each in ranges}
        self._leave(each.where for each in ranges if found[each.where] >= each.end)
        return found

    def release(self) -> None:
        """Fetch nothing ahead."""
        self._leave(list(self._positions))

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close()

    def _is_behind(self, ends: Mapping[Partition, int]) -> bool:
        return any(self._positions[where] < end for where, end in ends.items())

    def _messages(self, left: int) -> _Messages:
        """Return records and events that are there, or the first to come."""
        count = min(left, self._poll.records)
        if messages := self._consumer.consume(count, 0):
            return messages
        first = self._consumer.consume(1, _POLL_S)
        return first + self._consumer.consume(count - 1, 0) if first and count > 1 else first

    def _assign(self, starts: Mapping[Partition, int]) -> None:
        self._leave(
            [where for where, offset in self._positions.items() if starts.get(where) != offset]
        )
        added = [item for item in starts.items() if item[0] not in self._positions]
        if added:
            self._consumer.incremental_assign(
                [TopicPartition(*where, offset) for where, offset in added]
            )
        # librdkafka looks for the leader of a new partition once a second, or on request.
        for topic in {where[0] for where, _ in added if where not in self._known}:
            _check(self._consumer.list_topics(topic, _METADATA_S).topics[topic].error)
        self._known.update(starts)
        self._positions.update(starts)

    def _leave(self, partitions: Iterable[Partition]) -> None:
        """Stop to fetch partitions."""
        left = list(partitions)
        if left:
            self._consumer.incremental_unassign([TopicPartition(*where) for where in left])
        for where in left:
            del self._positions[where]

    def _runs(self, records: _Messages) -> Iterator[PartitionRows]:
        """Yield the records of each partition."""
        if len(self._positions) == 1:
            runs = {next(iter(self._positions)): records}
        else:
            runs: dict[Partition, Any] = {}
            for record in records:
                runs.setdefault((record.topic(), record.partition()), []).append(record)
        for where, run in runs.items():
            self._positions[where] = run[-1].offset() + 1
            yield partition_rows(where, run)

    def _serve(self, messages: _Messages, trimmed: Trimmed) -> KafkaError | None:
        """Act on events; return the newest error that may pass."""
        newest: KafkaError | None = None
        for message in messages:
            error = message.error()
            if error is None:
                continue
            where = (message.topic(), message.partition())
            at = self._positions.get(where)
            if error.code() == KafkaError._PARTITION_EOF:
                if at is not None:
                    self._positions[where] = max(at, message.offset())
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                if at is not None:
                    self._assign({**self._positions, where: trimmed(where, at)})
            else:
                _check(error)
                newest = error
        return newest


def partition_rows(where: Partition, records: _Messages) -> PartitionRows:
    """Return records of one partition as columns."""
    times = [record.timestamp() for record in records]
    headers = [record.headers() for record in records]
    return PartitionRows(
        *where,
        [record.offset() for record in records],
        [record.key() for record in records],
        [record.value() for record in records],
        [time_ms for _, time_ms in times],
        # Spark counts the types of timestamps from -1, librdkafka from 0.
        [kind - 1 for kind, _ in times],
        [each or [] for each in headers] if any(headers) else None,
    )


def _check(error: KafkaError | None) -> None:
    """Raise TaskFailureError for an error that waiting does not end."""
    if error is None:
        return
    if error.code() in _PERMANENT or error.fatal():
        message = f"the broker refuses to send records: {error.str()}"
        raise TaskFailureError(message, is_permanent=not error.fatal())
    if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
        raise TaskFailureError(f"a source topic is missing: {error.str()}", is_permanent=False)


def _stalled(
    positions: Mapping[Partition, int], ends: Mapping[Partition, int], error: KafkaError | None
) -> TaskFailureError:
    behind = [where for where, end in ends.items() if positions[where] < end]
    where = ", ".join(f"{topic}-{number}@{positions[topic, number]}" for topic, number in behind)
    cause = f": {error.str()}" if error is not None else ""
    message = f"the broker sent no record of {where} within {_STALLED_S:.0f} s{cause}"
    return TaskFailureError(message, is_permanent=False)


class ReaderCache:
    """The readers of this worker process. Above the limit, the least recently used is closed.

    A reader that is not used for `idle_s` fetches nothing ahead: another worker may have its
    partitions, and at the end of a partition its fetches would never pause. After `closed_after_s`
    its connections are closed.
    """

    def __init__(
        self,
        limit: int = _READERS_MAX,
        idle_s: float = _IDLE_S,
        closed_after_s: float = _CLOSED_AFTER_S,
    ) -> None:
        self._readers: OrderedDict[tuple[str, int], tuple[RangeReader, float]] = OrderedDict()
        self._limit = limit
        self._idle_s = idle_s
        self._closed_after_s = closed_after_s
        self._lock = threading.Lock()
        self._watcher: threading.Thread | None = None

    @contextlib.contextmanager
    def borrowed(
        self, name: str, generation: int, properties: Mapping[str, Any], poll_records_max: int
    ) -> Generator[RangeReader]:
        """Lend the reader of a name; one that was in use when an exception came is closed."""
        key = (name, generation)
        with self._lock:
            reader, _ = self._readers.pop(key, (None, 0.0))
        if reader is None:
            reader = RangeReader(properties, poll_records_max)
        try:
            yield reader
        except BaseException:
            with contextlib.suppress(Exception):
                reader.close()
            raise
        self._keep(key, reader)

    def clear(self) -> None:
        """Close the readers that no task has borrowed."""
        with self._lock:
            closed = [reader for reader, _ in self._readers.values()]
            self._readers.clear()
        for each in closed:
            each.close()

    def _keep(self, key: tuple[str, int], reader: RangeReader) -> None:
        closed: list[RangeReader] = []
        with self._lock:
            self._readers[key] = reader, time.monotonic()
            while len(self._readers) > self._limit:
                closed.append(self._readers.popitem(last=False)[1][0])
            if self._watcher is None:
                self._watcher = threading.Thread(target=self._watch, daemon=True)
                self._watcher.start()
        for each in closed:
            each.close()

    def _watch(self) -> None:
        while True:
            time.sleep(self._idle_s)
            for reader in self._unused():
                with contextlib.suppress(Exception):
                    reader.close()

    def _unused(self) -> list[RangeReader]:
        """Release readers that are idle; return those to close."""
        now_s = time.monotonic()
        with self._lock:
            old = [
                key
                for key, (_, used_s) in self._readers.items()
                if now_s - used_s >= self._closed_after_s
            ]
            closed = [self._readers.pop(key)[0] for key in old]
            for reader, used_s in self._readers.values():
                if now_s - used_s >= self._idle_s:
                    with contextlib.suppress(KafkaException):  # tried again
                        reader.release()
        return closed


READERS: Final = ReaderCache()
