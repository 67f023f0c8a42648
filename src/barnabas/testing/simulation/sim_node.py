"""A node of the simulated cluster: its process, its disks, and the server's own node in it.

The quorum's files are real files in a directory. A kill leaves them as they are; a loss of power
takes a random part of what was not synced. The logs of partitions are in memory (`sim_logs`).
"""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import attrs

from barnabas.client.outgoing_sockets import Sockets
from barnabas.cluster.broker.broker_identity import NO_EPOCH
from barnabas.cluster.metadata.image import METADATA_TOPIC, MetadataImage
from barnabas.cluster.quorum.quorum_state import QuorumState
from barnabas.cluster.quorum.raft import RaftCore
from barnabas.cluster.quorum.voters import ReplicaKey, VoterSet
from barnabas.cluster.replication.followed_partition import FetchState
from barnabas.config import NodeConfig
from barnabas.log import FileCache, Volume
from barnabas.log.checkpoints import MetaProperties
from barnabas.protocol.types import Uuid
from barnabas.server.node_failures import DisksLostError, StartupError
from barnabas.server.quorum.quorum_files import format_directory
from barnabas.testing.simulation.observed_quorum import ObservedQuorum, QuorumWatch
from barnabas.testing.simulation.partition_invariants import PartitionInvariants
from barnabas.testing.simulation.quorum_invariants import QuorumInvariants
from barnabas.testing.simulation.rare_states import RareState, RareStates
from barnabas.testing.simulation.sim_logs import SimLogs
from barnabas.testing.simulation.sim_machine import (
    CLUSTER_ID,
    ObservedCommitWaits,
    ObservedNode,
    SimMachine,
)
from barnabas.testing.simulation.sim_streams import SimSockets, SimStreams
from barnabas.testing.simulation.world import Process

_DISK_MS = (0.05, 0.5)


@attrs.frozen(kw_only=True)
class ClusterSettings:
    """The settings that all nodes of a simulated cluster share."""

    path: Path
    """The folder of all nodes' directories."""
    voters: VoterSet
    levels: Mapping[str, int]
    quorum: QuorumInvariants
    partitions: PartitionInvariants
    has_initial_voters: bool
    """False for static voters (kraft.version 0), which the configuration names."""


class SimNode:
    """One node; `directories` is empty for a node that is only a controller."""

    def __init__(
        self,
        process: Process,
        streams: SimStreams,
        settings: ClusterSettings,
        *,
        is_controller: bool,
        directories: Sequence[Uuid],
        properties: Callable[[int], Mapping[str, str]],
    ) -> None:
        self.process = process
        self.node_id = process.node_id
        self.is_controller = is_controller
        self.directories = tuple(directories)
        self.logs = SimLogs(process.node_id, self.directories, settings.partitions)
        self.node: ObservedNode | None = None
        self._streams = streams
        self._settings = settings
        self._properties = properties
        self._watch: QuorumWatch | None = None
        self._synced: dict[str, int] = {}
        self._path = settings.path / f"node-{process.node_id}"
        self._directory_id = metadata_directory(process.node_id)
        self._on_stopped: Callable[[], None] | None = None
        is_voter = process.node_id in settings.voters.voters and settings.has_initial_voters
        self.format(settings.voters if is_voter else None)
        if self.is_broker:
            settings.partitions.disks[process.node_id] = self.logs
        process.on_kill.append(self.process_ended)

    def format(self, voters: VoterSet | None) -> None:
        """Write the files of a new directory, as `barnabas format` does."""
        levels = self._settings.levels
        format_directory(self._path, voters=voters, now_ms=0, features=levels)
        properties = MetaProperties(CLUSTER_ID, self.node_id, self._directory_id)
        Volume(self._path, FileCache(1)).write_properties(properties)

    # For actors and checks

    @property
    def is_broker(self) -> bool:
        """True when the node hosts partitions."""
        return bool(self.directories)

    @property
    def quorum(self) -> ObservedQuorum | None:
        """The quorum of the last life; None before it has read its files."""
        found = None if self.node is None else getattr(self.node, "quorum", None)
        return found if isinstance(found, ObservedQuorum) else None

    @property
    def core(self) -> RaftCore:
        """The replica of the quorum."""
        quorum = self.quorum
        if quorum is None:
            raise RuntimeError(f"{self.process} has not started")
        return quorum.core

    @property
    def log_start_offset(self) -> int:
        """The offset of the first entry of the quorum's log."""
        return self.core.log.start_offset

    @property
    def quorum_state(self) -> QuorumState:
        """The content of the state file of the quorum."""
        return QuorumState() if self._watch is None else self._watch.state

    @property
    def is_leader(self) -> bool:
        """True while the node leads the quorum, or believes that it does."""
        quorum = self.quorum
        return self.process.is_running and quorum is not None and quorum.core.is_leader

    @property
    def committed_image(self) -> MetadataImage | None:
        """The committed metadata; None before the node knows any."""
        quorum = self.quorum
        if quorum is None or quorum.machine.image.offset < 0:
            return None
        return quorum.machine.image

    @property
    def image(self) -> MetadataImage | None:
        """The metadata that the broker has applied; None before the first."""
        node, quorum = self.node, self.quorum
        if node is None or quorum is None or not hasattr(node, "replicas"):
            return None
        return quorum.image if node.replicas.image.offset >= 0 else None

    @property
    def quorum_key(self) -> ReplicaKey:
        """The key of the node among the replicas of the quorum."""
        return ReplicaKey(self.node_id, self._directory_id)

    @property
    def is_throttled(self) -> bool:
        """True while a follower leaves a throttled partition out of its fetches."""
        node = self.node
        cores = {} if node is None or self.image is None else node.replicas.fetchers.cores
        return any(
            each.state is FetchState.THROTTLED
            for core in cores.values()
            for each in core.partitions.values()
        )

    def pending(self) -> dict[str, int]:
        """Return how much waits, by kind; consumers and followers always have fetches waiting."""
        node = self.node
        if node is None or not hasattr(node, "transactions"):
            return {}
        return {
            "commit waits": node.commits.waiting,
            "guards": len(node.transactions.guards),
            "failed replicas": sum(
                core.failed_count for core in node.replicas.fetchers.cores.values()
            ),
        }

    # A life

    def start(self) -> None:
        """Start the process."""
        process = self.process
        process.start()
        process.tasks.provide(Sockets, SimSockets(self._streams, process))
        process.tasks.provide(RareStates, process.world.rare)
        process.call(process.life, process.tasks.spawn_system_task, (self._run,))

    async def _run(self) -> None:
        process = self.process
        before = QuorumState() if self._watch is None else self._watch.state
        watch = self._watch = QuorumWatch(process, self._settings.quorum, before, self._note_synced)
        machine = SimMachine(process, self._streams, self.logs, watch, directory=self._path)
        properties = {**self._properties(process.life), "log.dirs": str(self._path)}
        node = self.node = ObservedNode(NodeConfig.load(None, properties), machine)
        node.watch = watch
        watch.leader_changed = self._count_pending_isrs
        watch.loaded = self._settings.partitions.history.take_image
        node.commits = commits = ObservedCommitWaits(node.disk.flush)
        commits.on_acked = self._settings.partitions.acks_all
        try:
            await node.run()
        except* (DisksLostError, StartupError) as errors:
            process.world.note(process, "stops", str(errors.exceptions[0]))
            process.kill()
        else:
            self._stopped()

    def resign(self) -> None:
        """Hand over the leadership of the quorum, if this node leads."""
        quorum = self.quorum
        if quorum is not None and self.process.is_running:
            self.process.tasks.spawn_system_task(quorum.resign)

    def shut_down(self, on_stopped: Callable[[], None]) -> None:
        """Stop as SIGTERM does: hand over leaderships, sync the logs, note the broker's epoch."""
        self._on_stopped = on_stopped
        if self.node is not None:
            self.node.stop()

    def _stopped(self) -> None:
        """The node has stopped cleanly, and its process ends."""
        self.process.end_life()
        if self.is_broker and (self.logs.has_offline or self._may_be_registered_unknowingly):
            self._settings.partitions.stopped_uncleanly.add(self.node_id)
        self._streams.process_died(self.process, silently=False)
        on_stopped, self._on_stopped = self._on_stopped, None
        if on_stopped is not None:
            on_stopped()

    @property
    def _may_be_registered_unknowingly(self) -> bool:
        """True when the controller may have an epoch of this broker that the broker lacks.

        A clean stop counts as an unclean one then.
        """
        quorum = self.quorum
        if quorum is None or not hasattr(quorum, "lifecycle"):
            return False
        return quorum.broker.identity.epoch == NO_EPOCH

    # Ends

    def kill(self) -> None:
        """End the process as kill -9 does: what was written stays on the disks."""
        self.process.kill()

    def process_ended(self) -> None:
        """The process has ended by itself or by a kill; not called after a loss of power."""
        if self.is_broker:
            self._settings.partitions.stopped_uncleanly.add(self.node_id)
        self.logs.crash()
        self._unlock()
        self._streams.process_died(self.process, silently=False)

    def _unlock(self) -> None:
        """Release what the operating system releases when a process ends."""
        if hasattr(self.logs, "metadata_volume"):
            self.logs.metadata_volume.unlock()

    def lose_power(self) -> None:
        """End the process; of what was not synced, a random prefix remains."""
        self.process.end_life()
        self._streams.process_died(self.process, silently=True)
        random = self.process.world.random
        if self.is_broker:
            self._settings.partitions.stopped_uncleanly.add(self.node_id)
        self.logs.lose_power(random.randint)
        self._unlock()
        for file in sorted(self._log_directory.glob("*.log")):
            size = file.stat().st_size
            synced = min(size, self._synced.get(file.name, 0))
            os.truncate(file, random.randint(synced, size))

    @property
    def _log_directory(self) -> Path:
        return self._path / f"{METADATA_TOPIC}-0"

    def _note_synced(self) -> None:
        """All that was written so far is durable."""
        self._synced = {
            file.name: file.stat().st_size for file in self._log_directory.glob("*.log")
        }

    # Disks

    def slow_down(self, low_ms: float, high_ms: float) -> None:
        """Let each call that may block take as long as this."""
        self.process.disk_ms = (low_ms, high_ms)

    def mend_disk(self) -> None:
        """End what `slow_down` began."""
        self.process.disk_ms = _DISK_MS

    def replace_disk(self, index: int, directory_id: Uuid) -> None:
        """Replace a disk of a broker that does not run; it starts as after an unclean shutdown."""
        if self.is_broker:
            self.logs.replace_disk(index % len(self.logs.volumes), directory_id)
            self._settings.partitions.stopped_uncleanly.add(self.node_id)

    def replace_quorum_disk(self, directory_id: Uuid) -> None:
        """Put an empty disk in the place of the quorum's, while the node does not run.

        It is formatted without initial controllers, so the node begins as an observer.
        """
        shutil.rmtree(self._path)
        self._directory_id = directory_id
        self._synced.clear()
        self._watch = None
        self.format(None)

    def _count_pending_isrs(self) -> None:
        """Note that the controller changes while this broker waits for a change of an ISR."""
        node = self.node
        if node is None or self.image is None:
            return
        states = (partition.leader_state for partition in node.replicas.partitions())
        if any(state is not None and state.isr.is_pending for state in states):
            self.process.world.rare.reached(RareState.PENDING_ISR_ACROSS_CONTROLLERS)


def metadata_directory(node_id: int) -> Uuid:
    """Return the id of the first disk of a node's metadata log."""
    return Uuid((1000 + node_id).to_bytes(16, "big"))
