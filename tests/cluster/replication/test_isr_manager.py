"""Requests of the ISR manager: one at a time, with what is pending."""

import attrs
import pytest

from barnabas.cluster.replication import isr_manager
from barnabas.cluster.replication.isr_manager import (
    RETRY_MS,
    IsrManager,
    IsrProposal,
    PartitionAnswer,
)
from barnabas.cluster.replication.isr_state import IsrState
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from barnabas.protocol.types import Uuid

TOPIC = Uuid(b"\x01" * 16)
EPOCH = 77


@attrs.define(eq=False)
class Leader:
    """A partition that notes its answers."""

    partition: int
    topic_id: Uuid = TOPIC
    answers: list[int] = attrs.Factory(list)
    retry: bool = False
    is_open: bool = True

    def is_proposed(self, proposal: IsrProposal) -> bool:
        return self.is_open

    def on_isr_answer(self, proposal: IsrProposal, answer: PartitionAnswer) -> bool:
        self.answers.append(answer.error_code)
        return self.retry


def proposal(leader: Leader) -> IsrProposal:
    return IsrProposal(leader, IsrState.of((1,)).expanded(2), 5, 6, (1, 2), {2: 20})


def response(*partitions: int, error: ErrorCode = ErrorCode.NONE) -> AlterPartitionResponse:
    answers = [PartitionAnswer(partition_index=number) for number in partitions]
    return AlterPartitionResponse(
        error_code=error,
        topics=[AlterPartitionResponse.TopicData(topic_id=TOPIC, partitions=answers)],
    )


def asked(request: AlterPartitionRequest | None) -> list[int]:
    assert request is not None
    return [each.partition_index for topic in request.topics for each in topic.partitions]


def test_many_proposals_are_sent_in_several_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isr_manager, "PROPOSALS_PER_REQUEST_MAX", 2)
    manager = IsrManager(1)
    leaders = [Leader(number) for number in range(5)]
    for leader in leaders:
        manager.submit(proposal(leader))
    for numbers in ([0, 1], [2, 3], [4]):
        assert manager.wakeup_ms() == 0
        assert asked(manager.poll(EPOCH, 100)) == numbers
        manager.on_response(response(*numbers), 100)
    assert manager.wakeup_ms() is None
    assert [leader.answers for leader in leaders] == [[0]] * 5


def test_request_has_the_proposal_and_the_epochs_of_the_brokers() -> None:
    manager = IsrManager(1)
    manager.submit(proposal(Leader(3)))
    request = manager.poll(EPOCH, 0)
    assert request is not None
    assert (request.broker_id, request.broker_epoch) == (1, EPOCH)
    (data,) = request.topics[0].partitions
    assert (data.partition_index, data.leader_epoch, data.partition_epoch) == (3, 5, 6)
    assert [(each.broker_id, each.broker_epoch) for each in data.new_isr_with_epochs] == [
        (1, EPOCH),
        (2, 20),
    ]


def test_isr_manager_sends_one_request_at_a_time_with_all_that_is_pending() -> None:
    manager, leaders = IsrManager(1), [Leader(number) for number in range(3)]
    manager.submit(proposal(leaders[0]))
    assert asked(manager.poll(EPOCH, 0)) == [0]
    manager.submit(proposal(leaders[1]))
    manager.submit(proposal(leaders[2]))
    assert manager.wakeup_ms() is None
    assert manager.poll(EPOCH, 0) is None
    manager.on_response(response(0), 0)
    assert asked(manager.poll(EPOCH, 0)) == [1, 2]
    assert leaders[0].answers == [0]


def test_request_without_an_answer_is_sent_again_later() -> None:
    manager = IsrManager(1)
    manager.submit(proposal(Leader(0)))
    manager.poll(EPOCH, 0)
    manager.on_failure(10)
    assert manager.wakeup_ms() == 10 + RETRY_MS
    assert manager.poll(EPOCH, 10) is None
    assert asked(manager.poll(EPOCH + 1, 10 + RETRY_MS)) == [0]


def test_error_of_the_request_leaves_its_proposals_pending() -> None:
    manager, leader = IsrManager(1), Leader(0)
    manager.submit(proposal(leader))
    manager.poll(EPOCH, 0)
    manager.on_response(response(error=ErrorCode.STALE_BROKER_EPOCH), 0)
    assert leader.answers == []
    assert asked(manager.poll(EPOCH, RETRY_MS)) == [0]


def test_proposal_missing_in_the_response_is_sent_again() -> None:
    manager, leaders = IsrManager(1), [Leader(number) for number in range(2)]
    for leader in leaders:
        manager.submit(proposal(leader))
    manager.poll(EPOCH, 0)
    manager.on_response(response(1), 0)
    assert (leaders[0].answers, leaders[1].answers) == ([], [0])
    assert asked(manager.poll(EPOCH, RETRY_MS)) == [0]


def test_proposal_to_retry_is_sent_again_later() -> None:
    manager, leader = IsrManager(1), Leader(0, retry=True)
    manager.submit(proposal(leader))
    manager.poll(EPOCH, 0)
    manager.on_response(response(0), 0)
    assert manager.poll(EPOCH, 0) is None
    assert asked(manager.poll(EPOCH, RETRY_MS)) == [0]


def test_proposal_that_the_metadata_overtook_is_not_sent() -> None:
    manager, leader = IsrManager(1), Leader(0)
    manager.submit(proposal(leader))
    leader.is_open = False
    assert manager.poll(EPOCH, 0) is None
    assert manager.wakeup_ms() is None


def test_proposal_made_while_an_older_one_is_in_flight_follows_it() -> None:
    manager, leader = IsrManager(1), Leader(0)
    manager.submit(proposal(leader))
    manager.poll(EPOCH, 0)
    manager.submit(attrs.evolve(proposal(leader), partition_epoch=9))
    manager.on_response(response(0), 0)
    request = manager.poll(EPOCH, 0)
    assert request is not None
    assert request.topics[0].partitions[0].partition_epoch == 9
