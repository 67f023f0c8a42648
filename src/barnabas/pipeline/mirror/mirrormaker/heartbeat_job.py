"""The job of MirrorMaker 2's heartbeat connector: a record at the target at each interval."""

import time

from barnabas.pipeline.delivery.driver.spark_library import SparkSession
from barnabas.pipeline.delivery.plan.job_plan import JobPlan
from barnabas.pipeline.mirror.mirrormaker.internal_records import Heartbeat
from barnabas.pipeline.mirror.mirrormaker.maker_settings import HeartbeatSettings
from barnabas.pipeline.mirror.mirrormaker.maker_topics import InternalTopic
from barnabas.pipeline.mirror.mirrormaker.replication_policies import HEARTBEATS
from barnabas.pipeline.mirror.mirrormaker.timed_job import TimedJob


class HeartbeatJob(TimedJob):
    """Writes heartbeats."""

    def __init__(self, session: SparkSession, plan: JobPlan, settings: HeartbeatSettings) -> None:
        super().__init__(session, plan, settings.common)
        self._settings = settings
        self._topic: InternalTopic | None = None

    async def work(self) -> int:
        """Write a heartbeat, unless the connector writes none."""
        settings = self._settings
        if not settings.emits:
            return 0
        if self._topic is None:
            target = self.clients.clients[1]
            topic = InternalTopic(target, HEARTBEATS, settings.replication_factor)
            await topic.create()
            self._topic = topic
        common = settings.common
        now_ms = int(time.time() * 1000)
        await self._topic.write(
            [Heartbeat(common.policy.source, common.target_alias, now_ms)], now_ms
        )
        return 1

    def wait_s(self) -> float:
        """Return the time until the next heartbeat."""
        return self._settings.interval_s
