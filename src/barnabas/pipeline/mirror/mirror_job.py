"""The job of a flow: bounded Spark jobs over ranges of offsets, one after the other.

A turn reads the ends of the source's partitions, divides what is new among tasks, and takes their
figures in. When tasks have caught up, the driver itself copies what arrives (`tail_copies`), until
that is too much for it. Every few seconds a turn also makes topics, log starts and group offsets
follow; group offsets once more when the job is stopped.
"""

import contextlib
import functools
import logging
import time
from typing import Final

import attrs
import trio

from barnabas.client import ClientError
from barnabas.config import ConfigError
from barnabas.pipeline.definitions.config_types import ConfigValueError
from barnabas.pipeline.delivery.driver.group_offsets import GroupOffsetsError
from barnabas.pipeline.delivery.driver.looped_job import LoopedJob
from barnabas.pipeline.delivery.driver.spark_library import SparkSession
from barnabas.pipeline.delivery.plan.job_plan import JobPlan, JobProgress, PartitionLag, RunningJob
from barnabas.pipeline.delivery.plan.task_failures import refused
from barnabas.pipeline.delivery.rows.task_figures import Figures
from barnabas.pipeline.mirror import mirror_tasks
from barnabas.pipeline.mirror.client_thread import ClientThread
from barnabas.pipeline.mirror.cluster_failures import unanswered
from barnabas.pipeline.mirror.flow_connector import BOOTSTRAP, FlowSettings, settings_of
from barnabas.pipeline.mirror.flow_driver import FlowDriver, FlowTopics
from barnabas.pipeline.mirror.flow_values import CopyFigures, FlowPlan, FlowRange, Partition
from barnabas.pipeline.mirror.mirrormaker.checkpoint_job import CheckpointJob
from barnabas.pipeline.mirror.mirrormaker.connector_properties import MIRROR
from barnabas.pipeline.mirror.mirrormaker.heartbeat_job import HeartbeatJob
from barnabas.pipeline.mirror.mirrormaker.maker_settings import (
    CheckpointSettings,
    HeartbeatSettings,
    checkpoint_settings,
    heartbeat_settings,
    source_settings,
)
from barnabas.pipeline.mirror.mirrormaker.timed_job import TimedJob
from barnabas.pipeline.mirror.range_planning import divided, ranges_to_copy
from barnabas.pipeline.mirror.tail_copies import TailCopier, tail_starts
from barnabas.pipeline.mirror.topic_following import FlowRefusedError
from barnabas.protocol.errors import KafkaError

logger = logging.getLogger(__name__)

_FOLLOW_EVERY_S: Final = 5.0
_TRIGGER_MIN_S: Final = 0.05
_RESTING_S: Final = 60.0
_RESTING_TRIGGER_S: Final = 1.0
_SHOWN_S: Final = 10.0
_KEEP_EVERY_S: Final = 6 * 3600.0
_LAST_S: Final = 5.0
_ACLS_EVERY_S: Final = 60.0
_TAIL_S: Final = 1.0
_TAILS_MAX: Final = 200
_TAIL_OFFSETS_MAX: Final = 50_000
_TAIL_BYTES_MAX: Final = 16 << 20
_TURN_S: Final = 10.0
"""A turn takes longer only when a cluster does not answer."""


def start(session: SparkSession, plan: JobPlan) -> RunningJob:
    """Start the flow. Raises JobStartError."""
    try:
        settings = _settings(plan)
        if isinstance(settings, CheckpointSettings):
            return _started(CheckpointJob(session, plan, settings))
        if isinstance(settings, HeartbeatSettings):
            return _started(HeartbeatJob(session, plan, settings))
        clients = ClientThread(settings.source, settings.target)
        clients.start()
    except (ConfigError, ConfigValueError) as error:
        raise refused(str(error)) from error
    driver = FlowDriver(
        settings, FlowTopics(plan.topics, plan.topics_pattern), plan.on_trim, *clients.clients
    )
    job = MirrorJob(session, plan, settings, clients, driver)
    try:
        job.follow()
    except BaseException:
        clients.close()
        raise
    job.start()
    return job


def _settings(plan: JobPlan) -> FlowSettings | CheckpointSettings | HeartbeatSettings:
    """Return the settings of a flow or of MirrorMaker 2's connectors. Raises ConfigValueError."""
    runner = {**plan.client_properties, BOOTSTRAP: plan.bootstrap}
    match plan.connector_class.removeprefix(f"{MIRROR}."):
        case "MirrorSourceConnector":
            return source_settings(plan.properties, runner, plan.offsets_topic)
        case "MirrorCheckpointConnector":
            return checkpoint_settings(plan.properties, runner)
        case "MirrorHeartbeatConnector":
            return heartbeat_settings(plan.properties, runner)
        case _:
            return settings_of(plan)


def _started(job: TimedJob) -> TimedJob:
    job.start()
    return job


class MirrorJob(LoopedJob):
    """A flow, turn by turn."""

    def __init__(
        self,
        session: SparkSession,
        plan: JobPlan,
        settings: FlowSettings,
        clients: ClientThread,
        driver: FlowDriver,
    ) -> None:
        super().__init__(session, plan, JobProgress())
        self._settings = settings
        self._clients = clients
        self._driver = driver
        self._trigger_s = max(_TRIGGER_MIN_S, plan.trigger_ms / 1000)
        self._tasks_max = self._context.defaultParallelism
        self._followed_s = self._busy_s = self._kept_s = time.monotonic()
        self._ends_read_ms = 0
        self._acls_s: float | None = None
        self._is_in_turn = False
        self._has_caught_up = False
        self._ended_tails: set[Partition] = set()
        self._tails: TailCopier | None = None

    def follow(self) -> None:
        """Make topics follow, and take up new partitions. Raises JobStartError."""
        driver = self._driver
        try:
            self._clients.call(driver.follow)
            self._clients.call(driver.follow_log_starts)
            self._clients.call(driver.follow_groups)
            if self._acls_s is None or time.monotonic() - self._acls_s > _ACLS_EVERY_S:
                self._clients.call(driver.follow_acls)
                self._acls_s = time.monotonic()
            self._clients.call(functools.partial(driver.commit_positions, again=self._keeps))
        except FlowRefusedError as error:
            raise refused(str(error)) from error
        except (KafkaError, ClientError, GroupOffsetsError) as error:
            raise unanswered(error) from error
        self._followed_s = time.monotonic()
        self._progress = attrs.evolve(
            self._progress, trimmed=max(self._progress.trimmed, driver.trimmed)
        )

    def stop(self, timeout_s: float = 30.0) -> None:
        """End after the running turn, or cancel it when a cluster does not answer."""
        super().stop(min(timeout_s, _TURN_S))

    def _cancel(self) -> None:
        super()._cancel()
        self._clients.cancel_call()

    @property
    def _keeps(self) -> bool:
        """True when positions are committed again: brokers remove old ones of idle partitions."""
        return time.monotonic() - self._kept_s > _KEEP_EVERY_S

    def _run(self) -> None:
        try:
            super()._run()
            if self._failure is None:
                with contextlib.suppress(KafkaError, ClientError, GroupOffsetsError):
                    self._clients.call(self._finish)
        finally:
            self._clients.close()

    async def _finish(self) -> None:
        """Copy group offsets when the flow is stopped: consumers may be moved now.

        Positions are given back only after a turn that has ended: later tasks may still commit.
        """
        with trio.move_on_after(_LAST_S):
            await self._driver.follow_groups()
        if not self._is_in_turn:
            with trio.move_on_after(_LAST_S):
                await self._driver.give_back()

    def _turn(self) -> float:
        self._is_in_turn = True
        wait_s = self._copy_once()
        self._is_in_turn = False
        return wait_s

    def _copy_once(self) -> float:
        """Follow, when it is time, and copy what is new; return the time to wait."""
        began_s = time.monotonic()
        if began_s - self._followed_s > _FOLLOW_EVERY_S or self._keeps:
            self.follow()
        ends = self._ends()
        keeps = self._keeps and not self._settings.is_identical
        ranges = ranges_to_copy(self._driver.positions, ends, self._driver.epochs, keeps=keeps)
        if self._stopping.is_set():  # while a cluster did not answer
            return 0.0
        if self._keeps:
            self._kept_s = began_s
        if not keeps and self._is_tail(ranges):
            self._copy_tails(began_s)
        elif ranges:
            self._report(ends)  # the target may take long
            self._copy(ranges, began_s)
        self._report(ends)
        is_resting = time.monotonic() - self._busy_s > _RESTING_S
        trigger_s = max(self._trigger_s, _RESTING_TRIGGER_S if is_resting else 0.0)
        return max(0.0, began_s + trigger_s - time.monotonic())

    def _ends(self) -> dict[Partition, int]:
        """Return the ends of the source's partitions. Raises JobStartError."""
        self._ends_read_ms = int(time.time() * 1000)
        try:
            return self._clients.call(self._driver.ends)
        except (KafkaError, ClientError) as error:
            raise unanswered(error) from error

    def _task_plan(self) -> FlowPlan:
        timeout_ms = self._plan.transaction_timeout_ms
        return self._driver.task_plan(transaction_timeout_ms=timeout_ms)

    def _is_tail(self, ranges: list[FlowRange]) -> bool:
        """True when the driver copies what is new: tasks have caught up, and little has come."""
        offsets = sum(each.until - each.start for each in ranges)
        sizes = (
            self._driver.sizes.estimate(each.where, each.until - each.start) for each in ranges
        )
        return (
            self._settings.copies_tails
            and self._has_caught_up
            and len(self._driver.positions) <= _TAILS_MAX
            and offsets <= _TAIL_OFFSETS_MAX
            and sum(size or 0 for size in sizes) <= _TAIL_BYTES_MAX
            and not any(each.where in self._ended_tails for each in ranges)
        )

    def _copy_tails(self, began_s: float) -> None:
        """Copy what arrives for a time, without a Spark job, and take the figures in."""
        driver = self._driver
        starts = [
            each
            for each in tail_starts(driver.positions, driver.epochs)
            if each.where not in self._ended_tails
        ]
        copier = self._tail_copier()
        planned_s = time.monotonic()
        ended = self._clients.call(copier.copy, starts, _TAIL_S)
        for where, reason in ended.items():
            logger.debug("a task continues partition=%s-%d reason=%s", *where, reason)
        self._ended_tails |= ended.keys()
        self._take_in([each for each in starts if each.batches], began_s, planned_s)

    def _tail_copier(self) -> TailCopier:
        """Return the copier of the last call, unless the plan has changed."""
        plan = self._task_plan()
        if self._tails is None or self._tails.plan != plan:
            self._tails = TailCopier(plan, *self._clients.clients)
        return self._tails

    def _copy(self, ranges: list[FlowRange], began_s: float) -> None:
        """Run a Spark job that copies ranges, and take its figures in."""
        self._tails = None
        tasks = divided(ranges, self._tasks_max)
        run = functools.partial(mirror_tasks.copy_ranges, self._task_plan(), tasks)
        until = {each.where: each.until for each in ranges}
        planned_s = time.monotonic()
        results: list[CopyFigures] = (
            self._context.parallelize(range(len(tasks)), len(tasks)).mapPartitions(run).collect()
        )
        self._ended_tails.clear()
        self._has_caught_up = all(each.position >= until[each.where] for each in results)
        self._take_in(results, began_s, planned_s)

    def _take_in(self, results: list[CopyFigures], began_s: float, planned_s: float) -> None:
        """Note where copies have ended, and add their figures."""
        if not results:
            return
        self._busy_s = time.monotonic()
        for result in results:
            self._driver.take_in(result)
        phases_ms = {
            "latestOffset": int((planned_s - began_s) * 1000),
            "addBatch": int((self._busy_s - planned_s) * 1000),
            "triggerExecution": int((self._busy_s - began_s) * 1000),
        }
        self._add([_figures(each) for each in results], self._busy_s - began_s, phases_ms)

    def _report(self, ends: dict[Partition, int]) -> None:
        """Note the distance from the ends and when they were read; an idle flow has no rate."""
        lag: list[PartitionLag] = []
        for where, position in self._driver.positions.items():
            end = max(position, ends.get(where, position))
            size = self._driver.sizes.estimate(where, end - position)
            lag.append(PartitionLag(*where, position, end, size))
        self._progress = attrs.evolve(
            self._progress,
            lag=tuple(lag),
            deleted_topics=tuple(sorted(self._driver.deleted)),
            updated_ms=self._ends_read_ms,
        )
        if time.monotonic() - self._busy_s > _SHOWN_S:
            self._progress = attrs.evolve(self._progress, records_per_second=0.0, lag_s=0.0)


def _figures(done: CopyFigures) -> Figures:
    return Figures(
        records=done.records,
        written=done.records,
        transactions=done.transactions,
        skipped=done.skipped,
        trimmed=done.trimmed,
        oldest_ms=done.newest_ms,
    )
