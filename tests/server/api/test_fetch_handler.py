"""The Fetch handler: what it returns at once, when it waits, and its incremental sessions."""

from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from barnabas.cluster.replication import Partition
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.types import Uuid
from barnabas.server.api.handlers.data.fetch_handler import Fetching, begin_fetch, fetch
from barnabas.testing.batches import NOW_MS, batch
from tests.server.api.data_broker import DataBroker, context

BY_NAME, BY_ID = 12, 13


@pytest.fixture
def broker(tmp_path: Path) -> DataBroker:
    return DataBroker(tmp_path)


def request(topic: str | Uuid | None = "t", offset: int = 0, **fields: Any) -> FetchRequest:
    topics: list[Any] = []
    if topic is not None:
        partition = FetchRequest.FetchPartition(
            partition=0, fetch_offset=offset, partition_max_bytes=1 << 20
        )
        name = {"topic_id": topic} if isinstance(topic, Uuid) else {"topic": topic}
        topics = [FetchRequest.FetchTopic(partitions=[partition], **name)]
    settings = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1}
    return FetchRequest(topics=topics, **{**settings, **fields})


def ask(broker: DataBroker, asked: FetchRequest, version: int = BY_NAME) -> Any:
    """The data of the only partition in the response."""
    response = broker.ask(fetch, asked, version)
    return response.responses[0].partitions[0]


def test_fetch_returns_the_batches_and_the_watermarks(broker: DataBroker) -> None:
    broker.append(b"a", b"b")
    broker.append(b"c")
    data = ask(broker, request())
    assert (data.error_code, data.high_watermark, data.last_stable_offset) == (0, 3, 3)
    assert (data.log_start_offset, data.aborted_transactions) == (0, None)
    assert len(data.records) == broker.partition().log.size_bytes


def test_fetch_above_its_limits_still_returns_the_first_batch(broker: DataBroker) -> None:
    broker.append(b"a" * 500)
    broker.append(b"b" * 500)
    size = broker.partition().log.size_bytes // 2
    assert len(ask(broker, request(max_bytes=1)).records) == size


@pytest.mark.parametrize(
    ("topic", "offset", "version", "code"),
    [
        ("nowhere", 0, BY_NAME, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (Uuid(b"\x01" * 16), 0, BY_ID, ErrorCode.UNKNOWN_TOPIC_ID),
        ("elsewhere", 0, BY_NAME, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("t", 1, BY_NAME, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("t", -1, BY_NAME, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_fetch_of_what_is_not_there_is_refused_without_waiting(
    broker: DataBroker, topic: str | Uuid, offset: int, version: int, code: ErrorCode
) -> None:
    data = ask(broker, request(topic, offset, max_wait_ms=5000), version)
    assert (data.error_code, data.high_watermark, bytes(data.records)) == (code, -1, b"")


def test_fetch_from_a_follower_names_the_leader_since_v16(broker: DataBroker) -> None:
    topic_id = broker.topic_id("elsewhere")
    assert broker.ask(fetch, request(topic_id), 15).node_endpoints == []
    response = broker.ask(fetch, request(topic_id), 16)
    assert response.responses[0].partitions[0].current_leader.leader_id == 2
    assert [(e.node_id, e.port) for e in response.node_endpoints] == [(2, 9002)]


def test_fetch_with_an_old_leader_epoch_is_fenced(broker: DataBroker) -> None:
    for epoch, code in ((-1, 0), (0, 0), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)):
        asked = request()
        asked.topics[0].partitions[0].current_leader_epoch = epoch
        assert ask(broker, asked).error_code == code


def test_fetch_at_the_end_waits_for_the_next_batch(broker: DataBroker) -> None:
    async def run() -> None:
        waiting = broker.ask(fetch, request(max_wait_ms=10_000), BY_NAME)
        found: list[Any] = []

        async def collect() -> None:
            found.append(await waiting)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(collect)
            await wait_all_tasks_blocked()
            assert not found
            broker.append(b"a")
            broker.partition().notify()
        (partition,) = found[0].responses[0].partitions
        assert partition.high_watermark == 1
        assert len(partition.records)
        assert not broker.partition().listeners

    trio.run(run)


def test_fetch_at_the_end_returns_nothing_when_its_time_is_up(broker: DataBroker) -> None:
    async def run() -> None:
        response = await broker.ask(fetch, request(max_wait_ms=10_000), BY_NAME)
        data = response.responses[0].partitions[0]
        assert (data.error_code, bytes(data.records)) == (0, b"")
        assert trio.current_time() >= 10
        assert not broker.partition().listeners

    trio.run(run, clock=MockClock(rate=0, autojump_threshold=0))


@pytest.mark.parametrize("in_session", [False, True])
def test_parked_fetch_after_its_time_returns_the_present_offsets(
    broker: DataBroker, *, in_session: bool
) -> None:
    broker.append(b"a")
    broker.append(b"b")
    asked = request(offset=2, max_wait_ms=10_000)
    if in_session:
        first = broker.ask(fetch, request(offset=2, max_wait_ms=0, session_epoch=0), BY_NAME)
        asked = request(
            offset=2,
            max_wait_ms=10_000,
            session_id=first.session_id,
            session_epoch=1,
        )

    async def run() -> None:
        answers: list[Any] = []

        async def collect() -> None:
            answers.append(await broker.ask(fetch, asked, BY_NAME))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(collect)
            await trio.sleep(5)
            broker.partition().delete_records(1)  # nothing to read, so it is not woken
        (answer,) = answers[0].responses[0].partitions
        assert (answer.high_watermark, answer.log_start_offset) == (2, 1)
        assert trio.current_time() >= 10

    trio.run(run, clock=MockClock(rate=0, autojump_threshold=0))


def test_fetch_waits_until_there_are_min_bytes(broker: DataBroker) -> None:
    broker.append(b"a" * 100)
    asked = request(min_bytes=300, max_wait_ms=5000)
    waiting = broker.ask(fetch, asked, BY_NAME)
    waiting.close()
    assert ask(broker, request(min_bytes=100, max_wait_ms=5000)).high_watermark == 1


def test_fetch_session_omits_what_has_not_changed(broker: DataBroker) -> None:
    first = broker.ask(fetch, request(session_epoch=0), BY_NAME)
    assert first.session_id == 100
    assert len(first.responses) == 1
    session = {"session_id": first.session_id}
    assert broker.ask(fetch, request(None, session_epoch=1, **session), BY_NAME).responses == []
    broker.append(b"a")
    broker.partition().notify()
    changed = broker.ask(fetch, request(None, session_epoch=2, **session), BY_NAME)
    assert changed.responses[0].partitions[0].high_watermark == 1


def test_fetch_session_forgets_partitions_on_request(broker: DataBroker) -> None:
    session_id = broker.ask(fetch, request(session_epoch=0), BY_NAME).session_id
    asked = request(None, session_id=session_id, session_epoch=1)
    asked.forgotten_topics_data = [FetchRequest.ForgottenTopic(topic="t", partitions=[0])]
    assert broker.ask(fetch, asked, BY_NAME).session_id == 0
    assert len(broker.services.fetch_sessions) == 0


@pytest.mark.parametrize(
    ("session_id", "epoch", "version", "code"),
    [
        (7, 1, BY_NAME, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (100, 2, BY_NAME, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (100, 1, BY_ID, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ],
)
def test_fetch_session_that_does_not_continue_is_refused(
    broker: DataBroker, session_id: int, epoch: int, version: int, code: ErrorCode
) -> None:
    broker.ask(fetch, request(session_epoch=0), BY_NAME)
    asked = request(None, session_id=session_id, session_epoch=epoch)
    response = broker.ask(fetch, asked, version)
    assert (response.error_code, response.responses) == (code, [])


def test_fetch_with_the_final_epoch_ends_the_session(broker: DataBroker) -> None:
    session_id = broker.ask(fetch, request(session_epoch=0), BY_NAME).session_id
    assert len(broker.services.fetch_sessions) == 1
    broker.ask(fetch, request(session_id=session_id, session_epoch=-1), BY_NAME)
    assert len(broker.services.fetch_sessions) == 0


# Followers


def follow(broker: DataBroker, offset: int, last_epoch: int = -1, epoch: int = -1) -> Any:
    """The answer to a fetch of broker 2 from the partition that it replicates."""
    asked = request(broker.topic_id("replicated"), offset, max_wait_ms=0)
    asked.replica_state = FetchRequest.ReplicaState(replica_id=2, replica_epoch=epoch)
    partition = asked.topics[0].partitions[0]
    partition.last_fetched_epoch = last_epoch
    partition.current_leader_epoch = 0
    return ask(broker, asked, 17)


def follower_end(broker: DataBroker) -> int:
    state = broker.partition("replicated").leader_state
    assert state is not None
    return state.followers[2].log_end_offset


def test_follower_fetch_reads_to_the_log_end_and_advances_the_high_watermark(
    broker: DataBroker,
) -> None:
    broker.append(b"a", topic="replicated")
    answer = follow(broker, 0)
    assert (answer.error_code, answer.high_watermark) == (0, 0)
    assert len(answer.records) > 0
    assert follow(broker, 1, last_epoch=0).high_watermark == 1


@pytest.mark.parametrize(("offset", "last_epoch"), [(1, 5), (7, 0)])
def test_diverging_follower_fetch_takes_no_state(
    broker: DataBroker, offset: int, last_epoch: int
) -> None:
    """A deposed leader with a longer log does not have our records at its offset (A3.3)."""
    for _ in range(3):
        broker.append(b"a", topic="replicated")
    log = broker.partition("replicated").log
    log.start_leader_epoch(1, 2)
    log.append_as_leader(batch(b"b"), leader_epoch=6, now_ms=NOW_MS)
    answer = follow(broker, offset, last_epoch)
    assert answer.error_code == 0
    assert answer.diverging_epoch.epoch >= 0
    assert follower_end(broker) == -1
    assert log.high_watermark == 0


def test_follower_fetch_above_the_log_end_takes_no_state(broker: DataBroker) -> None:
    broker.append(b"a", topic="replicated")
    assert follow(broker, 2).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert follower_end(broker) == -1


def test_follower_fetch_of_an_earlier_broker_epoch_is_refused(broker: DataBroker) -> None:
    broker.append(b"a", topic="replicated")
    epoch = broker.image.brokers[2].epoch
    assert follow(broker, 0, epoch=epoch - 1).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert follower_end(broker) == -1
    assert follow(broker, 0, epoch=epoch).error_code == 0


class Follower:
    """Broker 2 fetches in one session a replica, and another partition that fails each time."""

    def __init__(self, broker: DataBroker) -> None:
        self.broker = broker
        self.epoch = 0
        self.session_id = 0
        self.topic_id = broker.topic_id("replicated")

    def fetch(self, offset: int | None = None, *, forget: bool = False) -> None:
        """Fetch 500 ms after the last fetch; without `offset` name no partition."""
        topics = [] if offset is None else [self._topic(self.topic_id, offset)]
        if self.epoch == 0:
            topics.append(self._topic(self.broker.topic_id("t"), 0))
        asked = FetchRequest(topics=topics, session_id=self.session_id, session_epoch=self.epoch)
        asked.replica_state = FetchRequest.ReplicaState(
            replica_id=2, replica_epoch=self.broker.image.brokers[2].epoch
        )
        if forget:
            asked.forgotten_topics_data = [
                FetchRequest.ForgottenTopic(topic_id=self.topic_id, partitions=[0])
            ]
        self.broker.clock_ms += 500
        response = self.broker.ask(fetch, asked, 17)
        assert response.error_code == 0
        self.session_id = response.session_id
        self.epoch += 1

    def _topic(self, topic_id: Uuid, offset: int) -> FetchRequest.FetchTopic:
        partition = FetchRequest.FetchPartition(
            fetch_offset=offset, partition_max_bytes=1 << 20, current_leader_epoch=0
        )
        return FetchRequest.FetchTopic(topic_id=topic_id, partitions=[partition])

    @property
    def caught_up_ms(self) -> int | None:
        state = self.broker.partition("replicated").leader_state
        assert state is not None
        return state.followers[2].caught_up_ms()


def test_follower_is_caught_up_only_by_fetches_of_sessions_with_the_partition(
    broker: DataBroker,
) -> None:
    follower = Follower(broker)
    follower.fetch(0)
    follower.fetch()
    follower.fetch()
    assert follower.caught_up_ms == 1500
    follower.fetch(forget=True)
    follower.fetch()
    assert follower.caught_up_ms == 1500
    follower.fetch(0)
    assert follower.caught_up_ms == 3000


def test_replaced_session_of_a_follower_fetches_its_partitions_no_longer(
    broker: DataBroker,
) -> None:
    follower = Follower(broker)
    follower.fetch(0)
    state = broker.partition("replicated").leader_state
    assert state is not None
    assert state.followers[2].is_fetching
    follower.epoch = 0
    follower.fetch()  # a full request of other partitions
    assert not state.followers[2].is_fetching
    follower.epoch = 0
    follower.fetch(0)
    assert state.followers[2].is_fetching


def test_follower_is_not_caught_up_by_fetches_after_an_error(broker: DataBroker) -> None:
    follower = Follower(broker)
    follower.fetch(0)
    follower.fetch()
    follower.fetch(7)  # OFFSET_OUT_OF_RANGE
    follower.fetch()
    assert follower.caught_up_ms == 1000
    follower.fetch(0)
    follower.fetch()
    assert follower.caught_up_ms == 3000


def test_follower_of_an_idle_partition_joins_with_the_next_fetch_of_its_session(
    broker: DataBroker,
) -> None:
    """Its session does not name the partition again after its broker was fenced and unfenced."""
    follower = Follower(broker)
    follower.fetch(0)
    follower.fetch()
    cluster, replicas = broker.cluster, broker.replicas
    cluster.take(cluster.controller.broker_heartbeat(cluster.heartbeat(2, want_fence=True)))
    replicas.apply(cluster.image, cluster.deltas[-1])
    state = broker.partition("replicated").leader_state
    assert state is not None
    assert state.is_out_of_sync(2)
    for _ in range(3):
        follower.fetch()
    cluster.unfence(2)
    replicas.apply(cluster.image, cluster.deltas[-1])
    assert not state.isr.is_pending
    follower.fetch()
    assert state.isr.proposed == (1, 2)


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (0, ErrorCode.FENCED_LEADER_EPOCH),
        (1, ErrorCode.NONE),
        (2, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
@pytest.mark.parametrize("leader", [1, 2])
def test_fetch_checks_the_leader_epoch(
    broker: DataBroker, leader: int, epoch: int, code: ErrorCode
) -> None:
    lead(broker, leader, leader_epoch=1)
    asked = request(broker.topic_id("replicated"))
    asked.topics[0].partitions[0].current_leader_epoch = epoch
    assert ask(broker, asked, 17).error_code == code


def lead(broker: DataBroker, leader: int, **changes: Any) -> Partition:
    """Change the partition of `replicated`, as the metadata would."""
    partition = broker.replicas.hosted("replicated", 0)
    assert partition is not None
    assert partition.image is not None
    epoch = partition.image.partition_epoch + 1
    image = attrs.evolve(partition.image, leader=leader, partition_epoch=epoch, **changes)
    partition.update(image, broker.replicas.topic_config("replicated"))
    return partition


@pytest.mark.parametrize("by_session", [False, True])
def test_diverging_fetch_is_repeated_in_each_response(
    broker: DataBroker, *, by_session: bool
) -> None:
    """A session that hides it would leave the follower without an answer."""
    broker.append(b"a", topic="replicated")
    asked = request(broker.topic_id("replicated"), 5, session_epoch=0 if by_session else -1)
    asked.replica_state = FetchRequest.ReplicaState(replica_id=2)
    asked.topics[0].partitions[0].last_fetched_epoch = 0
    response = broker.ask(fetch, asked, 17)
    for epoch in (1, 2):
        assert response.responses[0].partitions[0].diverging_epoch.end_offset == 1
        if by_session:
            again = request(None, session_id=response.session_id, session_epoch=epoch)
            response = broker.ask(fetch, again, 17)


@pytest.mark.parametrize(
    ("version", "epoch", "code"),
    [(10, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER), (12, 0, ErrorCode.FENCED_LEADER_EPOCH)],
)
def test_parked_fetch_ends_when_the_leader_is_deposed(
    broker: DataBroker, version: int, epoch: int, code: ErrorCode
) -> None:
    async def test() -> None:
        asked = request("replicated", max_wait_ms=60_000)
        asked.topics[0].partitions[0].current_leader_epoch = epoch
        answers: list[Any] = []

        async def wait() -> None:
            answers.append((await broker.ask(fetch, asked, version)).responses[0].partitions[0])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await wait_all_tasks_blocked()
            lead(broker, 2, leader_epoch=1)
        assert [answer.error_code for answer in answers] == [code]
        assert trio.current_time() < 1

    trio.run(test, clock=MockClock(autojump_threshold=0.01))


# Reading from followers (KIP-392)

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@pytest.fixture
def rack_broker(tmp_path: Path) -> DataBroker:
    """Broker 1 is in rack-1, broker 2, which has all records, in rack-0."""
    broker = DataBroker(tmp_path, replica_selector_class=RACK_AWARE)
    broker.append(b"a", topic="replicated")
    follow(broker, 0)
    follow(broker, 1, last_epoch=0)
    return broker


def preferred(broker: DataBroker, rack: str, offset: int = 0) -> int:
    asked = request(broker.topic_id("replicated"), offset, rack_id=rack)
    answer = ask(broker, asked, 17)
    assert answer.error_code == 0
    assert bool(len(answer.records)) == (offset == 0 and answer.preferred_read_replica == -1)
    return answer.preferred_read_replica


@pytest.mark.parametrize(
    ("rack", "replica"), [("rack-0", 2), ("rack-1", -1), ("far", -1), ("", -1)]
)
def test_consumer_is_sent_to_the_follower_in_its_rack(
    rack_broker: DataBroker, rack: str, replica: int
) -> None:
    assert preferred(rack_broker, rack) == replica


def test_consumer_is_not_sent_to_a_follower_without_the_offset(rack_broker: DataBroker) -> None:
    rack_broker.append(b"b", topic="replicated")
    assert preferred(rack_broker, "rack-0", 1) == 2
    follow(rack_broker, 2, last_epoch=0)
    rack_broker.append(b"c", topic="replicated")
    lead(rack_broker, 1, isr=(1,))
    assert preferred(rack_broker, "rack-0") == -1


def test_follower_serves_consumers_up_to_its_high_watermark(broker: DataBroker) -> None:
    broker.append(b"a", topic="replicated")
    partition = lead(broker, 2, leader_epoch=1)
    asked = request(broker.topic_id("replicated"))
    answer = ask(broker, asked, 17)
    assert (answer.error_code, answer.high_watermark, len(answer.records)) == (0, 0, 0)
    partition.follow_high_watermark(1)
    answer = ask(broker, asked, 17)
    assert (answer.error_code, answer.high_watermark) == (0, 1)
    assert len(answer.records) > 0


@pytest.mark.parametrize("replica", [-1, 2])
def test_follower_serves_neither_old_clients_nor_replicas(broker: DataBroker, replica: int) -> None:
    lead(broker, 2, leader_epoch=1)
    asked = request("replicated", replica_id=replica)
    answer = ask(broker, asked, 10 if replica < 0 else 12)
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


# Throttled replication


@pytest.mark.parametrize(("isr", "is_held_back"), [((1,), True), ((1, 2), False)])
def test_throttled_follower_outside_the_isr_waits_while_the_rate_is_exceeded(
    broker: DataBroker, isr: tuple[int, ...], *, is_held_back: bool
) -> None:
    broker.append(b"a" * 2000, topic="replicated")
    quota = broker.replicas.leader_quota
    quota.throttle("replicated", None)
    quota.rate = 1000
    lead(broker, 1, isr=isr)
    assert len(follow(broker, 0).records) > 2000
    again = follow(broker, 0)
    assert (again.error_code, not len(again.records)) == (0, is_held_back)
    broker.clock_ms += 12_000
    assert len(follow(broker, 0).records) > 2000


# What wakes a parked fetch


@pytest.mark.parametrize("is_follower", [True, False])
def test_parked_fetch_is_woken_only_by_what_its_reader_sees(
    broker: DataBroker, *, is_follower: bool
) -> None:
    """A follower by records in the log, a consumer by the high watermark."""

    async def test() -> None:
        asked = request(broker.topic_id("replicated"), max_wait_ms=60_000)
        if is_follower:
            asked.replica_state = FetchRequest.ReplicaState(replica_id=2)
        fetching = begin_fetch(context_of(broker, asked), asked)
        assert isinstance(fetching, Fetching)
        wakes: list[int] = []
        watch = fetching.start_watching()
        watch.wake = lambda: wakes.append(broker.partition("replicated").log.high_watermark)
        broker.append(b"a", topic="replicated")
        follow(broker, 1, last_epoch=0)
        assert wakes == ([0, 1] if is_follower else [1])
        fetching.stop_watching()

    trio.run(test)


def test_parked_fetch_of_a_follower_is_not_woken_by_the_high_watermark(broker: DataBroker) -> None:
    broker.append(b"a", topic="replicated")
    asked = request(broker.topic_id("replicated"), 1, max_wait_ms=60_000)
    asked.replica_state = FetchRequest.ReplicaState(replica_id=3)
    lead(broker, 1, replicas=(1, 2, 3), isr=(1, 2))
    fetching = begin_fetch(context_of(broker, asked), asked)
    assert isinstance(fetching, Fetching)
    watch = fetching.start_watching()
    watch.wake = pytest.fail
    follow(broker, 1, last_epoch=0)
    assert broker.partition("replicated").log.high_watermark == 1
    assert watch.dirty  # so that the next response has the high watermark


def context_of(broker: DataBroker, asked: FetchRequest) -> Any:
    return context(broker.services, asked, 17, broker.connection)
