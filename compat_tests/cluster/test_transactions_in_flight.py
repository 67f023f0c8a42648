"""Answers about transactions whose markers are held back: equal on barnabas and Apache Kafka.

Until the last marker is written, most requests wait, with any producer id and epoch; those
that look at the log's epoch first are named. Each row was measured with Apache Kafka 4.3.0.
"""

import time
from collections.abc import Callable, Iterator

import pytest

from compat_tests import wire
from compat_tests.cluster.clusters import CLUSTERS
from compat_tests.cluster.transactions_in_flight import (
    CONFIG,
    PAUSED,
    STRANGER,
    Producer,
    Requests,
    Setting,
    keys_of,
    paused,
    prepare,
)

pytestmark = pytest.mark.timeout(240)

WAIT, FENCED = "CONCURRENT_TRANSACTIONS", "PRODUCER_FENCED"
UNMAPPED, OLD, AGAIN = (
    "INVALID_PRODUCER_ID_MAPPING",
    "INVALID_PRODUCER_EPOCH",
    "NOT_ENOUGH_REPLICAS",
)

# (name, version of AddPartitionsToTxn, version of EndTxn or 0 for a fence, commits)
STATES = (
    ("first version, commit", 3, 4, True),
    ("first version, abort", 3, 4, False),
    ("second version, commit", 5, 5, True),
    ("second version, abort", 5, 5, False),
    ("first version, fenced", 3, 0, False),
    ("second version, fenced", 5, 0, False),
)

# The producers of the requests: the one that the log has, one of the epoch before it, of the epoch
# after it, and one of another id.
CURRENT, BEFORE, AFTER, OTHER = "current", "before", "after", "other"
WHO = (CURRENT, BEFORE, AFTER, OTHER)

Ask = Callable[[Requests, Producer], str]

# request -> its error for each of `WHO`.
ROWS: tuple[tuple[str, Ask, tuple[str, str, str, str]], ...] = (
    ("EndTxn v4 commit", lambda r, p: r.end(p, 4, commit=True), (WAIT, FENCED, FENCED, UNMAPPED)),
    ("EndTxn v4 abort", lambda r, p: r.end(p, 4, commit=False), (WAIT, FENCED, FENCED, UNMAPPED)),
    ("EndTxn v5 commit", lambda r, p: r.end(p, 5, commit=True), (WAIT, WAIT, WAIT, WAIT)),
    ("EndTxn v5 abort", lambda r, p: r.end(p, 5, commit=False), (WAIT, WAIT, WAIT, WAIT)),
    ("InitProducerId v5", lambda r, p: r.init(p), (WAIT, WAIT, WAIT, WAIT)),
    ("AddPartitionsToTxn v1", lambda r, p: r.add(p, 1), (WAIT, WAIT, WAIT, WAIT)),
    ("AddPartitionsToTxn v3", lambda r, p: r.add(p, 3), (WAIT, WAIT, WAIT, WAIT)),
    ("AddPartitionsToTxn v4", lambda r, p: r.add(p, 4), (WAIT, WAIT, WAIT, WAIT)),
    ("AddPartitionsToTxn v5", lambda r, p: r.add(p, 5), (WAIT, WAIT, WAIT, WAIT)),
    ("verification v4", lambda r, p: r.add(p, 4, verify=True), (WAIT, FENCED, FENCED, UNMAPPED)),
    ("verification v5", lambda r, p: r.add(p, 5, verify=True), (WAIT, FENCED, FENCED, UNMAPPED)),
    ("AddOffsetsToTxn v4", lambda r, p: r.add_offsets(p), (WAIT, WAIT, WAIT, WAIT)),
    ("TxnOffsetCommit v3", lambda r, p: r.commit_offsets(p, 3), (WAIT, OLD, OLD, UNMAPPED)),
    ("TxnOffsetCommit v4", lambda r, p: r.commit_offsets(p, 4), (WAIT, OLD, OLD, UNMAPPED)),
    ("TxnOffsetCommit v5", lambda r, p: r.commit_offsets(p, 5), (WAIT, WAIT, WAIT, WAIT)),
    ("Produce v9", lambda r, p: r.produce(p, 9), (AGAIN, OLD, OLD, UNMAPPED)),
    ("Produce v11", lambda r, p: r.produce(p, 11), (AGAIN, OLD, OLD, UNMAPPED)),
    # The marker of this partition is written: its log has the epoch already.
    ("Produce v12", lambda r, p: r.produce(p, 12), (WAIT, OLD, WAIT, WAIT)),
)

# (state, commits) -> the error of the same EndTxn, and of the opposite one, after the last marker.
REPEATED = {
    "first version, commit": ("NONE", "INVALID_TXN_STATE"),
    "first version, abort": ("NONE", "INVALID_TXN_STATE"),
    "second version, commit": ("NONE", "INVALID_TXN_STATE"),
    "second version, abort": ("NONE", "INVALID_TXN_STATE"),
}


@pytest.fixture(scope="module")
def setting(request: pytest.FixtureRequest) -> Iterator[Setting]:
    if request.config.getoption("--bootstrap"):
        pytest.skip("needs nodes that the test may pause, so not with --bootstrap")
    with CLUSTERS[request.config.getoption("--server")](CONFIG) as cluster:
        yield prepare(cluster)


def answers_of(requests: Requests) -> dict[tuple[str, str], str]:
    """Return the error of each row's request."""
    _, _, epoch = requests.state()
    producer_id, _ = requests.producer
    producers = {
        CURRENT: (producer_id, epoch),
        BEFORE: (producer_id, epoch - 1),
        AFTER: (producer_id, epoch + 1),
        OTHER: (producer_id + STRANGER, 0),
    }
    return {(name, who): ask(requests, producers[who]) for name, ask, _ in ROWS for who in WHO}


def test_requests_during_the_writing_of_markers(setting: Setting) -> None:
    ids, groups = keys_of(setting, "__transaction_state"), keys_of(setting, "__consumer_offsets")
    wanted = {
        (name, who): error
        for name, _, errors in ROWS
        for who, error in zip(WHO, errors, strict=True)
    }
    with wire.Connection(setting.address) as connection:
        started: dict[str, Requests] = {}
        for name, adds, _, _ in STATES:
            started[name] = Requests(connection, next(ids), next(groups))
            started[name].bump()
            started[name].open(adds)
        with paused(setting):
            for name, _, ends, commits in STATES:
                requests = started[name]
                if ends:
                    assert requests.end(requests.producer, ends, commit=commits) == "NONE"
                else:
                    assert requests.init((-1, -1)) == WAIT
            wait_for_other_markers(list(started.values()))
            for name, requests in started.items():
                assert answers_of(requests) == wanted, name
        for requests in started.values():
            settle(requests)
        for name, _, ends, commits in STATES:
            requests = started[name]
            if ends:
                repeated = [
                    requests.end(requests.producer, ends, commit=each)
                    for each in (commits, not commits)
                ]
                assert tuple(repeated) == REPEATED[name], name


def wait_for_other_markers(started: list[Requests]) -> None:
    """Wait until only the marker of the paused leader is missing; Describe has those partitions."""
    deadline = time.monotonic() + 120
    for requests in started:
        while (topics := requests.describe().topics) and topics[0].partitions != [PAUSED]:
            assert time.monotonic() < deadline, topics
            time.sleep(0.05)
        assert len(topics) == 1


def settle(requests: Requests) -> None:
    """Wait until all markers are written."""
    deadline = time.monotonic() + 60
    while requests.state()[0].startswith("Prepare"):
        assert time.monotonic() < deadline, requests.state()
        time.sleep(0.05)
