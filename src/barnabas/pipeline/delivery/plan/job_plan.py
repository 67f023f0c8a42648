"""A job as the engine runs it, its progress and its failure: plain values, nothing of Spark.

A plan holds strings and numbers only, because it travels to Spark's Python workers by pickle.
"""

import enum
from collections.abc import Mapping
from typing import Final, Protocol

import attrs

from barnabas.pipeline.delivery.plan.worker_plan import TRANSACTION_TIMEOUT_MS


class JobKind(enum.StrEnum):
    """The direction of a job."""

    SOURCE = "source"
    """A source connector writes records to topics (slices)."""
    SINK = "sink"
    """A sink connector takes the records of topics (forward)."""
    COPY = "copy"
    """Records of topics go to topics, through converters and transformations (forward)."""
    MIRROR = "mirror"
    """Batches of topics of one cluster go to the same topics of another (ranges)."""
    VIEW = "view"
    """The rows of a table's topic are kept for look-ups, in the runner."""
    STREAM = "stream"
    """Rows of a user's query go to topics (forward, or micro-batches with state)."""
    QUERY = "query"
    """A query of SQL reads topics and writes one (forward, or micro-batches with state)."""
    SPARK_SINK = "spark-sink"
    """Records of topics become rows of files or tables (one of Spark's own sinks)."""
    SPARK_SOURCE = "spark-source"
    """Rows of one of Spark's own sources become records of topics (micro-batches)."""

    @property
    def is_source(self) -> bool:
        """True when the job reads no topics."""
        return self in (JobKind.SOURCE, JobKind.SPARK_SOURCE)


class Guarantee(enum.StrEnum):
    """The number of times that a record of the source has its effect."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


class OnTrim(enum.StrEnum):
    """The outcome when retention deleted records that the job has not read."""

    FAIL = "fail"
    SKIP = "skip"


REBUILD: Final = "run `barnabas job rebuild`, or App.reset() in an app"
"""The action of a user when the state of a query cannot be continued."""

FORWARD_KINDS: Final = (JobKind.SINK, JobKind.COPY)
"""The jobs whose positions are committed offsets of a group."""


def _plain(properties: Mapping[str, str]) -> dict[str, str]:
    return dict(properties)


@attrs.frozen
class JobPlan:
    """All that a job needs to run.

    `properties` is the whole configuration of the connector with secrets resolved. The names in
    `client_properties` and the overrides are those of Java's clients or of librdkafka.
    """

    name: str
    generation: int
    kind: JobKind
    bootstrap: str
    group_id: str
    """The group whose committed offsets are the job's position (sinks: `connect-NAME`)."""
    transactional_id: str
    """The prefix of transactional ids; a task appends its topic and partition, or its number."""
    topics: tuple[str, ...] = ()
    topics_pattern: str | None = None
    target_topic: str | None = None
    """Where a COPY writes records whose topic no transformation changed."""
    connector_class: str = ""
    task_configs: tuple[Mapping[str, str], ...] = attrs.field(default=(), repr=False)
    properties: Mapping[str, str] = attrs.field(
        factory=dict[str, str], converter=_plain, repr=False
    )
    guarantee: Guarantee = Guarantee.EXACTLY_ONCE
    client_properties: Mapping[str, str] = attrs.field(
        factory=dict[str, str], converter=_plain, repr=False
    )
    consumer_overrides: Mapping[str, str] = attrs.field(
        factory=dict[str, str], converter=_plain, repr=False
    )
    producer_overrides: Mapping[str, str] = attrs.field(
        factory=dict[str, str], converter=_plain, repr=False
    )
    offset_reset: str = "earliest"
    """The first position in a partition without a committed offset: earliest or latest."""
    on_trim: OnTrim = OnTrim.FAIL
    topic_ids: Mapping[str, str] = attrs.field(factory=dict[str, str], converter=_plain)
    """Ids of the topics in an earlier run, from its progress: a recreated topic stops the start."""
    offsets_topic: str = "connect-offsets"
    """The topic with the positions of source connectors."""
    trigger_ms: int = 100
    max_records_per_batch: int = 500_000
    slice_ms: int = 2_000
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    records_per_second_max: int = 0
    """The largest rate of the job; 0 for none."""
    is_isolated: bool = False
    """True for a job that has a Spark application to itself."""
    spark_properties: Mapping[str, str] = attrs.field(factory=dict[str, str], converter=_plain)
    """The properties of that application."""

    @property
    def needs_session(self) -> bool:
        """True when the job runs in the Spark session that jobs share."""
        return not self.is_isolated and self.kind is not JobKind.VIEW


@attrs.frozen
class RecordPosition:
    """The place of one record."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}@{self.offset}"


@attrs.frozen
class PartitionLag:
    """The distance of a job from the end of one partition."""

    topic: str
    partition: int
    position: int
    end: int
    bytes: int | None = None
    """The estimated size of what is between them; None when it is not known."""

    @property
    def lag(self) -> int:
        """Return the number of offsets between the position and the end."""
        return max(0, self.end - self.position)


@attrs.frozen
class JobProgress:
    """Totals since this run of the job started, and figures of its newest batch."""

    records: int = 0
    """Records taken from the source."""
    written: int = 0
    """Records written to topics or given to the sink, without dead letters."""
    records_per_second: float = 0.0
    batches: int = 0
    batch_ms: int = 0
    phases_ms: Mapping[str, int] = attrs.field(factory=dict[str, int])
    """Milliseconds of each phase of the newest batch, by Spark's names."""
    lag: tuple[PartitionLag, ...] = ()
    lag_inside: int = 0
    """Offsets that are not read of topics between the parts of the job."""
    lag_s: float = 0.0
    """Age of the oldest record of the newest batch when its transaction was committed."""
    dead_letters: int = 0
    transactions: int = 0
    fenced: int = 0
    """Producers that another task replaced."""
    skipped: int = 0
    """Offsets that an earlier transaction had committed already."""
    topic_ids: Mapping[str, str] = attrs.field(factory=dict[str, str])
    """Ids of the source topics, for `JobPlan.topic_ids` of the next run."""
    trimmed: int = 0
    """Offsets that retention deleted before the job read them (on.trim=skip)."""
    late: int = 0
    """Records dropped because their windows were closed; once for each of several windows."""
    deleted_topics: tuple[str, ...] = ()
    """Topics that the job has read, and that the source does not have any longer."""
    updated_ms: int = 0
    """When the newest batch ended, in milliseconds since 1970."""


@attrs.frozen
class JobFailure:
    """Why a job ended by itself."""

    message: str
    is_permanent: bool
    """True when the same job would fail again: a restart does not help."""
    record: RecordPosition | None = None
    stage: str = ""
    """The stage of the record chain that failed, in Connect's names."""
    trace: str = attrs.field(default="", repr=False)


class RunningJob(Protocol):
    """A job that was started. Its methods block: call them from a thread."""

    @property
    def plan(self) -> JobPlan:
        """Return the plan that it was started with."""
        ...

    def is_running(self) -> bool:
        """True until the job was stopped or failed."""
        ...

    def progress(self) -> JobProgress:
        """Return the totals up to now; call it at least every few seconds."""
        ...

    def failure(self) -> JobFailure | None:
        """Return why the job ended by itself, or None."""
        ...

    def stop(self, timeout_s: float = 30.0) -> None:
        """End the job after its running transaction, or without it when the time is over."""
        ...
