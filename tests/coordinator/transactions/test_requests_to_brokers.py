"""Markers and verifications in requests to other brokers, compared with plain references."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.coordinator.transactions.marker_requests import (
    MarkerQueues,
    QueuedMarkers,
    marker_request,
    outcomes_of,
)
from barnabas.coordinator.transactions.pending_markers import SendMarkers
from barnabas.coordinator.transactions.verification_batches import (
    Verification,
    VerificationBatch,
    outcomes_of_verification,
    verification_request,
)
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from barnabas.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

PARTITIONS = st.sets(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 3)), min_size=1)


def markers_of(producer_id: int, partitions: Sequence[tuple[str, int]]) -> QueuedMarkers[str]:
    sent = SendMarkers("x", producer_id, 3, True, 2, frozenset(partitions))
    return QueuedMarkers("owner", 9, sent, tuple(partitions))


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 4)), max_size=20))
def test_queues_give_every_entry_once_and_a_request_each_producer_once(
    added: list[tuple[int, int]],
) -> None:
    queues: MarkerQueues[str] = MarkerQueues()
    entries = {(broker, n): markers_of(pid, [("t", n)]) for n, (broker, pid) in enumerate(added)}
    for (broker, _), entry in entries.items():
        queues.add(broker, entry)
    for broker in (1, 2, 3):
        taken: list[QueuedMarkers[str]] = []
        while request := queues.take(broker):
            producers = [entry.markers.producer_id for entry in request]
            assert len(set(producers)) == len(producers)
            taken += request
        expected = [entry for (to, _), entry in entries.items() if to == broker]
        assert sorted(taken, key=expected.index) == expected
        by_producer = [[e for e in taken if e.markers.producer_id == p] for p in range(5)]
        assert by_producer == [
            [e for e in expected if e.markers.producer_id == p] for p in range(5)
        ]
        assert not queues.take(broker)


def test_unreachable_markers_are_taken_once() -> None:
    queues: MarkerQueues[str] = MarkerQueues()
    queues.add_unreachable(markers_of(1, [("t", 0)]))
    assert queues.take_unreachable() == [markers_of(1, [("t", 0)])]
    assert queues.take_unreachable() == []


@given(st.dictionaries(st.integers(0, 5), PARTITIONS, min_size=1), st.data())
def test_marker_outcomes_are_those_of_the_response(
    wanted: dict[int, set[tuple[str, int]]], data: st.DataObject
) -> None:
    entries = [markers_of(pid, sorted(partitions)) for pid, partitions in wanted.items()]
    request = WriteTxnMarkersRequest.decode(marker_request(entries).encode(2), 2)
    codes = st.sampled_from([0, 3, 6, 7, 19, 20, 47, 56])
    told: dict[tuple[int, str, int], int] = {}
    result = WriteTxnMarkersResponse.WritableTxnMarkerResult
    topic_result = WriteTxnMarkersResponse.WritableTxnMarkerTopicResult
    partition_result = WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult
    response = WriteTxnMarkersResponse()
    for marker in request.markers:
        assert (marker.coordinator_epoch, marker.transaction_result) == (9, True)
        assert (marker.producer_epoch, marker.transaction_version) == (3, 2)
        topics: list[WriteTxnMarkersResponse.WritableTxnMarkerTopicResult] = []
        for topic in marker.topics:
            for index in topic.partition_indexes:
                told[marker.producer_id, topic.name, index] = data.draw(codes)
            answers = [
                partition_result(
                    partition_index=index, error_code=told[marker.producer_id, topic.name, index]
                )
                for index in topic.partition_indexes
            ]
            topics.append(topic_result(name=topic.name, partitions=answers))
        response.markers.insert(0, result(producer_id=marker.producer_id, topics=topics))
    for entry in entries:
        pid = entry.markers.producer_id
        assert outcomes_of(entry, response) == {
            (topic, index): ErrorCode(told[pid, topic, index]) for topic, index in entry.partitions
        }
        missing = dict.fromkeys(entry.partitions, ErrorCode.UNKNOWN_SERVER_ERROR)
        assert outcomes_of(entry, WriteTxnMarkersResponse()) == missing


# Verification


def verification(
    name: str, epoch: int = 0, token: int = 0, *, adds: bool = False
) -> Verification[int]:
    return Verification(token, name, 7, epoch, (("t", 0), ("t", 2), ("u", 1)), adds)


@pytest.mark.parametrize(
    ("epochs", "ended", "code"),
    [
        ((1, 2), 0, ErrorCode.INVALID_PRODUCER_EPOCH),
        ((2, 1), 1, ErrorCode.INVALID_PRODUCER_EPOCH),
        ((1, 1), 0, ErrorCode.NETWORK_EXCEPTION),
    ],
)
def test_batch_keeps_one_verification_of_a_transactional_id(
    epochs: tuple[int, int], ended: int, code: ErrorCode
) -> None:
    batch: VerificationBatch[int] = VerificationBatch()
    both = [verification("x", epoch, token) for token, epoch in enumerate(epochs)]
    assert batch.add(verification("y")) is None
    assert batch.add(both[0]) is None
    assert batch.add(both[1]) == (both[ended], code)
    taken = batch.take()
    assert {each.transactional_id for each in taken} == {"x", "y"}
    assert both[1 - ended] in taken
    assert not batch


def test_verification_request_names_partitions_by_topic() -> None:
    sent = verification_request([verification("x"), verification("y", adds=True)])
    request = AddPartitionsToTxnRequest.decode(sent.encode(5), 5)
    assert [(t.transactional_id, t.verify_only) for t in request.transactions] == [
        ("x", True),
        ("y", False),
    ]
    (first, _) = request.transactions
    assert [(t.name, t.partitions) for t in first.topics] == [("t", [0, 2]), ("u", [1])]


@pytest.mark.parametrize(
    ("common", "code"),
    [
        (0, ErrorCode.INVALID_TXN_STATE),
        (31, ErrorCode.INVALID_TXN_STATE),  # CLUSTER_AUTHORIZATION_FAILED
        (14, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (9999, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_verification_without_an_answer_is_never_a_success(common: int, code: ErrorCode) -> None:
    response = AddPartitionsToTxnResponse(error_code=common)
    outcomes = outcomes_of_verification(verification("x"), response)
    assert outcomes == dict.fromkeys(verification("x").partitions, code)


def test_verification_outcomes_are_those_of_its_transactional_id() -> None:
    result = AddPartitionsToTxnResponse.AddPartitionsToTxnResult
    topic = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
    partition = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult

    def answer(name: str, code: int) -> AddPartitionsToTxnResponse.AddPartitionsToTxnResult:
        found = [partition(partition_index=i, partition_error_code=code) for i in (0, 2)]
        return result(
            transactional_id=name, topic_results=[topic(name="t", results_by_partition=found)]
        )

    response = AddPartitionsToTxnResponse(
        results_by_transaction=[answer("y", 48), answer("x", 0), answer("z", 90)]
    )
    assert outcomes_of_verification(verification("x"), response) == {
        ("t", 0): ErrorCode.NONE,
        ("t", 2): ErrorCode.NONE,
        ("u", 1): ErrorCode.INVALID_TXN_STATE,
    }
