"""The machine of a simulated node: streams in place of sockets, and disks that can fail.

The node is `server.node.Node` as it ships. What is not simulated: helper processes, metrics over
HTTP, and the detector that watches the sockets of other brokers.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, TypeVar

from barnabas import tasks
from barnabas.client.failures import Address
from barnabas.clock import Clock
from barnabas.cluster.replication import Partition
from barnabas.config import Listener as Endpoint
from barnabas.log import FileCache, Volume
from barnabas.log.record_work import Outcomes, RecordWorkNeeded
from barnabas.protocol.errors import ErrorCode
from barnabas.server.api.registry import ListenerKind
from barnabas.server.node.machine import Machine
from barnabas.server.node.node import Node
from barnabas.server.quorum.quorum_loading import LoadedQuorum
from barnabas.server.quorum.quorum_setup import QuorumSetup
from barnabas.server.replication.commit_wait import Appended, CommitWait, CommitWaits, Settle
from barnabas.testing.simulation.observed_quorum import ObservedDisk, ObservedQuorum, QuorumWatch
from barnabas.testing.simulation.rare_states import RareState
from barnabas.testing.simulation.sim_logs import SimLogs
from barnabas.testing.simulation.sim_streams import SimStreams
from barnabas.testing.simulation.sim_transport import SimListener, SimTransport
from barnabas.testing.simulation.sim_volume import SimVolume
from barnabas.testing.simulation.world import Process

CLUSTER_ID: Final = "simulated-cluster-0000"
_FILES_MAX: Final = 64

T = TypeVar("T")
OnAcked = Callable[[Partition, int], None]


class SimMachine(Machine):
    """The machine of one life of a node; `directory` has the quorum's files."""

    def __init__(
        self,
        process: Process,
        streams: SimStreams,
        logs: SimLogs,
        watch: QuorumWatch,
        *,
        directory: Path,
    ) -> None:
        self._process = process
        self._streams = streams
        self._logs = logs
        self._watch = watch
        self._directory = directory

    def clock(self) -> Clock:
        """Return the clock of the process."""
        return self._process.clock

    def disk(self) -> ObservedDisk:
        """Return the threads for calls that may block."""
        disk = ObservedDisk()
        disk.watch = self._watch
        return disk

    def transport(self, limits: Any, disk: Any, logins: Any) -> Any:
        """Return the connections of the node."""
        del disk, logins
        return SimTransport(self._process, self._streams, limits)

    def bind(self, endpoint: Endpoint, kind: ListenerKind, config: Any, held: ExitStack) -> Any:
        """Return a listener; nothing is bound yet."""
        del config, held
        return SimListener(endpoint.name, Address(endpoint.host, endpoint.port), kind)

    def open_data(self, node: Node) -> Any:
        """Open the directory of the quorum's log, and find the logs of partitions."""
        volume = Volume(self._directory, FileCache(_FILES_MAX))
        volume.read_properties()
        node.cluster_id = CLUSTER_ID
        logs = self._logs
        logs.metadata_volume = volume
        logs.start()

        def failed(failed_volume: SimVolume) -> None:
            self._process.world.note(self._process, "lost the directory", failed_volume.path)
            if any(each.leader >= 0 and each.is_leader for each in _in(node, failed_volume)):
                self._process.world.rare.reached(RareState.DIRECTORY_FAILED_WHILE_LEADING)
            self._process.after_ms(0, node.directory_failed)

        for each in logs.volumes:
            each.on_failure = failed
        return logs

    def start_helpers(self, node: Node, nursery: tasks.Nursery) -> None:
        """Start no process: no batch of a simulation is large."""
        del nursery
        unused: Any = NoHelpers()
        node.helpers = node.records = unused

    def failure_detector(self, node: Node) -> None:
        """Return none: it watches sockets."""
        del node

    async def start_metrics(self, node: Node, nursery: tasks.Nursery) -> None:
        """Serve no metrics."""
        del node, nursery


def _in(node: Node, volume: SimVolume) -> Iterator[Partition]:
    """Yield the partitions whose logs a directory has."""
    for topic, number in volume.logs:
        found = node.replicas.hosted(topic, number)
        if found is not None:
            yield found


class NoHelpers:
    """No helper process (`RecordWorker`)."""

    async def resolve(self, step: Callable[[Outcomes], T], needed: RecordWorkNeeded) -> T:
        """Raise RuntimeError."""
        del step
        raise RuntimeError(f"a simulation has no helper process for {needed}")


class ObservedNode(Node):
    """A node whose quorum and acknowledgements the invariants look at."""

    watch: QuorumWatch

    def new_quorum(self, setup: QuorumSetup, loaded: LoadedQuorum) -> ObservedQuorum:
        """Return the quorum of this node."""
        quorum = ObservedQuorum(setup, loaded)
        self.watch.follow(quorum, loaded.log)
        return quorum


class ObservedCommitWaits(CommitWaits):
    """Reports each acknowledgement of records that all in-sync replicas must have."""

    on_acked: OnAcked

    def wait(
        self,
        appended: Any,
        settle: Settle[Any],
        done: Callable[[], None] | None = None,
        *,
        timeout_ms: int | None,
        replicated: bool = True,
    ) -> CommitWait[Any]:
        """Call `settle` with the outcome of each item, and then `done`."""

        def settled(item: Appended[Any], outcome: ErrorCode) -> None:
            if replicated and outcome is ErrorCode.NONE:
                self.on_acked(item.partition, item.last_offset)
            settle(item.item, outcome)

        wrapped = [each._replace(item=each) for each in appended]
        return super().wait(wrapped, settled, done, timeout_ms=timeout_ms, replicated=replicated)
