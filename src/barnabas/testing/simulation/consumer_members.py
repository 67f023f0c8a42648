"""Members of a simulated group with the consumer protocol (KIP-848)."""

from typing import ClassVar, Final

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest
from barnabas.testing.simulation.group_members import GroupMember
from barnabas.testing.simulation.scripted_client import Script, raise_error

_REBALANCE_TIMEOUT_MS: Final = 10_000
_LEAVE_EPOCH: Final = -1


class ConsumerMember(GroupMember):
    """A member whose heartbeats state what it owns; the coordinator assigns.

    It keeps its id when it is fenced, as Java's client does.
    """

    NOT_JOINED: ClassVar[int] = 0
    # A group is lost with the records of its coordinator. Java's client ends then, and its
    # application starts another.
    REJOINING: ClassVar[frozenset[ErrorCode]] = frozenset(
        {
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.FENCED_MEMBER_EPOCH,
            ErrorCode.GROUP_ID_NOT_FOUND,
        }
    )

    def take_part(self) -> Script:
        """Send a heartbeat."""
        if not self.member_id:
            self.member_id = f"member-{self.number}-{self.random.randrange(1 << 40)}"
        response = yield from self._heartbeat(self.epoch)
        self.epoch = response.member_epoch
        if response.assignment is not None:
            partitions = response.assignment.topic_partitions
            yield from self.take({number for each in partitions for number in each.partitions})

    def leave(self) -> Script:
        """Send the last heartbeat."""
        yield from self._heartbeat(_LEAVE_EPOCH)

    def _heartbeat(self, epoch: int) -> Script:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.ledger.name, member_id=self.member_id, member_epoch=epoch
        )
        if epoch >= 0:
            request.rebalance_timeout_ms = _REBALANCE_TIMEOUT_MS
            request.subscribed_topic_names = [self.ledger.topic]
            request.topic_partitions = self._stated()
        response = yield from self.call(request)
        raise_error(response.error_code)
        return response

    def _stated(self) -> list[ConsumerGroupHeartbeatRequest.TopicPartitions]:
        topic = self.known_image().topics_by_name.get(self.ledger.topic)
        if topic is None or not self.owned:
            return []
        stated = ConsumerGroupHeartbeatRequest.TopicPartitions
        return [stated(topic_id=topic.id, partitions=sorted(self.owned))]

    def fetch_group(
        self, topic: OffsetFetchRequest.OffsetFetchRequestTopics
    ) -> OffsetFetchRequest.OffsetFetchRequestGroup:
        """State the member and its epoch."""
        return OffsetFetchRequest.OffsetFetchRequestGroup(
            group_id=self.ledger.name,
            member_id=self.member_id,
            member_epoch=self.epoch,
            topics=[topic],
        )
