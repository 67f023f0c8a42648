"""The state of the cluster that jobs read: topics, ids, offsets."""

import importlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs
from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)

from barnabas.client.failures import AuthenticationError
from barnabas.pipeline.delivery.plan import offset_metadata
from barnabas.pipeline.delivery.plan.job_plan import JobFailure
from barnabas.pipeline.delivery.plan.librdkafka_tokens import check_tokens
from barnabas.pipeline.delivery.plan.start_positions import PartitionState
from barnabas.pipeline.delivery.plan.task_failures import JobStartError, refused
from barnabas.pipeline.delivery.writing.record_producer import QUIET
from barnabas.pipeline.delivery.writing.transactional_producer import committed, offset_reader

_TIMEOUT_S: Final = 30.0
_NO_IDS: Final[Mapping[str, str]] = {}
_NO_TOPIC: Final = "UNKNOWN_TOPIC_OR_PART"
# The package has too few annotations to be type-checked.
_admin: Final[Any] = importlib.import_module("confluent_kafka.admin")
_READ_COMMITTED: Final = IsolationLevel.READ_COMMITTED


@attrs.frozen
class Topic:
    """A topic as the cluster has it now."""

    name: str
    topic_id: str
    partitions: int
    is_internal: bool = False
    """True for topics of the cluster, such as `__consumer_offsets`."""
    replicas: int = 0
    """The number of replicas of its first partition."""


def check_topic(topic: Topic, known_id: str | None, remedy: str) -> None:
    """Raise JobStartError when a topic is not the one that had a known id.

    `{topic}` in the remedy is the topic's name.
    """
    if known_id is not None and known_id != topic.topic_id:
        raise refused(
            f"topic {topic.name} was recreated: its id was {known_id}, is {topic.topic_id}; "
            f"{remedy.format(topic=topic.name)}"
        )


def changed_topic(
    cluster: "ClusterState", topic_ids: Mapping[str, str], remedy: str
) -> JobFailure | None:
    """Return the failure of a job whose topic was deleted or created again."""
    now = cluster.topics(list(topic_ids))
    for name, known_id in topic_ids.items():
        topic = now.get(name)
        if topic is None:
            return JobFailure(f"topic {name} was deleted", is_permanent=True)
        try:
            check_topic(topic, known_id, remedy)
        except JobStartError as error:
            return error.failure
    return None


def _result(future: Any) -> Any:
    """Return what the cluster answers. Raises KafkaException, also when the time is over."""
    try:
        return future.result(_TIMEOUT_S)
    except TimeoutError:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from None


class ClusterState:
    """Reads from the cluster; every call blocks and raises KafkaException when it fails.

    So does the construction, when there is no token for the clients.
    """

    def __init__(self, properties: Mapping[str, Any]) -> None:
        try:
            check_tokens(properties)
        except AuthenticationError as error:
            raise KafkaException(KafkaError(KafkaError._AUTHENTICATION, str(error))) from None
        self._properties = properties
        self._client: Any = _admin.AdminClient({**properties, "logger": QUIET})

    def topics(self, names: Sequence[str]) -> dict[str, Topic | None]:
        """Return the named topics; None for those that do not exist."""
        if not names:
            return {}
        futures = self._client.describe_topics(
            TopicCollection(list(names)), request_timeout=_TIMEOUT_S
        )
        found: dict[str, Topic | None] = {}
        for name, future in futures.items():
            try:
                described = _result(future)
            except KafkaException as exception:
                if exception.args[0].name() != _NO_TOPIC:
                    raise
                found[name] = None
            else:
                found[name] = Topic(
                    name,
                    offset_metadata.url_safe(str(described.topic_id)),
                    len(described.partitions),
                    bool(described.is_internal),
                    len(described.partitions[0].replicas),
                )
        return found

    def source_topics(self, names: Sequence[str], pattern: str | None) -> list[Topic]:
        """Return the topics of a subscription; a pattern selects no internal topics.

        Raises JobStartError when one does not exist.
        """
        named = self.names_like(pattern) if pattern is not None else list(names)
        found: list[Topic] = []
        for name, topic in self.topics(named).items():
            if topic is None:
                raise refused(f"topic {name} does not exist", is_permanent=False)
            if pattern is None or not topic.is_internal:
                found.append(topic)
        return found

    def names_like(self, pattern: str) -> list[str]:
        """Return the names of topics that a pattern matches whole."""
        metadata = self._client.list_topics(timeout=_TIMEOUT_S)
        return sorted(name for name in metadata.topics if re.fullmatch(pattern, name))

    def topics_between(self, job: str) -> list[str]:
        """Return the topics between queries of a job, each named as the query that writes it."""
        return self.names_like(f"{re.escape(job)}-.+-repartition")

    def cluster_id(self) -> str:
        """Return the id of the cluster."""
        return self._client.list_topics(timeout=_TIMEOUT_S).cluster_id or ""

    def replicas(self) -> dict[str, tuple[int, ...]]:
        """Return all topics, with the number of replicas of each partition."""
        metadata = self._client.list_topics(timeout=_TIMEOUT_S)
        return {
            name: tuple(len(topic.partitions[each].replicas) for each in sorted(topic.partitions))
            for name, topic in sorted(metadata.topics.items())
        }

    def log_ranges(self, topics: Sequence[Topic]) -> dict[tuple[str, int], tuple[int, int]]:
        """Return the log start offset and the end of each partition."""
        pairs = [(topic.name, number) for topic in topics for number in range(topic.partitions)]
        if not pairs:
            return {}
        starts = self.log_starts(pairs)
        ends = self._offsets(pairs, _admin.OffsetSpec.latest())
        return {pair: (starts[pair], ends[pair]) for pair in pairs}

    def ends(self, pairs: Sequence[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Return the end of what read_committed shows of each partition."""
        return self._offsets(pairs, _admin.OffsetSpec.latest(), isolation_level=_READ_COMMITTED)

    def log_starts(self, pairs: Sequence[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Return the log start offsets of partitions."""
        return self._offsets(pairs, _admin.OffsetSpec.earliest())

    def partition_states(
        self,
        group_id: str,
        topics: Sequence[Topic],
        known_ids: Mapping[str, str] = _NO_IDS,
        *,
        offset_reset: str | None = None,
    ) -> list[PartitionState]:
        """Return offsets of all partitions, and what the group has committed for them.

        With `offset_reset` the tasks of the job read the group's offsets again when they begin, and
        end the transactions of killed workers then. So the states may have offsets before open
        transactions: waiting for their end would take a minute.
        """
        ranges = self.log_ranges(topics)
        if not ranges:
            return []
        stable_ends = self.ends(list(ranges))
        positions: list[TopicPartition] | None = None
        if offset_reset is not None:
            reader = offset_reader(group_id, self._properties, is_stable=False)
            positions = committed(reader, list(ranges))
            if not all(_is_known(each, ranges, offset_reset) for each in positions):
                positions = None
        if positions is None:
            positions = committed(offset_reader(group_id, self._properties), list(ranges))
        ids = {topic.name: topic.topic_id for topic in topics}
        states: list[PartitionState] = []
        for position in positions:
            pair = (position.topic, position.partition)
            has_position = position.offset >= 0
            noted = offset_metadata.decode(position.metadata)
            states.append(
                PartitionState(
                    *pair,
                    start=ranges[pair][0],
                    end=ranges[pair][1],
                    committed=max(position.offset, noted.position) if has_position else None,
                    committed_topic_id=noted.topic_id if has_position else None,
                    topic_id=ids[position.topic],
                    known_topic_id=known_ids.get(position.topic),
                    stable_end=stable_ends[pair],
                )
            )
        return states

    def record_bytes_max(self, topic: str) -> int | None:
        """Return `max.message.bytes` of a topic, None when the topic does not exist."""
        try:
            return int(self._topic_config(topic, "max.message.bytes"))
        except (KafkaException, KeyError, TypeError, ValueError):
            return None

    def is_compacted(self, topic: str) -> bool:
        """True for a topic that is compacted, as far as its configuration may be read."""
        try:
            return "compact" in str(self._topic_config(topic, "cleanup.policy"))
        except (KafkaException, KeyError):
            return False

    def retention_ms(self, topic: str) -> int | None:
        """Return `retention.ms` of a topic, None where its configuration may not be read."""
        try:
            return int(self._topic_config(topic, "retention.ms"))
        except (KafkaException, KeyError, TypeError, ValueError):
            return None

    def _topic_config(self, topic: str, name: str) -> Any:
        """Return a property of a topic. Raises KafkaException, KeyError."""
        resource = _admin.ConfigResource(_admin.ConfigResource.Type.TOPIC, topic)
        future = self._client.describe_configs([resource], request_timeout=_TIMEOUT_S)[resource]
        return _result(future)[name].value

    def transaction_ms_max(self) -> int | None:
        """Return the least `transaction.max.timeout.ms` of the brokers, None when one hides it."""
        brokers = self._client.list_topics(timeout=_TIMEOUT_S).brokers
        resources = [
            _admin.ConfigResource(_admin.ConfigResource.Type.BROKER, str(each)) for each in brokers
        ]
        futures = self._client.describe_configs(resources, request_timeout=_TIMEOUT_S).values()
        try:
            return min(int(_result(each)["transaction.max.timeout.ms"].value) for each in futures)
        except (KafkaException, KeyError, TypeError, ValueError):
            return None

    def create_topic(
        self, name: str, partitions: int, config: Mapping[str, str], replication: int = -1
    ) -> None:
        """Create a topic unless it exists; -1 is the cluster's replication factor."""
        new = _admin.NewTopic(name, partitions, replication, config=dict(config))
        future = self._client.create_topics([new], operation_timeout=_TIMEOUT_S)[name]
        try:
            _result(future)
        except KafkaException as exception:
            if exception.args[0].name() != "TOPIC_ALREADY_EXISTS":
                raise

    def delete_topic(self, name: str) -> None:
        """Delete a topic, if it exists."""
        future = self._client.delete_topics([name], operation_timeout=_TIMEOUT_S)[name]
        try:
            _result(future)
        except KafkaException as exception:
            if exception.args[0].name() != _NO_TOPIC:
                raise

    def delete_records(self, ends: Mapping[tuple[str, int], int]) -> None:
        """Delete the records of partitions before these offsets."""
        wanted = [TopicPartition(*place, offset) for place, offset in ends.items()]
        futures = self._client.delete_records(wanted, request_timeout=_TIMEOUT_S)
        for future in futures.values():
            _result(future)

    def create_dead_letter_topic(self, properties: Mapping[str, str]) -> None:
        """Create the topic for dead letters that a job's properties name, if they name one."""
        prefix = "errors.deadletterqueue.topic"
        if name := properties.get(f"{prefix}.name", "").strip():
            self.create_topic(name, 1, {}, int(properties.get(f"{prefix}.replication.factor", "3")))

    def _offsets(
        self, pairs: Sequence[tuple[str, int]], which: Any, **more: Any
    ) -> dict[tuple[str, int], int]:
        wanted = {TopicPartition(topic, partition): which for topic, partition in pairs}
        futures = self._client.list_offsets(wanted, request_timeout=_TIMEOUT_S, **more)
        return {
            (entry.topic, entry.partition): _result(future).offset
            for entry, future in futures.items()
        }


def _is_known(
    position: TopicPartition, ranges: Mapping[tuple[str, int], tuple[int, int]], offset_reset: str
) -> bool:
    """True when a job that starts at a position skips no record that it has not written.

    A later position, of a transaction that is being committed, must count where there is none and
    the job would start at the end, or where the position is before the log's start.
    """
    if position.offset < 0:
        return offset_reset == "earliest"
    return position.offset >= ranges[position.topic, position.partition][0]


def existing_topics(
    cluster: ClusterState,
    names: Sequence[str],
    pattern: str | None,
    known_ids: Mapping[str, str],
    remedy: str,
) -> list[Topic]:
    """Return the topics of a subscription.

    Raises JobStartError when one does not exist, none matches, or one is not that of a known id.
    """
    found = cluster.source_topics(names, pattern)
    for topic in found:
        check_topic(topic, known_ids.get(topic.name), remedy)
    if not found:
        raise refused("no topic matches the subscription", is_permanent=False)
    return found
