"""The job of a connector that works at intervals: a thread of the runner, without Spark jobs."""

import abc
import time
from collections.abc import Awaitable, Callable
from typing import Final

import attrs

from barnabas.client import ClientError
from barnabas.pipeline.delivery.driver.group_offsets import GroupOffsetsError
from barnabas.pipeline.delivery.driver.looped_job import LoopedJob
from barnabas.pipeline.delivery.driver.spark_library import SparkSession
from barnabas.pipeline.delivery.plan.job_plan import JobPlan, JobProgress
from barnabas.pipeline.mirror.client_thread import ClientThread
from barnabas.pipeline.mirror.cluster_failures import unanswered
from barnabas.pipeline.mirror.mirrormaker.maker_settings import ConnectorSettings
from barnabas.protocol.errors import KafkaError

_SHORTEST_S: Final = 0.1


class TimedJob(LoopedJob, abc.ABC):
    """Calls `work` at the times that it asks for, with clients of both clusters."""

    def __init__(self, session: SparkSession, plan: JobPlan, common: ConnectorSettings) -> None:
        super().__init__(session, plan, JobProgress())
        self.clients = ClientThread(common.source, common.target)
        self.clients.start()

    @abc.abstractmethod
    async def work(self) -> int:
        """Do what is due; return the number of records that were written."""

    @abc.abstractmethod
    def wait_s(self) -> float:
        """Return the time until the next call is due."""

    def call(self, function: Callable[[], Awaitable[int]]) -> int:
        """Run a call in the thread of the clients. Raises JobStartError."""
        try:
            return self.clients.call(function)
        except (KafkaError, ClientError, GroupOffsetsError) as error:
            raise unanswered(error) from error

    def _turn(self) -> float:
        began_s = time.monotonic()
        written = self.call(self.work)
        total = self._progress
        self._progress = attrs.evolve(
            total,
            records=total.records + written,
            written=total.written + written,
            updated_ms=int(time.time() * 1000),
        )
        return max(0.0, began_s + max(_SHORTEST_S, self.wait_s()) - time.monotonic())

    def _run(self) -> None:
        try:
            super()._run()
        finally:
            self.clients.close()
