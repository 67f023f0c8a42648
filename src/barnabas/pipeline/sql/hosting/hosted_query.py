"""A query of SQL as a job of the runner: the queries of an app of streams, seen as one job."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import attrs
from confluent_kafka import KafkaException

from barnabas.config import ConfigError
from barnabas.pipeline.delivery.driver.cluster_state import ClusterState
from barnabas.pipeline.delivery.plan import kafka_properties
from barnabas.pipeline.delivery.plan.job_plan import JobFailure, JobPlan, JobProgress
from barnabas.pipeline.delivery.plan.start_positions import offsets_of
from barnabas.pipeline.delivery.plan.task_failures import JobStartError, refused
from barnabas.pipeline.delivery.plan.task_plans import consumer_properties
from barnabas.pipeline.sql.hosting.planned_statement import planned_statement
from barnabas.pipeline.sql.hosting.query_properties import FIRST_OFFSETS, REGISTRY, START
from barnabas.pipeline.sql.planning.first_offsets import usable
from barnabas.pipeline.sql.planning.query_writing import written
from barnabas.pipeline.sql.sql_failures import SqlError, UnresolvedError
from barnabas.pipeline.streams.app_hosting import HostedApp, HostedQueries, HostedState
from barnabas.pipeline.streams.app_queries import QuerySettings

if TYPE_CHECKING:
    from pathlib import Path

    from barnabas.pipeline.delivery.driver.spark_library import SparkSession
    from barnabas.pipeline.sql.planning.first_offsets import Start

_DEAD_LETTERS: Final = "errors.deadletterqueue.topic.name"
_CASE: Final = "spark.sql.caseSensitive"


class QueryJob:
    """A running query with the plan that it came from."""

    def __init__(self, plan: JobPlan, queries: HostedQueries) -> None:
        """Take queries that run."""
        self._plan = plan
        self._queries = queries

    @property
    def plan(self) -> JobPlan:
        """Return the plan that the job was started with."""
        return self._plan

    def is_running(self) -> bool:
        """True until the query was stopped or failed."""
        return all(job.is_running() for job in self._queries.jobs)

    def progress(self) -> JobProgress:
        """Return the totals up to now, without records of topics between its parts."""
        return merged(self._plan, {job.plan.name: job.progress() for job in self._queries.jobs})

    def failure(self) -> JobFailure | None:
        """Return why the query ended by itself, or None."""
        found = (job.failure() for job in self._queries.jobs)
        return next((each for each in found if each is not None), None)

    def stop(self, timeout_s: float = 30.0) -> None:
        """Stop the query after its running transaction."""
        self._queries.stop(timeout_s)


def merged(plan: JobPlan, parts: dict[str, JobProgress]) -> JobProgress:
    """Return the progress of a job of which the last part writes the result."""
    last = parts.get(plan.name, JobProgress())
    lag = {
        (each.topic, each.partition): each
        for part in parts.values()
        for each in part.lag
        if each.topic in plan.topics
    }
    inside = [
        each.lag for part in parts.values() for each in part.lag if each.topic not in plan.topics
    ]
    readers = [
        part for part in parts.values() if any(each.topic in plan.topics for each in part.lag)
    ] or [last]
    return attrs.evolve(
        last,
        records=sum(each.records for each in readers),
        records_per_second=sum(each.records_per_second for each in readers),
        lag=tuple(lag[place] for place in sorted(lag)),
        lag_inside=sum(inside),
        dead_letters=sum(each.dead_letters for each in parts.values()),
        trimmed=sum(each.trimmed for each in parts.values()),
        late=sum(each.late for each in parts.values()),
        topic_ids={
            name: each
            for part in parts.values()
            for name, each in part.topic_ids.items()
            if name in plan.topics
        },
        updated_ms=max(each.updated_ms for each in [last, *readers]),
    )


def start(
    session: SparkSession, plan: JobPlan, work: Path, checkpoint_of: Callable[[str], str]
) -> QueryJob:
    """Start a query in a session with its own settings. Raises JobStartError."""
    own = own_session(session)
    directory = work / "queries"
    directory.mkdir(parents=True, exist_ok=True)
    settings = QuerySettings(
        plan.name,
        plan.bootstrap,
        dict(plan.client_properties),
        HostedState(directory, checkpoint_of),
        plan.on_trim,
        plan.trigger_ms,
        plan.transaction_timeout_ms,
        dict(plan.topic_ids),
    )
    try:
        query = planned_statement(plan.properties)
        registry = plan.properties.get(REGISTRY, "")
        app = HostedApp(own, settings, registry, plan.properties.get(_DEAD_LETTERS) or None)
        written(app, query, plan.name, start=_start(plan), topic=plan.target_topic)
        return QueryJob(plan, app.started(plan.generation))
    except JobStartError:
        raise
    except (ConfigError, SqlError, UnresolvedError) as error:
        raise refused(str(error)) from error
    except KafkaException as error:
        raise refused(str(error), is_permanent=False) from error


def _start(plan: JobPlan) -> Start:
    """Return where the query reads topics from that it has not read. Raises ConfigError."""
    noted = plan.properties.get(FIRST_OFFSETS)
    if not noted:
        return plan.properties.get(START, "earliest")
    cluster = ClusterState(kafka_properties.for_librdkafka(consumer_properties(plan)))
    return usable(cluster, offsets_of(noted))


def own_session(session: SparkSession) -> Any:
    """Return a session of the same application in which names differ by their case."""
    found: Any = session.newSession()
    found.conf.set(_CASE, "true")
    return found
