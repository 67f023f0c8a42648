"""`FetcherCore`: what a follower sends to a leader and what it does with the responses."""

import logging

import pytest

from barnabas.cluster.replication import fetcher_core
from barnabas.cluster.replication.fetcher_core import FetcherCore
from barnabas.cluster.replication.followed_partition import FetchState
from barnabas.cluster.replication.replication_quota import ReplicationQuota
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest
from barnabas.testing.batches import NOW_MS
from tests.cluster.replication.fetcher_world import (
    PartitionData,
    SimLeader,
    SimReplica,
    exchange,
    fetch_response,
    forgotten_of,
    new_core,
    next_request,
    offsets_of,
    partitions_of,
)

LEADER, FOLLOWER = 2, 1


def pair(partition: int = 0, epoch: int = 0) -> tuple[SimReplica, SimReplica]:
    """Return a leader and a follower of one partition, both in `epoch`."""
    leader, follower = SimReplica(LEADER, partition), SimReplica(FOLLOWER, partition)
    leader.lead(epoch, {LEADER, FOLLOWER})
    follower.leader_epoch = epoch
    return leader, follower


def following(*followers: SimReplica, quota: ReplicationQuota | None = None) -> FetcherCore:
    core = new_core(FOLLOWER, quota)
    for each in followers:
        core.follow(each, each.leader_epoch)
    return core


def state_of(core: FetcherCore, follower: SimReplica) -> FetchState:
    return core.partitions[follower.topic_id, follower.partition].state


def answer_with(core: FetcherCore, *answers: PartitionData, now_ms: int = 0) -> None:
    """Send the next request and answer it with these parts, without a session."""
    assert next_request(core, now_ms) is not None
    core.on_response(fetch_response(*answers), now_ms, wall_ms=NOW_MS)


def refusal(code: ErrorCode, partition: int = 0) -> PartitionData:
    return PartitionData(partition_index=partition, error_code=code, records=b"")


# Requests


def test_first_request_asks_from_the_log_end_with_both_epochs() -> None:
    _, follower = pair(epoch=3)
    follower.lead(1, {FOLLOWER})
    follower.produce(b"a", b"b")
    follower.is_leader, follower.leader_epoch = False, 3
    request = next_request(following(follower))
    (asked,) = partitions_of(request)
    assert (asked.fetch_offset, asked.current_leader_epoch, asked.last_fetched_epoch) == (2, 3, 1)
    assert isinstance(request, FetchRequest)
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (1, 42)
    assert (request.max_wait_ms, request.min_bytes, request.session_epoch) == (500, 1, 0)


def numbers(request: FetchRequest | ListOffsetsRequest | None) -> list[int]:
    return [each.partition for each in partitions_of(request)]


def test_many_new_partitions_are_listed_in_parts_that_do_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetcher_core, "_PARTITIONS_PER_REQUEST_MAX", 3)
    pairs = [pair(number) for number in range(8)]
    core = following(*(follower for _, follower in pairs))
    for listed, wait_ms in (([0, 1, 2], 0), ([3, 4, 5], 0), ([6, 7], 500), ([], 500)):
        request = next_request(core)
        assert isinstance(request, FetchRequest)
        assert (numbers(request), request.max_wait_ms) == (listed, wait_ms)
        assert core.is_behind is False
        core.on_response(fetch_response(session_id=9), 0, wall_ms=NOW_MS)


def test_partition_of_the_session_that_moved_does_not_wait_for_new_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetcher_core, "_PARTITIONS_PER_REQUEST_MAX", 2)
    pairs = [pair(number) for number in range(6)]
    core = following(*(follower for _, follower in pairs))
    pairs[0][0].produce(b"a")
    for listed in ([0, 1], [2, 3, 0], [4, 5]):
        request = next_request(core)
        assert sorted(numbers(request)) == sorted(listed)
        answers = [
            pairs[each.partition][0].answer(FOLLOWER, each) for each in partitions_of(request)
        ]
        core.on_response(fetch_response(*answers, session_id=9), 0, wall_ms=NOW_MS)
    assert pairs[0][1].log.log_end_offset == 1


def test_leader_without_a_session_gets_every_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetcher_core, "_PARTITIONS_PER_REQUEST_MAX", 3)
    core = following(*(pair(number)[1] for number in range(8)))
    for listed in (3, 8, 8):
        request = next_request(core)
        assert isinstance(request, FetchRequest)
        assert len(numbers(request)) == listed
        core.on_response(fetch_response(session_id=0), 0, wall_ms=NOW_MS)
    assert request.max_wait_ms == 500


def test_request_before_version_15_has_the_replica_id_outside_the_state() -> None:
    request = next_request(following(pair()[1]), version=14)
    assert isinstance(request, FetchRequest)
    assert (request.replica_id, request.replica_state.replica_id) == (FOLLOWER, -1)


def test_next_request_waits_for_the_response() -> None:
    core = following(pair()[1])
    assert next_request(core) is not None
    assert next_request(core) is None
    assert core.wakeup_ms(0) is None


def test_incremental_request_has_only_what_changed() -> None:
    (leader, follower), (other_leader, other) = pair(0), pair(1)
    core, end = following(follower, other), SimLeader(leader, other_leader)
    leader.produce(b"a")
    assert [each.partition for each in partitions_of(exchange(core, end))] == [0, 1]
    assert [each.fetch_offset for each in partitions_of(exchange(core, end))] == [1]
    assert partitions_of(exchange(core, end)) == []
    core.unfollow((other.topic_id, 1))
    request = exchange(core, end)
    assert (partitions_of(request), forgotten_of(request)) == ([], [1])
    other.leader_epoch = 0
    core.follow(other, 0)
    assert [each.partition for each in partitions_of(exchange(core, end))] == [1]


def test_session_error_sends_everything_again() -> None:
    (leader, follower), (other_leader, other) = pair(0), pair(1)
    core, end = following(follower, other), SimLeader(leader, other_leader)
    exchange(core, end)
    end.id += 1  # the leader was started again
    exchange(core, end)
    request = exchange(core, end)
    assert isinstance(request, FetchRequest)
    assert (request.session_epoch, len(partitions_of(request))) == (0, 2)


def test_failed_connection_is_retried_after_a_growing_backoff() -> None:
    core = following(pair()[1])
    now_ms, waits = 0, list[int]()
    for _ in range(8):
        assert next_request(core, now_ms) is not None
        core.on_failure(now_ms)
        assert next_request(core, now_ms) is None
        wakeup_ms = core.wakeup_ms(now_ms)
        assert wakeup_ms is not None
        waits.append(wakeup_ms - now_ms)
        now_ms = wakeup_ms
    assert waits == [50, 100, 200, 400, 800, 1000, 1000, 1000]


# Records and offsets


def test_append_follows_the_leaders_offsets_one_fetch_behind() -> None:
    leader, follower = pair()
    core, end = following(follower), SimLeader(leader)
    leader.produce(b"a", b"b")
    exchange(core, end)
    assert (follower.log.log_end_offset, follower.log.high_watermark) == (2, 0)
    exchange(core, end)
    assert (leader.log.high_watermark, follower.log.high_watermark) == (2, 2)
    leader.log.advance_log_start(1)
    exchange(core, end)
    assert follower.log.log_start_offset == 1
    assert partitions_of(exchange(core, end))[0].log_start_offset == 1


def test_high_watermark_is_at_most_the_log_end() -> None:
    leader, follower = pair()
    leader.isr = {LEADER}
    for number in range(5):
        leader.produce(b"%d" % number)
    core, end = following(follower), SimLeader(leader)
    for wanted in (2, 4, 5):
        exchange(core, end)
        assert follower.log.log_end_offset == follower.log.high_watermark == wanted
    assert follower.log.records() == leader.log.records()


def test_high_watermark_of_a_new_leader_does_not_lower_it() -> None:
    leader, follower = pair()
    core, end = following(follower), SimLeader(leader)
    leader.produce(b"a")
    exchange(core, end)
    exchange(core, end)
    answer_with(core, PartitionData(partition_index=0, high_watermark=0, records=b""))
    assert follower.log.high_watermark == 1


# Divergence


def diverged(
    leader_epochs: list[tuple[int, int]], own: list[tuple[int, int]]
) -> tuple[SimReplica, SimReplica]:
    """Return a leader and a follower whose epochs have these numbers of records."""
    leader, follower = SimReplica(LEADER), SimReplica(FOLLOWER)
    for replica, epochs in ((leader, leader_epochs), (follower, own)):
        for epoch, count in epochs:
            replica.lead(epoch, {replica.broker, 9})
            for number in range(count):
                replica.produce(b"%d-%d" % (epoch, number))
    follower.is_leader, follower.leader_epoch = False, leader.leader_epoch
    return leader, follower


@pytest.mark.parametrize(
    ("leader_epochs", "own", "steps"),
    [
        ([(1, 10), (3, 2)], [(1, 10), (2, 5)], 1),  # unacked records of a deposed leader
        ([(1, 10), (3, 2)], [(1, 14)], 1),
        ([(1, 4), (3, 6), (5, 2)], [(1, 4), (2, 3), (4, 3)], 2),  # KIP-279
        ([(1, 4), (2, 2), (9, 1)], [(1, 4), (2, 2), (3, 2), (5, 2), (7, 2)], 1),
        ([(0, 10), (2, 0)], [(0, 5), (1, 9)], 1),
        ([(1, 10), (3, 0)], [(1, 10), (2, 0)], 1),  # nothing was appended in either epoch
        ([(1, 12), (3, 1)], [(1, 10), (2, 0)], 1),  # a deposed leader that appended nothing
    ],
)
def test_divergence_is_truncated_by_epoch(
    leader_epochs: list[tuple[int, int]], own: list[tuple[int, int]], steps: int
) -> None:
    leader, follower = diverged(leader_epochs, own)
    core, end = following(follower), SimLeader(leader)
    for _ in range(20):
        exchange(core, end)
    assert follower.log.records() == leader.log.records()
    assert follower.log.epochs.items() <= leader.log.epochs.items()
    assert len(follower.truncations) == steps


def test_leader_without_the_start_of_its_epoch_leaves_a_follower_diverged() -> None:
    """Mistake 19, planted: the leader assigns its epoch only with the first append (KIP-279)."""
    leader, follower = diverged([(0, 10), (2, 0)], [(0, 5), (1, 9)])
    del leader.log.epochs[2]
    core, end = following(follower), SimLeader(leader)
    for number in range(20):
        exchange(core, end, number * 1000)
    assert follower.log.records() != leader.log.records()


def test_diverging_answer_moves_no_other_offset() -> None:
    leader, follower = diverged([(1, 4), (3, 2)], [(1, 4), (2, 3)])
    core = following(follower)
    answer_with(
        core,
        PartitionData(
            partition_index=0,
            high_watermark=6,
            log_start_offset=3,
            diverging_epoch=FetchResponse.EpochEndOffset(epoch=1, end_offset=4),
            records=leader.log.records(),
        ),
    )
    log = follower.log
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (0, 0, 4)


def test_response_for_an_older_epoch_is_ignored() -> None:
    leader, follower = pair()
    core, end = following(follower), SimLeader(leader)
    leader.produce(b"a")
    request = next_request(core)
    assert request is not None
    response = end.respond(request)
    follower.leader_epoch = 1
    core.follow(follower, 1)
    core.on_response(response, 0, wall_ms=NOW_MS)
    assert follower.log.log_end_offset == 0
    assert [each.current_leader_epoch for each in partitions_of(next_request(core))] == [1]


def test_records_of_a_later_epoch_are_not_appended() -> None:
    leader, follower = pair()
    leader.produce(b"a")
    leader.lead(1, {LEADER})
    leader.produce(b"b")
    core = following(follower)
    answer_with(core, PartitionData(partition_index=0, records=leader.log.records()))
    assert (follower.log.log_end_offset, follower.log.latest_epoch) == (1, 0)


# Errors


def test_fenced_partition_waits_for_the_next_epoch() -> None:
    (_, follower), (_, other) = pair(0), pair(1)
    core = following(follower, other)
    answer_with(core, refusal(ErrorCode.FENCED_LEADER_EPOCH))
    assert (state_of(core, follower), core.failed_count) == (FetchState.FAILED, 1)
    assert [each.partition for each in partitions_of(next_request(core, 10**9))] == [1]
    core.on_failure(10**9)
    core.follow(follower, 0)
    assert state_of(core, follower) is FetchState.FAILED
    core.follow(follower, 1)
    assert state_of(core, follower) is FetchState.FETCHING


def test_fenced_partition_is_logged_as_information(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "barnabas")
    _, follower = pair()
    core = following(follower)
    answer_with(core, refusal(ErrorCode.FENCED_LEADER_EPOCH))
    assert [each.levelname for each in caplog.records] == ["INFO"]
    assert "partition failed" not in caplog.text


@pytest.mark.parametrize("code", [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR])
def test_refused_partition_is_fetched_again_after_the_backoff(code: ErrorCode) -> None:
    (_, follower), (_, other) = pair(0), pair(1)
    core = following(follower, other)
    answer_with(core, refusal(code))
    assert state_of(core, follower) is FetchState.DELAYED
    assert [each.partition for each in partitions_of(next_request(core, 999))] == [1]
    core.on_failure(999)
    assert [each.partition for each in partitions_of(next_request(core, 2000))] == [1, 0]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ],
)
def test_leader_without_the_metadata_of_its_election_gets_another_fetch_soon(
    code: ErrorCode,
) -> None:
    core = following(pair()[1])
    now_ms, waits = 0, list[int]()
    for _ in range(7):
        answer_with(core, refusal(code), now_ms=now_ms)
        wakeup_ms = core.wakeup_ms(now_ms)
        assert wakeup_ms is not None
        waits.append(wakeup_ms - now_ms)
        now_ms = wakeup_ms
    assert waits == [50, 100, 200, 400, 800, 1000, 1000]


def test_corrupt_records_are_fetched_again_and_other_partitions_continue() -> None:
    (leader, follower), (other_leader, other) = pair(0), pair(1)
    leader.produce(b"a")
    leader.produce(b"b")
    other_leader.produce(b"c")
    core = following(follower, other)
    damaged = bytearray(leader.log.records())
    damaged[-1] ^= 1
    answer_with(
        core,
        PartitionData(partition_index=0, records=bytes(damaged)),
        PartitionData(partition_index=1, records=other_leader.log.records()),
    )
    assert (follower.log.log_end_offset, other.log.log_end_offset) == (1, 1)
    assert state_of(core, follower) is FetchState.DELAYED
    exchange(core, SimLeader(leader, other_leader), 2000)
    assert follower.log.records() == leader.log.records()


@pytest.mark.parametrize("size", [1, 40, 70])
def test_records_without_a_whole_batch_are_fetched_again_after_a_pause(size: int) -> None:
    """Planted once: they were ignored, and fetched again at once without limit."""
    leader, follower = pair(0)
    leader.produce(b"a" * 100)
    core = following(follower)
    part = leader.log.records()[:size]
    answer_with(core, PartitionData(partition_index=0, records=bytes(part)))
    assert state_of(core, follower) is FetchState.DELAYED
    exchange(core, SimLeader(leader), 2000)
    assert follower.log.records() == leader.log.records()


def test_batch_below_the_log_end_fails_only_its_partition() -> None:
    (leader, follower), (other_leader, other) = pair(0), pair(1)
    leader.produce(b"a")
    other_leader.produce(b"c")
    core = following(follower, other)
    twice = leader.log.records() * 2
    answer_with(
        core,
        PartitionData(partition_index=0, records=twice),
        PartitionData(partition_index=1, records=other_leader.log.records()),
    )
    assert state_of(core, follower) is FetchState.FAILED
    assert (state_of(core, other), other.log.log_end_offset) == (FetchState.FETCHING, 1)


def test_unexpected_exception_fails_only_its_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    (leader, follower), (other_leader, other) = pair(0), pair(1)
    for each in (leader, other_leader):
        each.produce(b"a")
    core = following(follower, other)
    monkeypatch.setattr(follower.log, "append_as_follower", None)
    exchange(core, SimLeader(leader, other_leader))
    assert state_of(core, follower) is FetchState.FAILED
    assert other.log.log_end_offset == 1


# Offsets out of the leader's range


def test_log_before_the_leaders_start_starts_there_again() -> None:
    leader, follower = pair()
    leader.isr = {LEADER}
    for _ in range(6):
        leader.produce(b"a", b"b")
    leader.log.advance_log_start(5)  # inside a batch
    core, end = following(follower), SimLeader(leader)
    kinds = [type(exchange(core, end)) for _ in range(4)]
    assert kinds == [FetchRequest, ListOffsetsRequest, ListOffsetsRequest, FetchRequest]
    for _ in range(4):
        exchange(core, end)
    log = follower.log
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (5, 12, 12)
    assert log.records() == leader.log.records()


def test_log_behind_the_leaders_end_is_truncated_to_it() -> None:
    """A leader without epochs of its records was elected uncleanly."""
    leader, follower = pair()
    leader.produce(b"a")
    follower.log.append_as_follower(leader.log.records(), now_ms=0)
    follower.log.append_as_follower(records_of_another(1, 3), now_ms=0)
    core = following(follower)
    answer_with(core, refusal(ErrorCode.OFFSET_OUT_OF_RANGE))
    (asked,) = offsets_of(exchange(core, SimLeader(leader)))
    assert asked.timestamp == -1
    assert follower.log.records() == leader.log.records()
    assert state_of(core, follower) is FetchState.FETCHING


def records_of_another(start: int, count: int) -> bytes:
    other = SimReplica(9)
    other.lead(0, {9})
    for number in range(start + count):
        other.produce(b"x%d" % number)
    return b"".join(data for header, data in other.log.batches if header.base_offset >= start)


def test_offset_that_stays_out_of_range_is_requested_with_a_backoff() -> None:
    leader, follower = pair()
    core, end = following(follower), SimLeader(leader)
    now_ms = 0
    for _ in range(30):
        request = next_request(core, now_ms)
        if request is None:
            wakeup_ms = core.wakeup_ms(now_ms)
            assert wakeup_ms is not None
            now_ms = wakeup_ms
        elif isinstance(request, FetchRequest):
            out_of_range = refusal(ErrorCode.OFFSET_OUT_OF_RANGE)
            core.on_response(fetch_response(out_of_range), now_ms, wall_ms=NOW_MS)
        else:
            core.on_response(end.respond(request), now_ms, wall_ms=NOW_MS)
    assert now_ms > 2000


# Throttling


def test_throttled_partition_waits_until_the_rate_is_kept() -> None:
    (leader, follower), (other_leader, other) = pair(0), pair(1)
    quota = ReplicationQuota()
    quota.rate = 100
    quota.throttle("t", frozenset({0}))
    leader.isr, other_leader.isr = {LEADER}, {LEADER}
    for _ in range(6):
        leader.produce(bytes(200))
        other_leader.produce(bytes(200))
    core, end = following(follower, other, quota=quota), SimLeader(leader, other_leader)
    for _ in range(4):
        exchange(core, end)
    assert (follower.log.log_end_offset, other.log.log_end_offset) == (2, 6)
    assert state_of(core, follower) is FetchState.THROTTLED
    now_ms = 0
    while follower.log.log_end_offset < 6:
        now_ms += 100
        exchange(core, end, now_ms)
    assert now_ms > 4000


def test_throttled_partitions_leave_the_session_when_no_other_is_fetched() -> None:
    """Otherwise its high watermark waits for a replica that does not fetch."""
    core, end = throttled_after_a_fetch()
    last = exchange(core, end)
    assert isinstance(last, FetchRequest)
    assert (partitions_of(last), forgotten_of(last), last.max_wait_ms) == ([], [0], 0)
    assert next_request(core) is None
    now_ms = core.wakeup_ms(0)
    assert now_ms == 100
    while (request := exchange(core, end, now_ms)) is None:
        now_ms += 100
    (asked,) = partitions_of(request)
    assert isinstance(request, FetchRequest)
    assert (request.session_id, request.session_epoch) == (0, 0)
    (followed,) = core.partitions.values()
    assert followed.replica.log.log_end_offset > asked.fetch_offset


def throttled_after_a_fetch(
    partitions: int = 1, *, has_session: bool = True
) -> tuple[FetcherCore, SimLeader]:
    """Return a follower that received more than its rate allows, and the leader."""
    quota = ReplicationQuota()
    quota.rate = 100
    quota.throttle("t", None)
    pairs = [pair(number) for number in range(partitions)]
    for leader, _ in pairs:
        leader.isr = {LEADER}
        for _ in range(6):
            leader.produce(bytes(200))
    core = following(*(follower for _, follower in pairs), quota=quota)
    end = SimLeader(*(leader for leader, _ in pairs))
    request = next_request(core)
    assert request is not None
    response = end.respond(request)
    assert isinstance(response, FetchResponse)
    if not has_session:
        response.session_id = 0
    core.on_response(response, 0, wall_ms=NOW_MS)
    return core, end


def test_throttled_partitions_leave_a_session_whose_connection_failed() -> None:
    core, end = throttled_after_a_fetch()
    core.on_failure(0)
    wakeup_ms = core.wakeup_ms(0)
    assert wakeup_ms == 50
    assert next_request(core, wakeup_ms - 1) is None
    last = exchange(core, end, wakeup_ms)
    assert isinstance(last, FetchRequest)
    assert (partitions_of(last), last.session_epoch, last.max_wait_ms) == ([], 0, 0)
    assert last.session_id != 0
    assert end.session == {}
    assert next_request(core, wakeup_ms) is None


def test_throttled_partitions_without_a_session_need_no_request() -> None:
    core, _ = throttled_after_a_fetch(has_session=False)
    assert next_request(core) is None


def test_session_without_partitions_lets_the_leader_take_the_next_ones_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    core, end = throttled_after_a_fetch(2)
    monkeypatch.setattr(fetcher_core, "_PARTITIONS_PER_REQUEST_MAX", 1)
    core.on_failure(0)
    now_ms = 100
    assert partitions_of(exchange(core, end, now_ms)) == []
    while (request := exchange(core, end, now_ms)) is None:
        now_ms += 100
    assert len(partitions_of(request)) == 1


def test_delayed_partitions_stay_in_the_session() -> None:
    (leader, follower), core = pair(), new_core(FOLLOWER)
    core.follow(follower, 0)
    end = SimLeader(leader)
    exchange(core, end)
    leader.leader_epoch = 1
    exchange(core, end)
    assert next_request(core) is None


def test_throttled_partition_in_sync_is_fetched() -> None:
    leader, follower = pair()
    quota = ReplicationQuota()
    quota.rate = 1
    quota.throttle("t", None)
    core, end = following(follower, quota=quota), SimLeader(leader)
    exchange(core, end)
    for _ in range(4):
        leader.produce(bytes(200))
        exchange(core, end)
        exchange(core, end)
    assert follower.log.log_end_offset == 4


def test_throttled_member_of_the_isr_is_fetched_in_a_new_epoch() -> None:
    """acks=all waits for it, so it must not wait for the rate (Kafka's follower does)."""
    leader, follower = pair()
    quota = ReplicationQuota()
    quota.rate = 1
    quota.throttle("t", None)
    quota.record(1_000_000, 0)
    core, end = new_core(FOLLOWER, quota), SimLeader(leader)
    follower.isr = {LEADER, FOLLOWER}
    leader.produce(bytes(200))
    core.follow(follower, 0)
    exchange(core, end)
    exchange(core, end)
    assert follower.log.log_end_offset == 1


def test_throttled_replica_outside_the_isr_waits_in_a_new_epoch() -> None:
    leader, follower = pair()
    quota = ReplicationQuota()
    quota.rate = 1
    quota.throttle("t", None)
    quota.record(1_000_000, 0)
    core, end = new_core(FOLLOWER, quota), SimLeader(leader)
    leader.produce(bytes(200))
    core.follow(follower, 0)
    exchange(core, end)
    assert follower.log.log_end_offset == 0
    assert state_of(core, follower) is FetchState.THROTTLED
