"""A node: its parts, the order in which they start, and the order in which they stop.

Start: addresses are bound, the data directories locked (formatted when new), logs found, the
controller listeners opened, as other voters elect the leader through them, the quorum started, the
broker registered, its logs recovered after a kill, coordinators started, and only then clients are
accepted.
Stop: connections are refused, requests in flight are answered, then coordinators, quorum
and logs stop. The clean-shutdown marker is written last.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from barnabas import tasks
from barnabas.config import Listener as Endpoint
from barnabas.config import NodeConfig
from barnabas.config.subscriptions import ConfigSubscriptions
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.server.api.dispatch import Dispatcher
from barnabas.server.api.node_quotas import ClientQuotas, QuotaWindows
from barnabas.server.api.registry import ListenerKind
from barnabas.server.controller_channel.local_controller import LocalControllerChannel
from barnabas.server.controller_channel.quorum_channel import QuorumControllerChannel
from barnabas.server.monitoring.metrics import Metrics
from barnabas.server.node.api_wiring import broker_dispatcher, controller_dispatcher
from barnabas.server.node.data_directories import lost_directories
from barnabas.server.node.endpoints import registered
from barnabas.server.node.machine import Machine
from barnabas.server.node_failures import DisksLostError
from barnabas.server.peer_security import Secured, plain
from barnabas.server.replication.commit_wait import CommitWaits
from barnabas.server.transport.acceptor import Limits, Listener, dynamic_limits

if TYPE_CHECKING:
    from barnabas.cluster.metadata.image import MetadataImage
    from barnabas.cluster.replication import ReplicaManager
    from barnabas.coordinator.groups.consumer.assignors.assignor import Assignor
    from barnabas.coordinator.groups.rebalance_history import Cause
    from barnabas.log import LogManager
    from barnabas.security.standard_authorizer import StandardAuthorizer
    from barnabas.server.coordinators.group_service import GroupCoordinator
    from barnabas.server.coordinators.transactions.transaction_service import TransactionCoordinator
    from barnabas.server.node.peer_access import NodeAccess
    from barnabas.server.quorum.failure_detector import FailureDetector
    from barnabas.server.quorum.quorum import Quorum
    from barnabas.server.quorum.quorum_loading import LoadedQuorum
    from barnabas.server.quorum.quorum_setup import QuorumSetup
    from barnabas.server.replication.replica_fetcher import ReplicaFetchers
    from barnabas.server.storage.background_tasks import BackgroundTasks
    from barnabas.server.storage.directory_assignments import DirectoryAssignments
    from barnabas.server.storage.helper_pool import HelperPool
    from barnabas.server.storage.record_worker import RecordWorker
    from barnabas.server.transport.login import LoginPolicy

logger = logging.getLogger(__name__)

# The time for responses to requests in flight after a stop is requested.
STOP_GRACE_S = 5.0

_PLAIN = "PLAINTEXT"

Preparation = Callable[["Node"], Awaitable[None]]


class Node:
    """One broker and controller, with its parts as attributes.

    `preparations` are awaited before clients are accepted. `run` raises StartupError or ConfigError
    when the node cannot start, without damage, and DisksLostError when its disks fail.
    """

    logs: "LogManager"
    replicas: "ReplicaManager"
    fetchers: "ReplicaFetchers"
    quorum: "Quorum"
    channel: QuorumControllerChannel
    assignors: "Mapping[str, Assignor]"
    groups: "GroupCoordinator"
    transactions: "TransactionCoordinator"
    helpers: "HelperPool"
    records: "RecordWorker"
    background: "BackgroundTasks"
    directories: "DirectoryAssignments"

    def __init__(
        self,
        config: NodeConfig,
        machine: Machine | None = None,
        preparations: "Sequence[Preparation]" = (),
    ) -> None:
        self.machine = machine or Machine()
        self._preparations = preparations
        self.settings = ConfigSubscriptions(config)
        self.node_id = config.node_id
        self.cluster_id = ""
        self.clock = self.machine.clock()
        self.started_ms = self.clock.monotonic_ms()
        self.ready = False
        self.has_started = False
        self.metrics_port: int | None = None
        self.disk = self.machine.disk()
        self.commits = CommitWaits(self.disk.flush)
        self.metrics = Metrics(self, is_broker=config.is_broker, is_controller=config.is_controller)
        self.transport = self.machine.transport(
            Limits.of(config), self.disk, self._login_policies()
        )
        self.settings.subscribe(
            dynamic_limits(config), lambda config: self.transport.update_limits(Limits.of(config))
        )
        self.quotas = ClientQuotas(
            _quota_windows(config, "quota"),
            _quota_windows(config, "controller.quota"),
            self.clock.monotonic_ms,
            self.transport.limit_addresses,
        )
        self.authorizer: StandardAuthorizer | None = None
        if config.get("authorizer.class.name"):
            from barnabas.server.node.authorizer_setup import configured_authorizer

            self.authorizer = configured_authorizer(config)
        self.dispatchers: dict[ListenerKind, Dispatcher] = {}
        self.listeners: list[Listener] = []
        self.to_brokers: Secured = plain
        self.to_controllers: Secured = plain
        self.access: NodeAccess | None = None
        """The credentials for other nodes; None where connections to them are in plain text."""
        self._detector: FailureDetector | None = None
        self._stopping = tasks.event()
        self.disks_lost = tasks.event()

    def _login_policies(self) -> "Mapping[str, LoginPolicy]":
        """Return how listeners authenticate clients. A node without SASL imports nothing of it."""
        if not any(each.security_protocol.startswith("SASL_") for each in self.config.listeners):
            return {}
        from barnabas.server.node.login_policies import login_policies

        return login_policies(self)

    @property
    def config(self) -> NodeConfig:
        """The current configuration, with the changes of AlterConfigs."""
        return self.settings.current

    @property
    def image(self) -> "MetadataImage":
        """The committed metadata that this node has."""
        return self.quorum.image

    @property
    def image_for_clients(self) -> "MetadataImage":
        """The committed metadata, in which brokers that have just ended count as fenced."""
        return self.image if self._detector is None else self._detector.reachable(self.image)

    def just_ended(self) -> frozenset[int]:
        """Return the brokers whose process ended a few seconds ago, which clients still see."""
        return frozenset() if self._detector is None else self._detector.just_ended()

    def disputed_brokers(self) -> frozenset[int]:
        """Return the brokers that refuse this node, and that the controller does not fence."""
        return frozenset() if self._detector is None else self._detector.disputed()

    async def settle_failures(self) -> None:
        """Wait shortly while a broker has just ended, and its partitions have no new leader."""
        if self._detector is not None:
            await self._detector.settle()

    def reload_certificates(self) -> None:
        """Read the key stores and trust stores of the listeners again, for new connections."""
        for listener in self.listeners:
            if listener.tls is not None:
                listener.tls.reload(self.config)
        for each in () if self.access is None else self.access.all:
            each.reload(self.config)

    def stop(self) -> None:
        """Request a stop; `run` returns when the node has stopped."""
        self._stopping.set()

    @property
    def is_stopping(self) -> bool:
        """True when a stop was requested."""
        return self._stopping.is_set()

    def bound_port(self, listener_name: str) -> int:
        """Return the bound port of a listener; KeyError for an unknown one."""
        for listener in self.listeners:
            if listener.name == listener_name:
                return listener.port
        raise KeyError(listener_name)

    def advertised(self, endpoints: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
        """Return the endpoints for clients; port 0 is replaced by the bound port."""
        return tuple(
            endpoint if endpoint.port else endpoint._replace(port=self.bound_port(endpoint.name))
            for endpoint in endpoints
        )

    async def run(self, task_status: tasks.TaskStatus = tasks.IGNORED) -> None:
        """Start, serve until `stop`, and stop in order."""
        from barnabas.server.coordinators.group_service import assignors_of

        self._choose_local_address()
        self.assignors = assignors_of(self.config)  # before a data directory is formatted
        with ExitStack() as held:
            self._bind(held)
            self._prepare_access()
            self.logs = self.machine.open_data(self)
            clean = False
            try:
                await self._serve(task_status)
                if not self.has_started:
                    task_status.started()  # a stop was requested before it could start
                clean = True
            finally:
                with tasks.cancel_scope(shield=True):
                    await self.disk.run(self.logs.close, clean)
                logger.info("stopped clean=%s", str(clean).lower())

    def _choose_local_address(self) -> None:
        """Have connections to other nodes start from `barnabas.peer.bind.address`."""
        address = self.config.get("barnabas.peer.bind.address")
        if address is not None:
            from barnabas.client.outgoing_sockets import local_address

            local_address.set(address)

    def _bind(self, held: ExitStack) -> None:
        config = self.config
        for endpoint in config.listeners:
            is_controller = endpoint.name in config.controller_listener_names
            kind = "controller" if is_controller else "broker"
            listener = self.machine.bind(endpoint, kind, config, held)
            self.listeners.append(listener)
            if listener.tls is not None:
                self.settings.subscribe(listener.tls.reloaded_by, listener.tls.reload)
                self.settings.when_touched(listener.tls.reload_changed_files)

    def _prepare_access(self) -> None:
        """Find how to connect to other nodes. Raises ConfigError when they would refuse it."""
        config = self.config
        names = config.inter_broker_listener_name, config.controller_listener_names[0]
        if all(config.security_protocols.get(each, _PLAIN) == _PLAIN for each in names):
            return
        from barnabas.server.node.peer_access import node_access

        own = {each.name: each.tls for each in self.listeners if each.tls is not None}
        self.access = node_access(config, own)
        self.to_brokers = self.access.brokers.secured
        self.to_controllers = self.access.controllers.secured
        for each in self.access.all:
            if each.reloaded_by:
                self.settings.subscribe(each.reloaded_by, each.reload)

    async def _start_coordinators(self, nursery: tasks.Nursery) -> None:
        """Start what a broker serves in addition to its replicas, and accept its clients."""
        from barnabas.server.coordinators.group_service import GroupCoordinator
        from barnabas.server.coordinators.transactions.producer_ids import ProducerIds
        from barnabas.server.coordinators.transactions.transaction_service import (
            TransactionCoordinator,
        )
        from barnabas.server.storage.background_tasks import BackgroundTasks

        await nursery.start(self.commits.run)
        metadata = self.quorum.publisher
        shared = self.replicas, metadata, lambda: self.config, self.commits, self.clock
        self.groups = GroupCoordinator(
            *shared, assignors=self.assignors, authorizer=self.authorizer
        )
        self.transactions = TransactionCoordinator(
            *shared,
            groups=self.groups,
            producer_ids=ProducerIds(self.quorum.broker, self.channel, nursery.start_soon),
            to_brokers=self.to_brokers,
        )
        await nursery.start(self.groups.run)
        await nursery.start(self.transactions.run)
        self.machine.start_helpers(self, nursery)
        self.background = BackgroundTasks(
            config=lambda: self.config,
            logs=self.logs,
            replicas=self.replicas,
            disk=self.disk,
            helpers=self.helpers,
            directories=self.directories,
            clock=self.clock,
        )
        self.dispatchers["broker"] = broker_dispatcher(self)
        for prepare in self._preparations:
            await prepare(self)
        self.transport.accept(self._broker_listeners)
        nursery.start_soon(self.background.run)

    async def _serve(self, task_status: tasks.TaskStatus) -> None:
        async with tasks.open_nursery() as nursery:
            nursery.start_soon(self._stop_during_start, nursery.cancel_scope)
            nursery.start_soon(self._fail_without_disks)
            await self.machine.start_metrics(self, nursery)
            await self._start_quorum(nursery)
            if self.config.is_broker:
                await self._start_replicas(nursery)
                await self._start_coordinators(nursery)
            else:
                await nursery.start(self.quorum.run, self.channel, self._follow_quotas)
            if self.config.is_controller:
                self._detect_failures(nursery)
            self._log_ready()
            task_status.started()
            await self._stopping.wait()
            self.ready = False
            logger.info("stopping connections=%d", len(self.transport.connections))
            if self.config.is_broker:
                await self._shut_down_broker()
            await self.quorum.resign()
            await self.transport.stop(STOP_GRACE_S)
            nursery.cancel_scope.cancel()

    async def _stop_during_start(self, scope: tasks.CancelScope) -> None:
        """End a start that waits, for a majority of the voters for example."""
        await self._stopping.wait()
        if not self.has_started:
            scope.cancel()

    async def _shut_down_broker(self) -> None:
        """Have the controller move this broker's leaderships to other brokers."""
        if self.config.get_bool("controlled.shutdown.enable"):
            self.replicas.begin_controlled_shutdown()
            await self.quorum.lifecycle.shut_down()

    def directory_failed(self) -> None:
        """Report a failed directory, and end the fetches into it; stop when no other is left."""
        if self.logs.is_lost:
            self.disks_lost.set()
        else:
            self.directories.failed()
            self.replicas.unfollow_offline()

    def new_quorum(self, setup: "QuorumSetup", loaded: "LoadedQuorum") -> "Quorum":
        """Return the quorum of this node."""
        from barnabas.server.quorum.quorum import Quorum

        return Quorum(setup, loaded)

    async def _fail_without_disks(self) -> None:
        """Stop at once, without responses or checkpoints: acked records are on the disks."""
        await self.disks_lost.wait()
        raise DisksLostError(lost_directories(self.logs))

    async def _start_quorum(self, nursery: tasks.Nursery) -> None:
        """Open the quorum's log and the controller listeners, and the channel to the controller."""
        from barnabas.server.quorum.quorum_loading import load_quorum
        from barnabas.server.quorum.quorum_setup import QuorumSetup

        setup = QuorumSetup(
            node_id=self.node_id,
            cluster_id=self.cluster_id,
            controller_endpoints=registered(self, self.config.advertised_controller_listeners),
            broker_endpoints=registered(self, self.config.advertised_listeners),
            settings=self.settings,
            logs=self.logs,
            disk=self.disk,
            clock=self.clock,
            authorizer=self.authorizer,
            to_controllers=self.to_controllers,
        )
        self.quorum = self.new_quorum(setup, await load_quorum(setup))
        if self.authorizer is not None:
            from barnabas.server.node.authorizer_setup import (
                check_administrators,
                warn_of_controllers,
            )

            warn_of_controllers(self.config, self.access)
            check_administrators(self.config, self.authorizer, self.quorum.image)
        self.dispatchers["controller"] = controller_dispatcher(self)
        controller_listeners = [each for each in self.listeners if each.kind == "controller"]
        await nursery.start(self.transport.run, controller_listeners, self.dispatchers)
        local = LocalControllerChannel(self.dispatchers["controller"], client_id=str(self.node_id))
        self.channel = QuorumControllerChannel(
            self.node_id,
            local,
            self.quorum.leader_address,
            request_timeout_s=self.config.get_int("controller.socket.timeout.ms") / 1000,
            secured=self.to_controllers,
        )
        self.quorum.when_leader_changes(self.channel.follow_leader)
        await nursery.start(self.channel.run)

    async def _start_replicas(self, nursery: tasks.Nursery) -> None:
        """Register the broker, and host its replicas."""
        from barnabas.cluster.replication import ReplicaManager
        from barnabas.server.replication.isr_shell import IsrShell
        from barnabas.server.replication.replica_fetcher import ReplicaFetchers
        from barnabas.server.storage.directory_assignments import DirectoryAssignments

        self.directories = DirectoryAssignments(
            self.logs, self.quorum.broker, self.quorum, self.channel
        )
        self.replicas = ReplicaManager(
            self.node_id,
            self.logs,
            config=lambda: self.config,
            clock=self.clock,
        )
        isr_shell = IsrShell(self.replicas, self.channel, self.quorum.broker, self.clock)
        self.fetchers = ReplicaFetchers(
            self.replicas.fetchers,
            self.quorum.publisher,
            self.settings,
            broker=self.quorum.broker,
            clock=self.clock,
            secured=self.to_brokers,
        )
        await nursery.start(self.quorum.run, self.channel, self._follow_metadata)
        nursery.start_soon(self.directories.run)
        nursery.start_soon(isr_shell.run)
        await nursery.start(self.fetchers.run)
        # Not before: `directories` compares the logs of the first image with the metadata once.
        self.replicas.on_unopened = self.fetchers.open_logs_soon
        nursery.start_soon(self.fetchers.open_logs, self.replicas.open_next_log)

    def _detect_failures(self, nursery: tasks.Nursery) -> None:
        """Let this node's controller notice when the process of another broker ends."""
        detector = self._detector = self.machine.failure_detector(self)
        if detector is None:
            return
        quorum = self.quorum
        detector.follow(quorum.image)
        quorum.publisher.subscribe("failure detector", detector.follow_changes)
        quorum.when_leader_changes(detector.report_again)
        nursery.start_soon(detector.run)

    async def _follow_metadata(self, image: "MetadataImage") -> None:
        """Recover the logs, then host the replicas of the first image, and of those that follow.

        Meanwhile the loop serves the quorum: this may take long with many partitions. Connections
        wait until the broker is unfenced. The controllers connect before that, so that they notice
        the end of the process from then on.
        """
        if self.access is not None:
            self.access.brokers.check_user(image)
        await self.disk.run(self.logs.recover)
        self.transport.listen(self._broker_listeners)
        for _ in self.replicas.start(image):
            await tasks.checkpoint()
        self.quorum.publisher.subscribe("replicas", self.replicas.apply, essential=True)
        await self._follow_quotas(self.quorum.image)

    async def _follow_quotas(self, image: "MetadataImage") -> None:
        """Limit clients by the quotas of the metadata."""
        self.quotas.start(image)
        self.quorum.publisher.subscribe("client quotas", self.quotas.apply)

    @property
    def _broker_listeners(self) -> list[Listener]:
        return [each for each in self.listeners if each.kind == "broker"]

    def is_ready(self) -> bool:
        """True while the node serves clients; a broker does so while it is unfenced."""
        if not self.ready or not self.config.is_broker:
            return self.ready
        broker = self.image.brokers.get(self.node_id)
        return broker is not None and not broker.fenced

    def rebalance_causes(self, group_id: str) -> "Sequence[Cause]":
        """Return the last causes of a group's rebalances. Raises KafkaError."""
        if not self.config.is_broker:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The node is not a broker")
        return self.groups.rebalance_causes(group_id)

    def _log_ready(self) -> None:
        self.ready = self.has_started = True
        logger.info(
            "ready listeners=%s node_id=%d cluster_id=%s ms=%.0f",
            ",".join(f"{x.name}://{x.host}:{x.port}" for x in self.listeners),
            self.node_id,
            self.cluster_id,
            self.clock.monotonic_ms() - self.started_ms,
        )


def _quota_windows(config: NodeConfig, prefix: str) -> QuotaWindows:
    window_ms = config.get_int(f"{prefix}.window.size.seconds") * 1000
    return QuotaWindows(config.get_int(f"{prefix}.window.num"), window_ms)
