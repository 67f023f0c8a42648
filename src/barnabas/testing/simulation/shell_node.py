"""A simulated node that runs the server's own quorum: `Quorum` with all its shells, on real files.

The files are in a temporary directory. A kill leaves them as they are; a loss of power takes a
random part of what was not synced. What the node does is the server's code; here are only its
surroundings, and what the invariants look at.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

from barnabas import tasks
from barnabas.client.broker_connection import Sockets
from barnabas.client.failures import Address
from barnabas.cluster.controller.controller_state_machine import Effects
from barnabas.cluster.metadata.image import METADATA_TOPIC, Endpoint
from barnabas.cluster.quorum.fetched_batches import read_fetched
from barnabas.cluster.quorum.metadata_snapshot import SnapshotId
from barnabas.cluster.quorum.quorum_state import QuorumState
from barnabas.cluster.quorum.raft import RaftCore
from barnabas.cluster.quorum.raft_messages import VoteResponse
from barnabas.cluster.quorum.raft_state import Entry
from barnabas.cluster.quorum.voters import ReplicaKey, VoterSet
from barnabas.config import NodeConfig, TopicConfig
from barnabas.config.subscriptions import ConfigSubscriptions
from barnabas.log import FileCache, LogConfig, LogManager, Volume
from barnabas.log.checkpoints import MetaProperties
from barnabas.protocol.types import Uuid
from barnabas.server.controller_channel.local_controller import LocalControllerChannel
from barnabas.server.controller_channel.quorum_channel import QuorumControllerChannel
from barnabas.server.node.api_wiring import controller_dispatcher
from barnabas.server.node_failures import DisksLostError, StartupError
from barnabas.server.quorum.metadata_log import MetadataLog
from barnabas.server.quorum.metadata_snapshots import MetadataSnapshots
from barnabas.server.quorum.quorum import Quorum
from barnabas.server.quorum.quorum_files import format_directory, write_quorum_state
from barnabas.server.quorum.quorum_loading import load_quorum
from barnabas.server.quorum.quorum_setup import QuorumSetup
from barnabas.server.storage.disk_threads import DiskThreads
from barnabas.testing.simulation.quorum_format import controller_endpoint
from barnabas.testing.simulation.quorum_invariants import InvariantError, QuorumInvariants
from barnabas.testing.simulation.sim_listener import SimListener
from barnabas.testing.simulation.sim_streams import SimSockets, SimStreams
from barnabas.testing.simulation.world import Process

CLUSTER_ID: Final = "simulated-cluster-0000"
_READ_BYTES: Final = 1 << 20
_ANY_EPOCH: Final = 1 << 30


class ReplicaView:
    """A replica as `QuorumInvariants` sees it."""

    def __init__(self, process: Process, core: RaftCore, log: MetadataLog) -> None:
        self.process = process
        self.core = core
        self.key = core.local.key
        self.disk = self
        self._log = log

    @property
    def start_offset(self) -> int:
        """The offset of the first entry; the snapshots have what was before."""
        return self._log.log_start_offset

    @property
    def entries(self) -> list[Entry]:
        """All entries of the log."""
        return list(self.between(self.start_offset, _ANY_EPOCH))

    def between(self, start: int, end: int) -> Iterator[Entry]:
        """Yield the entries from `start` on that end at or below `end`."""
        while start < end:
            data = self._log.read(start, _READ_BYTES)
            if not data:
                return
            for batch in read_fetched(data, start, _ANY_EPOCH):
                start = batch.entry.next_offset
                if start > end:
                    return
                yield batch.entry


class ObservedDisk(DiskThreads):
    """The node's calls that may block, which the invariants and a loss of power look at."""

    def __init__(self, node: "ShellNode") -> None:
        super().__init__()
        self._node = node

    async def run(self, call: Callable[..., Any], *args: Any) -> Any:
        """Run a call; report a written state file and a written snapshot."""
        result = await super().run(call, *args)
        if call is write_quorum_state:
            self._node.state_written(args[1])
        elif isinstance(getattr(call, "__self__", None), MetadataSnapshots):
            self._node.snapshot_written(args[0].id)
        return result

    async def fsync(self, key: Any, sync: Callable[[], object]) -> None:
        """Sync, and note how much of the log is durable."""

        def noted() -> None:
            sync()
            self._node.note_synced()

        await super().fsync(key, noted)


class ObservedQuorum(Quorum):
    """The server's quorum, with the invariants looking at its effects."""

    observe: Callable[[Effects], None]

    def _deliver(self, effects: Effects) -> None:
        self.observe(effects)
        super()._deliver(effects)


class ShellNode:
    """One node: broker and controller, or broker only."""

    def __init__(
        self,
        process: Process,
        streams: SimStreams,
        invariants: QuorumInvariants,
        *,
        directory: Path,
        voters: VoterSet,
        properties: dict[str, str],
    ) -> None:
        self.process = process
        self.node_id = process.node_id
        self.quorum: ObservedQuorum
        self.channel: QuorumControllerChannel
        self.dispatchers: dict[str, Any] = {}
        self.view: ReplicaView | None = None
        self._streams = streams
        self._invariants = invariants
        self._path = directory
        self._properties = properties
        self._synced: dict[str, int] = {}
        self._state = QuorumState()
        process.on_kill.append(self._killed)
        self._format(voters)

    def _format(self, voters: VoterSet) -> None:
        """Write the files of a new directory, as `barnabas format` does."""
        is_voter = self.node_id in voters.voters
        format_directory(self._path, voters=voters if is_voter else None, now_ms=0)
        key = voters.voters[self.node_id].key if is_voter else None
        directory_id = key.directory_id if key else directory_of(self.node_id)
        volume = Volume(self._path, FileCache(8))
        volume.write_properties(MetaProperties(CLUSTER_ID, self.node_id, directory_id))

    # A life

    def start(self) -> None:
        """Start the process."""
        process = self.process
        process.start()
        process.tasks.provide(Sockets, SimSockets(self._streams, process))
        process.call(process.life, process.tasks.spawn_system_task, (self._run,))

    async def _run(self) -> None:
        try:
            await self._serve()
        except* (DisksLostError, StartupError) as errors:
            self.process.world.note(self.process, "stops", str(errors.exceptions[0]))
            self.process.kill()

    async def _serve(self) -> None:
        self.config = NodeConfig.load(None, {**self._properties, "log.dirs": str(self._path)})
        self.settings = ConfigSubscriptions(self.config)
        setup = self._setup()
        loaded = await load_quorum(setup)
        self.quorum = ObservedQuorum(setup, loaded)
        self.view = ReplicaView(self.process, self.quorum.core, loaded.log)
        self.quorum.observe = self._observe
        node: Any = self
        dispatcher = self.dispatchers["controller"] = controller_dispatcher(node)
        listener = SimListener(self.process, dispatcher, "CONTROLLER")
        self._streams.listen(self.process, address_of(self.node_id), listener.accept)
        local = LocalControllerChannel(dispatcher, client_id=str(self.node_id))
        self.channel = QuorumControllerChannel(
            self.node_id, local, self.quorum.leader_address, request_timeout_s=30
        )
        self.quorum.when_leader_changes(self.channel.follow_leader)
        async with tasks.open_nursery() as nursery:
            await nursery.start(self.channel.run)
            await self.quorum.run(self.channel)

    def _setup(self) -> QuorumSetup:
        volume = Volume(self._path, FileCache(64))
        volume.read_properties()
        volume.load_checkpoints()
        logs = LogManager([volume], volume, LogConfig.from_topic(TopicConfig(self.config)))
        logs.open()
        return QuorumSetup(
            node_id=self.node_id,
            cluster_id=CLUSTER_ID,
            controller_endpoints=(controller_endpoint(self.node_id),),
            broker_endpoints=(broker_endpoint(self.node_id),),
            settings=self.settings,
            logs=logs,
            disk=ObservedDisk(self),
            clock=self.process.clock,
        )

    # For the dispatcher (`api_wiring`)

    @property
    def image_for_clients(self) -> Any:
        """The committed metadata."""
        return self.quorum.image

    def just_ended(self) -> frozenset[int]:
        """Return no broker: nothing watches their processes."""
        return frozenset()

    async def settle_failures(self) -> None:
        """Wait for nothing."""

    # Ends

    def _killed(self) -> None:
        self._streams.process_died(self.process, silently=False)

    def lose_power(self, random: Random) -> None:
        """End the process; of what was not synced, a random part remains."""
        self.process.end_life()
        self._streams.process_died(self.process, silently=True)
        for file in sorted(self._log_directory.glob("*.log")):
            size = file.stat().st_size
            synced = min(size, self._synced.get(file.name, 0))
            os.truncate(file, random.randint(synced, size))

    @property
    def _log_directory(self) -> Path:
        return self._path / f"{METADATA_TOPIC}-0"

    def note_synced(self) -> None:
        """All that was written so far is durable."""
        self._synced = {
            file.name: file.stat().st_size for file in self._log_directory.glob("*.log")
        }

    # Invariants

    def _observe(self, effects: Effects) -> None:
        self._guard(self._check, effects)

    def _check(self, effects: Effects) -> None:
        view: Any = self.view
        ready, invariants = effects.ready, self._invariants
        for message in ready.messages:
            if not isinstance(message, VoteResponse) or not message.granted:
                continue
            if not message.request.pre_vote:
                invariants.vote_granted(view, message.epoch, message.request.candidate.id)
        if ready.truncate_to is not None:
            invariants.truncated(view, ready.truncate_to)
        if view.core.is_leader:
            invariants.led(view)
        if ready.high_watermark is not None:
            invariants.high_watermark_raised(view, ready.high_watermark)
        for batch in effects.committed:
            invariants.published(view, batch)

    def state_written(self, state: QuorumState) -> None:
        """Check the state file against the one before it, also of an earlier life."""
        view: Any = self.view
        before, self._state = self._state, state
        self._guard(self._invariants.state_written, view, before, state)

    def snapshot_written(self, snapshot: SnapshotId) -> None:
        """Check a snapshot."""
        view: Any = self.view
        self._guard(self._invariants.snapshot_written, view, snapshot)

    def _guard(self, check: Callable[..., None], *args: Any) -> None:
        """Run a check; a violation ends the run, although it is raised in a task."""
        try:
            check(*args)
        except InvariantError as error:
            self.process.world.fail(error)


def directory_of(node_id: int) -> Uuid:
    """Return the id of a node's directory."""
    return Uuid((1000 + node_id).to_bytes(16, "big"))


def voter_key(node_id: int) -> ReplicaKey:
    """Return the key of a voter."""
    return ReplicaKey(node_id, directory_of(node_id))


def address_of(node_id: int) -> Address:
    """Return the address of a node's controller listener."""
    endpoint = controller_endpoint(node_id)
    return Address(endpoint.host, endpoint.port)


def broker_endpoint(node_id: int) -> Endpoint:
    """Return the listener of a broker."""
    return Endpoint("PLAINTEXT", f"node-{node_id}", 9092)
