"""The queries of an app: their rows, their plans, and the start of their jobs."""

import functools
from collections.abc import Callable, Iterable, Mapping

import attrs
from confluent_kafka import KafkaException

from barnabas.config import ConfigError
from barnabas.pipeline.delivery.driver import frame_sources
from barnabas.pipeline.delivery.driver.cluster_state import ClusterState, check_topic
from barnabas.pipeline.delivery.driver.spark_library import DataFrame
from barnabas.pipeline.delivery.forward import frame_job
from barnabas.pipeline.delivery.micro_batches import micro_batch_job, micro_batch_removal
from barnabas.pipeline.delivery.micro_batches.checkpoint_files import CheckpointFiles
from barnabas.pipeline.delivery.plan import kafka_properties
from barnabas.pipeline.delivery.plan.job_plan import (
    REBUILD,
    Guarantee,
    JobKind,
    JobPlan,
    OnTrim,
    RunningJob,
)
from barnabas.pipeline.delivery.plan.task_failures import refused
from barnabas.pipeline.delivery.writing.transactional_producer import (
    committed,
    offset_reader,
    partitions_of,
)
from barnabas.pipeline.streams import (
    joined_topics,
    operator_chains,
    output_frames,
    repartition_topics,
)
from barnabas.pipeline.streams.app_chains import AppChains
from barnabas.pipeline.streams.known_topics import GivenTopics, KnownTopics
from barnabas.pipeline.streams.operator_chains import ChainedRecords
from barnabas.pipeline.streams.output_frames import Letters, OutputError, OutputSerdes
from barnabas.pipeline.streams.record_stream import Stream
from barnabas.pipeline.streams.record_table import Table
from barnabas.pipeline.streams.repartition_topics import RepartitionTrimmer
from barnabas.pipeline.streams.serdes import Bytes
from barnabas.pipeline.streams.state_directory import StateDirectory, check_name
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

    @property
    def records_frame(self) -> DataFrame:
        """Return the rows before they get the columns of a delivery."""
        found = self.records
        return found.frame if isinstance(found, Stream | Table) else found


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
    topic_ids: Mapping[str, str] | None = None
    """The ids of the topics that the app reads, where its host keeps them; None: the app does."""

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
        self._chains = AppChains()
        self._topics: KnownTopics | GivenTopics = (
            KnownTopics(settings.app, settings.client)
            if settings.topic_ids is None
            else GivenTopics(settings.topic_ids)
        )

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

    def chained(self, name: str, records: ChainedRecords) -> ChainedRecords:
        """Add a query that writes records to the topic of a name, unless there is one.

        Returns the records as another query reads them from the topic. Raises OutputError,
        ValueError.
        """
        topic = f"{self._settings.app}-{name}-repartition"
        if topic in self._chains.links:
            return self._chains.links[topic]
        check_name(topic)
        limit = max(each.records_max for each in records.inputs)
        kept = (OnError.FAIL, "", "earliest", limit, self._settings.client)
        given = TopicInput(topic, Bytes(), Bytes(), None, *kept)
        frame = operator_chains.restored(self._read(given), records.frame)
        stream = Stream(
            operator_chains.written(records.frame),
            records.inputs,
            records.output_mode,
            joined_topics=records.joined_topics,
        )
        serdes = OutputSerdes(Bytes(), Bytes())
        self.add(Output(topic, stream, topic, serdes, Guarantee.EXACTLY_ONCE, records.output_mode))
        self._chains.links[topic] = found = ChainedRecords(frame, (given,))
        return found

    def needed(self) -> list[StreamQuery]:
        """Return the queries that run: no query for a topic that no other one reads."""
        return [self.queries[name] for name in self._chains.needed(self._inputs)]

    def trimmer(self) -> RepartitionTrimmer:
        """Return what deletes the records of chains that all queries have read."""
        return RepartitionTrimmer(self._settings.client, self.readers())

    def readers(self) -> dict[str, list[str]]:
        """Return the queries that read each topic between two queries."""
        return self._chains.readers(self._inputs)

    @property
    def _inputs(self) -> dict[str, tuple[TopicInput, ...]]:
        return {name: self._inputs_of(output) for name, output in self.outputs.items()}

    def _inputs_of(self, output: Output) -> tuple[TopicInput, ...]:
        """Return the topics of a query; of a DataFrame, those between queries."""
        if isinstance(output.records, Stream | Table):
            return output.inputs
        links = self._chains.links
        topics = frame_sources.kafka_topics(output.records)
        return tuple(each for topic in topics if topic in links for each in links[topic].inputs)

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
        letters = Letters(self._letters_of(output), self._settings.app)
        return output_frames.of_records(output.records, output.topic, output.serdes, letters)

    def forget(self, names: Iterable[str]) -> None:
        """Forget positions and state of queries that do not run, and of those chained with them.

        Topics between queries are deleted first: when this ends before all is forgotten, the
        queries of a chain refuse to start. Raises ConfigError, KafkaException, GroupOffsetsError,
        TimeoutError.
        """
        properties = kafka_properties.for_librdkafka(self._settings.client)
        connected = self._chains.connected(names, self._inputs)
        cluster = ClusterState(properties)
        for name in connected:
            if name in self._chains.links:
                cluster.delete_topic(name)
        for name in connected:
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
        self._prepare_chains(output)
        if output.output_mode is None:
            plan = attrs.evolve(plan, topic_ids=self._known_ids(output.name))
            remember = functools.partial(self._topics.remember, output.name)
            has_all_records = isinstance(output.records, Stream | Table)
            return frame_job.start(
                plan,
                rows,
                state.work,
                remember,
                has_all_records=has_all_records,
                is_one_target=has_all_records and not self._letters_of(output),
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

    def _prepare_chains(self, output: Output) -> None:
        """Create the topics of chains that a query writes and reads, and check them.

        Raises JobStartError.
        """
        read = self._chains.read_by(self._inputs_of(output))
        written = [output.name] if output.name in self._chains.links else []
        if not read and not written:
            return
        try:
            cluster = ClusterState(kafka_properties.for_librdkafka(self._settings.client))
            for topic in (*read, *written):
                sources = self._chains.sources(topic, self._inputs)
                repartition_topics.create(cluster, topic, sources)
            for topic in written:
                self._remember_target(cluster, topic)
            for topic in read:
                if not self._has_read(output.name, topic):
                    repartition_topics.check_whole(cluster, topic, output.name)
        except (ConfigError, KafkaException, TimeoutError) as error:
            raise refused(str(error), is_permanent=isinstance(error, ConfigError)) from error

    def _remember_target(self, cluster: ClusterState, topic: str) -> None:
        """Keep the id of a chain's topic for the next start of the query that writes it.

        Raises JobStartError when the topic is another one than before, KafkaException.
        """
        (found,) = cluster.source_topics([topic], None)
        check_topic(found, self._topics.of(topic).get(topic), REBUILD)
        self._topics.remember(topic, {topic: found.topic_id})

    def _has_read(self, query: str, topic: str) -> bool:
        """True when a query has a position in a topic. Raises KafkaException."""
        if topic in CheckpointFiles(self._settings.state.checkpoint(query)).positions():
            return True
        client = kafka_properties.for_librdkafka(self._settings.client)
        places = partitions_of(query, client, [topic])
        reader = offset_reader(query, client, is_stable=False)
        return any(each.offset >= 0 for each in committed(reader, places))

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

    def _letters_of(self, output: Output) -> tuple[str, ...]:
        """Return the topics whose dead letters a query writes."""
        return tuple(each.topic for each in output.inputs if self._writes_letters(output, each))

    def _writes_letters(self, output: Output, each: TopicInput) -> bool:
        return self._letters.get(each) == output.name
