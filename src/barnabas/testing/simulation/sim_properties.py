"""The configuration of a simulated node, as its `server.properties` would state it."""

from collections.abc import Collection, Mapping
from typing import Final

from barnabas.testing.simulation.quorum_format import PORT
from barnabas.testing.simulation.seed_options import SeedOptions

_ENTRY_BYTES: Final = 150
_SNAPSHOT_PART_BYTES: Final = 4_000

_COMMON: Final = {
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.fetch.snapshot.max.bytes": str(_SNAPSHOT_PART_BYTES),
    "log.flush.offset.checkpoint.interval.ms": "5000",
    "replica.high.watermark.checkpoint.interval.ms": "5000",
    # Dead members of groups leave before a simulation ends.
    "group.initial.rebalance.delay.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.min.session.timeout.ms": "8000",
    "group.consumer.session.timeout.ms": "8000",
    # These need helper processes, or read the machine's clock.
    "log.cleaner.enable": "false",
    "barnabas.scrub.interval.ms": "-1",
    "barnabas.slow.request.ms": "-1",
}


def node_properties(options: SeedOptions, node_id: int, life: int) -> Mapping[str, str]:
    """Return the properties of a node in one of its lives."""
    is_controller = node_id in options.controller_ids
    is_broker = node_id in options.broker_ids
    has_upkeep = options.has_voter_upkeep and is_controller
    moves = has_upkeep and options.kraft_version > 0 and node_id in _moving(options)
    port = PORT + (life - 1) % 10 if moves else PORT
    listeners = [f"PLAINTEXT://node-{node_id}:9092"] if is_broker else []
    if is_controller:
        listeners.append(f"CONTROLLER://node-{node_id}:{port}")
    roles = ["broker"] * is_broker + ["controller"] * is_controller
    snapshot_bytes = options.snapshot_entries * _ENTRY_BYTES
    return {
        **_COMMON,
        **_voters(options, node_id),
        "node.id": str(node_id),
        "process.roles": ",".join(roles),
        "listeners": ",".join(listeners),
        "broker.rack": f"rack-{node_id % options.racks}",
        "controller.quorum.auto.join.enable": str(has_upkeep).lower(),
        "metadata.log.max.record.bytes.between.snapshots": str(snapshot_bytes),
        "metadata.max.retention.bytes": str(options.kept_snapshots * snapshot_bytes),
        "replica.fetch.max.bytes": str(options.replica_fetch_bytes),
        "replica.lag.time.max.ms": str(options.replica_lag_ms),
    }


def _moving(options: SeedOptions) -> Collection[int]:
    """Return the voters that have another address in each life: the others are a majority."""
    controllers = options.controllers + options.spare_controllers
    return options.voter_ids[options.controllers - (controllers - 1) // 2 :]


def _voters(options: SeedOptions, node_id: int) -> Mapping[str, str]:
    if options.kraft_version == 0 and node_id not in options.spare_ids:
        named = [f"{node_id}@node-{node_id}:{PORT}" for node_id in options.voter_ids]
        return {"controller.quorum.voters": ",".join(named)}
    servers = [f"node-{node_id}:{PORT}" for node_id in options.voter_ids]
    return {"controller.quorum.bootstrap.servers": ",".join(servers)}
