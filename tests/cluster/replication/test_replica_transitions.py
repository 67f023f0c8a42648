"""`ReplicaManager.apply`: leader, follower and removed replicas, their fetches and directories."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from barnabas.clock import Clock
from barnabas.cluster.metadata.image import (
    DIRECTORY_LOST,
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from barnabas.cluster.replication import Partition, ReplicaManager
from barnabas.cluster.replication.fetcher_assignments import FetcherKey
from barnabas.cluster.replication.isr_manager import IsrProposal, PartitionAnswer
from barnabas.config import NodeConfig
from barnabas.log import LogConfig, LogManager
from barnabas.log.checkpoints import MetaProperties
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.types import Uuid
from barnabas.server.replication.commit_wait import Appended, CommitWaits
from barnabas.testing.batches import NOW_MS, batch
from tests.cluster.states import Cluster
from tests.log.logs import TOPIC_ID, open_volume

DIRECTORIES = [Uuid(bytes([number]) * 16) for number in (5, 6)]
OTHER_DIRECTORY = Uuid(b"\x09" * 16)
OTHER_TOPIC_ID = Uuid(b"\x08" * 16)
KEY = (TOPIC_ID, 0)


class Broker:
    """Broker 1 with two directories, and one partition on brokers 1, 2 and 3."""

    def __init__(self, root: Path) -> None:
        volumes = [open_volume(root / name) for name in ("a", "b")]
        for volume, directory in zip(volumes, DIRECTORIES, strict=True):
            volume.write_properties(MetaProperties("cluster", 1, directory))
        self.config = NodeConfig.load(None, {})
        self.logs = LogManager(volumes, volumes[0], LogConfig())
        self.logs.open()
        self.replicas = ReplicaManager(
            1, self.logs, config=lambda: self.config, clock=Clock(lambda: NOW_MS, lambda: 0)
        )
        self.proposals: list[IsrProposal] = []
        self.replicas.isr_manager.submit = self.proposals.append
        self.state = PartitionImage((1, 2, 3), (DIRECTORY_UNASSIGNED,) * 3, (1, 2, 3), 2, 0, 0)
        self.calls = 0

    def apply(self, **changes: Any) -> None:
        """Apply the next state of the partition as a whole image."""
        epoch = self.state.partition_epoch + 1
        self.state = attrs.evolve(self.state, **{"partition_epoch": epoch, **changes})
        topic = TopicImage("t", TOPIC_ID, {0: self.state})
        self.replicas.apply(
            MetadataImage(topics_by_name={"t": topic}, topics_by_id={TOPIC_ID: topic})
        )

    @property
    def partition(self) -> Partition:
        found = self.replicas.hosted("t", 0)
        assert found is not None
        return found

    @property
    def fetched_from(self) -> list[tuple[int, int]]:
        """Return the leaders that the partition is fetched from, with the leader epoch."""
        return [
            (key.leader, followed.leader_epoch)
            for key, core in self.replicas.fetchers.cores.items()
            for followed in core.partitions.values()
        ]

    def answer_last_proposal(self, error: ErrorCode) -> None:
        """The controller answers the change of the ISR that was proposed last."""
        self.partition.on_isr_answer(self.proposals[-1], PartitionAnswer(error_code=error))

    def fail(self, number: int) -> None:
        self.logs.volumes[number].fail(OSError(5, "failed"))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    made = Broker(tmp_path)
    yield made
    made.logs.close(clean=False)


def test_follower_is_fetched_from_its_leader(broker: Broker) -> None:
    broker.apply()
    assert broker.fetched_from == [(2, 0)]
    assert broker.replicas.fetchers.take_changed() == {FetcherKey(2, 0)}


def test_rates_of_throttles_are_known_with_the_first_image(broker: Broker) -> None:
    """They are dynamic properties, which a start does not have before."""
    rates = {f"{side}.replication.throttled.rate": "1000" for side in ("leader", "follower")}
    broker.config = broker.config.with_dynamic({}, rates)
    broker.apply()
    assert (broker.replicas.leader_quota.rate, broker.replicas.follower_quota.rate) == (1000, 1000)


def test_image_without_a_new_leader_epoch_keeps_the_fetch(broker: Broker) -> None:
    broker.apply()
    core = broker.replicas.fetchers.cores[FetcherKey(2, 0)]
    followed = core.partitions[KEY]
    broker.apply(isr=(2, 3))
    assert core.partitions[KEY] is followed


def test_new_leader_takes_over_the_fetch_in_one_step(broker: Broker) -> None:
    broker.apply()
    broker.apply(leader=3, leader_epoch=1)
    assert broker.fetched_from == [(3, 1)]
    broker.apply(leader=1, leader_epoch=2)
    assert (broker.fetched_from, broker.partition.is_leader) == ([], True)
    broker.apply(leader=2, leader_epoch=3)
    assert (broker.fetched_from, broker.partition.is_leader) == ([(2, 3)], False)


def test_log_of_a_follower_is_created_without_a_leader(broker: Broker) -> None:
    broker.apply(leader=-1)
    assert broker.logs.known("t", 0) is not None
    assert broker.fetched_from == []


def test_removed_replica_is_not_fetched_and_its_log_is_deleted(broker: Broker) -> None:
    broker.apply()
    broker.apply(replicas=(2, 3), directories=(DIRECTORY_UNASSIGNED,) * 2, isr=(2, 3))
    assert broker.fetched_from == []
    assert (broker.replicas.hosted("t", 0), broker.logs.known("t", 0)) == (None, None)


def test_snapshot_without_the_topic_ends_its_fetch(broker: Broker) -> None:
    broker.apply()
    broker.replicas.apply(MetadataImage())
    assert broker.fetched_from == []
    assert broker.logs.known("t", 0) is None


def test_parked_produce_ends_when_the_leader_changes(broker: Broker) -> None:
    broker.apply(leader=1)
    partition = broker.partition
    info = partition.append(batch(b"a"), required_acks=-1, origin="client", now_ms=NOW_MS)
    outcomes: list[tuple[str, ErrorCode]] = []
    waits = CommitWaits(flush=never_flushed)
    appended = Appended("a", partition, info.last_offset, partition.leader_state)
    waits.wait([appended], lambda *outcome: outcomes.append(outcome), timeout_ms=None)
    broker.apply(leader=1, isr=(1, 2))
    assert (outcomes, waits.waiting) == ([], 1)
    broker.apply(leader=2, leader_epoch=1)
    assert (outcomes, waits.waiting) == ([("a", ErrorCode.NOT_LEADER_OR_FOLLOWER)], 0)
    with pytest.raises(KafkaError) as refused:
        broker.replicas.append("t", 0, batch(b"b"), required_acks=1)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def never_flushed(_: Partition) -> bool:
    raise AssertionError("a flush without flush.messages")


def test_controlled_shutdown_ends_fetches_out_of_sync(broker: Broker) -> None:
    broker.apply(isr=(2, 3))
    broker.replicas.begin_controlled_shutdown()
    assert broker.fetched_from == []
    broker.apply(isr=(1, 2, 3))
    assert broker.fetched_from == [(2, 0)]


def test_follower_serves_no_record_above_its_high_watermark(broker: Broker) -> None:
    """Mistake 44: a consumer of the follower reads to the log end (KIP-392)."""
    broker.apply()
    data = batch(b"a", b"b")
    broker.partition.follower_append(data, 0, NOW_MS)
    ends = [broker.partition.fetchable_end(level) for level in (0, 1)]
    assert (broker.partition.log.log_end_offset, ends) == (2, [0, 0])
    broker.partition.follow_high_watermark(5)
    assert broker.partition.fetchable_end(0) == 2


def test_append_of_another_epoch_than_the_image_is_refused(broker: Broker) -> None:
    """Mistake 18, at the partition: a response of before the election."""
    broker.apply()
    broker.apply(leader=3, leader_epoch=1)
    with pytest.raises(KafkaError):
        broker.partition.follower_append(batch(b"a"), 0, NOW_MS)
    assert broker.partition.log.log_end_offset == 0


@pytest.mark.parametrize(
    ("directory", "is_created", "is_created_with_an_offline_directory"),
    [
        (DIRECTORY_UNASSIGNED, True, True),
        (DIRECTORY_MIGRATING, True, False),
        (DIRECTORY_LOST, True, False),
        (OTHER_DIRECTORY, True, False),
        (DIRECTORIES[1], True, True),
        (DIRECTORIES[0], True, False),
    ],
)
def test_log_is_created_unless_it_may_be_in_an_offline_directory(
    tmp_path: Path,
    directory: Uuid,
    is_created: bool,
    is_created_with_an_offline_directory: bool,
) -> None:
    for is_offline in (False, True):
        broker = Broker(tmp_path / str(is_offline))
        if is_offline:
            broker.fail(0)
        broker.apply(directories=(directory, DIRECTORY_UNASSIGNED, DIRECTORY_UNASSIGNED))
        expected = is_created_with_an_offline_directory if is_offline else is_created
        assert (broker.logs.known("t", 0) is not None) is expected
        assert bool(broker.fetched_from) is expected
        broker.logs.close(clean=False)


def test_failed_directory_fails_only_the_fetch_of_its_partition(broker: Broker) -> None:
    broker.apply(directories=(DIRECTORIES[0], DIRECTORY_UNASSIGNED, DIRECTORY_UNASSIGNED))
    broker.fail(0)
    with pytest.raises(KafkaError) as refused:
        broker.partition.follower_append(batch(b"a"), 0, NOW_MS)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_failed_directory_ends_the_fetch_of_its_partition(broker: Broker) -> None:
    broker.apply(directories=(DIRECTORIES[0], DIRECTORY_UNASSIGNED, DIRECTORY_UNASSIGNED))
    broker.replicas.unfollow_offline()
    assert broker.fetched_from == [(2, 0)]
    broker.fail(0)
    broker.replicas.unfollow_offline()
    assert broker.fetched_from == []
    broker.apply(isr=(2, 3))
    assert broker.fetched_from == []


def test_fenced_broker_does_not_hold_the_high_watermark_back(broker: Broker) -> None:
    """The metadata of the brokers alone advance it, without a fetch or a change of the topic."""
    cluster = Cluster(brokers=3)
    broker.apply(leader=1, isr=(1,))
    image = attrs.evolve(broker.replicas.image, brokers=cluster.image.brokers)
    broker.replicas.apply(image)
    partition = broker.partition
    partition.follower_fetched(2, 0, 0, image.brokers[2].epoch)
    broker.answer_last_proposal(ErrorCode.INELIGIBLE_REPLICA)
    partition.append(batch(b"a"), required_acks=1, origin="client", now_ms=NOW_MS)
    assert partition.high_watermark == 0
    cluster.take(cluster.controller.broker_heartbeat(cluster.heartbeat(2, want_fence=True)))
    fenced = attrs.evolve(image, brokers=cluster.image.brokers)
    broker.replicas.apply(fenced, cluster.deltas[-1])
    assert partition.high_watermark == 1


# Logs that are opened later


@pytest.fixture
def deferring(broker: Broker) -> Broker:
    def note() -> None:
        broker.calls += 1

    broker.replicas.on_unopened = note
    return broker


def test_new_follower_is_fetched_when_its_log_is_created(deferring: Broker) -> None:
    deferring.apply()
    assert deferring.calls == 1
    assert deferring.logs.known("t", 0) is None
    assert deferring.fetched_from == []
    deferring.apply(leader=3, leader_epoch=1)
    assert not deferring.replicas.open_next_log()
    assert deferring.logs.known("t", 0) is not None
    assert deferring.fetched_from == [(3, 1)]


def test_follower_with_a_log_is_fetched_at_once(deferring: Broker) -> None:
    deferring.apply()
    assert not deferring.replicas.open_next_log()
    deferring.apply(leader=3, leader_epoch=1)
    assert deferring.fetched_from == [(3, 1)]


def test_replica_that_was_removed_gets_no_log(deferring: Broker) -> None:
    deferring.apply()
    deferring.apply(replicas=(2, 3), isr=(2, 3))
    assert not deferring.replicas.open_next_log()
    assert deferring.fetched_from == []
    assert deferring.logs.known("t", 0) is None


def test_log_of_a_leader_with_followers_is_created_before_they_fetch(deferring: Broker) -> None:
    deferring.apply(leader=1)
    assert deferring.logs.known("t", 0) is None
    assert not deferring.replicas.open_next_log()
    assert deferring.logs.known("t", 0) is not None
    assert deferring.fetched_from == []


def test_log_of_an_only_replica_is_created_when_it_is_used(deferring: Broker) -> None:
    deferring.apply(leader=1, replicas=(1,), isr=(1,), directories=(DIRECTORY_UNASSIGNED,))
    assert deferring.calls == 0
    assert deferring.partition.log is deferring.logs.known("t", 0)


def test_open_next_log_returns_true_while_there_are_more(deferring: Broker) -> None:
    topic = TopicImage("t", TOPIC_ID, dict.fromkeys(range(3), deferring.state))
    deferring.replicas.apply(
        MetadataImage(topics_by_name={"t": topic}, topics_by_id={TOPIC_ID: topic})
    )
    for count, more in ((1, True), (2, True), (3, False)):
        assert deferring.replicas.open_next_log() is more
        assert len(list(deferring.logs.logs())) == count


def test_follower_whose_log_is_not_loaded_is_fetched_when_it_is(deferring: Broker) -> None:
    """As after a clean stop: the log is known, and its files were not read."""
    deferring.logs.create("t", TOPIC_ID, 0, LogConfig()).release()
    deferring.apply()
    assert deferring.fetched_from == []
    log = deferring.logs.known("t", 0)
    assert log is not None
    assert not log.is_loaded
    assert not deferring.replicas.open_next_log()
    assert deferring.fetched_from == [(2, 0)]
    assert log.is_loaded


# The first image


def test_start_yields_after_each_hundred_partitions(broker: Broker) -> None:
    partitions = dict.fromkeys(range(250), broker.state)
    topic = TopicImage("t", TOPIC_ID, partitions)
    image = MetadataImage(topics_by_name={"t": topic}, topics_by_id={TOPIC_ID: topic})
    hosted = [len(list(broker.replicas.partitions())) for _ in broker.replicas.start(image)]
    assert hosted == [100, 200]
    assert len(list(broker.replicas.partitions())) == 250


@pytest.mark.parametrize("leader", [1, 2], ids=["leader", "follower"])
def test_topic_that_was_created_again_meanwhile_gets_a_new_log(broker: Broker, leader: int) -> None:
    broker.logs.create("t", OTHER_TOPIC_ID, 0, LogConfig()).release()
    broker.apply(leader=leader)
    broker.partition.log.append_as_leader(batch(b"a"), leader_epoch=0, now_ms=NOW_MS)
    assert broker.partition.log.topic_id == TOPIC_ID
    assert broker.partition.log is broker.logs.known("t", 0)
