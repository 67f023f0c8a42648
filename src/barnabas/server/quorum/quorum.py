"""The shell of the quorum: the Raft core, the controller and their log, and who waits for a commit.

Operations are decided in the loop and appended to the page cache at once; one task fsyncs the log
in a thread, for all that was appended meanwhile, and publishes what became durable: first to the
node's configuration and replicas, then to the subscribers, then to whoever submitted it.
"""

import logging
import random
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import attrs
import trio

from barnabas.cluster.controller.controller import Controller, ControllerRequest
from barnabas.cluster.metadata.delta import MetadataDelta
from barnabas.cluster.metadata.feature_levels import METADATA_VERSION, SUPPORTED
from barnabas.cluster.metadata.image import RESOURCE_BROKER, Endpoint, MetadataImage
from barnabas.cluster.metadata.metadata_loader import MetadataLoader
from barnabas.cluster.metadata.metadata_snapshot import control_batch
from barnabas.cluster.metadata.record_versions import encode_at, statable
from barnabas.cluster.quorum.quorum_state import FILE_NAME as QUORUM_STATE
from barnabas.cluster.quorum.quorum_state import QuorumStateError, read_quorum_state
from barnabas.cluster.quorum.raft import Entry, RaftCore, Ready, Timeouts
from barnabas.cluster.quorum.voters import ReplicaKey, Voter, VoterSet
from barnabas.config import ConfigError, NodeConfig
from barnabas.log.file_operations import replace_file
from barnabas.protocol.batches.batch_building import build_batch
from barnabas.protocol.batches.record_decoding import Record
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest
from barnabas.protocol.messages.controller_registration import ControllerRegistrationRequest
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.metadata_records import AbortTransactionRecord
from barnabas.protocol.types import Uuid
from barnabas.server.node.endpoints import registered
from barnabas.server.node.startup_checks import DisksLostError, StartupError
from barnabas.server.quorum.metadata_log import MetadataLog
from barnabas.server.quorum.metadata_snapshots import MetadataSnapshots

if TYPE_CHECKING:
    from barnabas.server.node.node import Node

logger = logging.getLogger(__name__)

Subscriber = Callable[[MetadataImage, MetadataDelta], None]


@attrs.frozen(slots=True)
class _Pending:
    """An appended batch, and the image that it leads to once all below `next_offset` commits."""

    next_offset: int
    image: MetadataImage
    delta: MetadataDelta


class Quorum:
    """This node's part in the quorum; `image` is the committed metadata."""

    def __init__(self, node: "Node") -> None:
        self.node = node
        self.image = MetadataImage()
        self.core: RaftCore
        self.log: MetadataLog
        self._snapshots: MetadataSnapshots
        self._controller = Controller(
            lambda: node.config, Uuid.random, random.randrange, lambda: self.core.kraft_version
        )
        self._pending: deque[_Pending] = deque()
        self._subscribers: list[Subscriber] = []
        self._appended = trio.Event()
        self._waiters = trio.lowlevel.ParkingLot()
        self._incarnation_id = Uuid.random()

    # For the node and its handlers

    def subscribe(self, callback: Subscriber) -> None:
        """Call back with each new image and what changed in it, in the loop, in log order."""
        self._subscribers.append(callback)

    async def handle(
        self, request: ControllerRequest, version: int, timeout_s: float = 60
    ) -> Message:
        """Have the controller decide a request; return its response once it is committed.

        A response without records waits for the records that it was decided upon. Raises
        KafkaError: NOT_CONTROLLER when another node is the active controller, REQUEST_TIMED_OUT
        (the outcome is then unknown), or the error of the operation.
        """
        if not self.core.is_leader:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "The active controller is another node")
        result = self._controller.handle(request, version)
        if result.kraft_version is not None:
            self._upgrade_kraft_version(result.kraft_version)
        self._append(result.records)
        with trio.move_on_after(timeout_s):
            await self.wait_committed(self.core.log_end_offset)
            return result.response
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The change was not committed in time")

    async def wait_committed(self, offset: int) -> None:
        """Return when all of the log below `offset` is committed and in the image."""
        while self.core.high_watermark < offset:
            await self._waiters.park()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Recover, elect, register this node, and then commit what is appended until cancelled.

        Raises StartupError when the files do not allow it, DisksLostError when the log cannot be
        written: without it a node must not go on.
        """
        loader = self._recover()
        self.core.start(self.node.now_ms())
        await self._do(self.core.take_ready())
        if loader.has_open_transaction:
            # What follows would count as a part of it (Kafka's `ActivationRecordsGenerator`).
            self._append([AbortTransactionRecord(reason="Controller failover")])
        self._introduce()
        await self._flush()
        self._publish_all()
        task_status.started()
        try:
            while True:
                await self._appended.wait()
                self._appended = trio.Event()
                await self._flush()
                await self._write_snapshot_if_due()
        finally:
            self.core.resign(self.node.now_ms())
            self.log.close()

    # Start

    def _recover(self) -> MetadataLoader:
        node = self.node
        self.log = MetadataLog(node.logs, node.config)
        self._snapshots = MetadataSnapshots(self.log, node.config, node.now_ms())
        try:
            state = read_quorum_state(self.log.directory)
            loader = self.log.load(MetadataImage(cluster_id=node.cluster_id))
        except QuorumStateError as error:
            raise StartupError(f"{self.log.directory / QUORUM_STATE}: {error}") from error
        except (KafkaError, OSError) as error:
            raise StartupError(f"cannot read {self.log.directory}: {error}") from error
        self.image = loader.image()
        local = Voter(
            ReplicaKey(node.node_id, self.log.directory_id),
            registered(node, node.config.advertised_controller_listeners),
        )
        voters = loader.voters or VoterSet.of(local)
        others = [key.id for key in voters.replica_keys if key.id != node.node_id]
        if others or not voters.is_voter(local.key):
            raise StartupError(
                f"the quorum of {self.log.directory} has the voters "
                f"{[key.id for key in voters.replica_keys]}: node.id {node.node_id} alone cannot "
                "lead it"
            )
        self.core = RaftCore(
            local=local,
            voters=voters,
            voters_offset=loader.voters_offset,
            kraft_version=loader.kraft_version,
            state=state,
            log=loader.epochs,
            random=random.randrange,
            timeouts=_timeouts(node.config),
        )
        return loader

    def _introduce(self) -> None:
        """Append what makes this node part of its cluster: features, controller, broker."""
        node, controller = self.node, self._controller
        if self.image.is_empty:
            self._append(self.log.bootstrap_records())
        node.logs.broker_epoch = broker_epoch = self._register()
        self._fence_others()  # first, so that this node may take over what they led
        heartbeat = BrokerHeartbeatRequest(broker_id=node.node_id, broker_epoch=broker_epoch)
        unfence = controller.broker_heartbeat(heartbeat)
        self._append(unfence.records)

    def _fence_others(self) -> None:
        """Brokers of the cluster that the directory comes from; none of them is heard of here."""
        controller = self._controller
        for broker in controller.image.brokers.values():
            if broker.id != self.node.node_id and not broker.fenced:
                logger.warning("fenced broker=%d: this node is a cluster of its own", broker.id)
                self._append(controller.fence_broker(broker.id).records)

    def _register(self) -> int:
        """State all of this node that the metadata.version has room for; the broker's epoch."""
        node, controller = self.node, self._controller
        registration = ControllerRegistrationRequest(
            controller_id=node.node_id,
            incarnation_id=self._incarnation_id,
            listeners=_listeners(ControllerRegistrationRequest.Listener, self.core.local.endpoints),
            features=_features(ControllerRegistrationRequest.Feature),
        )
        self._append(controller.register_controller(registration).records)
        broker = BrokerRegistrationRequest(
            broker_id=node.node_id,
            cluster_id=node.cluster_id,
            incarnation_id=self._incarnation_id,
            listeners=_listeners(
                BrokerRegistrationRequest.Listener,
                registered(node, node.config.advertised_listeners),
            ),
            features=_features(BrokerRegistrationRequest.Feature),
            rack=node.config.rack,
            log_dirs=list(self.log.directory_ids),
        )
        result = controller.register_broker(broker)
        self._append(result.records)
        return result.response.broker_epoch

    # Appending and committing

    def _upgrade_kraft_version(self, version: int) -> None:
        logger.info("quorum goes over to kraft.version=%d", version)
        self.core.upgrade_kraft_version(version, self.node.now_ms())
        self._write(self.core.take_ready())

    def _append(self, records: list[Message]) -> None:
        """Append one batch and let the controller go on from what it leads to."""
        controller = self._controller
        metadata_version = controller.image.features.get(METADATA_VERSION, 0)
        records = statable(records, metadata_version)
        if not records:
            return
        encoded = [encode_at(record, metadata_version) for record in records]
        entry = self.core.propose(encoded, self.node.now_ms())
        self._write(self.core.take_ready())
        delta = MetadataDelta(controller.image)
        for record in records:
            delta.replay(record)
        controller.image = delta.apply(entry.next_offset - 1, entry.epoch)
        controller.next_offset = entry.next_offset
        self._pending.append(_Pending(entry.next_offset, controller.image, delta))
        self._appended.set()

    async def _do(self, ready: Ready) -> None:
        """What the core asks for, in its order."""
        if ready.quorum_state is not None:
            path, content = self.log.directory / QUORUM_STATE, ready.quorum_state.encode()
            await self.node.disk.run(replace_file, path, content)
        self._write(ready)

    def _write(self, ready: Ready) -> None:
        for entry in ready.entries:
            batch = _batch(entry)
            self.log.append(batch, self.node.now_ms())
            self._snapshots.appended(len(batch))
        if ready.leadership is not None:
            leader_id, epoch = ready.leadership
            logger.info("quorum leader=%s epoch=%d", leader_id, epoch)
            self.image = attrs.evolve(
                self.image, controller_id=-1 if leader_id is None else leader_id, epoch=epoch
            )
            self._controller.image = self.image
            self._controller.next_offset = self.core.log_end_offset
        if ready.high_watermark is not None:
            self.log.advance_high_watermark(ready.high_watermark)

    async def _flush(self) -> None:
        """Make durable what was appended; then it is committed."""
        end_offset = self.core.log_end_offset
        try:
            await self.node.disk.fsync(self, self.log.flush)
        except KafkaError as error:
            raise DisksLostError(f"the quorum's log cannot be written: {error.message}") from error
        self.core.on_flushed(end_offset)
        self._write(self.core.take_ready())
        if self._subscribers:
            self._publish()
        self._waiters.unpark_all()

    async def _write_snapshot_if_due(self) -> None:
        now_ms, snapshots, core = self.node.now_ms(), self._snapshots, self.core
        if snapshots.is_due(now_ms):
            snapshots.begin(now_ms)
            await self.node.disk.run(
                snapshots.write, self.image, core.voters, core.kraft_version, now_ms
            )
            snapshots.remove_old(now_ms)

    def _publish_all(self) -> None:
        """The first image, as a whole."""
        last = self._pending[-1]
        self._pending.clear()
        self.image = last.image
        self._configure_node()
        self.node.replicas.apply(self.image, None)
        self.subscribe(self._follow)

    def _publish(self) -> None:
        pending, reached = self._pending, self.core.high_watermark
        while pending and pending[0].next_offset <= reached:
            committed = pending.popleft()
            self.image = committed.image
            for subscriber in self._subscribers:
                subscriber(committed.image, committed.delta)

    def _follow(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """The first subscriber: this node's own configuration and replicas."""
        if any(kind == RESOURCE_BROKER for kind, _ in delta.configs):
            self._configure_node()
        if METADATA_VERSION in delta.features:
            self._register()
        self.node.replicas.apply(image, delta)

    def _configure_node(self) -> None:
        node, image = self.node, self.image
        cluster, own = image.broker_config(None), image.broker_config(node.node_id)
        try:
            node.settings.publish(node.config.with_dynamic(cluster, own))
        except ConfigError as error:
            logger.warning("dynamic configuration not applied error=%s", error.message)


def _timeouts(config: NodeConfig) -> Timeouts:
    return Timeouts(
        election_ms=config.get_int("controller.quorum.election.timeout.ms"),
        fetch_ms=config.get_int("controller.quorum.fetch.timeout.ms"),
        backoff_max_ms=config.get_int("controller.quorum.election.backoff.max.ms"),
    )


def _listeners(listener: Callable[..., Any], endpoints: Iterable[Endpoint]) -> list[Any]:
    return [
        listener(
            name=point.name,
            host=point.host,
            port=point.port,
            security_protocol=point.security_protocol,
        )
        for point in endpoints
    ]


def _features(feature: Callable[..., Any]) -> list[Any]:
    return [
        feature(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in SUPPORTED.items()
    ]


def _batch(entry: Entry) -> bytearray:
    if entry.control:
        return control_batch(entry.control, entry.base_offset, entry.epoch, entry.timestamp_ms)
    records = [
        Record(entry.base_offset + delta, entry.timestamp_ms, None, value)
        for delta, value in enumerate(entry.records)
    ]
    return build_batch(records, base_offset=entry.base_offset, leader_epoch=entry.epoch)
