"""Answers to a producer whose transaction timed out: equal on barnabas and Apache Kafka.

The coordinator has aborted the transaction and taken the next epoch. Each row was measured with
Apache Kafka 4.3.0.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.testing.eventually import wait_until
from barnabas.testing.known_brokers import wait_until_topic_known
from compat_tests import wire
from compat_tests.cluster.transactions_in_flight import TOPIC, Requests

pytestmark = pytest.mark.timeout(240)

FIRST, SECOND = 3, 5
"""Versions of AddPartitionsToTxn: of a client of the first protocol, and of the second."""
TIMEOUT_MS = 1000
CONFIG = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}

NONE, FENCED, OLD = "NONE", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"
INVALID, ABORT = "INVALID_TXN_STATE", "TRANSACTION_ABORTABLE"

Ask = Callable[[Requests], str]

# request -> its error after a transaction of the first protocol, and after one of the second.
ROWS: tuple[tuple[str, Ask, tuple[str, str]], ...] = (
    ("EndTxn v4 commit", lambda r: r.end(r.producer, 4, commit=True), (FENCED, FENCED)),
    ("EndTxn v4 abort", lambda r: r.end(r.producer, 4, commit=False), (FENCED, FENCED)),
    ("EndTxn v5 commit", lambda r: r.end(r.producer, 5, commit=True), (INVALID, INVALID)),
    ("EndTxn v5 abort", lambda r: r.end(r.producer, 5, commit=False), (NONE, NONE)),
    ("InitProducerId v5", lambda r: r.init(r.producer), (NONE, NONE)),
    ("AddPartitionsToTxn v3", lambda r: r.add(r.producer, 3), (FENCED, FENCED)),
    ("AddPartitionsToTxn v5", lambda r: r.add(r.producer, 5), (FENCED, FENCED)),
    ("verification", lambda r: r.add(r.producer, 5, verify=True), (FENCED, FENCED)),
    ("AddOffsetsToTxn v4", lambda r: r.add_offsets(r.producer), (FENCED, FENCED)),
    ("TxnOffsetCommit v3", lambda r: r.commit_offsets(r.producer, 3), (OLD, OLD)),
    ("TxnOffsetCommit v4", lambda r: r.commit_offsets(r.producer, 4), (OLD, OLD)),
    ("TxnOffsetCommit v5", lambda r: r.commit_offsets(r.producer, 5), (OLD, OLD)),
    ("Produce v10", lambda r: r.produce(r.producer, 10), (OLD, OLD)),
    ("Produce v11", lambda r: r.produce(r.producer, 11), (OLD, OLD)),
    ("Produce v12", lambda r: r.produce(r.producer, 12), (OLD, OLD)),
)
NAMES = [name for name, _, _ in ROWS]
RECOVERIES: dict[str, Callable[[Requests], Any]] = {
    "EndTxn": lambda r: r.ended(r.producer, 5, commit=False),
    "InitProducerId": lambda r: r.start(r.producer),
}


@pytest.fixture(scope="module")
def address(start_server) -> str:
    server = start_server(CONFIG)
    topic = CreateTopicsRequest.CreatableTopic(name=TOPIC, num_partitions=2, replication_factor=1)
    wire.call(server.bootstrap, CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)
    wait_until_topic_known([server.bootstrap], TOPIC)
    for kind in (0, 1):
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=["x"])
        wire.retry(server.bootstrap, request, 4, lambda each: not each.coordinators[0].error_code)
    return server.bootstrap


def is_aborted(requests: Requests) -> bool:
    return requests.state()[0] == "CompleteAbort"


@pytest.fixture(scope="module")
def timed_out(address: str) -> Iterator[dict[tuple[str, int], Requests]]:
    """One transactional id for each row and protocol; all their transactions have timed out."""
    with wire.Connection(address) as connection:
        found = {
            (name, version): Requests(connection, f"{name} {version}", "group", TIMEOUT_MS)
            for name in [*NAMES, *RECOVERIES]
            for version in (FIRST, SECOND)
        }
        for (_, version), each in found.items():
            each.open(version)
        for each in found.values():
            wait_until(partial(is_aborted, each), 60)
        yield found


@pytest.mark.parametrize("name", NAMES)
def test_producer_whose_transaction_timed_out_gets_the_answer_of_kafka(
    timed_out: dict[tuple[str, int], Requests], name: str
) -> None:
    _, ask, expected = ROWS[NAMES.index(name)]
    assert tuple(ask(timed_out[name, version]) for version in (FIRST, SECOND)) == expected


@pytest.mark.parametrize("name", RECOVERIES)
def test_producer_whose_transaction_timed_out_continues_with_the_next_epoch(
    timed_out: dict[tuple[str, int], Requests], name: str
) -> None:
    for version in (FIRST, SECOND):
        requests = timed_out[name, version]
        producer_id, epoch = requests.producer
        given = RECOVERIES[name](requests)
        assert (given.producer_id, given.producer_epoch) == (producer_id, epoch + 1)
        assert requests.produce((producer_id, epoch + 1), 12) == NONE
        assert requests.end((producer_id, epoch + 1), 5, commit=True) == NONE
