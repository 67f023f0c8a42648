"""This node's part in the quorum: its parts, and how they start.

    raft_shell           the Raft core's log, state file and timer
    controller_host      requests to this node's controller
    metadata_publisher   the committed metadata, for the parts of the node that follow it
    lifecycle_shell      the broker's registration and heartbeats

The broker registers over the controller channel, as a broker on its own would.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING

from barnabas import tasks
from barnabas.cluster.broker.broker_lifecycle import BrokerLifecycle, BrokerState
from barnabas.cluster.controller.controller import Controller
from barnabas.cluster.controller.controller_requests import ControllerRequest
from barnabas.cluster.controller.controller_state_machine import (
    CommittedBatch,
    ControllerStateMachine,
    Effects,
)
from barnabas.cluster.controller.election_counts import ElectionCounts
from barnabas.cluster.controller.operation_result import Charge, charge_nothing
from barnabas.cluster.controller.sessions import SessionKey
from barnabas.cluster.metadata.delta import MetadataDelta
from barnabas.cluster.metadata.feature_levels import (
    METADATA_VERSION,
    supports_cordoned_directories,
)
from barnabas.cluster.metadata.image import RESOURCE_BROKER, MetadataImage
from barnabas.cluster.metadata.image_difference import difference
from barnabas.cluster.quorum.metadata_loader import MetadataLoader
from barnabas.cluster.quorum.quorum_state import QuorumState
from barnabas.cluster.quorum.raft import RaftCore
from barnabas.cluster.quorum.raft_state import Role
from barnabas.cluster.quorum.raft_validation import leader_only_error
from barnabas.cluster.quorum.voters import LeaderAddress, ReplicaKey, Voter
from barnabas.config import ConfigError
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages_base import Message
from barnabas.protocol.types import Uuid
from barnabas.server.controller_channel.controller_channel import ControllerChannel
from barnabas.server.node_failures import StartupError
from barnabas.server.quorum.controller_host import ControllerHost
from barnabas.server.quorum.election_times import ElectionTimes
from barnabas.server.quorum.lifecycle_shell import LifecycleShell
from barnabas.server.quorum.metadata_log import MetadataLog
from barnabas.server.quorum.metadata_publisher import MetadataPublisher
from barnabas.server.quorum.metadata_snapshots import MetadataSnapshots
from barnabas.server.quorum.node_registration import NodeRegistration
from barnabas.server.quorum.quorum_addresses import QuorumAddresses
from barnabas.server.quorum.quorum_loading import LoadedQuorum
from barnabas.server.quorum.quorum_setup import QuorumSetup
from barnabas.server.quorum.raft_peers import RaftPeers
from barnabas.server.quorum.raft_shell import RaftShell
from barnabas.server.quorum.registration_retries import ControllerRegistration

if TYPE_CHECKING:
    from barnabas.security.standard_authorizer import StandardAuthorizer
    from barnabas.server.quorum.follower_offsets import FollowerOffsets
    from barnabas.server.quorum.voter_changes_shell import VoterChanges

logger = logging.getLogger(__name__)

_RESIGNATION_S = 5.0


class Quorum:
    """The parts of the quorum on this node.

    Raises StartupError when the files do not allow a start. Nothing is written before `run`.
    """

    peers_type: type[RaftPeers] = RaftPeers

    def __init__(self, setup: QuorumSetup, loaded: LoadedQuorum) -> None:
        self._setup = setup
        self._registration = NodeRegistration(setup)
        self.clock = setup.clock
        self.settings = setup.settings
        config, chance = setup.config, tasks.local(Random)
        log, loader = loaded.log, loaded.loader
        image = loader.image()
        self.core = self._raft_core(log, loaded.state, loader)
        self._machine = ControllerStateMachine(
            self.core,
            Controller(
                lambda: setup.settings.current,
                lambda: Uuid.random(chance.randbytes),
                chance.randrange,
                lambda: self.core.kraft_version,
                wall_ms=setup.clock.wall_ms,
                local_broker=self._registration.local_broker,
            ),
            image,
            timestamp_ms=loader.last_timestamp_ms,
            bootstrap=[] if image.features else log.bootstrap_records(),
            open_transaction=loader.open_transaction,
            voters_history=loader.history,
        )
        self.publisher = MetadataPublisher(self._machine.image)
        self.addresses = QuorumAddresses(
            self.core,
            config.get("controller.quorum.bootstrap.servers"),
            config.controller_listener_names[0],
        )
        self._peers = self.peers_type(
            self.core,
            self.addresses,
            setup.peer_settings(log),
            disk=setup.disk,
            clock=self.clock,
        )
        self.raft = RaftShell(
            self._machine,
            log,
            MetadataSnapshots(log, config, self.clock.monotonic_ms()),
            setup.disk,
            clock=self.clock,
            deliver=self._deliver,
            peers=self._peers,
            must_sync=config.is_controller,
        )
        self._host = ControllerHost(
            self._machine,
            clock=self.clock,
            wake=self.raft.wake,
            wait_applied=self._wait_applied,
        )
        self._is_published = False
        self._is_caught_up = tasks.event()
        self._follows = tasks.event()
        self._leader_observers: list[Callable[[], None]] = []
        self.election_times = ElectionTimes()
        self.lifecycle: LifecycleShell

    # For the node and its handlers

    @cached_property
    def voter_changes(self) -> "VoterChanges":
        """The requests that change the voters."""
        from barnabas.server.quorum.voter_changes_shell import VoterChanges

        return VoterChanges(
            self.core,
            self.raft,
            self._peers,
            self._machine.reported_voters,
            listener_name=self._setup.config.controller_listener_names[0],
            clock=self.clock,
        )

    @cached_property
    def followers(self) -> "FollowerOffsets":
        """The offsets that followers have applied, by the fetches that this leader gets."""
        from barnabas.server.quorum.follower_offsets import FollowerOffsets

        return FollowerOffsets()

    async def _wait_applied(self) -> None:
        """Return when the active brokers have applied what is committed, or after a moment."""
        others = self._machine.image.active_brokers - {self._setup.node_id}
        if others:
            await self.followers.wait(self.core.high_watermark, others)

    @property
    def cluster_id(self) -> str:
        """The id of the cluster."""
        return self._setup.cluster_id

    @property
    def image(self) -> MetadataImage:
        """The committed metadata, as far as this node has applied it."""
        return self.publisher.image

    @cached_property
    def broker(self) -> BrokerLifecycle:
        """The state of this node's broker: its registration, and what it reports."""
        registration = self._registration
        return BrokerLifecycle(
            registration.unregistered(),
            registration.of_broker(),
            self._setup.lifecycle_timeouts(),
        )

    @property
    def partition_elections(self) -> ElectionCounts:
        """The elections of partition leaders in the committed metadata."""
        return self._machine.elections

    @property
    def metadata_timestamp_ms(self) -> int:
        """The time of the last committed record of the metadata."""
        return self._machine.timestamp_ms

    def leader_address(self) -> LeaderAddress | None:
        """Return the address of the active controller; None while no leader is known."""
        return self.addresses.leader_address()

    def when_leader_changes(self, callback: Callable[[], None]) -> None:
        """Call `callback` whenever this node learns of another leader, or loses it."""
        self._leader_observers.append(callback)

    def end_session(self, key: SessionKey) -> None:
        """Have this node's controller, if it is active, fence a broker whose process has ended."""
        self._machine.end_session(key, self.clock.monotonic_ms())
        self.raft.wake()

    async def handle(
        self, request: ControllerRequest, version: int, charge: Charge = charge_nothing
    ) -> Message:
        """Have this node's controller decide a request (see `ControllerHost.handle`)."""
        return await self._host.handle(request, version, charge)

    async def run(
        self,
        channel: ControllerChannel,
        host: Callable[[MetadataImage], Awaitable[None]] | None = None,
        task_status: tasks.TaskStatus = tasks.IGNORED,
    ) -> None:
        """Take part in the quorum until cancelled; report `started` when the broker is unfenced.

        The first image is passed to `host`, which hosts a broker's replicas; what changes after it
        is published to the subscribers.

        Raises StartupError when the controller does not register the broker, DisksLostError when
        the quorum's log cannot be written.
        """
        config = self._setup.config
        registration = ControllerRegistration(self._registration.of_controller(), channel)
        self.raft.start()
        async with tasks.open_nursery() as nursery:
            await nursery.start(self._peers.run, self.raft)
            nursery.start_soon(self.raft.run)
            if config.is_controller:
                nursery.start_soon(self._maintain_voter)
                nursery.start_soon(registration.run)
                await tasks.checkpoint()  # the controller registers before the broker
            if config.is_broker:
                await self._run_broker(channel, host, nursery)
            else:
                await self._is_caught_up.wait()
                await self._publish_first(host)
            self.publisher.subscribe(
                "registration", lambda _, delta: self._register_again(delta, nursery, registration)
            )
            task_status.started()

    async def _run_broker(
        self,
        channel: ControllerChannel,
        host: Callable[[MetadataImage], Awaitable[None]] | None,
        nursery: tasks.Nursery,
    ) -> None:
        """Register the broker; return when it is unfenced, with the first image applied."""
        setup = self._setup
        self.lifecycle = LifecycleShell(
            self.broker,
            channel,
            metadata_offset=self._applied_offset,
            is_last_broker=self._is_last_broker,
            cordoned=self._cordoned_directories,
            describe_leader=self.addresses.describe_leader,
            clock=self.clock,
        )
        setup.logs.broker_epoch = lambda: self.broker.identity.epoch
        nursery.start_soon(self.lifecycle.run)
        await self.lifecycle.wait_for(BrokerState.RECOVERY)
        await self._publish_first(host)
        self.lifecycle.ready_to_unfence()
        await self.lifecycle.wait_for(BrokerState.RUNNING)

    async def _maintain_voter(self) -> None:
        await self._follows_leader()
        from barnabas.server.quorum.voter_maintenance import VoterMaintenance

        config, cluster_id = self._setup.config, self._setup.cluster_id
        maintenance = VoterMaintenance(self.core, self._peers, cluster_id, config)
        await maintenance.run(self._follows_leader)

    async def _follows_leader(self) -> None:
        """Return when this replica follows a leader; a single node never does.

        A replica that asks for pre-votes in vain follows the same leader again.
        """
        while self.core.role is not Role.FOLLOWER:
            self._follows = tasks.event()
            await self._follows.wait()

    def check_leader_epoch(self, epoch: int) -> None:
        """Raise KafkaError unless this node leads the quorum in this epoch."""
        error = leader_only_error(epoch, self.core.epoch, is_leader=self.core.is_leader)
        if error is not ErrorCode.NONE:
            raise KafkaError(error)

    async def resign(self) -> None:
        """Hand the leadership to another voter, if this node leads.

        Return when another voter leads, when no other voter accepts connections, or after 5 s.
        """
        if not self.core.is_leader or len(self.core.voters) == 1:
            return
        with tasks.move_on_after(_RESIGNATION_S):
            async with tasks.open_nursery() as nursery:

                async def end_with(wait: Callable[[], Awaitable[None]]) -> None:
                    await wait()
                    nursery.cancel_scope.cancel()

                nursery.start_soon(end_with, self.raft.resign)
                nursery.start_soon(end_with, self._peers.wait_until_gone)

    # Start

    def _raft_core(self, log: MetadataLog, state: QuorumState, loader: MetadataLoader) -> RaftCore:
        node_id = self._setup.node_id
        local = Voter(ReplicaKey(node_id, log.directory_id), self._setup.controller_endpoints)
        config = self._setup.config
        stated = loader.history.latest
        if not len(stated.voters) and not config.get("controller.quorum.bootstrap.servers"):
            raise StartupError(
                f"{log.directory} names no voters: set controller.quorum.bootstrap.servers"
            )
        if not config.is_controller and stated.voters.is_voter(local.key):
            raise StartupError(
                f"node {node_id} is a voter of the quorum in {log.directory}, so process.roles "
                "must contain controller; 'barnabas cluster voters remove' removes a voter"
            )
        return RaftCore(
            local=local,
            voters=stated.voters,
            voters_offset=stated.offset,
            kraft_version=stated.kraft_version,
            state=state,
            log=loader.epochs,
            random=tasks.local(Random).randrange,
            timeouts=self._setup.raft_timeouts(),
        )

    def _register_again(
        self, delta: MetadataDelta, nursery: tasks.Nursery, registration: ControllerRegistration
    ) -> None:
        """Register again when metadata.version changes, as the records may get more fields."""
        config = self._setup.config
        if METADATA_VERSION in delta.features:
            if config.is_broker:
                self.lifecycle.register_again()
            if config.is_controller:
                nursery.start_soon(registration.run)

    def _cordoned_directories(self) -> list[Uuid] | None:
        """Return the directories that get no new partitions; None before KIP-1066."""
        is_supported = supports_cordoned_directories(self.image.features)
        return self._registration.cordoned_directories() if is_supported else None

    # Publishing

    def _applied_offset(self) -> int:
        """Return the offset of the applied metadata; -1 until they are known to be committed."""
        image = self.image if self._is_published else self._machine.image
        return image.offset if image.offset < self.core.high_watermark else -1

    def _is_last_broker(self) -> bool:
        return self.image.active_brokers <= {self._setup.node_id}

    async def _publish_first(self, host: Callable[[MetadataImage], Awaitable[None]] | None) -> None:
        """Publish the image, and then what was committed while `host` took its time with it."""
        first = self.publisher.image = self._machine.image
        self._configure_node(first)
        # Before all other subscribers: they read the node's configuration.
        self.publisher.subscribe("configuration", self._follow_configuration, essential=True)
        if host is not None:
            await host(first)
        self._is_published = True
        newest = self._machine.image
        if newest is not first:
            self.publisher.publish(newest, difference(first, newest))

    def _deliver(self, effects: Effects) -> None:
        """Publish the committed batches, then answer the operations that wait for them."""
        core = self.core
        self.election_times.follow(core.role, core.leader_id, core.epoch, self.clock.monotonic_ms())
        if self._setup.authorizer is not None:
            self._follow_acls(self._setup.authorizer, effects.committed)
        if self._is_published:
            for batch in effects.committed:
                self.publisher.publish(batch.image, batch.delta)
            if effects.ready.leadership is not None:
                self.publisher.image = self._machine.image
        if self._applied_offset() >= 0 and self.core.leader_id is not None:
            self._is_caught_up.set()
        self._host.complete(effects.completions)
        if core.role is Role.FOLLOWER:
            self._follows.set()
        if effects.ready.leadership is not None:
            for observer in self._leader_observers:
                observer()

    def _follow_acls(
        self, authorizer: "StandardAuthorizer", committed: Iterable[CommittedBatch]
    ) -> None:
        """Pass the ACLs on, also before the first image is published: a controller needs them."""
        if authorizer.is_loaded:
            for batch in committed:
                authorizer.apply(batch.image, batch.delta)
        else:
            authorizer.load_committed(self._machine.image, self.core.high_watermark)

    def _follow_configuration(self, image: MetadataImage, delta: MetadataDelta) -> None:
        if any(kind == RESOURCE_BROKER for kind, _ in delta.configs):
            self._configure_node(image)
        if (RESOURCE_BROKER, str(self._setup.node_id)) in delta.configs:
            self._setup.settings.touch()

    def _configure_node(self, image: MetadataImage) -> None:
        """Apply the dynamic configuration of this broker."""
        settings = self._setup.settings
        cluster, own = image.broker_config(None), image.broker_config(self._setup.node_id)
        try:
            settings.publish(settings.current.with_dynamic(cluster, own))
        except ConfigError as error:
            logger.warning("cannot apply the dynamic configuration error=%s", error.message)
