"""Rare states that the simulations must reach: a counter of each, and how they are recognized.

A simulation that never reaches a state proves nothing about it. So each world counts the states of
`RareState` when they occur: `world.rare.reached(RareState.SPLIT_VOTE)`. The tests require each of
them (tests/simulation/test_rare_states.py).
"""

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from barnabas.cluster.metadata.delta import MetadataDelta
from barnabas.cluster.metadata.image import NO_LEADER, PartitionImage
from barnabas.protocol.errors import ErrorCode, KafkaError, error_code
from barnabas.protocol.messages.alter_partition import AlterPartitionResponse
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.messages.list_offsets import ListOffsetsResponse
from barnabas.protocol.messages.produce import ProduceResponse
from barnabas.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from barnabas.protocol.types import Uuid

LeaderEpochs = Callable[[tuple[Uuid, int]], int]
"""Returns the leader epoch in which a partition is followed."""

_RECOVERING: Final = 1


class RareState(enum.Enum):
    """The states, named for the table that the test prints."""

    DIVERGING_TRUNCATION = "a follower truncates records that its leader does not have"
    TWO_STEP_TRUNCATION = "a follower truncates twice before its log matches the leader's"
    RECORD_LIST_TOO_LARGE = "error 18 answered"
    NOT_ENOUGH_REPLICAS = "error 19 answered"
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = "error 20 answered"
    FENCED_LEADER_EPOCH = "error 74 answered"
    UNKNOWN_LEADER_EPOCH = "error 75 answered"
    OFFSET_NOT_AVAILABLE = "error 78 answered"
    INELIGIBLE_REPLICA = "error 107 answered"
    NEW_LEADER_ELECTED = "error 108 answered"
    SNAPSHOT_FETCHED = "a replica of the quorum fetched a snapshot"
    LEADER_REMOVED_ITSELF = "the quorum's leader removed itself from the voters"
    ELR_ELECTED = "an eligible leader replica is elected"
    LAST_KNOWN_LEADER_ELECTED = "the last known leader is elected, outside of ISR and ELR"
    UNCLEAN_ELECTED = "a replica is elected that may lack committed records"
    REASSIGNMENT_CANCELLED = "a reassignment is cancelled"
    DIRECTORY_FAILED_WHILE_LEADING = "the log directory of a partition's leader failed"
    SPLIT_VOTE = "an election of the quorum without a winner, with several candidates"
    PENDING_ISR_ACROSS_CONTROLLERS = "a change of an ISR is pending while the controller changes"
    DUPLICATE_APPEND_SUPPRESSED = "a batch that was appended before is not appended again"
    MARKER_RETRIED_ELSEWHERE = "a transaction marker is sent again, to another leader"
    LOG_RESTARTED = "a follower begins again at its leader's log start, which is above its log end"
    REPLICA_THROTTLED = "a follower leaves a throttled partition out of its fetches"
    VOTER_WITHOUT_PRE_VOTES = "a pre-vote cannot be sent to a voter of an older version"


_OF_ERROR: Final = {
    ErrorCode[state.name]: state for state in RareState if state.name in ErrorCode.__members__
}


class RareStates:
    """The number of times that each state was reached."""

    def __init__(self) -> None:
        self.counts: Counter[RareState] = Counter()
        self._sent_markers: dict[tuple[int, str, int], int] = {}

    def reached(self, state: RareState) -> None:
        """Count a state."""
        self.counts[state] += 1

    def answered(self, response: Any) -> None:
        """Count the errors of a response that leaves a node."""
        for code in _errors(response):
            state = _OF_ERROR.get(error_code(code))
            if state is not None:
                self.reached(state)

    def markers_sent(self, broker_id: int, request: WriteTxnMarkersRequest) -> None:
        """Count the markers that were sent to another broker before, which has not written them."""
        for marker in request.markers:
            for topic in marker.topics:
                for number in topic.partition_indexes:
                    key = marker.producer_id, topic.name, number
                    if self._sent_markers.setdefault(key, broker_id) != broker_id:
                        self._sent_markers[key] = broker_id
                        self.reached(RareState.MARKER_RETRIED_ELSEWHERE)

    def markers_written(self, response: WriteTxnMarkersResponse) -> None:
        """Forget the markers that are written."""
        for marker in response.markers:
            for topic in marker.topics:
                for answer in topic.partitions:
                    if not answer.error_code:
                        key = marker.producer_id, topic.name, answer.partition_index
                        self._sent_markers.pop(key, None)

    def committed(self, delta: MetadataDelta) -> None:
        """Count what the records of a committed batch changed."""
        for topic in delta.topics.values():
            for number, after in topic.changed.items():
                before = topic.before.get(number)
                if before is not None:
                    for state in changes_of(before, after):
                        self.reached(state)


def changes_of(before: PartitionImage, after: PartitionImage) -> Iterator[RareState]:
    """Yield the rare states that a change of a partition shows."""
    added, removed = {*before.adding_replicas}, {*before.replicas} - {*after.replicas}
    if added and not after.adding_replicas and added & removed:
        yield RareState.REASSIGNMENT_CANCELLED
    leader = after.leader
    if leader in (before.leader, NO_LEADER) or leader in before.isr:
        return
    if leader in before.elr:
        yield RareState.ELR_ELECTED
    elif (leader,) == before.last_known_elr and after.leader_recovery_state == _RECOVERING:
        yield RareState.LAST_KNOWN_LEADER_ELECTED
    elif after.leader_recovery_state == _RECOVERING:
        yield RareState.UNCLEAN_ELECTED


class Divergences:
    """Counts the truncations of one follower from the answers of its leader."""

    def __init__(self, rare: RareStates) -> None:
        self._rare = rare
        self._last: dict[tuple[Uuid, int], int] = {}

    def answered(self, response: FetchResponse, leader_epochs: LeaderEpochs) -> None:
        """Count the partitions whose logs diverge; the follower will truncate them."""
        for topic in response.responses:
            for answer in topic.partitions:
                key = topic.topic_id, answer.partition_index
                before = self._last.pop(key, None)
                if answer.diverging_epoch.epoch >= 0:
                    self._rare.reached(RareState.DIVERGING_TRUNCATION)
                    epoch = leader_epochs(key)
                    if before == epoch:
                        self._rare.reached(RareState.TWO_STEP_TRUNCATION)
                    self._last[key] = epoch


def _errors(response: Any) -> Iterator[int]:
    match response:
        case FetchResponse():
            yield response.error_code
            yield from _partition_errors(response.responses)
        case AlterPartitionResponse():
            yield response.error_code
            yield from _partition_errors(response.topics)
        case ListOffsetsResponse():
            yield from _partition_errors(response.topics)
        case ProduceResponse():
            for topic in response.responses:
                yield from (answer.error_code for answer in topic.partition_responses)
        case KafkaError():
            yield response.code
        case _:
            yield getattr(response, "error", ErrorCode.NONE)


def _partition_errors(topics: Iterable[Any]) -> Iterator[int]:
    return (partition.error_code for topic in topics for partition in topic.partitions)
