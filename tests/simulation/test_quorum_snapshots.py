"""Scripted seeds: snapshots of the quorum, and replicas that need one."""

from typing import Any

import attrs

from barnabas.testing.simulation import Simulation, prepare, run
from barnabas.testing.simulation.faults import Fault, FaultKind
from barnabas.testing.simulation.seed_options import NO_FEATURES, SeedOptions, draw_options


def busy_quorum(**changes: Any) -> SeedOptions:
    """A quorum with many admin operations, which writes a snapshot about each second."""
    return attrs.evolve(
        draw_options(1, 20, NO_FEATURES),
        controllers=3,
        brokers=3,
        is_combined=False,
        admins=3,
        admin_pause_ms=100,
        partitions=1,
        producers=1,
        producer_pause_ms=500,
        snapshot_entries=20,
        kept_snapshots=1,
        **changes,
    )


def notes_of(simulation: Simulation) -> list[str]:
    notes: list[str] = []
    simulation.world.log = notes.append
    run(simulation)
    return notes


def test_new_voter_downloads_a_snapshot_first() -> None:
    options = busy_quorum(spare_controllers=1, voter_pause_ms=3_000)
    (spare,) = options.spare_ids
    faults = [Fault(0, FaultKind.POWER_LOSS, (spare,), 10_000, 0.5)]

    notes = notes_of(prepare(3, 20, options=options, faults=faults))

    installed = [at for at, note in enumerate(notes) if f"node {spare} installs" in note]
    added = [
        at
        for at, note in enumerate(notes)
        if f"voter ReplicaKey(id={spare}" in note and note.endswith("add NONE")
    ]
    assert installed
    assert added
    assert installed[0] < added[-1]


def test_controller_that_lost_its_power_is_reached_again_when_it_is_back() -> None:
    """The leader leaves its former, silent connection, and the new process is added at once."""
    options = busy_quorum(spare_controllers=1, voter_pause_ms=3_000)
    (spare,) = options.spare_ids
    faults = [Fault(0, FaultKind.POWER_LOSS, (spare,), 10_000, 0.5)]

    notes = notes_of(prepare(1, 20, options=options, faults=faults))

    returned = max(at for at, note in enumerate(notes) if note.endswith(f"node {spare} starts"))
    outcomes = [note for note in notes[returned:] if f"voter ReplicaKey(id={spare}" in note]
    assert outcomes
    assert outcomes[0].endswith("add NONE")


def test_observer_that_was_away_downloads_a_snapshot() -> None:
    options = busy_quorum(spare_controllers=0, voter_pause_ms=0)
    broker = options.broker_ids[0]
    faults = [Fault(0, FaultKind.KILL, (broker,), 10_000, 0.5)]

    notes = notes_of(prepare(2, 20, options=options, faults=faults))

    assert any(f"node {broker} installs the snapshot" in note for note in notes)


def test_quorum_that_loses_power_loads_its_snapshots() -> None:
    options = busy_quorum(spare_controllers=0, voter_pause_ms=0)
    faults = [
        Fault(at, FaultKind.POWER_LOSS_OF_ALL, options.node_ids, 500, 0.5) for at in (0, 5_000)
    ]

    simulation = run(prepare(3, 20, options=options, faults=faults))

    assert all(node.log_start_offset > 0 for node in simulation.cluster.nodes.values())
