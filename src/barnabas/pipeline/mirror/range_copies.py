"""The copy of one range, as a task of Spark does it: fetch, produce, and the position with them.

A copy fetches ahead while it produces. After a failure that may pass it begins again from the
position that the target holds, until the `delivery.timeout.ms` of the target is over. So nothing
depends on what a failed attempt or a killed task has left behind.
"""

import time
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from barnabas.client import CallTimeoutError, ClientError, ConnectionFailureError, KafkaClient
from barnabas.client.admin_calls import EARLIEST, LATEST, list_offset
from barnabas.pipeline.delivery.driver.group_offsets import (
    GroupEntry,
    GroupOffsets,
    GroupOffsetsError,
)
from barnabas.pipeline.delivery.plan.job_plan import RecordPosition
from barnabas.pipeline.delivery.plan.offset_metadata import OffsetMetadata
from barnabas.pipeline.delivery.plan.start_positions import trimmed_text
from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError
from barnabas.pipeline.mirror import cluster_queries
from barnabas.pipeline.mirror.batch_copy import (
    CopiedData,
    IdenticalCopy,
    RangeCopy,
    TransactionalCopy,
)
from barnabas.pipeline.mirror.flow_starts import REMEDIES, diverged_text, truncated_text
from barnabas.pipeline.mirror.flow_values import NO_EPOCH, CopyFigures, FlowPlan, FlowRange
from barnabas.pipeline.mirror.mirrormaker.offset_translation import CopiedRun, points_of
from barnabas.pipeline.mirror.source_fetches import (
    DivergedLogError,
    FetchedData,
    SourceFetches,
    first_offset,
)
from barnabas.pipeline.mirror.target_produces import TargetProduces
from barnabas.pipeline.mirror.target_transaction import TargetTransaction
from barnabas.protocol.batches.batch_header import CorruptBatch
from barnabas.protocol.errors import ErrorCode, KafkaError

_ATTEMPTS_MAX: Final = 3
"""Attempts that end with a damaged batch, or with an offset that one side does not have."""
_AHEAD: Final = 2
"""Responses that wait for their batches to be produced."""
_REMEDY_BY_CODE: Final = {
    ErrorCode.MESSAGE_TOO_LARGE: "raise max.message.bytes of the topic at the target",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "allow the flow's principal to read or write the topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "allow the flow's principal to read its group",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
        "allow the flow's principal to describe and write its transactional ids"
    ),
    # A copy has ended the transactions of the flow before it reads positions.
    ErrorCode.UNSTABLE_OFFSET_COMMIT: (
        "the target has offsets of a transaction that has ended without its marker: abort it as "
        "docs/mirror.md says"
    ),
}
_AGAIN: Final = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
"""Errors after which another transaction may succeed, beyond those that clients retry."""


_NO_TOPIC: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class RangeCopier:
    """Copies ranges with the clients of one task."""

    def __init__(self, plan: FlowPlan, source: KafkaClient, target: KafkaClient) -> None:
        self._plan = plan
        self._source = source
        self._target = target

    async def copy(self, wanted: FlowRange) -> CopyFigures:
        """Copy a range, or as much of it as the plan's limits allow. Raises TaskFailureError."""
        once = self._copy_identical if self._plan.is_identical else self._copy_transaction
        deadline = trio.current_time() + self._target.config.delivery_timeout_s
        failures = 0
        while True:
            try:
                figures = await once(wanted)
            except (KafkaError, ClientError, CorruptBatch) as error:
                failures += 1
                if await self._is_deleted(wanted, error):
                    return CopyFigures(
                        *wanted.where, wanted.start, leader_epoch=wanted.leader_epoch
                    )
                is_late = trio.current_time() > deadline
                is_repeated = failures >= _ATTEMPTS_MAX and not _is_retriable(error)
                if is_late or is_repeated or not _may_pass(error):
                    raise _failure(wanted, error) from error
                await self._target.back_off(f"copying {_name(wanted)}", failures, error)
            else:
                figures.attempts = failures + 1
                return figures

    async def _is_deleted(self, wanted: FlowRange, error: Exception) -> bool:
        """True when the topic was deleted at the source, which the driver reports."""
        if not isinstance(error, KafkaError) or error.code not in _NO_TOPIC:
            return False
        try:
            return wanted.topic not in await cluster_queries.topics(self._source, [wanted.topic])
        except (KafkaError, ClientError):
            return False

    async def _copy_transaction(self, wanted: FlowRange) -> CopyFigures:
        """Copy in one transaction, with the position after the batches.

        The copy fences other copies of the range, and the tail of the flow.
        """
        plan = self._plan
        name = plan.transactional_id_of(wanted.where)
        there = plan.at_target(wanted.where)
        transaction = TargetTransaction(self._target, name, plan.group_id)
        identity = await transaction.begin(plan.transaction_timeout_ms)
        tail = TargetTransaction(self._target, plan.tail_transactional_id, plan.group_id)
        await tail.begin(plan.transaction_timeout_ms)
        committed = (await transaction.positions([there]))[there]
        start, epoch = wanted.start, wanted.leader_epoch
        if committed.offset >= start:
            start, epoch = committed.offset, committed.leader_epoch
        skipped = start - wanted.start
        figures = CopyFigures(*wanted.where, start, skipped=skipped, leader_epoch=epoch)
        if start >= wanted.until and not wanted.is_empty:
            return figures
        copy = TransactionalCopy(start, wanted.until, identity, epoch)
        runs: list[CopiedRun] = []
        note = noting(runs) if plan.sync_step else None
        produces = TargetProduces(self._target, there, name, note)

        async def send(batch: CopiedData) -> None:
            if not figures.batches:
                await transaction.add([there])
            await produces.send(batch)

        try:
            await self._run(wanted, copy, send, figures)
            await produces.flush()
            position = GroupEntry(copy.position, self._metadata(wanted), copy.leader_epoch)
            await transaction.commit({there: position})
        except BaseException:
            await transaction.abandon()
            raise
        figures.position, figures.leader_epoch = copy.position, copy.leader_epoch
        figures.transactions = 1
        figures.syncs = points_of(runs, plan.sync_step)
        return figures

    async def _copy_identical(self, wanted: FlowRange) -> CopyFigures:
        """Copy with the offsets of the source: the end of the target's log is the position."""
        end = await list_offset(self._target, *wanted.where, LATEST)
        start = max(wanted.start, end)
        epoch = wanted.leader_epoch
        if start == end and (start > wanted.start or epoch == NO_EPOCH):
            epoch = await self._committed_epoch(wanted)
        skipped = start - wanted.start
        figures = CopyFigures(*wanted.where, start, skipped=skipped, leader_epoch=epoch)
        if start >= wanted.until:
            return figures
        copy = IdenticalCopy(start, wanted.until, epoch)
        produces = TargetProduces(self._target, wanted.where, None)

        async def send(batch: CopiedData) -> None:
            nonlocal epoch
            if batch.leader_epoch != epoch:
                await produces.flush()
                await self._commit_epoch(wanted, batch)
                epoch = batch.leader_epoch
            await produces.send(batch)

        await self._run(wanted, copy, send, figures)
        await produces.flush()
        figures.position, figures.leader_epoch = copy.position, copy.leader_epoch
        return figures

    async def _committed_epoch(self, wanted: FlowRange) -> int:
        """Return the source's leader epoch of the last batch of a mirror, if it is known."""
        try:
            found = await GroupOffsets(self._target).entries(self._plan.group_id, wanted.where)
        except GroupOffsetsError as error:
            raise _unknown_position(wanted, error) from error
        return found.get(wanted.where, GroupEntry(-1)).leader_epoch

    async def _commit_epoch(self, wanted: FlowRange, batch: CopiedData) -> None:
        """Commit a leader epoch of the source before its first batch is sent.

        So the last committed epoch is always that of the last batch in the target's log, also when
        the copy is killed.
        """
        end = await list_offset(self._target, *wanted.where, LATEST)
        if end > batch.start:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"the log of {_name(wanted)} ends at {end}, and the next batch at the source "
                f"follows offset {batch.start}: another process of the flow writes",
            )
        await self._commit(wanted, batch.start, batch.leader_epoch)

    async def _commit(self, wanted: FlowRange, position: int, leader_epoch: int) -> None:
        """Commit the position of a mirror, for the leader epoch."""
        entry = GroupEntry(position, self._metadata(wanted), leader_epoch)
        try:
            await GroupOffsets(self._target).commit(self._plan.group_id, {wanted.where: entry})
        except GroupOffsetsError as error:
            raise _unknown_position(wanted, error) from error

    async def _run(
        self,
        wanted: FlowRange,
        copy: RangeCopy,
        send: Callable[[CopiedData], Awaitable[None]],
        figures: CopyFigures,
    ) -> None:
        """Send the batches of a range, and fetch ahead of them."""
        failure: Exception | None = None
        fetched, taken = trio.open_memory_channel[list[CopiedData] | Exception](_AHEAD)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._fetch, wanted, copy, fetched, figures)
            try:
                async for batches in taken:
                    if isinstance(batches, Exception):
                        raise batches
                    for batch in batches:
                        await send(batch)
                        count_batch(figures, batch)
            except Exception as error:  # raised again below: a nursery would wrap it in a group
                failure = error
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _fetch(
        self,
        wanted: FlowRange,
        copy: RangeCopy,
        fetched: "trio.MemorySendChannel[list[CopiedData] | Exception]",
        figures: CopyFigures,
    ) -> None:
        """Send the batches of each response, until the range or the plan's limits end."""
        plan = self._plan
        fetches = SourceFetches(self._source, wanted.where, read_committed=not plan.is_identical)
        stop_at = trio.current_time() + plan.limit_s
        size = 0
        async with fetched:
            try:
                while not copy.is_done and size < plan.bytes_max:
                    size += await self._fetch_once(fetches, wanted, copy, fetched, figures)
                    if trio.current_time() > stop_at:
                        return
            except (KafkaError, ClientError, CorruptBatch, TaskFailureError) as error:
                await fetched.send(error)

    async def _fetch_once(
        self,
        fetches: SourceFetches,
        wanted: FlowRange,
        copy: RangeCopy,
        fetched: "trio.MemorySendChannel[list[CopiedData] | Exception]",
        figures: CopyFigures,
    ) -> int:
        """Send the batches of one response; return its size in bytes."""
        try:
            response = await fetches.fetch(copy.position, copy.leader_epoch)
        except DivergedLogError as error:
            record = RecordPosition(*wanted.where, copy.position)
            text = diverged_text(record, error.end_offset)
            raise TaskFailureError(text, is_permanent=True, record=record) from None
        except KafkaError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            response = await self._after_trim(fetches, wanted, copy, figures, error)
        if not response.data:
            copy.no_data_before(response.end)
            return 0
        await fetched.send(copy.take(response.data, response.aborted))
        return len(response.data)

    async def _after_trim(
        self,
        fetches: SourceFetches,
        wanted: FlowRange,
        copy: RangeCopy,
        figures: CopyFigures,
        error: KafkaError,
    ) -> FetchedData:
        """Return what the source has from its start on, when it lacks the position.

        A log may start within a batch, which is fetched whole: nothing is lost then if the batch
        begins at the position. Raises TaskFailureError when the flow must stop, and `error` when
        the source has the offset now.
        """
        start = await list_offset(self._source, *wanted.where, EARLIEST)
        end = await list_offset(self._source, *wanted.where, LATEST)
        position = copy.position
        record = RecordPosition(*wanted.where, position)
        if position > end:
            raise TaskFailureError(truncated_text(record, end), is_permanent=True, record=record)
        if position >= start:
            raise error
        response = await fetches.fetch(start)
        if first_offset(response.data, start) <= position:
            return response
        if not self._plan.skips_trimmed:
            text = trimmed_text(record, start, REMEDIES)
            raise TaskFailureError(text, is_permanent=True, record=record)
        figures.trimmed += start - position
        copy.no_data_before(start)
        if self._plan.is_identical:
            await self._commit(wanted, start, NO_EPOCH)
            begin = min(first_offset(response.data, start), start)
            await cluster_queries.delete_records(self._target, {wanted.where: begin})
        return response

    def _metadata(self, wanted: FlowRange) -> str:
        return position_metadata(self._plan, wanted.topic)


def position_metadata(plan: FlowPlan, topic: str) -> str:
    """Return the metadata of a position, with the id of the topic that it is of."""
    now_ms = int(time.time() * 1000)
    return OffsetMetadata(plan.topic_ids.get(topic), plan.source_cluster_id, now_ms).encode()


def noting(runs: list[CopiedRun]) -> Callable[[CopiedData, int], None]:
    """Return what adds each batch that was appended, with its offset at the target, to runs."""

    def note(batch: CopiedData, offset: int) -> None:
        if offset >= 0:
            runs.append(CopiedRun(batch.first, batch.last, batch.records, offset))

    return note


def count_batch(figures: CopyFigures, batch: CopiedData) -> None:
    """Add a batch that was produced to the figures of its copy."""
    figures.batches += batch.batches
    figures.records += batch.records
    figures.bytes += len(batch.data)
    figures.newest_ms = batch.max_timestamp


def _name(wanted: FlowRange) -> str:
    return f"{wanted.topic}-{wanted.partition}"


def _unknown_position(wanted: FlowRange, error: GroupOffsetsError) -> TaskFailureError:
    text = f"the position of {_name(wanted)} cannot be read or committed: {error}"
    return TaskFailureError(text, is_permanent=False)


def _is_retriable(error: Exception) -> bool:
    """True when attempts are repeated until the time is over."""
    if isinstance(error, KafkaError):
        return error.code.retriable or error.code in _AGAIN
    if isinstance(error, ConnectionFailureError):
        return error.retriable
    return isinstance(error, CallTimeoutError)


def _may_pass(error: Exception) -> bool:
    """True when another attempt may succeed."""
    is_out_of_range = isinstance(error, KafkaError) and error.code is ErrorCode.OFFSET_OUT_OF_RANGE
    return is_out_of_range or isinstance(error, CorruptBatch) or _is_retriable(error)


def _failure(wanted: FlowRange, error: Exception) -> TaskFailureError:
    """Return the failure of a copy that does not begin again."""
    text = f"{_name(wanted)} cannot be copied: {error}"
    is_permanent = not _is_retriable(error)
    if isinstance(error, KafkaError):
        text = f"{text} ({error.code.name})"
    cause = error.last if isinstance(error, CallTimeoutError) else error
    if isinstance(cause, KafkaError) and (remedy := _REMEDY_BY_CODE.get(cause.code)):
        text = f"{text}; {remedy}"
    return TaskFailureError(text, is_permanent=is_permanent)
