"""Changes of the ISR on their way to the controller (Kafka's `AlterPartitionManager`).

Leaders submit proposals; one request at a time carries them. A core without input or output:
`poll` returns the request to send, and the answer or the failure comes back as an event. Times are
in ms.
"""

from itertools import islice
from typing import Final, Protocol

import attrs

from barnabas.cluster.replication.isr_state import IsrState
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from barnabas.protocol.types import Uuid

RETRY_MS: Final = 50
PROPOSALS_PER_REQUEST_MAX: Final = 200
"""The controller decides a request in one step; other requests wait meanwhile."""

PartitionAnswer = AlterPartitionResponse.PartitionData

_Key = tuple[Uuid, int]


class IsrLeader(Protocol):
    """A partition that this broker leads."""

    topic_id: Uuid
    partition: int

    def is_proposed(self, proposal: "IsrProposal") -> bool:
        """True while the proposal is still the partition's pending change."""
        ...

    def on_isr_answer(self, proposal: "IsrProposal", answer: PartitionAnswer) -> bool:
        """Take the controller's answer; return True when the proposal must be sent again."""
        ...


@attrs.frozen(slots=True, eq=False)
class IsrProposal:
    """A new ISR for a partition, against the epochs that its leader knows.

    `broker_epochs` has the epoch of each follower that fetched with one (KIP-903).
    """

    leader: IsrLeader
    state: IsrState
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    broker_epochs: dict[int, int]


class IsrManager:
    """The proposals of one broker's leaders; at most one request is in flight."""

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id
        self._proposals: dict[_Key, IsrProposal] = {}
        self._in_flight: dict[_Key, IsrProposal] | None = None
        self._retry_at_ms: int | None = None

    def submit(self, proposal: IsrProposal) -> None:
        """Add a proposal, in place of an earlier one of the same partition."""
        leader = proposal.leader
        self._proposals[leader.topic_id, leader.partition] = proposal

    def wakeup_ms(self) -> int | None:
        """Return when to poll: 0 for at once, None while there is nothing to send."""
        if self._in_flight is not None or not self._proposals:
            return None
        return self._retry_at_ms or 0

    def poll(self, broker_epoch: int, now_ms: int) -> AlterPartitionRequest | None:
        """Return the request to send, which is then in flight; None when there is none."""
        wakeup_ms = self.wakeup_ms()
        if wakeup_ms is None or wakeup_ms > now_ms:
            return None
        self._retry_at_ms = None
        self._proposals = {
            key: proposal
            for key, proposal in self._proposals.items()
            if proposal.leader.is_proposed(proposal)
        }
        if not self._proposals:
            return None
        self._in_flight = dict(islice(self._proposals.items(), PROPOSALS_PER_REQUEST_MAX))
        topics: dict[Uuid, AlterPartitionRequest.TopicData] = {}
        for (topic_id, _), proposal in self._in_flight.items():
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = AlterPartitionRequest.TopicData(topic_id=topic_id)
            topic.partitions.append(self._encoded(proposal, broker_epoch))
        return AlterPartitionRequest(
            broker_id=self._broker_id, broker_epoch=broker_epoch, topics=list(topics.values())
        )

    def _encoded(
        self, proposal: IsrProposal, broker_epoch: int
    ) -> AlterPartitionRequest.PartitionData:
        """Return the proposal as the request has it.

        The leader of an uncleanly elected partition has recovered it by leading it, so its state
        is always RECOVERED (0).
        """
        epochs = {**proposal.broker_epochs, self._broker_id: broker_epoch}
        return AlterPartitionRequest.PartitionData(
            partition_index=proposal.leader.partition,
            leader_epoch=proposal.leader_epoch,
            partition_epoch=proposal.partition_epoch,
            new_isr_with_epochs=[
                AlterPartitionRequest.BrokerState(
                    broker_id=replica, broker_epoch=epochs.get(replica, -1)
                )
                for replica in proposal.isr
            ],
        )

    def on_failure(self, now_ms: int) -> None:
        """The request got no answer; its proposals are sent again, as the outcome is unknown."""
        self._in_flight = None
        self._retry_at_ms = now_ms + RETRY_MS

    def on_response(self, response: AlterPartitionResponse, now_ms: int) -> None:
        """Pass each partition its answer.

        After an error for the whole request, or without an answer, a proposal is sent again.
        """
        sent, self._in_flight = self._in_flight, None
        if sent is None:
            return
        if response.error_code != ErrorCode.NONE:
            self._retry_at_ms = now_ms + RETRY_MS
            return
        for topic in response.topics:
            for answer in topic.partitions:
                key = (topic.topic_id, answer.partition_index)
                proposal = sent.pop(key, None)
                if proposal is not None:
                    self._settle(key, proposal, answer, now_ms)
        if sent:
            self._retry_at_ms = now_ms + RETRY_MS

    def _settle(
        self, key: _Key, proposal: IsrProposal, answer: PartitionAnswer, now_ms: int
    ) -> None:
        # Removed before the answer is passed on, as the partition may propose the next change.
        if self._proposals.get(key) is proposal:
            del self._proposals[key]
        if proposal.leader.on_isr_answer(proposal, answer):
            self._proposals.setdefault(key, proposal)
            self._retry_at_ms = now_ms + RETRY_MS
