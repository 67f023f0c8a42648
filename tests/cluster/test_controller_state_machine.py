"""Operations are answered, and images published, when their own records are committed."""

import logging
import random
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.cluster.controller.controller import Controller
from barnabas.cluster.controller.controller_state_machine import (
    Completion,
    ControllerStateMachine,
    Effects,
)
from barnabas.cluster.controller.sessions import SessionKey
from barnabas.cluster.metadata.feature_levels import METADATA_VERSION
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.cluster.quorum.epoch_history import EpochHistory, OffsetAndEpoch
from barnabas.cluster.quorum.metadata_loader import MetadataLoader
from barnabas.cluster.quorum.metadata_snapshot import Snapshot, SnapshotId
from barnabas.cluster.quorum.quorum_state import QuorumState
from barnabas.cluster.quorum.raft import RaftCore
from barnabas.cluster.quorum.raft_messages import (
    BeginQuorumEpoch,
    FetchRequest,
    FetchResponse,
    VoteRequest,
    VoteResponse,
)
from barnabas.cluster.quorum.raft_state import Timeouts
from barnabas.cluster.quorum.voters import ReplicaKey, Voter, VoterSet
from barnabas.config import NodeConfig
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from barnabas.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from barnabas.protocol.messages.broker_registration import BrokerRegistrationResponse
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.metadata_records import (
    AbortTransactionRecord,
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    decode_metadata_record,
)
from tests.cluster.states import CLUSTER_ID, registration, uuid

BOOTSTRAP = [FeatureLevelRecord(name=METADATA_VERSION, feature_level=30)]
TOKEN = object()


def machine_of(size: int = 1, **options: Any) -> ControllerStateMachine:
    """The state machine of voter 1, with an empty log."""
    voters = VoterSet.of(*(Voter(ReplicaKey(node, uuid(node))) for node in range(1, size + 1)))
    core = RaftCore(
        local=voters.voters[1],
        voters=voters,
        voters_offset=0,
        kraft_version=1,
        state=QuorumState(),
        log=EpochHistory([], 0),
        random=random.Random(5).randrange,
        timeouts=Timeouts(),
    )
    config = NodeConfig.load(None, {})
    ids = iter(range(1000, 2000))
    controller_type = options.pop("controller_type", Controller)
    controller = controller_type(
        lambda: config,
        lambda: uuid(next(ids)),
        lambda below: 0,
        lambda: core.kraft_version,
        wall_ms=lambda: 0,
    )
    image = MetadataImage(cluster_id=CLUSTER_ID)
    options.setdefault("bootstrap", BOOTSTRAP)
    machine = ControllerStateMachine(core, controller, image, **options)
    core.start(0)
    return machine


def leading(size: int = 1, **options: Any) -> ControllerStateMachine:
    """The same, elected, with all that it appended committed."""
    machine = machine_of(size, **options)
    while not machine.core.is_leader:
        machine.core.tick(10_000)
        for message in machine.take_effects(10_000).ready.messages:
            assert isinstance(message, VoteRequest)
            vote = VoteResponse(message, message.to, message.epoch, None, granted=True)
            machine.core.on_vote_response(vote, 10_000)
    machine.take_effects(10_000)
    commit(machine)
    return machine


def commit(machine: ControllerStateMachine) -> Effects:
    """Flush the log, on a majority of the voters."""
    core = machine.core
    core.on_flushed(core.log_end_offset)
    for voter_id in range(2, len(core.voters) + 1):
        key = ReplicaKey(voter_id, uuid(voter_id))
        end = core.log_end_offset
        core.on_fetch(FetchRequest(1, core.epoch, key, end, core.log.last_epoch), 10_000)
    return machine.take_effects(10_000)


def submit(machine: ControllerStateMachine, broker_id: int, token: object = TOKEN) -> Effects:
    machine.submit(registration(broker_id), 4, token, 10_000)
    return machine.take_effects(10_000)


def depose(machine: ControllerStateMachine) -> Effects:
    """Voter 2 leads the next epoch."""
    machine.core.on_begin_quorum_epoch(BeginQuorumEpoch(1, machine.core.epoch + 1, 2), 10_000)
    return machine.take_effects(10_000)


def follow(machine: ControllerStateMachine, offset: int, end_offset: int) -> Iterator[Effects]:
    """Replace the log from `offset` on by records of the new leader, all committed."""
    core = machine.core
    diverging = OffsetAndEpoch(offset, core.epoch - 1)
    answer(machine, offset, diverging)
    yield machine.take_effects(10_000)
    answer(machine, end_offset)
    core.on_appended([(core.epoch, offset, end_offset)], end_offset)
    yield machine.take_effects(10_000)


def answer(
    machine: ControllerStateMachine, high_watermark: int, diverging: OffsetAndEpoch | None = None
) -> None:
    """Voter 2 answers a fetch."""
    response = FetchResponse(
        machine.core.epoch, 2, high_watermark=high_watermark, diverging=diverging
    )
    machine.core.on_fetch_response(response, 10_000)


def test_submit_completes_only_after_the_flush() -> None:
    machine = leading()
    effects = submit(machine, 1)
    assert [len(entry.records) for entry in effects.ready.entries] == [1]
    assert (effects.committed, effects.completions) == ([], [])
    assert machine.image.brokers == {}
    effects = commit(machine)
    assert [batch.image.brokers.keys() for batch in effects.committed] == [{1}]
    epoch = machine.image.brokers[1].epoch
    response = BrokerRegistrationResponse(broker_epoch=epoch)
    assert effects.completions == [Completion(TOKEN, response)]


def test_submit_sees_the_effects_of_uncommitted_operations() -> None:
    machine = leading()
    submit(machine, 1)
    submit(machine, 1)  # the same incarnation: no further record
    effects = commit(machine)
    assert len(effects.committed) == 1
    first, second = (completion.outcome for completion in effects.completions)
    assert first == second


def test_submit_on_a_follower_is_refused() -> None:
    machine = leading(3)
    depose(machine)
    with pytest.raises(KafkaError) as refusal:
        submit(machine, 1)
    assert refusal.value.code is ErrorCode.NOT_CONTROLLER


def test_submit_error_of_the_operation_is_raised() -> None:
    machine = leading()
    request = registration(1)
    request.cluster_id = "another"
    with pytest.raises(KafkaError) as refusal:
        machine.submit(request, 4, TOKEN, 0)
    assert refusal.value.code is ErrorCode.INCONSISTENT_CLUSTER_ID
    assert commit(machine).completions == []


def test_step_down_fails_what_is_not_committed() -> None:
    machine = leading(3)
    submit(machine, 1)
    (completion,) = depose(machine).completions
    assert completion.token is TOKEN
    assert isinstance(completion.outcome, KafkaError)
    assert completion.outcome.code is ErrorCode.NOT_CONTROLLER


def test_truncated_record_is_never_acknowledged_or_published() -> None:
    """Planted once: a waiter bound to the offset alone, and images kept over a truncation."""
    machine = leading(3)
    offset = machine.core.high_watermark
    submit(machine, 1)
    completions = depose(machine).completions
    for effects in follow(machine, offset, offset + 10):
        assert effects.committed == []
        completions += effects.completions
    assert machine.core.high_watermark == offset + 10
    assert machine.image.brokers == {}
    assert [type(completion.outcome) for completion in completions] == [KafkaError]


def test_resignation_in_the_same_event_as_the_commit_is_a_step_down() -> None:
    """Planted once: completions taken before the change of leadership is noticed."""
    machine = leading(3)
    submit(machine, 1)
    core = machine.core
    core.on_begin_quorum_epoch(BeginQuorumEpoch(1, core.epoch + 1, 2), 10_000)
    answer(machine, core.log_end_offset)
    (completion,) = machine.take_effects(10_000).completions
    assert isinstance(completion.outcome, KafkaError)


def test_reported_voters_are_forgotten_with_the_leadership() -> None:
    machine = leading(3)
    voter = machine.core.voters.voters[2]
    machine.reported_voters[2] = voter
    machine.tick(10_000)
    assert machine.reported_voters == {2: voter}
    depose(machine)
    assert machine.reported_voters == {}


def test_uncommitted_record_that_the_next_leader_commits_is_published() -> None:
    machine = leading(3)
    submit(machine, 1)
    depose(machine)
    core = machine.core
    answer(machine, core.log_end_offset)
    effects = machine.take_effects(10_000)
    assert [batch.image.brokers.keys() for batch in effects.committed] == [{1}]
    assert (machine.image.controller_id, machine.image.epoch) == (2, core.epoch)


def test_activation_bootstraps_an_empty_log() -> None:
    machine = machine_of()
    entries = machine.take_effects(0).ready.entries
    assert entries[0].control
    records = [decode_metadata_record(value) for value in entries[1].records]
    assert records == BOOTSTRAP
    assert len(entries) == 2


def test_activation_aborts_an_open_transaction() -> None:
    machine = machine_of(open_transaction=())
    (_, abort, _) = machine.take_effects(0).ready.entries
    (record,) = (decode_metadata_record(value) for value in abort.records)
    assert isinstance(record, AbortTransactionRecord)


def unfence(machine: ControllerStateMachine, broker_id: int, now_ms: int = 10_000) -> None:
    """Register a broker and send its first heartbeat."""
    submit(machine, broker_id)
    commit(machine)
    machine.submit(heartbeat(machine, broker_id), 2, TOKEN, now_ms)
    commit(machine)
    assert not machine.image.brokers[broker_id].fenced


def heartbeat(machine: ControllerStateMachine, broker_id: int) -> BrokerHeartbeatRequest:
    epoch = machine.image.brokers[broker_id].epoch
    offset = machine.image.offset
    return BrokerHeartbeatRequest(
        broker_id=broker_id, broker_epoch=epoch, current_metadata_offset=offset
    )


def elect(machine: ControllerStateMachine, now_ms: int) -> None:
    """Win the election of the next epoch."""
    core = machine.core
    core.tick(now_ms)
    while not core.is_leader:
        for message in machine.take_effects(now_ms).ready.messages:
            assert isinstance(message, VoteRequest)
            vote = VoteResponse(message, message.to, message.epoch, None, granted=True)
            core.on_vote_response(vote, now_ms)
    machine.take_effects(now_ms)
    commit(machine)


def tick_until(machine: ControllerStateMachine, now_ms: int) -> None:
    """Run the tasks that are due up to a time, each at its time."""
    while (wakeup_ms := machine.wakeup_ms()) is not None and wakeup_ms <= now_ms:
        machine.tick(wakeup_ms)
        commit(machine)


def test_tick_broker_without_heartbeats_is_fenced_after_its_session() -> None:
    machine = leading(3)
    unfence(machine, 2)
    tick_until(machine, 18_999)
    assert not machine.image.brokers[2].fenced
    tick_until(machine, 19_000 + 9000 // 8)
    assert machine.image.brokers[2].fenced


def test_tick_broker_with_heartbeats_stays_unfenced() -> None:
    machine = leading(3)
    unfence(machine, 2)
    for now_ms in range(12_000, 40_000, 2000):
        tick_until(machine, now_ms)
        machine.submit(heartbeat(machine, 2), 2, TOKEN, now_ms)
        commit(machine)
    assert not machine.image.brokers[2].fenced


@pytest.mark.parametrize("has_ended", [False, True])
def test_fenced_broker_is_logged_once_with_the_reason(
    caplog: pytest.LogCaptureFixture, *, has_ended: bool
) -> None:
    caplog.set_level(logging.INFO, "barnabas.cluster.controller")
    machine = with_partitions(1200)
    epoch = machine.image.brokers[1].epoch
    if has_ended:
        machine.end_session(SessionKey(1, epoch), 10_000)
    run_at_once(machine)
    tick_until(machine, 19_000 + 9000 // 8)
    reason = "its process has ended" if has_ended else "no heartbeat for 9000 ms"
    lines = [line for line in caplog.messages if line.startswith("fencing broker id=1 ")]
    assert lines == [f"fencing broker id=1 epoch={epoch} reason={reason}"]


def test_tick_several_expired_brokers_are_fenced_at_once() -> None:
    machine = leading(3)
    for broker_id in (2, 3):
        unfence(machine, broker_id)
    tick_until(machine, 19_000 + 9000 // 8)
    assert [machine.image.brokers[broker_id].fenced for broker_id in (2, 3)] == [True, True]


def test_tick_late_by_a_period_fences_no_broker() -> None:
    """The node has not yet read the heartbeats that arrived while it was stopped."""
    machine = leading(3)
    unfence(machine, 2)
    machine.tick(60_000)
    machine.tick(60_000)
    commit(machine)
    assert not machine.image.brokers[2].fenced
    machine.submit(heartbeat(machine, 2), 2, TOKEN, 60_001)
    tick_until(machine, 68_000)
    assert not machine.image.brokers[2].fenced


def test_activation_gives_unfenced_brokers_a_new_session() -> None:
    """Planted once: sessions of a new controller that start expired (mistake 33)."""
    machine = leading(3)
    unfence(machine, 2)
    depose(machine)
    assert machine.wakeup_ms() is None
    elect(machine, 50_000)
    tick_until(machine, 58_999)
    assert not machine.image.brokers[2].fenced
    tick_until(machine, 59_000 + 9000 // 8)
    assert machine.image.brokers[2].fenced


def test_tick_writes_no_op_records_when_other_nodes_follow() -> None:
    machine = leading(3)
    unfence(machine, 2)
    offset = machine.image.offset
    tick_until(machine, 10_600)
    assert machine.image.offset == offset  # a single broker needs none
    unfence(machine, 3)
    offset = machine.image.offset
    tick_until(machine, 12_100)
    assert machine.image.offset == offset + 3


def test_submit_of_too_many_records_for_an_atomic_batch_is_refused() -> None:
    machine = leading()
    topic = CreateTopicsRequest.CreatableTopic(
        name="t", num_partitions=10_000, replication_factor=1
    )
    unfence(machine, 1)
    with pytest.raises(KafkaError) as refusal:
        machine.submit(CreateTopicsRequest(topics=[topic]), 7, TOKEN, 10_000)
    assert refusal.value.code is ErrorCode.POLICY_VIOLATION


def with_partitions(count: int, brokers: int = 3) -> ControllerStateMachine:
    """A machine with brokers and `count` partitions of all of them."""
    machine = leading(1)
    for broker_id in range(1, brokers + 1):
        unfence(machine, broker_id)
    for number in range(count // 100):
        topic = CreateTopicsRequest.CreatableTopic(
            name=f"t{number}", num_partitions=100, replication_factor=brokers
        )
        machine.submit(CreateTopicsRequest(topics=[topic]), 7, TOKEN, 10_000)
        commit(machine)
    return machine


def run_at_once(machine: ControllerStateMachine, now_ms: int = 10_000) -> list[list[Message]]:
    """Run what is due now; return the records of each run."""
    runs: list[list[Message]] = []
    while (wakeup_ms := machine.wakeup_ms()) is not None and wakeup_ms <= now_ms:
        machine.tick(now_ms)
        entries = machine.take_effects(now_ms).ready.entries
        runs.append([decode_metadata_record(each) for entry in entries for each in entry.records])
        commit(machine)
    return runs


def leads(machine: ControllerStateMachine, broker_id: int) -> bool:
    return machine.image.partition_index.has_leaderships(broker_id)


def test_tick_broker_with_many_partitions_is_fenced_last_and_in_several_runs() -> None:
    """Planted once: the fencing recorded before the changes of ISRs (mistake 31)."""
    machine = with_partitions(1200)
    epoch = machine.image.brokers[1].epoch
    machine.end_session(SessionKey(1, epoch), 10_000)
    runs = [run for run in run_at_once(machine) if run]
    assert [len(run) for run in runs] == [500, 500, 201]
    records = [record for run in runs for record in run]
    assert all(isinstance(record, PartitionChangeRecord) for record in records[:-1])
    assert isinstance(records[-1], BrokerRegistrationChangeRecord)
    assert machine.image.brokers[1].fenced
    assert not leads(machine, 1)
    assert not list(machine.image.partition_index.isr_members(1))


def test_end_session_heartbeat_of_a_live_broker_unfences_it_again() -> None:
    machine = with_partitions(100)
    machine.end_session(SessionKey(1, machine.image.brokers[1].epoch), 10_000)
    run_at_once(machine)
    machine.submit(heartbeat(machine, 1), 2, TOKEN, 10_001)
    commit(machine)
    assert machine.image.brokers[1].is_active


def test_controlled_shutdown_of_many_leaderships_waits_for_the_last_of_them() -> None:
    """Planted once: free to stop when others had applied only the first of several batches."""
    machine = with_partitions(1500)
    stop = heartbeat(machine, 1)
    stop.want_shut_down = True
    machine.submit(stop, 2, TOKEN, 10_000)
    commit(machine)
    first_offset = machine.image.offset
    assert leads(machine, 1)
    run_at_once(machine)
    assert not leads(machine, 1)
    behind = heartbeat(machine, 2)
    behind.current_metadata_offset = first_offset
    machine.submit(behind, 2, TOKEN, 10_000)
    machine.submit(heartbeat(machine, 3), 2, TOKEN, 10_000)
    assert not answer_to(machine, stop).should_shut_down
    machine.submit(heartbeat(machine, 2), 2, TOKEN, 10_000)
    assert answer_to(machine, stop).should_shut_down


def answer_to(
    machine: ControllerStateMachine, request: BrokerHeartbeatRequest
) -> BrokerHeartbeatResponse:
    commit(machine)
    machine.submit(request, 2, "this", 10_000)
    completions = commit(machine).completions
    (outcome,) = (each.outcome for each in completions if each.token == "this")
    assert isinstance(outcome, BrokerHeartbeatResponse)
    return outcome


def test_unfence_many_leaderless_partitions_are_elected_in_several_runs() -> None:
    machine = with_partitions(1200, brokers=1)
    machine.end_session(SessionKey(1, machine.image.brokers[1].epoch), 10_000)
    run_at_once(machine)
    assert len(list(machine.image.partition_index.leaderless)) == 1200
    machine.submit(heartbeat(machine, 1), 2, TOKEN, 10_000)
    commit(machine)
    run_at_once(machine)
    assert not list(machine.image.partition_index.leaderless)


def test_activation_finishes_the_changes_of_the_controller_before() -> None:
    machine = with_partitions(600, brokers=3)
    stop = heartbeat(machine, 1)
    stop.want_shut_down = True
    stopping = BrokerRegistrationChangeRecord(
        broker_id=1, broker_epoch=stop.broker_epoch, in_controlled_shutdown=1
    )
    machine.append([stopping], 10_000)  # the process ended before it moved the leaderships
    commit(machine)
    assert leads(machine, 1)
    controller = machine.controller
    controller.activate(controller.image, machine.core.log_end_offset, 10_000)
    tick_until(machine, 11_200)
    assert not leads(machine, 1)


def test_snapshot_of_the_leader_is_published_as_one_change() -> None:
    machine = machine_of(3)
    core = machine.core
    core.on_begin_quorum_epoch(BeginQuorumEpoch(1, 2, 2), 0)
    snapshot = OffsetAndEpoch(40, 2)
    core.on_fetch_response(FetchResponse(2, 2, snapshot=snapshot), 0)
    voters = VoterSet.of(*core.voters, Voter(ReplicaKey(4, uuid(4))))
    loader = MetadataLoader(MetadataImage(cluster_id=CLUSTER_ID))
    loader.load_snapshot(Snapshot(list(BOOTSTRAP), 1, voters, 77), SnapshotId(40, 2))
    machine.install(loader)
    core.on_snapshot_installed(snapshot, loader.history.latest)
    (batch,) = machine.take_effects(0).committed
    assert batch.delta.features == {METADATA_VERSION: 30}
    assert (batch.image.offset, batch.image.features) == (39, {METADATA_VERSION: 30})
    assert core.voters == voters
    assert (core.log_end_offset, core.high_watermark) == (40, 40)
    assert machine.snapshot().voters == voters
    assert machine.take_effects(0).committed == []


def joining(machine: ControllerStateMachine, broker_id: int) -> AlterPartitionRequest:
    """Return the request of broker 2 that adds a broker to the ISRs that it is not in."""
    brokers = machine.image.brokers
    request = AlterPartitionRequest(broker_id=2, broker_epoch=brokers[2].epoch)
    for topic in machine.image.topics_by_id.values():
        data = AlterPartitionRequest.TopicData(topic_id=topic.id)
        request.topics.append(data)
        for number, partition in topic.partitions.items():
            if partition.leader == 2 and broker_id not in partition.isr:
                isr = [
                    AlterPartitionRequest.BrokerState(
                        broker_id=each, broker_epoch=brokers[each].epoch
                    )
                    for each in (*partition.isr, broker_id)
                ]
                data.partitions.append(
                    AlterPartitionRequest.PartitionData(
                        partition_index=number,
                        leader_epoch=partition.leader_epoch,
                        partition_epoch=partition.partition_epoch,
                        new_isr_with_epochs=isr,
                    )
                )
    return request


def test_tick_broker_that_is_being_fenced_joins_no_isr_until_it_is_unfenced() -> None:
    """Leaders see it as unfenced between the runs, and would add it again without end."""
    machine = with_partitions(1200, brokers=2)
    machine.end_session(SessionKey(1, machine.image.brokers[1].epoch), 10_000)
    for _ in range(2):
        machine.tick(10_000)
        commit(machine)
        assert not machine.image.brokers[1].fenced
        machine.submit(joining(machine, 1), 3, "join", 10_000)
        (answer,) = (each.outcome for each in commit(machine).completions if each.token == "join")
        assert isinstance(answer, AlterPartitionResponse)
        codes = {each.error_code for topic in answer.topics for each in topic.partitions}
        assert codes == {ErrorCode.INELIGIBLE_REPLICA}
    run_at_once(machine)
    assert machine.image.brokers[1].fenced
    # Once it is fenced, its next heartbeat unfences it, and it may join again.
    machine.submit(heartbeat(machine, 1), 2, TOKEN, 10_001)
    commit(machine)
    assert machine.image.brokers[1].is_active
    machine.submit(joining(machine, 1), 3, "join", 10_001)
    (answer,) = (each.outcome for each in commit(machine).completions if each.token == "join")
    assert isinstance(answer, AlterPartitionResponse)
    assert {each.error_code for topic in answer.topics for each in topic.partitions} == {0}


def test_register_broker_with_more_seats_than_one_batch_is_answered_after_the_last_run() -> None:
    """Planted once: unregistering was one atomic batch, refused with POLICY_VIOLATION."""
    machine = with_partitions(10_100, brokers=2)
    former = machine.image.brokers[1].epoch
    machine.controller.sessions.remove(SessionKey(1, former))
    machine.submit(registration(1, incarnation=9), 4, TOKEN, 10_000)
    assert not commit(machine).completions
    assert machine.image.brokers[1].epoch == former
    sizes, completions = finish(machine)
    assert max(sizes) <= 501
    assert sum(sizes) == 10_100 - 500 + 1
    (completion,) = completions
    assert isinstance(completion.outcome, BrokerRegistrationResponse)
    assert completion.outcome.broker_epoch == machine.image.brokers[1].epoch > former
    assert not list(machine.image.partition_index.isr_members(1))


def test_unregister_broker_with_more_seats_than_one_batch_is_carried_out() -> None:
    machine = with_partitions(10_100, brokers=2)
    machine.submit(UnregisterBrokerRequest(broker_id=1), 0, TOKEN, 10_000)
    commit(machine)
    sizes, (completion,) = finish(machine)
    assert max(sizes) <= 501
    assert isinstance(completion.outcome, UnregisterBrokerResponse)
    assert machine.image.brokers.keys() == {2}


def test_step_down_fails_an_operation_between_its_runs() -> None:
    machine = with_partitions(600, brokers=2)
    machine.submit(UnregisterBrokerRequest(broker_id=1), 0, TOKEN, 10_000)
    commit(machine)
    (completion,) = depose(machine).completions
    assert isinstance(completion.outcome, KafkaError)
    assert completion.outcome.code is ErrorCode.NOT_CONTROLLER
    assert machine.wakeup_ms() is None


def test_tick_operation_that_is_refused_between_its_runs_is_answered() -> None:
    machine = with_partitions(600, brokers=2)
    for _ in range(2):  # the second one finds no broker when the first has ended
        machine.submit(UnregisterBrokerRequest(broker_id=1), 0, TOKEN, 10_000)
    _, completions = finish(machine)
    outcomes = [each.outcome for each in completions]
    assert {type(each) for each in outcomes} == {UnregisterBrokerResponse, KafkaError}


def finish(machine: ControllerStateMachine) -> tuple[list[int], list[Completion]]:
    """Run what is due now; return the number of records of each run, and the completions."""
    sizes: list[int] = []
    completions: list[Completion] = []
    while machine.wakeup_ms() == 0:
        machine.tick(10_000)
        effects = machine.take_effects(10_000)
        sizes.append(sum(len(entry.records) for entry in effects.ready.entries))
        completions += [*effects.completions, *commit(machine).completions]
    return sizes, completions
