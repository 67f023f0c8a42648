"""The controller as a state machine that the quorum replicates.

It joins the Raft core and the controller's operations. Records are proposed to the core and
replayed into the image that the next operation sees. When they are committed, the image is
published and the response is sent. Input and output belong to the shell: it passes events to the
core, calls `take_effects` after each event, and carries out the effects in order.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final

import attrs

from barnabas.cluster.controller.controller import Controller
from barnabas.cluster.controller.controller_requests import ControllerRequest
from barnabas.cluster.controller.controller_tasks import ControllerTasks
from barnabas.cluster.controller.election_counts import ElectionCounts
from barnabas.cluster.controller.operation_result import (
    Charge,
    ControllerResult,
    charge_nothing,
    check_record_count,
)
from barnabas.cluster.controller.sessions import SessionKey
from barnabas.cluster.metadata.delta import MetadataDelta
from barnabas.cluster.metadata.feature_levels import METADATA_VERSION
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.cluster.metadata.metadata_transaction import MetadataTransaction
from barnabas.cluster.metadata.record_versions import encode_at, records_at
from barnabas.cluster.quorum.image_snapshot import ImageSnapshot
from barnabas.cluster.quorum.metadata_loader import MetadataLoader
from barnabas.cluster.quorum.raft import RaftCore
from barnabas.cluster.quorum.raft_state import Entry, Ready
from barnabas.cluster.quorum.voter_changes import upgraded_voters
from barnabas.cluster.quorum.voters import Voter
from barnabas.cluster.quorum.voters_history import VotersHistory
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.metadata_records import (
    AbortTransactionRecord,
    FeatureLevelRecord,
    decode_metadata_record,
)

# org.apache.kafka.controller.QuorumController.DEFAULT_MAX_RECORDS_PER_BATCH
MAX_RECORDS_PER_BATCH: Final = 10_000


@attrs.frozen(slots=True)
class CommittedBatch:
    """A committed batch of metadata records: the resulting image, and the changes."""

    image: MetadataImage
    delta: MetadataDelta
    timestamp_ms: int


@attrs.frozen(slots=True)
class Completion:
    """The outcome of an operation, for the caller that submitted it with `token`."""

    token: object
    outcome: Message | KafkaError


@attrs.define(slots=True)
class Effects:
    """The effects that the shell carries out, in the order of the fields.

    The core's `ready` comes first, then committed batches are published, then operations answered.
    """

    ready: Ready
    committed: list[CommittedBatch]
    completions: list[Completion]


@attrs.frozen(slots=True)
class _AppendedBatch:
    """An appended batch, and the image that results when it is committed."""

    epoch: int
    next_offset: int
    committed: CommittedBatch


@attrs.frozen(slots=True)
class _Operation:
    """A request of which some runs are appended."""

    request: ControllerRequest
    version: int
    token: object
    charge: Charge


@attrs.frozen(slots=True)
class _Waiting:
    """A decided operation that waits for the commit of all records below `next_offset`."""

    epoch: int
    next_offset: int
    token: object
    response: Message


class ControllerStateMachine:
    """The metadata log's state on this node; `image` is the committed metadata.

    `timestamp_ms` is the time of the last committed record. `bootstrap` has the records that the
    first controller of an empty log writes. `open_transaction` has the records of a metadata
    transaction that the log does not end (None: there is none); an active controller aborts it.
    """

    def __init__(
        self,
        core: RaftCore,
        controller: Controller,
        image: MetadataImage,
        *,
        timestamp_ms: int = 0,
        bootstrap: Sequence[Message] = (),
        open_transaction: Sequence[Message] | None = None,
        voters_history: VotersHistory | None = None,
    ) -> None:
        self.core = core
        self.controller = controller
        self.image = image
        self.timestamp_ms = timestamp_ms
        self.voters_history = voters_history or VotersHistory(
            core.voters, core.kraft_version, core.voters_offset
        )
        core.use_voters(self.voters_history.latest)
        self.reported_voters: dict[int, Voter] = {}
        """The voters as they reported themselves to this leader, under kraft.version 0."""
        self._bootstrap = bootstrap
        self._transaction = MetadataTransaction(open_transaction)
        self.loaded_end_offset = core.log_end_offset
        """The end of the records that are in the image as a whole; others are kept one by one."""
        self._appended: deque[_AppendedBatch] = deque()
        self._incomplete: deque[_Operation] = deque()
        self._waiting: deque[_Waiting] = deque()
        self._failed: list[Completion] = []
        self._active_epoch: int | None = None
        self._tasks = ControllerTasks(controller)
        self.elections = ElectionCounts()

    def submit(
        self,
        request: ControllerRequest,
        version: int,
        token: object,
        now_ms: int,
        charge: Charge = charge_nothing,
    ) -> None:
        """Decide an operation; its `Completion`, with `token`, follows when it is committed.

        An operation without records waits for the earlier records that it has read. `charge` counts
        the partitions that it creates or deletes.

        Raises KafkaError: NOT_CONTROLLER when this node is not the active controller, or the error
        of the operation.
        """
        self._follow_leadership(now_ms)
        if self._active_epoch is None:
            raise _not_controller()
        self._run(_Operation(request, version, token, charge), now_ms)

    def _run(self, operation: _Operation, now_ms: int) -> None:
        """Decide an operation, or the next run of a large one. Raises KafkaError."""
        self._prepare(now_ms)
        self.controller.charge = operation.charge
        result = self.controller.handle(operation.request, operation.version)
        if result.kraft_version is not None:
            voters = upgraded_voters(self.core, self.reported_voters, result.kraft_version)
            self.core.upgrade_kraft_version(result.kraft_version, voters, now_ms)
        self._append_result(result, now_ms)
        self._tasks.observe(result.records, now_ms)
        if not result.is_complete:
            self._incomplete.append(operation)
            return
        token, end_offset = operation.token, self.core.log_end_offset
        self._waiting.append(_Waiting(self.core.epoch, end_offset, token, result.response))

    def tick(self, now_ms: int) -> None:
        """Run the periodic task of the active controller that is due, and the next run of a large
        operation, if any.
        """
        self._follow_leadership(now_ms)
        if self._active_epoch is None:
            return
        self._prepare(now_ms)
        self._append_result(self._tasks.run_due(now_ms), now_ms)
        if self._incomplete:
            operation = self._incomplete.popleft()
            try:
                self._run(operation, now_ms)
            except KafkaError as error:
                self._failed.append(Completion(operation.token, error))

    def end_session(self, key: SessionKey, now_ms: int) -> None:
        """The process of a broker has ended: let `tick` fence it at once.

        Nothing happens while this node is not the active controller.
        """
        self._follow_leadership(now_ms)
        self._tasks.end_session(key, now_ms)

    def wakeup_ms(self) -> int | None:
        """Return when `tick` is due next; None while this node is not the active controller."""
        return 0 if self._incomplete else self._tasks.wakeup_ms()

    def _prepare(self, now_ms: int) -> None:
        """Pass the time and the log end, which includes control records, to the controller."""
        self.controller.now_ms = now_ms
        self.controller.next_offset = self.core.log_end_offset

    def _append_result(self, result: ControllerResult[Any], now_ms: int) -> None:
        """Append the records of a result, in several batches when there are many.

        Raises KafkaError POLICY_VIOLATION when there are too many for one batch that is atomic.
        """
        records = result.records
        if result.is_atomic:
            check_record_count(records)
        for start in range(0, len(records), MAX_RECORDS_PER_BATCH):
            self.append(records[start : start + MAX_RECORDS_PER_BATCH], now_ms)

    def append(self, records: Sequence[Message], now_ms: int) -> None:
        """Append one batch of records and replay it; the next operation sees its effects."""
        controller, core = self.controller, self.core
        metadata_version = controller.image.features.get(METADATA_VERSION, 0)
        if controller.image.is_empty:
            metadata_version = _first_metadata_version(records)
        stated = records_at(records, metadata_version)
        if not stated:
            return
        entry = core.propose([encode_at(record, metadata_version) for record in stated], now_ms)
        image = self._replay(controller.image, entry, stated)
        controller.image, controller.next_offset = image, entry.next_offset

    def replicate(self, entries: Iterable[Entry]) -> None:
        """Replay batches of another leader, or of the log at start-up; publish them when committed.

        The shell calls it before `RaftCore.on_appended`.
        """
        for entry in entries:
            if entry.control:
                self.voters_history.take(entry.control, entry.base_offset)
                self.core.use_voters(self.voters_history.latest)
            if entry.records:
                stated = [decode_metadata_record(value) for value in entry.records]
                records = self._transaction.take(stated, entry.next_offset)
                if records is not None:
                    self._replay(self._latest_image(), entry, records)

    def _replay(
        self, image: MetadataImage, entry: Entry, records: Iterable[Message]
    ) -> MetadataImage:
        delta = MetadataDelta(image)
        for record in records:
            delta.replay(record)
        image = delta.apply(entry.next_offset - 1, entry.epoch)
        batch = CommittedBatch(image, delta, entry.timestamp_ms)
        self._appended.append(_AppendedBatch(entry.epoch, entry.next_offset, batch))
        return image

    def take_effects(self, now_ms: int) -> Effects:
        """Return the effects since the last call."""
        self._follow_leadership(now_ms)
        ready = self.core.take_ready()
        if ready.truncate_to is not None:
            self._truncate(ready.truncate_to)
        for entry in ready.entries:
            self.voters_history.take(entry.control, entry.base_offset)
        if ready.leadership is not None:
            self.image = self._with_leader(self.image)
        committed = list(self._take_committed(now_ms))
        completions, self._failed = [*self._failed, *self._take_completed()], []
        return Effects(ready, committed, completions)

    def install(self, loader: MetadataLoader) -> None:
        """Replace the metadata by those of a snapshot, or of a log that was read again.

        They are published, as one change, when they are known to be committed.
        """
        image, offset = loader.image(), loader.epochs.end_offset
        self._appended.clear()
        self._transaction = MetadataTransaction(loader.open_transaction)
        self.voters_history = loader.history
        self.core.use_voters(loader.history.latest)
        from barnabas.cluster.metadata.image_difference import difference

        batch = CommittedBatch(image, difference(self.image, image), loader.last_timestamp_ms)
        self._appended.append(_AppendedBatch(loader.epochs.last_epoch, offset, batch))
        self.loaded_end_offset = offset

    def snapshot(self) -> ImageSnapshot:
        """Return a snapshot of the committed metadata."""
        voters, kraft_version = self.voters_history.at(self.image.offset + 1)
        return ImageSnapshot(self.image, voters, kraft_version, self.timestamp_ms)

    # Commit

    def _take_committed(self, now_ms: int) -> Iterable[CommittedBatch]:
        high_watermark, is_active = self.core.high_watermark, self._active_epoch is not None
        while self._appended and self._appended[0].next_offset <= high_watermark:
            batch = self._appended.popleft().committed
            self.image = self._with_leader(batch.image)
            self.timestamp_ms = batch.timestamp_ms
            self._transaction.trim(high_watermark)
            self.elections.add(batch.delta, now_ms - batch.timestamp_ms if is_active else None)
            yield attrs.evolve(batch, image=self.image)

    def _take_completed(self) -> Iterable[Completion]:
        high_watermark = self.core.high_watermark
        while self._waiting and self._waiting[0].next_offset <= high_watermark:
            waiting = self._waiting.popleft()
            yield Completion(waiting.token, waiting.response)

    def _with_leader(self, image: MetadataImage) -> MetadataImage:
        leader_id = -1 if self.core.leader_id is None else self.core.leader_id
        if (image.controller_id, image.epoch) == (leader_id, self.core.epoch):
            return image
        return attrs.evolve(image, controller_id=leader_id, epoch=self.core.epoch)

    # Leadership

    def _follow_leadership(self, now_ms: int) -> None:
        """After a change of leadership, activate the controller or fail the waiting operations."""
        leading = self.core.epoch if self.core.is_leader else None
        if leading == self._active_epoch:
            return
        if self._active_epoch is not None:
            self.reported_voters.clear()  # each voter reports itself again to the next leader
        self._active_epoch = leading
        self._fail_waiting()
        self._tasks.stop()
        if leading is not None:
            self.controller.activate(self._latest_image(), self.core.log_end_offset, now_ms)
            self._append_activation_records(now_ms)
            self._tasks.start(now_ms)

    def _append_activation_records(self, now_ms: int) -> None:
        """Append what must precede the first operation (Kafka's `ActivationRecordsGenerator`)."""
        if self._transaction.is_open:
            self.append([AbortTransactionRecord(reason="Controller failover")], now_ms)
            self._transaction.abort(self.core.log_end_offset)
        if self.controller.image.is_empty:
            self._append_result(self.controller.bootstrap(self._bootstrap), now_ms)

    def _fail_waiting(self) -> None:
        """Fail the operations of an epoch that this node no longer leads.

        Their outcome is unknown: the next leader may still commit the records, or truncate them.
        """
        tokens = [each.token for each in (*self._waiting, *self._incomplete)]
        self._failed += [Completion(token, _not_controller()) for token in tokens]
        self._waiting.clear()
        self._incomplete.clear()

    def _truncate(self, offset: int) -> None:
        """Drop the batches that were truncated from the log; they are never published."""
        while self._appended and self._appended[-1].next_offset > offset:
            self._appended.pop()
        self._transaction.truncate(offset)
        self.voters_history.truncate(offset)
        self.core.use_voters(self.voters_history.latest)

    def _latest_image(self) -> MetadataImage:
        """Return the image after all records in the log, committed or not."""
        image = self._appended[-1].committed.image if self._appended else self.image
        return self._with_leader(image)


def _first_metadata_version(records: Iterable[Message]) -> int:
    """Return the metadata.version that the first records of a log set."""
    for record in records:
        if isinstance(record, FeatureLevelRecord) and record.name == METADATA_VERSION:
            return record.feature_level
    return 0


def _not_controller() -> KafkaError:
    return KafkaError(ErrorCode.NOT_CONTROLLER, "The active controller is another node")
