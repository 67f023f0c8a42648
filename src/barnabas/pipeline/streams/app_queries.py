"""The queries of an app: their rows, their plans, and the start of their jobs."""

import functools
from collections.abc import Callable, Iterable, Mapping

import attrs
from confluent_kafka import KafkaException

from barnabas.config import ConfigError
from barnabas.pipeline.delivery.driver import frame_sources
from barnabas.pipeline.delivery.driver.cluster_state import ClusterState
from barnabas.pipeline.delivery.driver.spark_library import DataFrame
from barnabas.pipeline.delivery.forward import frame_job
from barnabas.pipeline.delivery.micro_batches import micro_batch_job, micro_batch_removal
from barnabas.pipeline.delivery.plan import kafka_properties
from barnabas.pipeline.delivery.plan.job_plan import Guarantee, JobKind, JobPlan, OnTrim, RunningJob
from barnabas.pipeline.delivery.plan.task_failures import refused
from barnabas.pipeline.streams import joined_topics, output_frames
from barnabas.pipeline.streams.known_topics import KnownTopics
from barnabas.pipeline.streams.output_frames import Letters, OutputError, OutputSerdes
from barnabas.pipeline.streams.record_stream import Stream
from barnabas.pipeline.streams.record_table import Table
from barnabas.pipeline.streams.state_directory import StateDirectory
from barnabas.pipeline.streams.stream_queries import StreamQuery
from barnabas.pipeline.streams.topic_reading import OnError, TopicInput


@attrs.frozen(eq=False)
class Output:
    """The rows of one query, and the topic that they go to."""

    name: str
    records: Stream | Table | DataFrame
    topic: str | None
    serdes: OutputSerdes
    guarantee: Guarantee
    output_mode: str | None
    """Spark's output mode of a query with state; None without state."""

    @property
    def inputs(self) -> tuple[TopicInput, ...]:
        """Return the topics that a stream or a table comes from."""
        return self.records.inputs if isinstance(self.records, Stream | Table) else ()


@attrs.frozen(eq=False)
class QuerySettings:
    """The settings that all queries of an app share."""

    app: str
    bootstrap: str
    properties: Mapping[str, str] = attrs.field(repr=False)
    """The properties of all clients, without the bootstrap servers."""
    state: StateDirectory
    on_trim: OnTrim
    trigger_ms: int
    transaction_timeout_ms: int

    @property
    def client(self) -> dict[str, str]:
        """Return the properties of a client."""
        return {**self.properties, "bootstrap.servers": self.bootstrap}


class AppQueries:
    """The queries of an app, in the order in which they were described."""

    def __init__(
        self,
        settings: QuerySettings,
        read: Callable[[TopicInput], DataFrame],
        is_session_alive: Callable[[], bool],
    ) -> None:
        """Take the function that reads a topic, and the one that says whether Spark runs."""
        self.outputs: dict[str, Output] = {}
        self.queries: dict[str, StreamQuery] = {}
        self._settings = settings
        self._read = read
        self._is_session_alive = is_session_alive
        self._letters: dict[TopicInput, str] = {}
        self._topics = KnownTopics(settings.app, settings.client)

    def check_free(self, name: str) -> None:
        """Raise ValueError when a query has the name."""
        if name in self.outputs:
            raise ValueError(f"the app has a query {name} already: name this one with name=")

    def add(self, output: Output) -> StreamQuery:
        """Add a query. Raises OutputError for columns that cannot be written, ValueError."""
        self.check_free(output.name)
        if output.output_mode is not None and output.guarantee is Guarantee.AT_LEAST_ONCE:
            raise ValueError(
                f"query {output.name} has state, so it is delivered exactly once: at-least-once is "
                "for queries without state"
            )
        self.rows(output)
        self.outputs[output.name] = output
        query = StreamQuery(
            output.name,
            functools.partial(self._start, output),
            has_committed_positions=output.output_mode is None,
            is_session_alive=self._is_session_alive,
        )
        self.queries[output.name] = query
        return query

    def assign_letters(self) -> None:
        """Choose the query that writes the dead letters of each topic, once.

        The first query that forwards records of the topic writes them in its transactions. Where
        all queries have state, a query is added.
        """
        waiting: dict[TopicInput, None] = {}
        for output in list(self.outputs.values()):
            for each in output.inputs:
                if each.on_error is OnError.DEAD_LETTER and each not in self._letters:
                    if output.output_mode is None:
                        self._letters[each] = output.name
                        waiting.pop(each, None)
                    else:
                        waiting[each] = None
        for each in waiting:
            name = f"{self._settings.app}-{each.topic}-letters"
            nothing = Stream(self._read(each), (each,)).filter("false")
            serdes = OutputSerdes(None, None)
            self.add(Output(name, nothing, each.dead_letters, serdes, Guarantee.EXACTLY_ONCE, None))
            self._letters[each] = name

    def rows(self, output: Output) -> DataFrame:
        """Return the rows of a query in the columns of the deliveries. Raises OutputError."""
        if not isinstance(output.records, Stream | Table):
            return output_frames.of_frame(output.records, output.topic)
        if output.topic is None:
            raise OutputError("write() needs the topic of a stream or a table")
        topics = [each.topic for each in output.inputs if self._writes_letters(output, each)]
        letters = Letters(tuple(topics), self._settings.app)
        return output_frames.of_records(output.records, output.topic, output.serdes, letters)

    def forget(self, names: Iterable[str]) -> None:
        """Forget positions and state of queries that do not run.

        Raises ConfigError, KafkaException, GroupOffsetsError, TimeoutError.
        """
        properties = kafka_properties.for_librdkafka(self._settings.client)
        for name in names:
            checkpoint = self._settings.state.checkpoint(name)
            micro_batch_removal.forget(name, name, properties, checkpoint)
            self._topics.forget(name)

    def _start(self, output: Output, generation: int) -> RunningJob:
        """Start the job of a query. Raises JobStartError."""
        rows = self.rows(output)
        plan = self._plan(output, rows, generation)
        state = self._settings.state
        if isinstance(output.records, Stream):
            joined_topics.check(self._settings.client, output.records.joined_topics)
        self._create_letter_topics(output)
        if output.output_mode is None:
            plan = attrs.evolve(plan, topic_ids=self._known_ids(output.name))
            remember = functools.partial(self._topics.remember, output.name)
            has_all_records = isinstance(output.records, Stream | Table)
            return frame_job.start(
                plan, rows, state.work, remember, has_all_records=has_all_records
            )
        if not frame_sources.has_state(rows):
            rows = rows.repartition("key")
        checkpoint = state.checkpoint(output.name)
        return micro_batch_job.start(plan, rows, checkpoint, output.output_mode)

    def _plan(self, output: Output, rows: DataFrame, generation: int) -> JobPlan:
        topics = tuple(dict.fromkeys(each.topic for each in output.inputs))
        settings = self._settings
        return JobPlan(
            output.name,
            generation,
            JobKind.STREAM,
            settings.bootstrap,
            group_id=output.name,
            transactional_id=output.name,
            topics=topics or frame_sources.kafka_topics(rows),
            target_topic=output.topic,
            guarantee=output.guarantee,
            client_properties=settings.properties,
            on_trim=settings.on_trim,
            trigger_ms=settings.trigger_ms,
            transaction_timeout_ms=settings.transaction_timeout_ms,
        )

    def _known_ids(self, query: str) -> Mapping[str, str]:
        """Return the ids of the topics that a query has read. Raises JobStartError."""
        try:
            return self._topics.of(query)
        except (ConfigError, KafkaException, TimeoutError) as error:
            raise refused(str(error), is_permanent=isinstance(error, ConfigError)) from error

    def _create_letter_topics(self, output: Output) -> None:
        """Create the topics of the dead letters that a query writes. Raises JobStartError."""
        names = {each.dead_letters for each in output.inputs if self._writes_letters(output, each)}
        if not names:
            return
        try:
            cluster = ClusterState(kafka_properties.for_librdkafka(self._settings.client))
            for name in sorted(names):
                cluster.create_topic(name, 1, {})
        except KafkaException as error:
            raise refused(str(error), is_permanent=False) from error

    def _writes_letters(self, output: Output, each: TopicInput) -> bool:
        return self._letters.get(each) == output.name
