"""The topics that jobs read, with their ids, which outlive the topics.

A topic that is deleted takes the committed offsets of all groups with it. When it is created again
while no runner runs, a job would start at its beginning and process other records without notice.
So the id of each topic is stored before the job reads it, and compared at every start.
"""

import logging
import re
from collections.abc import Collection, Iterable, Sequence

import attrs

from barnabas.client import ClientError, KafkaClient
from barnabas.pipeline.delivery.plan.job_plan import FORWARD_KINDS, JobKind, JobPlan
from barnabas.pipeline.jobs.core.store_records import SourceTopicRecord
from barnabas.pipeline.jobs.job_topics import prepare_topics
from barnabas.pipeline.jobs.runner_store import RunnerStore
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse

logger = logging.getLogger(__name__)


class SourceTopics:
    """Looks up and stores the ids of source topics."""

    def __init__(self, client: KafkaClient, store: RunnerStore) -> None:
        self._client = client
        self._store = store

    async def prepare(self, plan: JobPlan) -> JobPlan:
        """Create a job's topics where they are missing; return the plan with their stored ids.

        Raises ClientError, KafkaError or ConfigValueError.
        """
        if plan.kind is JobKind.MIRROR:
            return plan  # its topics are of other clusters
        if plan.kind not in (*FORWARD_KINDS, JobKind.QUERY):
            await prepare_topics(self._client, plan, ())
            return plan
        await self._store.catch_up_offsets()
        known = dict(self.known(plan.name))
        await prepare_topics(self._client, plan, known)
        found = await self._ids(plan.topics, plan.topics_pattern)
        await self._store_new(plan.name, found)
        return attrs.evolve(plan, topic_ids={**found, **known})

    async def learn(self, plan: JobPlan, names: Collection[str]) -> None:
        """Store the ids of topics that a running job has taken up, as far as Kafka answers."""
        new = [name for name in names if name not in self.known(plan.name)]
        try:
            if new:
                await self._store_new(plan.name, await self._ids(new, None))
        except (ClientError, KafkaError) as error:
            logger.warning("cannot store topic ids job=%s error=%s", plan.name, error)

    def known(self, job: str) -> dict[str, str]:
        """Return the stored ids of a job's topics, by name."""
        return self._store.state.source_topics.get(job, {})

    async def forget(self, job: str, names: Iterable[str] | None = None) -> None:
        """Remove the ids of a job's topics, or of some of them: its offsets were changed."""
        await self._store.catch_up_offsets()
        known = self.known(job)
        chosen = list(known) if names is None else [name for name in names if name in known]
        if chosen:
            await self._store.write_offsets([SourceTopicRecord(job, n, None) for n in chosen])

    async def _store_new(self, job: str, ids: dict[str, str]) -> None:
        known = self.known(job)
        new = [SourceTopicRecord(job, name, at) for name, at in ids.items() if name not in known]
        if new:
            await self._store.write_offsets(new)

    async def _ids(self, names: Sequence[str], pattern: str | None) -> dict[str, str]:
        """Return the ids of topics that exist: those named, or those that a pattern matches."""
        wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(
            topics=wanted if pattern is None else None, allow_auto_topic_creation=False
        )
        response = await self._client.ask_any(request, MetadataResponse)
        return {
            topic.name: str(topic.topic_id)
            for topic in response.topics
            if topic.name is not None
            and topic.error_code == ErrorCode.NONE
            and (pattern is None or re.fullmatch(pattern, topic.name))
        }
