"""The values of a flow that its tasks use, and what they return: plain, for Spark to pickle."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from barnabas.client.client_config import ClientConfig
from barnabas.pipeline.mirror.mirrormaker.offset_translation import SyncPoint
from barnabas.pipeline.mirror.mirrormaker.replication_policies import ReplicationPolicy

Partition: TypeAlias = tuple[str, int]

NO_EPOCH: Final = -1
"""The leader epoch of a batch that is not known."""

COPY_LIMIT_S: Final = 5.0
COPY_BYTES_MAX: Final = 256 << 20


@attrs.frozen
class FlowPlan:
    """A flow as its tasks know it."""

    flow: str
    source: ClientConfig = attrs.field(repr=False)
    target: ClientConfig = attrs.field(repr=False)
    group_id: str
    """The group at the target whose offsets are the flow's positions in the source."""
    transactional_id: str
    """The prefix of transactional ids; a task appends topic and partition, the driver `tail`."""
    is_identical: bool
    """True when batches keep their offsets, so that the target's log ends are the positions."""
    topic_ids: Mapping[str, str] = attrs.field(factory=dict[str, str])
    """Ids of the source topics."""
    source_cluster_id: str = ""
    skips_trimmed: bool = False
    """True when a copy continues after offsets that the source's retention deleted."""
    transaction_timeout_ms: int = 60_000
    sync_step: int = 0
    """Records from one offset sync to the next; 0 for no offset syncs."""
    policy: ReplicationPolicy | None = None
    """The names of topics at the target; None when they keep their names."""
    limit_s: float = COPY_LIMIT_S
    """A copy stops fetching after this time."""
    bytes_max: int = COPY_BYTES_MAX
    """A copy stops fetching after this number of bytes."""

    def transactional_id_of(self, where: Partition) -> str:
        """Return the transactional id of the copies of a partition of the source."""
        return f"{self.transactional_id}:{where[0]}-{where[1]}"

    @property
    def tail_transactional_id(self) -> str:
        """Return the transactional id of the copies of the driver; none of a partition ends so."""
        return f"{self.transactional_id}:tail"

    def at_target(self, where: Partition) -> Partition:
        """Return a partition of the source as the target has it."""
        topic, number = where
        return where if self.policy is None else (self.policy.remote_topic(topic), number)


@attrs.frozen
class FlowRange:
    """Offsets of one partition of the source that a task shall copy."""

    topic: str
    partition: int
    start: int
    """Where the driver believes the flow to be; the target knows."""
    until: int
    """The end of the source, where a batch ends."""
    leader_epoch: int = NO_EPOCH
    """The source's leader epoch of the batch that ends at `start`."""

    @property
    def is_empty(self) -> bool:
        """True when only the position is committed again, so that it does not expire."""
        return self.start >= self.until

    @property
    def where(self) -> Partition:
        """Return the partition."""
        return self.topic, self.partition


@attrs.define
class CopyFigures:
    """The work of one copy."""

    topic: str
    partition: int
    position: int
    """The source's offset after the last batch that was copied or left out."""
    records: int = 0
    batches: int = 0
    bytes: int = 0
    skipped: int = 0
    """Offsets that an earlier copy had done."""
    trimmed: int = 0
    """Offsets that the source's retention had deleted."""
    transactions: int = 0
    leader_epoch: int = NO_EPOCH
    """The source's leader epoch of the batch that ends at `position`."""
    attempts: int = 0
    newest_ms: int | None = None
    """The largest timestamp of the last batch, in ms since 1970."""
    syncs: Sequence[SyncPoint] = ()
    """Offsets of some records at both clusters, in order."""

    @property
    def where(self) -> Partition:
        """Return the partition."""
        return self.topic, self.partition
