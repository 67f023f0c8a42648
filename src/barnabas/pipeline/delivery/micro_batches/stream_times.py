"""The stream time of each partition at the end of micro-batches, in files of the checkpoint.

A task that reads a partition continues from the time that the partition had at the end of the
micro-batch before. A file has that time and the one of the newest micro-batch, so a repeated
micro-batch begins with the same time. Without a file, as after a power cut that lost it, time
begins again: records are then dropped later, never earlier.
"""

import contextlib
import functools
import json
import urllib.parse
from collections.abc import Generator, Mapping
from typing import Any, Final, TypeAlias

import attrs

from barnabas.pipeline.delivery.driver.spark_library import SparkSession, pyspark
from barnabas.pipeline.delivery.micro_batches.checkpoint_files import STREAM_TIMES, CheckpointFiles

_CHECKPOINT: Final = "barnabas.streams.checkpoint"
_SETTLED: Final = "barnabas.streams.settled"
_ENDS: Final = "barnabas.streams.ends"
_BATCH: Final = "streaming.sql.batchId"

UNKNOWN_MS: Final = -1
"""The time of a partition without records."""

Partition: TypeAlias = tuple[str, int]
"""A topic and the number of a partition."""


@contextlib.contextmanager
def known_to_tasks(
    session: SparkSession,
    checkpoint: str,
    settled: int | None = None,
    ends: Mapping[Partition, int] | None = None,
) -> Generator[None]:
    """Name the checkpoint to the tasks of a query that starts meanwhile.

    `settled` is a micro-batch of which an earlier run has written rows, `ends` those of
    `StreamTimes`. A query has the local properties of the thread that starts it.
    """
    context = session.sparkContext
    properties = {
        _CHECKPOINT: checkpoint,
        _SETTLED: None if settled is None else str(settled),
        _ENDS: None if ends is None else json.dumps([[*each, end] for each, end in ends.items()]),
    }
    for name, value in properties.items():
        context.setLocalProperty(name, value)
    try:
        yield
    finally:
        for name in properties:
            context.setLocalProperty(name, None)


def lane_of(topic: str, partition: int) -> str:
    """Return the name of a partition's time."""
    return f"{partition}-{topic}"


@attrs.frozen
class StreamTimes:
    """The times of partitions, as a task of a micro-batch reads and writes them."""

    files: CheckpointFiles | None
    """None where the checkpoint is not known: time then begins with each micro-batch."""
    batch: int
    is_first: bool = True
    """True in the first task of a micro-batch, which alone looks at the times of all partitions."""
    is_settled: bool = False
    """True when an earlier run has written rows of the micro-batch, so all must be as they were."""
    ends: Mapping[Partition, int] | None = None
    """The ends of the topics at which a query stops to read; None when it reads what follows."""

    @classmethod
    def of_task(cls) -> "StreamTimes":
        """Return the times of the query and micro-batch of the running task."""
        context = pyspark().TaskContext.get()
        names = (_CHECKPOINT, _BATCH, _SETTLED, _ENDS)
        location, batch, settled, ends = (context.getLocalProperty(name) for name in names)
        if location is None or batch is None:
            return cls(None, 0)
        is_first = context.partitionId() == 0
        return cls(_files(location), int(batch), is_first, settled == batch, _ends(ends))

    def before(self, lane: str) -> int:
        """Return the time at the end of the micro-batch before, UNKNOWN_MS without records."""
        return self._newest(self._kept(lane))[1]

    def keep(self, lane: str, time_ms: int) -> None:
        """Keep the time at the end of this micro-batch, which may be the one before."""
        kept = self._kept(lane)
        before, before_ms = self._newest(kept)
        time_ms = max(time_ms, kept.get(self.batch, UNKNOWN_MS))
        if self.files is None or time_ms in (before_ms, kept.get(self.batch, UNKNOWN_MS)):
            return
        times = {self.batch: time_ms} if before < 0 else {before: before_ms, self.batch: time_ms}
        self.files.replace(_path(lane), json.dumps(times).encode())

    def slowest_ms(self, *, waits_for_all: bool) -> int:
        """Return the least time of the partitions at the end of the micro-batch before.

        It is UNKNOWN_MS in other tasks than the first, and with `waits_for_all` while a partition
        of a topic has no records yet.
        """
        if self.files is None or not self.is_first:
            return UNKNOWN_MS
        names = (each for each in self.files.names(STREAM_TIMES) if each[0].isdecimal())
        lanes = {urllib.parse.unquote(each) for each in names}
        if waits_for_all:
            positions = self.files.positions_at(self.batch)
            lanes |= {lane_of(topic, each) for topic, found in positions.items() for each in found}
        return min((self.before(lane) for lane in lanes), default=UNKNOWN_MS)

    def _newest(self, kept: dict[int, int]) -> tuple[int, int]:
        """Return the newest micro-batch before this one, and its time."""
        return max(
            ((batch, time_ms) for batch, time_ms in kept.items() if batch < self.batch),
            default=(-1, UNKNOWN_MS),
        )

    def _kept(self, lane: str) -> dict[int, int]:
        content = None if self.files is None else self.files.content_of(_path(lane))
        if content is None:
            return {}
        try:
            found: dict[str, Any] = json.loads(content)
            return {int(batch): int(time_ms) for batch, time_ms in found.items()}
        except (ValueError, TypeError, AttributeError):  # a part of a file, after a power cut
            return {}


def _ends(text: str | None) -> dict[Partition, int] | None:
    if text is None:
        return None
    return {(topic, partition): end for topic, partition, end in json.loads(text)}


def _path(lane: str) -> str:
    return f"{STREAM_TIMES}/{urllib.parse.quote(lane, safe='')}"


@functools.lru_cache(8)
def _files(location: str) -> CheckpointFiles:
    return CheckpointFiles(location)
