"""Each rare state is reached by a simulation, with a pinned seed.

When one is not reached any longer: `python -m tests.simulation.test_rare_states` prints the first
seed of each simulation that reaches each state.
"""

import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from barnabas.cluster.metadata.image import RESOURCE_TOPIC, MetadataImage
from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest
from barnabas.server.api.handlers.data.list_offsets_handler import list_offsets
from barnabas.testing.batches import batch
from barnabas.testing.simulation import RareState, attach, prepare, produce_request
from barnabas.testing.simulation import run as run_cluster
from barnabas.testing.simulation.controller_client import ControllerClient
from barnabas.testing.simulation.faults import Fault, FaultKind
from barnabas.testing.simulation.rare_states import RareStates
from barnabas.testing.simulation.runner import Simulation
from barnabas.testing.simulation.seed_options import NO_FEATURES
from barnabas.testing.simulation.world import Process
from tests.cluster import partition_simulation, raft_seeds, voter_seeds
from tests.cluster.replication import isr_simulation, replication_simulation
from tests.cluster.replication.isr_simulation import BROKERS
from tests.coordinator.transactions import transaction_simulation
from tests.simulation.cluster_scenarios import (
    busy_quorum,
    changing_controllers,
    deleted_records,
    old_voters,
    throttled_replicas,
)
from tests.simulation.test_nemesis_scripts import Script
from tests.simulation.test_transactions import copier_options

SEEDS_MAX = 60
SEEDS_TRIED = 20
"""From the pinned seed on: a change of the simulation moves what a seed reaches."""

pytestmark = pytest.mark.timeout(600)

SEGMENT_BYTES = 1 << 20
LATEST = -1
CONFIGURATOR_ID = 40_000


class LargeBatches:
    """A producer of batches that are larger than a segment."""

    def next_request(self, metadata: MetadataImage) -> tuple[int, Any] | None:
        topic = metadata.topics_by_name.get("data")
        leader = -1 if topic is None else topic.partitions[0].leader
        if topic is None or leader < 0:
            return None
        data = bytes(batch(bytes(SEGMENT_BYTES)))
        return leader, produce_request(topic, 0, data, acks=1)

    def on_response(self, response: Any) -> None:
        """The answer counts by its error."""

    def on_failure(self, failure: object) -> None:
        """The next request follows."""


def run_small_segments(seed: int) -> RareStates:
    """Run a cluster without faults whose topic has small segments, and large batches."""
    simulation = prepare(seed, 5, features=NO_FEATURES, faults=[])
    attach(simulation, LargeBatches())
    simulation.world.after(3_000_000, _limit_segments, simulation)
    return run_cluster(simulation).world.rare


def _limit_segments(simulation: Simulation) -> None:
    kind = IncrementalAlterConfigsRequest
    config = kind.AlterableConfig(
        name="segment.bytes", config_operation=0, value=str(SEGMENT_BYTES)
    )
    resource = kind.AlterConfigsResource(
        resource_type=RESOURCE_TOPIC, resource_name="data", configs=[config]
    )
    process = Process(simulation.world, CONFIGURATOR_ID)
    process.start()
    client = ControllerClient(simulation.cluster, process, simulation.world.random)

    def submit(outcome: object) -> None:
        if outcome is None:
            client.submit(kind(resources=[resource]), lambda found: again(found))

    def again(outcome: object) -> None:
        process.after_ms(100, submit, outcome)

    submit(None)


def run_offsets(_: int) -> RareStates:
    """Request the latest offset of a leader that has not committed a record of its epoch."""
    script = Script()
    script.learn()
    old = script.truth.leader
    script.written(3)
    script.follow(*[each for each in BROKERS if each != old], rounds=1)
    script.fenced(old)
    script.learn(script.truth.leader)
    led = script.leader.partition
    replicas = SimpleNamespace(partition=lambda *_: led)
    context: Any = SimpleNamespace(services=SimpleNamespace(replicas=replicas), version=10)
    asked = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    topic = ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=[asked])
    script.rare.answered(list_offsets(context, ListOffsetsRequest(replica_id=-1, topics=[topic])))
    return script.rare


def run_copies(seed: int) -> RareStates:
    """Copy values in transactions while the brokers are killed in turn."""
    options = attrs.evolve(
        copier_options(2),
        copiers=4,
        copier_pause_ms=0,
        producer_pause_ms=20,
        seconds=20,
        partitions=3,
    )
    faults = [
        Fault(500 + 900 * n, FaultKind.KILL, ((n + seed) % 3 + 1,), 600, 0.5) for n in range(20)
    ]
    return run_cluster(prepare(seed, 20, options=options, faults=faults)).world.rare


def run_partitions(seed: int) -> RareStates:
    """Run the simulation of the controller's decisions on partitions."""
    world = partition_simulation.World(seed, has_elr=True)
    world.run(300)
    return world.rare


def run_transactions(seed: int) -> RareStates:
    """Run the simulation of transactions."""
    simulation = transaction_simulation.Simulation(seed)
    simulation.run()
    return simulation.checker.rare


def run_isr(seed: int) -> RareStates:
    """Run the simulation of a partition's leaders."""
    return isr_simulation.run(seed).rare


def run_followers(seed: int) -> RareStates:
    """Run the simulation of a partition's followers."""
    return replication_simulation.run(seed).rare


def run_whole(seed: int) -> RareStates:
    """Run the simulation of the whole cluster."""
    return run_cluster(prepare(seed, 30, features=NO_FEATURES)).world.rare


def run_busy_quorum(seed: int) -> RareStates:
    """Run a quorum that takes snapshots often."""
    return run_cluster(busy_quorum(seed)).world.rare


def run_old_voters(seed: int) -> RareStates:
    """Run a quorum with a voter of an older version."""
    return run_cluster(old_voters(seed)).world.rare


def run_changing_controllers(seed: int) -> RareStates:
    """Run brokers whose ISRs change while the controller changes."""
    return run_cluster(changing_controllers(seed)).world.rare


def run_deleted(seed: int) -> RareStates:
    """Run a partition whose first records are deleted."""
    return run_cluster(deleted_records(seed)).world.rare


def run_throttled(seed: int) -> RareStates:
    """Run replicas that are throttled."""
    return run_cluster(throttled_replicas(seed)).world.rare


REACHED_BY: dict[RareState, tuple[Callable[[int], RareStates], int]] = {
    RareState.DIVERGING_TRUNCATION: (run_isr, 2),
    RareState.TWO_STEP_TRUNCATION: (run_followers, 8),
    RareState.RECORD_LIST_TOO_LARGE: (run_small_segments, 1),
    RareState.NOT_ENOUGH_REPLICAS: (run_isr, 0),
    RareState.NOT_ENOUGH_REPLICAS_AFTER_APPEND: (run_isr, 20),
    RareState.FENCED_LEADER_EPOCH: (run_whole, 2),
    RareState.UNKNOWN_LEADER_EPOCH: (run_isr, 2),
    RareState.OFFSET_NOT_AVAILABLE: (run_offsets, 0),
    RareState.INELIGIBLE_REPLICA: (run_partitions, 0),
    RareState.NEW_LEADER_ELECTED: (run_partitions, 4),
    RareState.SNAPSHOT_FETCHED: (run_busy_quorum, 0),
    RareState.LEADER_REMOVED_ITSELF: (voter_seeds.run, 0),
    RareState.ELR_ELECTED: (run_partitions, 1),
    RareState.LAST_KNOWN_LEADER_ELECTED: (run_partitions, 0),
    RareState.UNCLEAN_ELECTED: (run_partitions, 0),
    RareState.REASSIGNMENT_CANCELLED: (run_partitions, 0),
    RareState.DIRECTORY_FAILED_WHILE_LEADING: (run_partitions, 0),
    RareState.SPLIT_VOTE: (raft_seeds.run, 10),
    RareState.PENDING_ISR_ACROSS_CONTROLLERS: (run_changing_controllers, 0),
    RareState.DUPLICATE_APPEND_SUPPRESSED: (run_transactions, 1),
    RareState.MARKER_RETRIED_ELSEWHERE: (run_copies, 2),
    RareState.LOG_RESTARTED: (run_deleted, 0),
    RareState.REPLICA_THROTTLED: (run_throttled, 1),
    RareState.VOTER_WITHOUT_PRE_VOTES: (run_old_voters, 0),
}


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "barnabas")


def test_every_rare_state_has_a_seed() -> None:
    assert REACHED_BY.keys() == set(RareState)


@pytest.mark.parametrize("state", REACHED_BY, ids=lambda state: state.name)
def test_rare_state_is_reached(state: RareState) -> None:
    run, first = REACHED_BY[state]
    assert any(run(seed).counts[state] for seed in range(first, first + SEEDS_TRIED))


def main() -> None:
    """Print the first seed of each simulation that reaches each state."""
    logging.disable(logging.CRITICAL)
    for run in dict.fromkeys(run for run, _ in REACHED_BY.values()):
        found: dict[str, int] = {}
        for seed in range(SEEDS_MAX):
            for state in run(seed).counts:
                found.setdefault(state.name, seed)
        print(run.__module__, run.__name__, found, flush=True)


if __name__ == "__main__":
    main()
