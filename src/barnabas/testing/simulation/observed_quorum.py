"""The quorum of a simulated node, as the invariants look at it.

The code is the server's; the subclasses here report what it wrote, sent and committed.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from barnabas import tasks
from barnabas.cluster.controller.controller_state_machine import ControllerStateMachine, Effects
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.cluster.quorum.fetched_batches import read_fetched
from barnabas.cluster.quorum.metadata_snapshot import SnapshotId
from barnabas.cluster.quorum.quorum_state import QuorumState
from barnabas.cluster.quorum.raft import RaftCore
from barnabas.cluster.quorum.raft_messages import VoteRequest, VoteResponse
from barnabas.cluster.quorum.raft_state import Entry
from barnabas.protocol.errors import EncodingError
from barnabas.server.quorum.metadata_log import MetadataLog
from barnabas.server.quorum.metadata_snapshots import MetadataSnapshots
from barnabas.server.quorum.quorum import Quorum
from barnabas.server.quorum.quorum_files import write_quorum_state
from barnabas.server.quorum.raft_peers import RaftPeers
from barnabas.server.storage.disk_threads import DiskThreads
from barnabas.testing.simulation.quorum_invariants import InvariantError, QuorumInvariants
from barnabas.testing.simulation.rare_states import RareState, RareStates
from barnabas.testing.simulation.world import Process

_READ_BYTES: Final = 1 << 20
_ANY_EPOCH: Final = 1 << 30


class ReplicaView:
    """A replica as `QuorumInvariants` sees it."""

    def __init__(self, process: Process, core: RaftCore, log: MetadataLog) -> None:
        self.process = process
        self.core = core
        self.key = core.local.key
        self.log = ReplicaLog(log)


class ReplicaLog:
    """The entries in the files of a replica's log."""

    def __init__(self, log: MetadataLog) -> None:
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


class ObservedPeers(RaftPeers):
    """The server's requests to other voters, with a rare state of them counted."""

    def _take_old_voter(self, message: VoteRequest, error: EncodingError) -> None:
        if message.pre_vote:
            tasks.local(RareStates).reached(RareState.VOTER_WITHOUT_PRE_VOTES)
        super()._take_old_voter(message, error)


class ObservedQuorum(Quorum):
    """The server's quorum, with the invariants looking at its effects."""

    observe: Callable[[Effects], None]
    peers_type = ObservedPeers

    @property
    def machine(self) -> ControllerStateMachine:
        """The state machine of the controller."""
        return self._machine

    def _deliver(self, effects: Effects) -> None:
        self.observe(effects)
        super()._deliver(effects)


class ObservedDisk(DiskThreads):
    """The node's calls that may block, which the invariants and a loss of power look at."""

    watch: "QuorumWatch"

    async def run(self, call: Callable[..., Any], *args: Any) -> Any:
        """Run a call; report a written state file and a written snapshot."""
        result = await super().run(call, *args)
        if call is write_quorum_state:
            self.watch.state_written(args[1])
        elif isinstance(getattr(call, "__self__", None), MetadataSnapshots):
            self.watch.snapshot_written(args[0].id)
        return result

    async def fsync(self, key: Any, sync: Callable[[], object]) -> None:
        """Sync, and note how much of the quorum's log is durable."""

        def noted() -> None:
            sync()
            self.watch.synced()

        is_quorum = isinstance(getattr(sync, "__self__", None), MetadataLog)
        await super().fsync(key, noted if is_quorum else sync)


class QuorumWatch:
    """Shows the invariants what the quorum of one life does; `state` is the state file's content.

    `synced` is called when the log is durable as it is.
    """

    def __init__(
        self,
        process: Process,
        invariants: QuorumInvariants,
        state: QuorumState,
        synced: Callable[[], None],
    ) -> None:
        self.synced = synced
        self.state = state
        self._process = process
        self._invariants = invariants
        self._view: Any = None
        self._log_end = 0
        self.leader_changed: Callable[[], None] = _ignore
        """Called when the replica learns of another leader."""
        self.loaded: Callable[[MetadataImage], None] = _ignore
        """Called with the metadata that the replica has loaded at its start."""

    def follow(self, quorum: ObservedQuorum, log: MetadataLog) -> None:
        """Look at the effects of a quorum."""
        self._view = ReplicaView(self._process, quorum.core, log)
        self._log_end = quorum.core.log.end_offset
        quorum.observe = self._observe
        self.loaded(quorum.machine.image)

    def _observe(self, effects: Effects) -> None:
        self._guard(self._check, effects)

    def _check(self, effects: Effects) -> None:
        view, ready, invariants = self._view, effects.ready, self._invariants
        self._count_snapshots()
        invariants.followed(view)
        for message in ready.messages:
            if not isinstance(message, VoteResponse) or not message.granted:
                continue
            if not message.request.pre_vote:
                invariants.vote_granted(view, message.epoch, message.request.candidate.id)
        if ready.truncate_to is not None:
            invariants.truncated(view, ready.truncate_to)
        if ready.leadership is not None:
            self.leader_changed()
        if view.core.is_leader:
            invariants.led(view)
        if ready.high_watermark is not None:
            invariants.high_watermark_raised(view, ready.high_watermark)
        for batch in effects.committed:
            invariants.published(view, batch)

    def _count_snapshots(self) -> None:
        """Note that a snapshot was installed: the log starts above its former end."""
        log, process = self._view.log, self._process
        before, self._log_end = self._log_end, self._view.core.log.end_offset
        if log.start_offset > before:
            process.world.note(process, "installs the snapshot at", log.start_offset)
            process.world.rare.reached(RareState.SNAPSHOT_FETCHED)

    def state_written(self, state: QuorumState) -> None:
        """Check the state file against the one before it, also of an earlier life."""
        before, self.state = self.state, state
        self._guard(self._invariants.state_written, self._view, before, state)

    def snapshot_written(self, snapshot: SnapshotId) -> None:
        """Check a snapshot."""
        self._guard(self._invariants.snapshot_written, self._view, snapshot)

    def _guard(self, check: Callable[..., None], *args: Any) -> None:
        """Run a check; a violation ends the run, although it is raised in a task."""
        try:
            check(*args)
        except InvariantError as error:
            self._process.world.fail(error)


def _ignore(*_: object) -> None:
    """Do nothing."""
