"""A node of the simulated cluster: its process, its disks, and its parts."""

from collections.abc import Callable, Mapping, Sequence

import attrs

from barnabas.cluster.broker.broker_identity import NO_EPOCH
from barnabas.cluster.broker.broker_lifecycle import BrokerState
from barnabas.cluster.controller.controller_state_machine import (
    CommittedBatch,
)
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.cluster.quorum.voters import ReplicaKey, VoterSet
from barnabas.config import NodeConfig
from barnabas.protocol.types import Uuid
from barnabas.testing.simulation.broker_driver import BrokerDriver
from barnabas.testing.simulation.broker_lifecycle_driver import LifecycleDriver
from barnabas.testing.simulation.network import Network
from barnabas.testing.simulation.partition_invariants import PartitionInvariants
from barnabas.testing.simulation.quorum_disk import QuorumDisk
from barnabas.testing.simulation.quorum_replica import (
    QuorumReplica,
    ReplicaObserver,
    ReplicaSettings,
)
from barnabas.testing.simulation.rare_states import RareState
from barnabas.testing.simulation.sim_logs import SimLogs
from barnabas.testing.simulation.world import Process

_RESIGNATION_MS = 20


@attrs.frozen(kw_only=True)
class ClusterSettings:
    """The settings that all nodes of a simulated cluster share."""

    voters: VoterSet
    config: NodeConfig
    levels: Mapping[str, int]
    observer: ReplicaObserver
    partitions: PartitionInvariants
    snapshot_entries: int
    kept_snapshots: int
    kraft_version: int
    static_voters: VoterSet
    has_voter_upkeep: bool


class SimNode:
    """One node; `directories` is empty for a node that is only a controller."""

    def __init__(
        self,
        process: Process,
        network: Network,
        settings: ClusterSettings,
        *,
        is_controller: bool,
        directories: Sequence[Uuid],
        rack: str | None = None,
    ) -> None:
        self.process = process
        self.is_controller = is_controller
        self.network = network
        self.directories = tuple(directories)
        self.rack = rack
        disk = QuorumDisk(metadata_directory(process.node_id))
        if settings.kraft_version == 0:
            disk.static_voters = settings.static_voters
        is_voter = settings.kraft_version > 0 and process.node_id in settings.voters.voters
        disk.format(settings.voters if is_voter else None, settings.levels)
        self.replica = QuorumReplica(
            process,
            network,
            disk,
            ReplicaSettings(
                bootstrap_servers=tuple(sorted(settings.voters.voters)),
                must_sync=is_controller,
                snapshot_entries=settings.snapshot_entries,
                kept_snapshots=settings.kept_snapshots,
                has_upkeep=is_controller and settings.has_voter_upkeep,
            ),
            settings.observer,
            config=settings.config,
        )
        self.replica.publish = self._publish
        self.previous_epoch = NO_EPOCH  # of the clean-shutdown file, which a start removes
        self._epoch_at_start = NO_EPOCH
        self.logs = (
            SimLogs(process.node_id, self.directories, settings.partitions)
            if self.directories
            else None
        )
        self.lifecycle: LifecycleDriver | None = None
        self.broker: BrokerDriver | None = None
        self._settings = settings
        if self.logs is not None:
            settings.partitions.disks[process.node_id] = self.logs
        self.image: MetadataImage | None = None
        self._is_following = False

    @property
    def quorum_key(self) -> ReplicaKey:
        """The key of the node among the replicas of the quorum."""
        return self.replica.key

    @property
    def quorum_disk(self) -> QuorumDisk:
        """The disk of the quorum's log."""
        return self.replica.disk

    @property
    def is_broker(self) -> bool:
        """True when the node hosts partitions."""
        return bool(self.directories)

    def start(self) -> None:
        """Start the process."""
        self.process.start()
        self.process.call(self.process.life, self._start)

    def _start(self) -> None:
        self.image, self._is_following, self.broker = None, False, None
        if self.logs is not None:
            self.logs.start()
            if self.logs.is_lost:
                self.process.world.note(self.process, "cannot start without a directory")
                self.process.kill()
                return
        self.replica.start()
        if self.logs is not None:
            self.lifecycle = LifecycleDriver(
                self.process,
                self.network,
                self.logs.online,
                rack=self.rack,
                previous_epoch=self.previous_epoch,
                leader=lambda: self.replica.core.leader_id,
                metadata_offset=lambda: self.replica.committed_offset,
                is_last_broker=self._is_last_broker,
            )
            self._epoch_at_start, self.previous_epoch = self.previous_epoch, NO_EPOCH
            self.lifecycle.start()
            self._follow_when_registered()

    def _follow_when_registered(self) -> None:
        """Apply the first image once the broker's registration is in it."""
        lifecycle = self.lifecycle
        if lifecycle is None:
            return
        if lifecycle.state.value < BrokerState.RECOVERY.value:
            self.process.after_ms(10, self._follow_when_registered)
            return
        self._is_following = True
        self.image = self.replica.machine.image
        self._settings.partitions.history.take_image(self.image)
        self._start_broker(self.image, lifecycle)
        lifecycle.ready_to_unfence()

    def _start_broker(self, image: MetadataImage, lifecycle: LifecycleDriver) -> None:
        if self.logs is None:
            return
        self.broker = BrokerDriver(
            self.process,
            self.network,
            self.logs,
            self._settings.config,
            leader=lambda: self.replica.core.leader_id,
            broker_epoch=lambda: lifecycle.epoch,
            on_acked=self._settings.partitions.acks_all,
        )
        self.broker.follow_directories(lifecycle)
        self.broker.start(image)

    def _publish(self, batch: CommittedBatch) -> None:
        if self._is_following:
            self._count_pending_isrs(batch.image)
            self.image = batch.image
            if self.broker is not None:
                self.broker.apply(batch.image, batch.delta)

    def _count_pending_isrs(self, image: MetadataImage) -> None:
        """Note that another controller leads while this broker waits for a change of an ISR."""
        if self.broker is None or self.image is None or image.epoch == self.image.epoch:
            return
        states = (partition.leader_state for partition in self.broker.replicas.partitions())
        if any(state is not None and state.isr.is_pending for state in states):
            self.process.world.rare.reached(RareState.PENDING_ISR_ACROSS_CONTROLLERS)

    def _is_last_broker(self) -> bool:
        return self.replica.machine.image.active_brokers <= {self.process.node_id}

    def shut_down(self, on_stopped: Callable[[], None]) -> None:
        """Stop as SIGTERM does: hand over leaderships, sync the logs, note the broker's epoch."""
        lifecycle = self.lifecycle
        if self.broker is None or lifecycle is None:  # not a broker, or not yet: it stops at once
            self._stop(NO_EPOCH if lifecycle is None else lifecycle.epoch, on_stopped)
            return
        self.broker.replicas.begin_controlled_shutdown()
        lifecycle.shut_down(lambda: self._stop(lifecycle.epoch, on_stopped))

    def _stop(self, epoch: int, on_stopped: Callable[[], None]) -> None:
        self.replica.resign()
        self.process.after_ms(_RESIGNATION_MS, self._stopped, epoch, on_stopped)

    def _stopped(self, epoch: int, on_stopped: Callable[[], None]) -> None:
        self.process.end_life()
        if self.logs is not None:
            self.logs.close()
            self._note_epoch(self._epoch_at_start if epoch == NO_EPOCH else epoch, self.logs)
        self.network.process_died(self.process, silently=False)
        on_stopped()

    def _note_epoch(self, epoch: int, logs: SimLogs) -> None:
        """Write the clean-shutdown files: the directories that are offline get none."""
        self.previous_epoch = NO_EPOCH if logs.has_offline else epoch
        is_unknown = self.lifecycle is not None and self.lifecycle.may_be_registered_unknowingly
        if is_unknown or logs.has_offline:
            self._settings.partitions.stopped_uncleanly.add(self.process.node_id)

    def replace_disk(self, index: int, directory_id: Uuid) -> None:
        """Replace a disk of a broker that does not run; it starts as after an unclean shutdown."""
        if self.logs is not None:
            self.logs.replace_disk(index % len(self.logs.volumes), directory_id)
            self.previous_epoch = NO_EPOCH
            self._settings.partitions.stopped_uncleanly.add(self.process.node_id)

    def replace_quorum_disk(self, directory_id: Uuid) -> None:
        """Put an empty disk in the place of the quorum's, while the node does not run.

        It is formatted without initial controllers, so the node begins as an observer.
        """
        disk = self.replica.disk = QuorumDisk(directory_id)
        disk.format(None, self._settings.levels)

    def kill(self) -> None:
        """End the process as kill -9 does: what was written stays on the disks."""
        self.process.kill()

    def process_ended(self) -> None:
        """The process has ended by itself or by a kill; not called after a loss of power."""
        if self.logs is not None:
            self._settings.partitions.stopped_uncleanly.add(self.process.node_id)
            self.logs.crash()
        self.network.process_died(self.process, silently=False)

    def lose_power(self) -> None:
        """End the process; unsynced data is lost, except a random prefix of it."""
        self.process.end_life()
        self.network.process_died(self.process, silently=True)
        if self.logs is not None:
            self._settings.partitions.stopped_uncleanly.add(self.process.node_id)
            self.logs.lose_power(self.process.world.random.randint)
        unsynced = len(self.quorum_disk.entries) - self.quorum_disk.synced
        self.quorum_disk.lose_power(self.process.world.random.randint(0, unsynced))


def metadata_directory(node_id: int) -> Uuid:
    """Return the id of the first disk of a node's metadata log."""
    return Uuid((1000 + node_id).to_bytes(16, "big"))
