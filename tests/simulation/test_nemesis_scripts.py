"""Scripted schedules of faults that have broken replicated logs before.

They run the real leaders, followers and controller decisions of `isr_simulation`, step by step;
its properties are checked after each step and, after all faults have ended, at rest. Two more
schedules are elsewhere: a new voter that needs a snapshot (`test_quorum_snapshots`), and a leader
that removes itself (`tests/cluster/test_raft.py`).
"""

from typing import Any

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.testing.batches import NOW_MS
from tests.cluster.replication.isr_simulation import BROKERS, FETCH_VERSION, LAG_MS, Broker, World
from tests.cluster.states import Cluster


class Script(World):
    """A world without chance: the test decides what happens next."""

    def __init__(self) -> None:
        super().__init__(0)
        self.late_broker = self.slow_broker = 0
        self.random.random = lambda: 1.0  # type: ignore[method-assign]

    def learn(self, *brokers: int) -> None:
        """The brokers apply all metadata."""
        for broker in brokers or BROKERS:
            self.brokers[broker].apply(len(self.images) - 1)
        self.check()

    def follow(self, *followers: int, rounds: int = 4) -> None:
        """The followers fetch some times."""
        for follower in followers * rounds:
            self.now_ms += 1_000
            broker = self.brokers[follower]
            epoch = self.cluster.image.brokers[follower].epoch
            for key, core in list(broker.fetchers.cores.items()):
                request = core.next_request(self.now_ms, version=FETCH_VERSION, broker_epoch=epoch)
                if request is None:
                    continue
                leader = self.brokers[key.leader]
                is_fetch = isinstance(request, FetchRequest)
                response = leader.fetch(request) if is_fetch else self._offsets(leader, request)
                core.on_response(response, self.now_ms, wall_ms=NOW_MS)
            self.check()

    def propose(self, leader: int) -> Any:
        """Return the request of a leader for another ISR."""
        self.now_ms += 1_000
        manager, image = self.brokers[leader].isr_manager, self.brokers[leader].image
        return manager.poll(image.brokers[leader].epoch, self.now_ms)

    def decide(self, leader: int, request: Any, *, is_lost: bool = False) -> ErrorCode:
        """The controller decides a request; return the partition's error."""
        response = self.cluster.take(self.cluster.controller.handle(request, 3))
        self.decided()
        manager = self.brokers[leader].isr_manager
        if is_lost:
            manager.on_failure(self.now_ms)
        else:
            manager.on_response(response, self.now_ms)
        self.check()
        return ErrorCode(response.topics[0].partitions[0].error_code)

    def fenced(self, broker: int) -> None:
        """The session of a broker ends."""
        request = self.cluster.heartbeat(broker, want_fence=True)
        self.cluster.take(self.cluster.controller.broker_heartbeat(request))
        self.decided()

    def returned(self, broker: int) -> None:
        """A fenced broker is unfenced."""
        self.cluster.unfence(broker)
        self.decided()

    def killed(self, broker: int, *, by_power: bool = False) -> None:
        """A broker ends and registers again, fenced; `by_power`: it loses what is not synced."""
        self.end(self.brokers[broker], by_power=by_power)

    def alone(self, leader: int, *others: int) -> None:
        """The others leave the ISR of the leader."""
        for other in others:
            self.fenced(other)
        self.learn(leader)

    @property
    def leader(self) -> Broker:
        return self.brokers[self.truth.leader]

    def written(self, count: int) -> None:
        for _ in range(count):
            self.produce()
        self.check()

    def rejoined(self) -> None:
        """End the script: all brokers return, and the replicas come to rest."""
        self.heal()


@pytest.fixture
def script() -> Script:
    script = Script()
    script.learn()
    script.written(2)
    script.follow(*[each for each in BROKERS if each != script.truth.leader])
    return script


def others_of(script: Script) -> list[int]:
    return [each for each in BROKERS if each != script.truth.leader]


def test_deposed_leader_with_a_longer_log_returns_and_truncates(script: Script) -> None:
    old = script.truth.leader
    script.written(5)  # without a follower
    end = script.brokers[old].log.log_end_offset
    script.fenced(old)
    new = script.truth.leader
    others = [each for each in BROKERS if each not in (old, new)]
    script.learn(new, *others)
    script.produce()  # in both epochs
    script.follow(*others)
    script.returned(old)
    script.learn()
    script.follow(old)
    assert script.brokers[old].log.log_end_offset < end
    script.rejoined()


def test_controller_that_ends_before_its_answer_leaves_the_change_pending(script: Script) -> None:
    leader, late, _ = script.truth.leader, *others_of(script)
    script.alone(leader, late)
    script.returned(late)
    script.learn()
    script.follow(late)
    request = script.propose(leader)
    assert script.decide(leader, request, is_lost=True) is ErrorCode.NONE
    again = script.propose(leader)
    assert script.decide(leader, again) is ErrorCode.INVALID_UPDATE_VERSION
    state = script.brokers[leader].partition.leader_state
    assert state is not None
    assert late in state.isr.maximal
    script.written(2)  # which must wait for the replica that has joined
    script.follow(*[each for each in others_of(script) if each != late])
    script.killed(leader)
    script.rejoined()


def test_replica_that_lost_power_within_its_session_leaves_the_isr(script: Script) -> None:
    lost = others_of(script)[0]
    script.written(3)
    script.follow(*others_of(script))
    script.killed(lost, by_power=True)
    assert lost not in {*script.truth.isr, *script.truth.elr}
    script.killed(script.truth.leader)
    assert script.truth.leader not in (lost, -1)
    script.rejoined()


def test_alter_partition_delayed_past_a_restart_of_the_replica_is_refused(script: Script) -> None:
    """KIP-903."""
    leader, joining, _ = script.truth.leader, *others_of(script)
    script.alone(leader, joining)
    script.returned(joining)
    script.learn()
    script.follow(joining)
    request = script.propose(leader)
    script.killed(joining, by_power=True)
    script.returned(joining)
    assert script.decide(leader, request) is ErrorCode.INELIGIBLE_REPLICA
    assert joining not in script.truth.isr
    script.rejoined()


def test_three_elections_in_a_row_leave_equal_logs(script: Script) -> None:
    """KIP-279: each leader has a record that the others lack, and learns late of its end."""
    for _ in range(3):
        leader = script.truth.leader
        script.learn(leader)
        script.written(1)
        script.fenced(leader)
        script.returned(leader)
    script.learn()
    script.follow(*others_of(script), rounds=6)
    script.rejoined()


def test_min_isr_lowered_below_the_isr_clears_the_eligible_replicas(script: Script) -> None:
    leader, first, second = script.truth.leader, *others_of(script)
    script.fenced(first)
    script.fenced(second)
    assert script.truth.elr == (second,)
    script.random.choice = lambda values: 1  # type: ignore[method-assign,assignment]
    script.alter_min_isr()
    assert script.truth.elr == ()
    script.learn(leader)
    script.written(3)  # committed by the leader alone
    del script.random.choice
    script.fenced(leader)
    assert script.truth.leader == -1, "the others lack records"
    script.now_ms += LAG_MS
    script.rejoined()


def test_reassignment_completes_with_the_next_leader_when_its_leader_is_fenced() -> None:
    cluster = Cluster(brokers=4)
    topic_id = cluster.create("t", replicas=3).topic_id
    before = cluster.image.topics_by_name["t"].partitions[0]
    (added,) = {1, 2, 3, 4} - {*before.replicas}
    kind = AlterPartitionReassignmentsRequest
    target = [added, *before.replicas[1:]]
    partition = kind.ReassignablePartition(partition_index=0, replicas=target)
    topic = kind.ReassignableTopic(name="t", partitions=[partition])
    cluster.take(cluster.controller.alter_partition_reassignments(kind(topics=[topic])))

    fence = cluster.heartbeat(before.leader, want_fence=True)
    late = _alter_isr(cluster, topic_id, before.leader, [*before.replicas, added])
    cluster.take(cluster.controller.broker_heartbeat(fence))
    refused = cluster.take(cluster.controller.handle(late, 3)).topics[0].partitions[0]
    assert refused.error_code == ErrorCode.FENCED_LEADER_EPOCH

    present = cluster.image.topics_by_name["t"].partitions[0]
    request = _alter_isr(cluster, topic_id, present.leader, [*present.isr, added])
    cluster.take(cluster.controller.handle(request, 3))
    after = cluster.image.topics_by_name["t"].partitions[0]
    assert (after.adding_replicas, after.removing_replicas) == ((), ())
    assert set(after.replicas) == set(target)
    assert after.leader_epoch > present.leader_epoch


def _alter_isr(cluster: Cluster, topic_id: Any, leader: int, isr: list[int]) -> Any:
    from barnabas.protocol.messages.alter_partition import AlterPartitionRequest as Request

    partition = cluster.image.topics_by_name["t"].partitions[0]
    states = [
        Request.BrokerState(broker_id=each, broker_epoch=cluster.image.brokers[each].epoch)
        for each in isr
    ]
    data = Request.PartitionData(
        partition_index=0,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        new_isr_with_epochs=states,
    )
    return Request(
        broker_id=leader,
        broker_epoch=cluster.image.brokers[leader].epoch,
        topics=[Request.TopicData(topic_id=topic_id, partitions=[data])],
    )
