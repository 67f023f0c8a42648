"""The ISR and the high watermark of a partition that this broker leads, over a real log."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from barnabas.cluster.metadata.image import PartitionImage
from barnabas.cluster.replication import Partition
from barnabas.cluster.replication.follower_progress import FetchTime
from barnabas.cluster.replication.isr_manager import PartitionAnswer
from barnabas.cluster.replication.leader_state import LeaderState
from barnabas.cluster.replication.line_budget import LINES_PER_WINDOW
from barnabas.config import NodeConfig, TopicConfig
from barnabas.log import PartitionLog
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.types import Uuid
from barnabas.testing.batches import NOW_MS, batch
from tests.cluster.replication.fake_host import LAG_MS, FakeHost
from tests.log.logs import TOPIC_ID, new_log, open_volume

CONFIG = NodeConfig.load(None, {})
# Errors after which only the metadata show whether the change was applied.
UNCERTAIN = [
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.NEW_LEADER_ELECTED,
]


class Case:
    """Broker 1 leads a partition whose other replicas are on brokers 2 and 3."""

    def __init__(self, log: PartitionLog) -> None:
        self.host = FakeHost(1, lambda: log)
        self.log = log
        self.partition = Partition("t", 0, TOPIC_ID, self.host)
        self.image = PartitionImage((1, 2, 3), (), (1, 2, 3), 1, 0, 0)

    def update(self, min_isr: int = 1, **changes: Any) -> None:
        """Apply the next image of the partition, with a higher partition epoch."""
        epoch = self.image.partition_epoch + 1
        self.image = attrs.evolve(self.image, **{"partition_epoch": epoch, **changes})
        config = TopicConfig(CONFIG, {"min.insync.replicas": str(min_isr)})
        self.partition.update(self.image, config)

    def append(self, acks: int = 1) -> int:
        info = self.partition.append(
            batch(b"v"), required_acks=acks, origin="client", now_ms=NOW_MS
        )
        return info.last_offset

    def fetch(self, replica: int, offset: int | None = None, epoch: int | None = None) -> None:
        """A follower fetches at `offset`, by default at the end of the log."""
        end = self.log.log_end_offset if offset is None else offset
        broker_epoch = replica * 10 if epoch is None else epoch
        self.partition.follower_fetched(replica, end, 0, broker_epoch)

    def answer(self, error: ErrorCode = ErrorCode.NONE, **fields: Any) -> bool:
        """The controller answers the last proposal."""
        proposal = self.host.proposals[-1]
        answer = PartitionAnswer(
            error_code=error,
            leader_epoch=self.partition.leader_epoch,
            partition_epoch=proposal.partition_epoch + 1,
            isr=list(proposal.isr),
            **fields,
        )
        return self.partition.on_isr_answer(proposal, answer)

    @property
    def state(self) -> LeaderState:
        state = self.partition.leader_state
        assert state is not None
        return state

    @property
    def isr(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The committed and the maximal ISR."""
        return self.state.isr.committed, self.state.isr.maximal

    @property
    def proposed(self) -> list[tuple[int, ...]]:
        return [proposal.isr for proposal in self.host.proposals]


class Listener:
    """Counts the notifications."""

    def __init__(self) -> None:
        self.calls = 0

    def partition_changed(self, partition: Partition) -> None:
        self.calls += 1


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    volume = open_volume(tmp_path)
    yield Case(new_log(volume))
    volume.unlock()


# The high watermark


def test_high_watermark_waits_for_all_of_the_isr(case: Case) -> None:
    case.update(isr=(1, 2))
    case.append()
    case.fetch(3)
    assert case.log.high_watermark == 0
    case.fetch(2)
    assert case.log.high_watermark == 1


def test_high_watermark_waits_for_a_caught_up_replica_outside_the_isr(case: Case) -> None:
    """Else it runs ahead of a follower without end under constant writes (A3.4)."""
    case.update(isr=(1,))
    case.append()
    assert case.log.high_watermark == 1
    case.fetch(2)
    assert case.proposed == [(1, 2)]
    case.answer(ErrorCode.INELIGIBLE_REPLICA)
    case.append()
    assert case.log.high_watermark == 1
    case.fetch(2)
    assert case.log.high_watermark == 2


@pytest.mark.parametrize(
    "state", [{"fenced": True}, {"in_controlled_shutdown": True}, {"epoch": 21}]
)
def test_high_watermark_ignores_a_replica_that_may_not_join(
    case: Case, state: dict[str, Any]
) -> None:
    case.host.brokers[2] = attrs.evolve(case.host.brokers[2], **state)
    case.update(isr=(1,))
    case.append()
    if "epoch" in state:
        with pytest.raises(KafkaError, match="newer epoch"):
            case.fetch(2)
    else:
        case.fetch(2)
    case.append()
    assert case.log.high_watermark == 2
    assert case.proposed == []


def test_high_watermark_advances_without_a_joining_replica_that_stopped(case: Case) -> None:
    case.update(isr=(1,))
    case.append()
    case.fetch(2)
    case.answer(ErrorCode.INELIGIBLE_REPLICA)
    case.append()
    case.host.now_ms += LAG_MS + 1
    case.partition.check_isr()
    assert case.log.high_watermark == 2


def test_high_watermark_advances_without_a_joining_replica_that_a_throttle_holds_back(
    case: Case,
) -> None:
    case.update(isr=(1,))
    case.append()
    case.fetch(2)
    case.answer(ErrorCode.INELIGIBLE_REPLICA)
    case.append()
    case.partition.commit_more()
    assert case.log.high_watermark == 1
    case.state.hold_back(2)
    case.partition.commit_more()
    assert case.log.high_watermark == 2


def test_high_watermark_advances_without_a_joining_replica_that_left_its_session(
    case: Case,
) -> None:
    case.update(isr=(1,))
    case.append()
    time = FetchTime(case.host.now_ms)
    case.partition.follower_fetched(2, 1, 0, 20, time)
    case.answer(ErrorCode.INELIGIBLE_REPLICA)
    case.append()
    case.state.stop_counting_fetches(time, case.host.now_ms)
    case.partition.commit_more()
    assert case.log.high_watermark == 2


def test_high_watermark_advances_without_a_joining_replica_that_is_fenced(case: Case) -> None:
    case.update(isr=(1,))
    case.append()
    case.fetch(2)
    listener = Listener()
    case.partition.listeners[listener] = None
    case.append()
    case.host.brokers[2] = attrs.evolve(case.host.brokers[2], fenced=True)
    case.partition.commit_more()
    assert case.log.high_watermark == 1  # its expansion is pending
    listener.calls = 0
    case.answer(ErrorCode.INELIGIBLE_REPLICA)
    assert (case.log.high_watermark, listener.calls) == (2, 1)


def test_high_watermark_does_not_advance_below_min_isr(case: Case) -> None:
    case.update(min_isr=2, isr=(1,))
    case.append()
    assert case.log.high_watermark == 0


def test_high_watermark_counts_a_replica_whose_expansion_is_pending(case: Case) -> None:
    case.update(isr=(1,))
    case.append()
    case.fetch(2)
    assert case.isr == ((1,), (1, 2))
    case.host.now_ms += LAG_MS + 1  # no longer caught up, but perhaps in the ISR
    case.append()
    assert case.log.high_watermark == 1


def test_high_watermark_counts_a_replica_until_the_metadata_remove_it(case: Case) -> None:
    case.update(isr=(1, 2))
    case.append()
    case.host.now_ms += LAG_MS + 1
    case.partition.check_isr()
    assert case.proposed == [(1,)]
    assert case.isr == ((1, 2), (1, 2))
    assert case.log.high_watermark == 0
    assert not case.answer()
    assert case.log.high_watermark == 0
    case.update(isr=(1,))
    assert case.isr == ((1,), (1,))
    assert case.log.high_watermark == 1
    assert case.host.changes == ["shrunk"]


def test_high_watermark_after_a_removal_respects_the_min_isr_of_its_time(case: Case) -> None:
    """min.insync.replicas rose before the controller removed a replica, which may lead now."""
    case.update(isr=(1, 2), min_isr=1)
    case.append()
    case.host.now_ms += LAG_MS + 1
    case.partition.check_isr()
    case.answer()
    case.update(isr=(1,), elr=(2,), min_isr=2)
    assert case.isr == ((1,), (1,))
    assert case.log.high_watermark == 0


# Followers


def test_new_leader_gives_the_isr_its_full_lag_time(case: Case) -> None:
    """A new leader has seen no fetch yet, which proves nothing about its followers (A3.8)."""
    case.update(isr=(1, 2))
    case.append()
    case.partition.check_isr()
    case.host.now_ms += LAG_MS
    case.partition.check_isr()
    assert case.proposed == []
    case.host.now_ms += 1
    case.partition.check_isr()
    assert case.proposed == [(1,)]


def test_follower_that_follows_constant_writes_stays_in_the_isr(case: Case) -> None:
    case.update(isr=(1, 2))
    for _ in range(10):
        end = case.log.log_end_offset
        case.append()  # it never reaches the end of the log
        case.fetch(2, end)
        case.host.now_ms += LAG_MS // 2
        case.partition.check_isr()
    assert case.proposed == []


def test_follower_that_falls_behind_leaves_the_isr(case: Case) -> None:
    case.update(isr=(1, 2))
    for number in range(10):
        case.append()
        case.append()
        case.fetch(2, number)
        case.host.now_ms += LAG_MS // 2
        case.partition.check_isr()
    assert case.proposed == [(1,)]


def test_follower_of_an_idle_partition_is_caught_up_by_its_session(case: Case) -> None:
    """Its incremental fetches name only what changed, and fetch all partitions of the session."""
    case.update(isr=(1, 2))
    time = FetchTime(case.host.now_ms)
    case.partition.follower_fetched(2, 0, 0, 20, time)
    for _ in range(10):
        case.host.now_ms += LAG_MS
        time.advance(case.host.now_ms)
    case.append()
    case.partition.check_isr()
    assert case.proposed == []
    case.host.now_ms += LAG_MS + 1
    case.partition.check_isr()
    assert case.proposed == [(1,)]


def test_follower_whose_session_forgot_the_partition_leaves_the_isr(case: Case) -> None:
    case.update(isr=(1, 2))
    time = FetchTime(case.host.now_ms)
    case.partition.follower_fetched(2, 0, 0, 20, time)
    case.state.stop_counting_fetches(time, time.last_ms)
    case.append()
    case.host.now_ms += LAG_MS + 1
    time.advance(case.host.now_ms)
    case.partition.check_isr()
    assert case.proposed == [(1,)]


@pytest.mark.parametrize(
    ("with_epoch", "code"),
    [(True, ErrorCode.UNKNOWN_LEADER_EPOCH), (False, ErrorCode.NOT_LEADER_OR_FOLLOWER)],
)
def test_fetch_of_an_unknown_replica_is_refused(
    case: Case, *, with_epoch: bool, code: ErrorCode
) -> None:
    case.update(isr=(1,))
    with pytest.raises(KafkaError) as refused:
        case.partition.check_follower(4, with_epoch=with_epoch)
    assert refused.value.code is code


# Changes of the ISR


def test_replica_joins_with_its_first_fetch_at_the_high_watermark(case: Case) -> None:
    case.update(isr=(1,))
    case.append()
    case.append()
    case.fetch(2, 1)
    assert case.proposed == []
    case.fetch(2, 2)
    assert case.proposed == [(1, 2)]
    assert case.host.proposals[0].broker_epochs == {2: 20}
    case.answer()
    assert case.isr == ((1, 2), (1, 2))
    assert case.host.changes == ["expanded"]


def test_replica_does_not_join_below_the_start_of_the_leader_epoch(case: Case) -> None:
    """The committed offsets there are unknown to a new leader, whose high watermark may be old."""
    for _ in range(3):
        case.log.append_as_leader(batch(b"old"), leader_epoch=0, now_ms=NOW_MS)
    case.log.advance_high_watermark(1)
    case.update(isr=(1,), leader_epoch=1, min_isr=2)
    case.fetch(2, 2)
    assert case.proposed == []
    case.fetch(2, 3)
    assert case.proposed == [(1, 2)]


def test_replica_with_an_older_broker_epoch_does_not_join(case: Case) -> None:
    """A fetch from before the broker's restart proves nothing about its log now (KIP-903)."""
    case.update(isr=(1,))
    case.host.brokers[2] = attrs.evolve(case.host.brokers[2], epoch=25)
    with pytest.raises(KafkaError) as refused:
        case.fetch(2, epoch=20)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    case.host.brokers[2] = attrs.evolve(case.host.brokers[2], epoch=15)  # not known here yet
    case.fetch(2, epoch=20)
    assert case.proposed == []
    case.host.brokers[2] = attrs.evolve(case.host.brokers[2], epoch=20)
    assert case.proposed == []
    case.fetch(2, epoch=20)
    assert case.proposed == [(1, 2)]


def test_isr_has_one_change_at_a_time(case: Case) -> None:
    case.update(isr=(1,))
    case.fetch(2)
    case.fetch(3)
    assert case.proposed == [(1, 2)]
    case.answer()
    case.fetch(3)
    assert case.proposed == [(1, 2), (1, 2, 3)]


def test_follower_taken_out_of_the_isr_does_not_join_without_another_fetch(case: Case) -> None:
    """Its log may be lost since its last fetch, although it had all records then."""
    case.update(isr=(1, 2))
    time = FetchTime(case.host.now_ms)
    case.partition.follower_fetched(2, 0, 0, 20, time)
    case.update(isr=(1,))
    case.partition.commit_more()  # as with changed brokers
    time.advance(case.host.now_ms)  # the session fetches, perhaps without this partition
    case.partition.check_isr()
    assert case.proposed == []
    case.partition.follower_fetched(2, 0, 0, 20, time)
    assert case.proposed == [(1, 2)]


def test_replica_in_an_offline_directory_does_not_join(case: Case) -> None:
    online, offline = Uuid(b"\x05" * 16), Uuid(b"\x06" * 16)
    case.host.brokers[2] = attrs.evolve(case.host.brokers[2], directories=(online,))
    case.update(isr=(1,), directories=(online, offline, online))
    case.fetch(2)
    assert case.proposed == []
    case.append()
    assert case.log.high_watermark == 1
    case.update(directories=(online, online, online))
    case.fetch(2)
    assert case.proposed == [(1, 2)]


def test_fetch_without_a_broker_epoch_does_not_count_for_the_next_start(case: Case) -> None:
    """Before Fetch 15: the broker has lost its power, and starts with a shorter log."""
    case.update(isr=(1,))
    case.fetch(2, epoch=-1)
    assert case.host.proposals[0].broker_epochs == {2: 20}
    case.answer(ErrorCode.INELIGIBLE_REPLICA)
    case.host.brokers[2] = attrs.evolve(case.host.brokers[2], epoch=25)
    case.append()
    assert case.log.high_watermark == 1  # it is not about to join
    case.fetch(2, epoch=-1)
    assert case.host.proposals[1].broker_epochs == {2: 25}


def test_image_that_shrinks_the_isr_notifies_the_listeners(case: Case) -> None:
    """The fetch session of the removed follower then notes each of its fetches."""
    case.update(isr=(1, 2), min_isr=2)
    case.append()
    case.host.now_ms += LAG_MS + 1
    case.partition.check_isr()
    listener = Listener()
    case.partition.listeners[listener] = None
    case.answer()
    case.update(isr=(1,), min_isr=2)
    assert (case.isr, listener.calls) == (((1,), (1,)), 1)
    assert case.state.is_out_of_sync(2)


@pytest.mark.parametrize("error", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_isr_is_rolled_back_when_the_controller_refused_it(case: Case, error: ErrorCode) -> None:
    case.update(isr=(1,))
    case.fetch(2)
    assert not case.answer(error)
    assert case.isr == ((1,), (1,))


@pytest.mark.parametrize("error", UNCERTAIN)
def test_isr_stays_pending_when_the_change_may_have_been_applied(
    case: Case, error: ErrorCode
) -> None:
    case.update(isr=(1,))
    case.fetch(2)
    assert not case.answer(error)
    assert case.isr == ((1,), (1, 2))
    case.update(isr=(1, 2))
    assert case.isr == ((1, 2), (1, 2))


def test_isr_change_is_sent_again_after_another_error(case: Case) -> None:
    case.update(isr=(1,))
    case.fetch(2)
    assert case.answer(ErrorCode.NOT_CONTROLLER)
    assert case.isr == ((1,), (1, 2))


def test_answer_to_an_earlier_proposal_is_ignored(case: Case) -> None:
    case.update(isr=(1,))
    case.fetch(2)
    case.update(isr=(1, 3))
    case.answer(ErrorCode.INELIGIBLE_REPLICA)
    case.answer()
    assert case.isr == ((1, 3), (1, 3))


def test_image_older_than_the_answer_is_skipped(case: Case) -> None:
    """It would roll the ISR back, and the high watermark would leave a member behind (A3.9)."""
    case.update(isr=(1,))
    case.fetch(2)
    older = case.image
    case.answer()
    case.partition.update(older, TopicConfig(CONFIG, {}))
    assert case.isr == ((1, 2), (1, 2))
    case.append()
    assert case.log.high_watermark == 0


def test_change_of_the_configuration_keeps_a_pending_change(case: Case) -> None:
    case.update(isr=(1,))
    case.fetch(2)
    case.update(partition_epoch=case.image.partition_epoch, min_isr=2)
    assert case.isr == ((1,), (1, 2))
    assert case.partition.min_insync_replicas == 2


# acks=all


def test_append_below_min_isr_is_refused_before_it_is_written(case: Case) -> None:
    case.update(min_isr=2, isr=(1,))
    case.fetch(2)
    assert case.isr == ((1,), (1, 2))  # the maximal ISR would be enough
    with pytest.raises(KafkaError) as refused:
        case.append(acks=-1)
    assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert case.log.log_end_offset == 0


def test_acks_below_min_isr_are_refused_after_the_append(case: Case) -> None:
    case.update(isr=(1, 2))
    offset = case.append(acks=-1)
    assert case.partition.acks_outcome(offset) is None
    case.fetch(2)
    case.host.brokers[2] = attrs.evolve(case.host.brokers[2], fenced=True)
    case.update(min_isr=2, isr=(1,))
    assert case.partition.acks_outcome(offset) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_acks_of_a_deposed_leader_are_refused(case: Case) -> None:
    case.update(isr=(1, 2))
    offset = case.append(acks=-1)
    case.update(leader=2, leader_epoch=1)
    assert case.partition.acks_outcome(offset) is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(("replicas", "needed"), [((1, 2), 2), ((1, 2, 3), 3)])
def test_min_isr_is_at_most_the_number_of_replicas(
    case: Case, replicas: tuple[int, ...], needed: int
) -> None:
    case.update(min_isr=5, replicas=replicas)
    assert case.partition.min_insync_replicas == needed


# Deleting records


def test_low_watermark_is_the_lowest_log_start_of_live_replicas(case: Case) -> None:
    case.update()
    for _ in range(3):
        case.append()
    for replica in (2, 3):
        case.fetch(replica)
    case.partition.delete_records(2)
    assert case.partition.low_watermark == 0
    case.partition.follower_fetched(2, 3, 2, 20)
    assert case.partition.low_watermark == 0
    case.host.brokers[3] = attrs.evolve(case.host.brokers[3], fenced=True)
    assert case.partition.low_watermark == 2


# Log lines


def test_many_changes_of_isrs_write_few_lines_a_second(
    case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "barnabas")
    case.update(isr=(1, 2))
    for lines in (LINES_PER_WINDOW, 2 * LINES_PER_WINDOW):
        for _ in range(3 * LINES_PER_WINDOW):
            case.fetch(3)
            case.answer(ErrorCode.INELIGIBLE_REPLICA)

        assert len(caplog.records) == lines
        case.host.now_ms += 1_000
    case.fetch(3)
    assert "expanding ISR partition=t-0 from=[1, 2] to=[1, 2, 3]" in caplog.text
