"""Operations are answered, and images published, when their own records are committed."""

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
from barnabas.cluster.metadata.feature_levels import METADATA_VERSION
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.cluster.metadata.metadata_snapshot import SnapshotId, decode_snapshot
from barnabas.cluster.quorum.epoch_history import EpochHistory, OffsetAndEpoch
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
from barnabas.protocol.messages.broker_registration import BrokerRegistrationResponse
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.records.metadata_records import (
    AbortTransactionRecord,
    FeatureLevelRecord,
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
    controller = Controller(
        lambda: config, lambda: uuid(next(ids)), lambda below: 0, lambda: core.kraft_version
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
    machine = machine_of(has_open_transaction=True)
    (_, abort, _) = machine.take_effects(0).ready.entries
    (record,) = (decode_metadata_record(value) for value in abort.records)
    assert isinstance(record, AbortTransactionRecord)


def test_activation_fences_other_brokers() -> None:
    machine = leading(3)
    submit(machine, 2)
    commit(machine)
    heartbeat = {"broker_id": 2, "broker_epoch": machine.image.brokers[2].epoch}
    from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest

    request = BrokerHeartbeatRequest(**heartbeat, current_metadata_offset=1 << 40)
    machine.submit(request, 2, TOKEN, 10_000)
    commit(machine)
    assert not machine.image.brokers[2].fenced
    depose(machine)
    machine.core.tick(20_000)
    while not machine.core.is_leader:
        for message in machine.take_effects(20_000).ready.messages:
            assert isinstance(message, VoteRequest)
            vote = VoteResponse(message, message.to, message.epoch, None, granted=True)
            machine.core.on_vote_response(vote, 20_000)
    machine.take_effects(20_000)
    commit(machine)
    assert machine.image.brokers[2].fenced


def test_snapshot_has_the_epoch_of_its_last_record_and_its_time() -> None:
    """Planted once: the current epoch in the id, and the current time in the header."""
    machine = leading(3)
    submit(machine, 1)
    commit(machine)
    epoch, offset = machine.core.epoch, machine.image.offset
    depose(machine)
    assert machine.core.epoch > epoch
    snapshot = machine.snapshot()
    assert snapshot.id == SnapshotId(offset + 1, epoch)
    assert decode_snapshot(snapshot.encode(99_999)).last_timestamp_ms == 10_000


def test_snapshot_has_the_voters_in_force_at_its_end() -> None:
    """Planted once: the voters of the log's end, which may not be committed."""
    machine = leading(3)
    submit(machine, 1)
    commit(machine)
    core = machine.core
    core.voters = VoterSet.of(*(voter for voter in core.voters if voter.key.id < 3))
    core.upgrade_kraft_version(2, 10_000)
    machine.take_effects(10_000)
    before = machine.snapshot()
    assert (len(before.voters), before.kraft_version) == (3, 1)
    machine.submit(CreateTopicsRequest(), 7, TOKEN, 10_000)
    submit(machine, 2)
    commit(machine)
    after = machine.snapshot()
    assert (len(after.voters), after.kraft_version) == (2, 2)
    machine.voters_history.trim(after.id.end_offset)
    assert len(machine.snapshot().voters) == 2


def test_truncation_restores_the_voters_before_it() -> None:
    machine = leading(3)
    offset = machine.core.log_end_offset
    machine.core.voters = VoterSet.of(*(v for v in machine.core.voters if v.key.id < 3))
    machine.core.upgrade_kraft_version(2, 10_000)
    machine.take_effects(10_000)
    assert len(machine.voters_history.at(1 << 40)[0]) == 2
    depose(machine)
    for _ in follow(machine, offset, offset + 5):
        pass
    assert len(machine.voters_history.at(1 << 40)[0]) == 3
