"""Markers of micro-batches: which batches of a stateful query a partition has committed.

A marker is the committed offset of one partition of the topic `JOB-epochs`: the number of the next
micro-batch. Its metadata names the query and has a digest of the checkpoint's file `offsets/N`, the
input of micro-batch N. A checkpoint that was wiped or rolled back numbers them again from an
earlier number: without the digest, new input would be taken for input that was written already.
"""

import enum
import hashlib
import json
from typing import Any

import attrs

from barnabas.pipeline.delivery.plan.job_plan import REBUILD


class MicroBatchMismatchError(Exception):
    """The checkpoint is not the one that wrote the newest micro-batch."""


class Decision(enum.Enum):
    """The work of a task in a micro-batch."""

    WRITE = "write"
    SKIP = "skip"


@attrs.frozen
class Marker:
    """The newest micro-batch that a partition has committed."""

    next_batch: int
    query_id: str
    digest: str

    def encode(self) -> str:
        """Return the metadata of the offset `next_batch`."""
        return json.dumps({"query": self.query_id, "digest": self.digest})


def decode(offset: int, metadata: str | None) -> Marker | None:
    """Return the marker that a committed offset holds, None without one.

    A negative offset means that nothing is committed.
    """
    if offset < 0:
        return None
    try:
        fields: Any = json.loads(metadata or "{}")
        return Marker(offset, str(fields["query"]), str(fields["digest"]))
    except (ValueError, KeyError, TypeError):
        return Marker(offset, "", "")


def is_marker(metadata: str | None) -> bool:
    """True for the metadata of a marker; other offsets of a group are positions."""
    found = decode(0, metadata)
    return found is not None and bool(found.query_id and found.digest)


def digest_of(offsets_file: bytes) -> str:
    """Return the digest of the checkpoint's file with the input of a micro-batch."""
    return hashlib.sha256(offsets_file).hexdigest()[:32]


def decide(marker: Marker | None, current: Marker) -> Decision:
    """Return the work of a task whose micro-batch would leave the marker `current`.

    Raises MicroBatchMismatchError when the checkpoint does not continue the marker.
    """
    batch = current.next_batch - 1
    if marker is None:
        if batch == 0:
            return Decision.WRITE
        raise MicroBatchMismatchError(
            f"micro-batch {batch} has no marker of the one before it: the group's offsets expired "
            f"or were deleted; {REBUILD}"
        )
    if marker.query_id == current.query_id:
        if marker.next_batch == batch:
            return Decision.WRITE
        if marker.next_batch == current.next_batch and marker.digest == current.digest:
            return Decision.SKIP
    raise MicroBatchMismatchError(
        f"the checkpoint is not the one that wrote micro-batch {marker.next_batch - 1}: it is at "
        f"micro-batch {batch}; {REBUILD}"
    )
