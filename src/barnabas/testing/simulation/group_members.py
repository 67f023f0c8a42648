"""Members of groups in the simulation: the observations of all, and the life of one.

G1  at the end, each partition has one owner
G2  a fetched offset is not below one that was acknowledged before
G3  a commit of a member that has lost a partition is not acknowledged
G5  the partitions of a dead member have another owner at the end
"""

from typing import ClassVar, Final

import attrs

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest
from barnabas.protocol.messages_base import Message
from barnabas.server.coordinators.internal_topics import OFFSETS_TOPIC
from barnabas.testing.simulation.partition_invariants import PartitionInvariants
from barnabas.testing.simulation.quorum_invariants import require
from barnabas.testing.simulation.scripted_client import (
    Script,
    ScriptedClient,
    Sleep,
    raise_error,
)
from barnabas.testing.simulation.sim_cluster import SimCluster

_PAUSE_MS: Final = 300
_END_CHANCE: Final = 0.02


@attrs.define(slots=True, eq=False)
class _Ownership:
    """The last acquisition of one partition, and the highest acknowledged offset."""

    member: int = -1
    acquired_us: int = 0
    acknowledged: int = -1


class GroupLedger:
    """The observations of the members of one group; it checks G2 and G3."""

    def __init__(
        self, name: str, topic: str, invariants: PartitionInvariants, cluster: SimCluster
    ) -> None:
        self.name = name
        self.topic = topic
        self._invariants = invariants
        self._cluster = cluster
        self._owners: dict[int, _Ownership] = {}

    def of(self, partition: int) -> _Ownership:
        """Return the observations of a partition."""
        return self._owners.setdefault(partition, _Ownership())

    def acquired(self, partition: int, member: int, offset: int, known: int) -> None:
        """A member owns a partition; `known` was acknowledged before it fetched the offset."""
        owner = self.of(partition)
        if not self._has_lost_records():
            what = f"member {member} fetched {offset}, {known} was acknowledged"
            require(offset >= known, "G2", f"{self.name}, {partition}: {what}")
        owner.member, owner.acquired_us = member, self._cluster.world.now_us

    def committed(self, partition: int, member: int, offset: int, sent_us: int) -> None:
        """A commit was acknowledged."""
        owner = self.of(partition)
        is_stale = owner.member != member and owner.acquired_us < sent_us
        if not self._has_lost_records():
            what = f"commit of member {member} after {owner.member} owns it"
            require(not is_stale, "G3", f"{self.name}, {partition}: {what}")
        owner.acknowledged = max(owner.acknowledged, offset)

    def _has_lost_records(self) -> bool:
        topic = self._cluster.newest_image().topics_by_name.get(OFFSETS_TOPIC)
        return topic is None or any(
            self._invariants.lost_batches(topic.id, number) for number in topic.partitions
        )


class GroupMember(ScriptedClient):
    """A member that commits ever higher offsets of the partitions that it owns.

    `epoch` is its member epoch, or its generation. After the errors `REJOINING` it owns nothing,
    and joins again.
    """

    NOT_JOINED: ClassVar[int]
    REJOINING: ClassVar[frozenset[ErrorCode]]

    def __init__(self, cluster: SimCluster, number: int, ledger: GroupLedger) -> None:
        super().__init__(cluster, number)
        self.ledger = ledger
        self.number = number
        self.member_id = ""
        self.epoch = self.NOT_JOINED
        self.is_over = False
        self.owned: dict[int, int] = {}
        self.commits = 0
        self.errors: dict[str, int] = {}

    def script(self) -> Script:
        """Stay in the group; at times leave it, or die silently, and come as another process."""
        while not self.is_over:
            try:
                yield from self.take_part()
                yield from self._commit()
                if not self.is_stopped and self.random.random() < _END_CHANCE:
                    yield from self._end()
            except KafkaError as error:
                self.errors[error.code.name] = self.errors.get(error.code.name, 0) + 1
                if error.code in self.REJOINING:
                    self.release()
                    self.failed(error.code)
            yield Sleep(_PAUSE_MS)

    def take_part(self) -> Script:
        """Join, or stay in the group, and take the partitions that are assigned."""
        raise NotImplementedError

    def leave(self) -> Script:
        """Leave the group."""
        raise NotImplementedError

    def failed(self, error: ErrorCode) -> None:
        """Take note of an error after which the member joins again."""

    def release(self) -> None:
        """Own nothing, and join again."""
        self.epoch = self.NOT_JOINED
        self.owned.clear()

    def _end(self) -> Script:
        if self.random.random() < 0.5:
            yield from self.leave()
        self.release()
        self.member_id = ""

    def take(self, assigned: set[int]) -> Script:
        """Release what is not assigned, and fetch the offsets of what is new."""
        for number in [number for number in self.owned if number not in assigned]:
            del self.owned[number]
        for number in sorted(assigned - self.owned.keys()):
            known = self.ledger.of(number).acknowledged
            offset = yield from self._fetch(number)
            self.owned[number] = offset
            self.ledger.acquired(number, self.number, offset, known)

    def fetch_group(
        self, topic: OffsetFetchRequest.OffsetFetchRequestTopics
    ) -> OffsetFetchRequest.OffsetFetchRequestGroup:
        """Return the group and the topic whose offsets the member fetches."""
        return OffsetFetchRequest.OffsetFetchRequestGroup(group_id=self.ledger.name, topics=[topic])

    def _fetch(self, number: int) -> Script:
        topic = OffsetFetchRequest.OffsetFetchRequestTopics(
            name=self.ledger.topic,
            topic_id=self.known_topic(self.ledger.topic).id,
            partition_indexes=[number],
        )
        request = OffsetFetchRequest(groups=[self.fetch_group(topic)], require_stable=True)
        response = yield from self.call(request)
        fetched = response.groups[0]
        raise_error(fetched.error_code)
        found = fetched.topics[0].partitions[0]
        raise_error(found.error_code)
        return found.committed_offset

    def _commit(self) -> Script:
        """Commit the next offset of each partition."""
        for number in sorted(self.owned):
            offset, sent_us = self.owned[number] + 1, self.process.world.now_us
            request = self._commit_request(number, offset)
            self.owned[number] = offset  # the commit may take effect without an answer
            response = yield from self.call(request)
            raise_error(response.topics[0].partitions[0].error_code)
            self.ledger.committed(number, self.number, offset, sent_us)
            self.commits += 1

    def _commit_request(self, number: int, offset: int) -> OffsetCommitRequest:
        request = OffsetCommitRequest
        partition = request.OffsetCommitRequestPartition(
            partition_index=number, committed_offset=offset
        )
        named = request.OffsetCommitRequestTopic(
            name=self.ledger.topic,
            topic_id=self.known_topic(self.ledger.topic).id,
            partitions=[partition],
        )
        return request(
            group_id=self.ledger.name,
            generation_id_or_member_epoch=self.epoch,
            member_id=self.member_id,
            topics=[named],
        )

    def call(self, request: Message) -> Script:
        """Send a request to the coordinator of the group. Raises KafkaError without a response."""
        response = yield from self.call_coordinator(self.ledger.name, request)
        return response
