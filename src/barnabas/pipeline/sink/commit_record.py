"""The record of a batch in the topic `NAME-commits`: what the query has made visible.

A driver writes one when it takes the query over (with a new claim), one with the transactions of a
batch when all of them are prepared, and one without them when all are committed. The second is the
decision: from then on the batch is written.
"""

import enum
import json
from typing import Any, Final

import attrs

from barnabas.pipeline.sink.sink_errors import SinkError

_FORMAT: Final = 1
NO_BATCH: Final = -1


@attrs.frozen
class PreparedTransaction:
    """A transaction that a task has filled and left open."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


@attrs.frozen
class CommitRecord:
    """The newest record: the last batch and, until they are committed, its transactions."""

    claim: str
    """Names the driver that may write the next record."""
    query_id: str = ""
    """The id of the query in its checkpoint; empty before the first batch."""
    batch: int = NO_BATCH
    tasks: int = 0
    """The largest number of tasks that a batch of the query has had."""
    prepared: tuple[PreparedTransaction, ...] = ()

    def encode(self) -> bytes:
        """Return the value of the record."""
        prepared = [attrs.astuple(each) for each in self.prepared]
        fields = {"format": _FORMAT, "claim": self.claim, "query": self.query_id}
        fields |= {"batch": self.batch, "tasks": self.tasks, "prepared": prepared}
        return json.dumps(fields).encode()


def decode(value: bytes | None, topic: str) -> CommitRecord | None:
    """Return the record in a value, None without a value. Raises SinkError for another content."""
    if value is None:
        return None
    try:
        fields: Any = json.loads(value)
        if fields["format"] != _FORMAT:
            raise ValueError(fields["format"])
        prepared = tuple(
            PreparedTransaction(str(name), int(producer_id), int(epoch))
            for name, producer_id, epoch in fields["prepared"]
        )
        numbers = int(fields["batch"]), int(fields["tasks"])
        return CommitRecord(str(fields["claim"]), str(fields["query"]), *numbers, prepared)
    except (ValueError, KeyError, TypeError) as error:
        raise SinkError(
            f"topic {topic} has a record that this release of barnabas did not write: use another "
            "`name`, or the release that wrote it"
        ) from error


class Work(enum.Enum):
    """The work of a task in a batch."""

    WRITE = "write"
    SKIP = "skip"


def decide(record: CommitRecord, query_id: str, batch: int, name: str) -> Work:
    """Return the work of a task, after the newest record.

    Raises SinkError when the batch is not one that follows it.
    """
    if record.batch == NO_BATCH:
        return Work.WRITE
    restart = f"or delete the topic {name}-commits, to start again under the same name"
    if record.query_id != query_id:
        raise SinkError(
            f"the name '{name}' belongs to another query: batch {record.batch} was written from "
            f"the checkpoint of query {record.query_id}, this is query {query_id}. Set another "
            f"`name`, bring that checkpoint back, {restart}"
        )
    if batch < record.batch:
        raise SinkError(
            f"the checkpoint of '{name}' was rolled back: it is at batch {batch}, and batch "
            f"{record.batch} is written. Bring the newer checkpoint back, {restart}"
        )
    return Work.SKIP if batch == record.batch else Work.WRITE
