"""Members of a group in the simulation, with the consumer protocol (KIP-848).

G1  at the end, each partition has one owner
G2  a fetched offset is not below one that was acknowledged before
G3  a commit of a member that has lost a partition is not acknowledged
G5  the partitions of a dead member have another owner at the end
"""

from typing import Any, Final

import attrs

from barnabas.cluster.metadata.image import MetadataImage
from barnabas.coordinator.core.routing import partition_for
from barnabas.coordinator.groups.committed_offsets import FetchGroup
from barnabas.protocol.errors import ErrorCode, KafkaError, error_code
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest
from barnabas.server.coordinators.internal_topics import OFFSETS_TOPIC
from barnabas.testing.simulation.coordinator_calls import CoordinatorCall, FetchOffsets
from barnabas.testing.simulation.partition_invariants import PartitionInvariants
from barnabas.testing.simulation.quorum_invariants import require
from barnabas.testing.simulation.scripted_client import Script, ScriptedClient, Send, Sleep
from barnabas.testing.simulation.seed_options import SeedOptions
from barnabas.testing.simulation.sim_cluster import SimCluster
from barnabas.testing.simulation.topic_creation import TopicCreation, internal_topic

_CLIENT_ID: Final = 34_000
_MEMBER_NUMBER: Final = 50_000
_END_AFTER_MS: Final = 26_000
_HEARTBEAT_MS: Final = 300
_REBALANCE_TIMEOUT_MS: Final = 10_000
_LEAVE_EPOCH: Final = -1
_REJOINING: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})


@attrs.define(slots=True, eq=False)
class _Ownership:
    """The last acquisition of one partition, and the highest acknowledged offset."""

    member: int = -1
    acquired_us: int = 0
    acknowledged: int = -1


class GroupLedger:
    """The observations of the members of one group; it checks G2 and G3."""

    def __init__(self, topic: str, invariants: PartitionInvariants, cluster: SimCluster) -> None:
        self.topic = topic
        self.name = f"group of {topic}"
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
            require(offset >= known, "G2", f"{self.topic}-{partition}: {what}")
        owner.member, owner.acquired_us = member, self._cluster.world.now_us

    def committed(self, partition: int, member: int, offset: int, sent_us: int) -> None:
        """A commit was acknowledged."""
        owner = self.of(partition)
        is_stale = owner.member != member and owner.acquired_us < sent_us
        if not self._has_lost_records():
            what = f"commit of member {member} after {owner.member} owns it"
            require(not is_stale, "G3", f"{self.topic}-{partition}: {what}")
        owner.acknowledged = max(owner.acknowledged, offset)

    def _has_lost_records(self) -> bool:
        topic = self._cluster.newest_image().topics_by_name.get(OFFSETS_TOPIC)
        return topic is None or any(
            self._invariants.lost_batches(topic.id, number) for number in topic.partitions
        )


class GroupMember(ScriptedClient):
    """A member that commits ever higher offsets of the partitions that it owns."""

    def __init__(self, cluster: SimCluster, number: int, ledger: GroupLedger) -> None:
        super().__init__(cluster, number)
        self._ledger = ledger
        self._number = number
        self._member_id = ""
        self._epoch = 0
        self.is_over = False
        self.owned: dict[int, int] = {}
        self.commits = 0
        self.errors: dict[str, int] = {}

    def script(self) -> Script:
        """Stay in the group; join again when the coordinator does not know the member."""
        while not self.is_over:
            try:
                yield from self._take_part()
            except KafkaError as error:
                self.errors[error.code.name] = self.errors.get(error.code.name, 0) + 1
                if error.code in _REJOINING:
                    self._release()
            yield Sleep(_HEARTBEAT_MS)

    def _release(self) -> None:
        """Own nothing, and join again with the same id, as Java's client."""
        self._epoch = 0
        self.owned.clear()

    def _take_part(self) -> Script:
        if not self._member_id:
            self._member_id = f"member-{self._number}-{self.random.randrange(1 << 40)}"
        response = yield from self._heartbeat(self._epoch)
        self._epoch = response.member_epoch
        if response.assignment is not None:
            yield from self._follow(response.assignment)
        yield from self._commit()
        if not self.is_stopped and self.random.random() < 0.02:
            yield from self._end()

    def _end(self) -> Script:
        """Leave the group, or die silently; another process follows."""
        if self.random.random() < 0.5:
            yield from self._heartbeat(_LEAVE_EPOCH)
        self._release()
        self._member_id = ""

    def _heartbeat(self, epoch: int) -> Script:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._ledger.name, member_id=self._member_id, member_epoch=epoch
        )
        if epoch >= 0:
            request.rebalance_timeout_ms = _REBALANCE_TIMEOUT_MS
            request.subscribed_topic_names = [self._ledger.topic]
            request.topic_partitions = self._stated()
        response = yield from self._call(request)
        _check(response.error_code)
        return response

    def _stated(self) -> list[ConsumerGroupHeartbeatRequest.TopicPartitions]:
        topic = self._image().topics_by_name.get(self._ledger.topic)
        if topic is None or not self.owned:
            return []
        stated = ConsumerGroupHeartbeatRequest.TopicPartitions
        return [stated(topic_id=topic.id, partitions=sorted(self.owned))]

    def _follow(self, assignment: ConsumerGroupHeartbeatResponse.Assignment) -> Script:
        """Release what is not assigned, and fetch the offsets of what is new."""
        assigned = {number for each in assignment.topic_partitions for number in each.partitions}
        for number in [number for number in self.owned if number not in assigned]:
            del self.owned[number]
        for number in sorted(assigned - self.owned.keys()):
            known = self._ledger.of(number).acknowledged
            offset = yield from self._fetch(number)
            self.owned[number] = offset
            self._ledger.acquired(number, self._number, offset, known)

    def _fetch(self, number: int) -> Script:
        ledger = self._ledger
        topic = OffsetFetchRequest.OffsetFetchRequestTopics(
            name=ledger.topic, partition_indexes=[number]
        )
        fetched = yield from self._call(
            FetchOffsets(
                FetchGroup(
                    group_id=ledger.name,
                    member_id=self._member_id,
                    member_epoch=self._epoch,
                    topics=[topic],
                )
            )
        )
        _check(fetched.error_code)
        found = fetched.topics[0].partitions[0]
        _check(found.error_code)
        return found.committed_offset

    def _commit(self) -> Script:
        """Commit the next offset of each partition."""
        for number in sorted(self.owned):
            offset, sent_us = self.owned[number] + 1, self.process.world.now_us
            request = self._commit_request(number, offset)
            self.owned[number] = offset  # the commit may take effect without an answer
            response = yield from self._call(request)
            _check(response.topics[0].partitions[0].error_code)
            self._ledger.committed(number, self._number, offset, sent_us)
            self.commits += 1

    def _commit_request(self, number: int, offset: int) -> OffsetCommitRequest:
        topic = self._image().topics_by_name.get(self._ledger.topic)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        request = OffsetCommitRequest
        partition = request.OffsetCommitRequestPartition(
            partition_index=number, committed_offset=offset
        )
        named = request.OffsetCommitRequestTopic(
            name=self._ledger.topic, topic_id=topic.id, partitions=[partition]
        )
        return request(
            group_id=self._ledger.name,
            generation_id_or_member_epoch=self._epoch,
            member_id=self._member_id,
            topics=[named],
        )

    def _image(self) -> MetadataImage:
        image = self.image()
        if image is None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE)
        return image

    def _call(self, request: Any) -> Script:
        """Send a request to the coordinator of the group. Raises KafkaError."""
        topic = self._image().topics_by_name.get(OFFSETS_TOPIC)
        if topic is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        number = partition_for(self._ledger.name, len(topic.partitions))
        leader = topic.partitions[number].leader
        if leader < 0:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        response = yield Send(leader, CoordinatorCall(self._ledger.name, request))
        if isinstance(response, KafkaError):
            raise response
        return response


class GroupWorkload:
    """One group of several members that consumes one topic."""

    def __init__(
        self,
        cluster: SimCluster,
        topic: str,
        options: SeedOptions,
        invariants: PartitionInvariants,
    ) -> None:
        self._cluster = cluster
        self._options = options
        ledger = GroupLedger(topic, invariants, cluster)
        self.members = [
            GroupMember(cluster, _MEMBER_NUMBER + number, ledger)
            for number in range(options.members)
        ]

    def start(self) -> None:
        """Create the topic of offsets, then start the members."""
        topic = internal_topic(OFFSETS_TOPIC, self._options)
        TopicCreation(self._cluster, _CLIENT_ID, [topic], self._start_members)

    def _start_members(self) -> None:
        for member in self.members:
            member.start()

    def stop(self) -> None:
        """Let no member leave any longer, and none send anything at the end."""
        for member in self.members:
            member.stop()
        self._cluster.world.after(_END_AFTER_MS * 1000, self._end_members)

    def _end_members(self) -> None:
        for member in self.members:
            member.is_over = True

    def check_end(self) -> None:
        """Check G1."""
        owned = sorted(number for member in self.members for number in member.owned)
        errors = [member.errors for member in self.members]
        count = self._options.partitions
        what = f"the members own {owned}, of {count} partitions: {errors}"
        require(owned == list(range(count)), "G1", what)


def _check(code: int) -> None:
    """Raise KafkaError for an error code."""
    if code:
        raise KafkaError(error_code(code))
