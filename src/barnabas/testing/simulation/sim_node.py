"""A node of the simulated cluster: its process, its disks, and its parts."""

from collections.abc import Sequence

import attrs

from barnabas.cluster.broker.broker_lifecycle import BrokerState
from barnabas.cluster.controller.controller_state_machine import (
    CommittedBatch,
    ControllerStateMachine,
)
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.cluster.quorum.raft import RaftCore
from barnabas.cluster.quorum.voters import VoterSet
from barnabas.config import NodeConfig
from barnabas.protocol.messages_base import Message
from barnabas.protocol.types import Uuid
from barnabas.testing.simulation.broker_lifecycle_driver import LifecycleDriver
from barnabas.testing.simulation.network import Network
from barnabas.testing.simulation.quorum_replica import (
    QuorumDisk,
    QuorumReplica,
    ReplicaObserver,
)
from barnabas.testing.simulation.world import Process


@attrs.frozen(kw_only=True)
class ClusterSettings:
    """The settings that all nodes of a simulated cluster share."""

    voters: VoterSet
    config: NodeConfig
    bootstrap: list[Message]
    observer: ReplicaObserver
    core_type: type[RaftCore] = RaftCore
    machine_type: type[ControllerStateMachine] = ControllerStateMachine


class SimNode:
    """One node; `directories` is empty for a node that is only a controller."""

    def __init__(
        self,
        process: Process,
        network: Network,
        settings: ClusterSettings,
        *,
        directories: Sequence[Uuid],
        rack: str | None = None,
    ) -> None:
        self.process = process
        self.network = network
        self.directories = tuple(directories)
        self.rack = rack
        self.quorum_disk = QuorumDisk(_metadata_directory(settings.voters, process.node_id))
        self.replica = QuorumReplica(
            process,
            network,
            self.quorum_disk,
            settings.voters,
            settings.observer,
            config=settings.config,
            bootstrap=settings.bootstrap,
            core_type=settings.core_type,
            machine_type=settings.machine_type,
        )
        self.replica.publish = self._publish
        self.previous_epoch = -1  # of the clean-shutdown file
        self.lifecycle: LifecycleDriver | None = None
        self.image: MetadataImage | None = None
        self._is_following = False

    @property
    def is_voter(self) -> bool:
        """True when the node may lead the quorum."""
        return self.process.node_id in self.replica.voters.voters

    @property
    def is_broker(self) -> bool:
        """True when the node hosts partitions."""
        return bool(self.directories)

    def start(self) -> None:
        """Start the process."""
        self.process.start()
        self.process.call(self.process.life, self._start)

    def _start(self) -> None:
        self.image, self._is_following = None, False
        self.replica.start()
        if self.is_broker:
            self.lifecycle = LifecycleDriver(
                self.process,
                self.network,
                self.directories,
                rack=self.rack,
                previous_epoch=self.previous_epoch,
                leader=lambda: self.replica.core.leader_id,
                metadata_offset=lambda: self.replica.machine.image.offset,
            )
            self.previous_epoch = -1
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
        lifecycle.ready_to_unfence()

    def _publish(self, batch: CommittedBatch) -> None:
        if self._is_following:
            self.image = batch.image

    def kill(self, *, silently: bool = False) -> None:
        """End the process as kill -9 does: what was written stays on the disks."""
        self.process.kill()
        self.network.process_died(self.process, silently=silently)

    def lose_power(self) -> None:
        """End the process; unsynced data is lost, except a random prefix of it."""
        self.kill(silently=True)
        unsynced = len(self.quorum_disk.entries) - self.quorum_disk.synced
        self.quorum_disk.lose_power(self.process.world.random.randint(0, unsynced))


def _metadata_directory(voters: VoterSet, node_id: int) -> Uuid:
    voter = voters.voters.get(node_id)
    return voter.key.directory_id if voter else Uuid((1000 + node_id).to_bytes(16, "big"))
