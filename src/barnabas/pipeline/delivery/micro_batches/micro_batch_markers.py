"""Markers of epochs: which batches of a stateful query a partition has committed.

A marker is the committed offset of one partition of the topic `JOB-epochs`: the number of the next
epoch. Its metadata names the query and has a digest of the checkpoint's file `offsets/N`, which
holds the input of epoch N. A checkpoint that was wiped or rolled back numbers its epochs again from
an earlier number: without the digest, new input would be taken for input that was written already.
"""

import enum
import hashlib
import json
from typing import Any

import attrs

from barnabas.pipeline.delivery.plan.job_plan import REBUILD


class EpochMismatchError(Exception):
    """The checkpoint is not the one that wrote the newest epoch."""


class Decision(enum.Enum):
    """The work of a task in an epoch."""

    WRITE = "write"
    SKIP = "skip"


@attrs.frozen
class Marker:
    """The newest epoch that a partition has committed."""

    next_epoch: int
    query_id: str
    digest: str

    def encode(self) -> str:
        """Return the metadata of the offset `next_epoch`."""
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
    """Return the digest of the checkpoint's file with the input of an epoch."""
    return hashlib.sha256(offsets_file).hexdigest()[:32]


def decide(marker: Marker | None, current: Marker) -> Decision:
    """Return the work of a task whose epoch would leave the marker `current`.

    Raises EpochMismatchError when the checkpoint does not continue the marker.
    """
    epoch = current.next_epoch - 1
    if marker is None:
        if epoch == 0:
            return Decision.WRITE
        raise EpochMismatchError(
            f"epoch {epoch} has no marker of the epoch before it: the group's offsets expired or "
            f"were deleted; {REBUILD}"
        )
    if marker.query_id == current.query_id:
        if marker.next_epoch == epoch:
            return Decision.WRITE
        if marker.next_epoch == current.next_epoch and marker.digest == current.digest:
            return Decision.SKIP
    raise EpochMismatchError(
        f"the checkpoint is not the one that wrote epoch {marker.next_epoch - 1}: it is at epoch "
        f"{epoch}; {REBUILD}"
    )
