"""Members of a simulated group with the classic protocol; the leader among them assigns."""

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import ClassVar, Final

from barnabas.coordinator.groups.consumer.embedded_protocol import read_assignment
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest
from barnabas.protocol.messages.sync_group import SyncGroupRequest
from barnabas.testing.simulation.group_members import GroupLedger, GroupMember
from barnabas.testing.simulation.scripted_client import Script, raise_error
from barnabas.testing.simulation.sim_cluster import SimCluster

_SESSION_MS: Final = 6_000
_REBALANCE_TIMEOUT_MS: Final = 5_000
_PROTOCOL: Final = "range"
_TYPE: Final = "consumer"
_EMBEDDED_VERSION: Final = Struct(">h").pack(0)


class ClassicMember(GroupMember):
    """A member that joins and syncs; it owns nothing while it joins (eager)."""

    NOT_JOINED: ClassVar[int] = -1
    REJOINING: ClassVar[frozenset[ErrorCode]] = frozenset(
        {
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.REBALANCE_IN_PROGRESS,
            ErrorCode.FENCED_MEMBER_EPOCH,
        }
    )

    def __init__(self, cluster: SimCluster, number: int, ledger: GroupLedger) -> None:
        super().__init__(cluster, number, ledger)
        self._assigned: set[int] = set()

    def failed(self, error: ErrorCode) -> None:
        """Forget the id when the coordinator does not know it."""
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""

    def take_part(self) -> Script:
        """Join and sync, or send a heartbeat; then take what is assigned and not owned yet."""
        if self.epoch == self.NOT_JOINED:
            yield from self._join()
        else:
            yield from self._send_heartbeat()
        yield from self.take(self._assigned)

    def _send_heartbeat(self) -> Script:
        request = HeartbeatRequest(
            group_id=self.ledger.name, generation_id=self.epoch, member_id=self.member_id
        )
        response = yield from self.call(request)
        raise_error(response.error_code)

    def leave(self) -> Script:
        """Leave the group."""
        identity = LeaveGroupRequest.MemberIdentity(member_id=self.member_id)
        request = LeaveGroupRequest(group_id=self.ledger.name, members=[identity])
        response = yield from self.call(request)
        raise_error(response.error_code)

    def _join(self) -> Script:
        joined = yield from self.call(self._join_request())
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            joined = yield from self.call(self._join_request())
        raise_error(joined.error_code)
        self.member_id = joined.member_id
        synced = yield from self.call(self._sync_request(joined))
        raise_error(synced.error_code)
        self.epoch = joined.generation_id
        assignment = read_assignment(bytes(synced.assignment))
        partitions = assignment.assigned_partitions
        self._assigned = {number for each in partitions for number in each.partitions}

    def _join_request(self) -> JoinGroupRequest:
        subscription = ConsumerProtocolSubscription(topics=[self.ledger.topic])
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(
            name=_PROTOCOL, metadata=_EMBEDDED_VERSION + subscription.encode(0)
        )
        return JoinGroupRequest(
            group_id=self.ledger.name,
            session_timeout_ms=_SESSION_MS,
            rebalance_timeout_ms=_REBALANCE_TIMEOUT_MS,
            member_id=self.member_id,
            protocol_type=_TYPE,
            protocols=[protocol],
        )

    def _sync_request(self, joined: JoinGroupResponse) -> SyncGroupRequest:
        """Return the request of a follower, or of the leader with all assignments."""
        request = SyncGroupRequest
        members = [] if joined.skip_assignment else [each.member_id for each in joined.members]
        return request(
            group_id=self.ledger.name,
            generation_id=joined.generation_id,
            member_id=self.member_id,
            protocol_type=_TYPE,
            protocol_name=_PROTOCOL,
            assignments=[
                request.SyncGroupRequestAssignment(member_id=member, assignment=assignment)
                for member, assignment in self._assignments(members).items()
            ],
        )

    def _assignments(self, members: Sequence[str]) -> Mapping[str, bytes]:
        """Deal the partitions to the members in turn."""
        topic = self.known_image().topics_by_name.get(self.ledger.topic)
        numbers = () if topic is None else sorted(topic.partitions)
        found: dict[str, bytes] = {}
        for place, member in enumerate(sorted(members)):
            dealt = [n for n in numbers if n % len(members) == place]
            part = ConsumerProtocolAssignment.TopicPartition(
                topic=self.ledger.topic, partitions=dealt
            )
            assignment = ConsumerProtocolAssignment(assigned_partitions=[part])
            found[member] = _EMBEDDED_VERSION + assignment.encode(0)
        return found
