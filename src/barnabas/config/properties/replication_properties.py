"""Fetching, replicas and the choice of leaders."""

from barnabas.config.properties.vocabulary import (
    BOOLEAN,
    CLUSTER_WIDE,
    HIGH,
    INT,
    LONG,
    LONG_MAX,
    MEDIUM,
    PER_BROKER,
    STRING,
    P,
)
from barnabas.config.schema import Check, Range

_SELECTORS = (
    "org.apache.kafka.common.replica.LeaderSelector",
    "org.apache.kafka.common.replica.RackAwareReplicaSelector",
)


def _selector_refusal(value: str | None) -> str | None:
    """Refuse Java classes other than those that come with Kafka."""
    if value is None or value in _SELECTORS:
        return None
    return f"it must be one of: {', '.join(_SELECTORS)}"


# A table, read a row at a time.
# fmt: off
PROPERTIES: tuple[P, ...] = (
    P("num.replica.alter.log.dirs.threads", INT, None, HIGH,
      "Threads that move replicas between directories; unset, one for each directory."),
    P("controlled.shutdown.enable", BOOLEAN, True, MEDIUM,
      "Move leadership to other brokers before stopping.",
      has_effect=True),
    P("max.incremental.fetch.session.cache.slots", INT, 1000, MEDIUM,
      "Fetch sessions that are kept; when all are taken, new consumers fetch without one.",
      validator=Range(0), has_effect=True),
    P("fetch.max.bytes", INT, 57_671_680, MEDIUM,
      "Largest fetch response in bytes, regardless of the client's limit; a larger first "
      "batch is sent whole.",
      validator=Range(1024), has_effect=True),
    P("max.request.partition.size.limit", INT, 2000, MEDIUM,
      "Most partitions in one answer of DescribeTopicPartitions.",
      validator=Range(1), has_effect=True),
    P("default.replication.factor", INT, 1, MEDIUM,
      "Replicas of a topic that is created without a replication factor.",
      has_effect=True),
    P("replica.lag.time.max.ms", LONG, 30000, HIGH,
      "Milliseconds behind the end of the leader's log after which a follower leaves the "
      "in-sync replicas.",
      has_effect=True),
    P("replica.socket.timeout.ms", INT, 30000, HIGH,
      "Milliseconds that a follower waits for an answer of its leader; not below "
      "replica.fetch.wait.max.ms.",
      has_effect=True),
    P("replica.socket.receive.buffer.bytes", INT, 65536, HIGH,
      "Receive buffer of a follower's connection to its leader. The system chooses it when the "
      "property is -1 or not set.",
      has_effect=True),
    P("replica.fetch.max.bytes", INT, 1_048_576, MEDIUM,
      "Bytes that a follower requests of each partition; a larger batch is sent whole.",
      validator=Range(0), has_effect=True),
    P("replica.fetch.wait.max.ms", INT, 500, HIGH,
      "Milliseconds that a leader may hold a follower's fetch open.",
      has_effect=True),
    P("replica.fetch.backoff.ms", INT, 1000, MEDIUM,
      "Milliseconds that a follower waits after a partition's fetch failed; less after the "
      "first failures, which pass soon after a change of leader.",
      validator=Range(0), has_effect=True),
    P("replica.fetch.min.bytes", INT, 1, HIGH,
      "Bytes that a follower's fetch waits for.",
      has_effect=True),
    P("replica.fetch.response.max.bytes", INT, 10_485_760, MEDIUM,
      "Bytes that a follower requests in one response over all partitions.",
      validator=Range(0), has_effect=True),
    P("num.replica.fetchers", INT, 1, HIGH,
      "Concurrent fetches of a follower to each leader.",
      validator=Range(1), dynamic=CLUSTER_WIDE, has_effect=True),
    P("replica.high.watermark.checkpoint.interval.ms", LONG, 5000, HIGH,
      "Milliseconds between two writes of the high watermarks to disk.",
      has_effect=True),
    P("fetch.purgatory.purge.interval.requests", INT, 1000, MEDIUM,
      "Fetches after which Kafka removes completed waits from memory. Barnabas removes a wait "
      "when it ends."),
    P("producer.purgatory.purge.interval.requests", INT, 1000, MEDIUM,
      "The same as fetch.purgatory.purge.interval.requests, for Produce."),
    P("delete.records.purgatory.purge.interval.requests", INT, 1, MEDIUM,
      "The same as fetch.purgatory.purge.interval.requests, for DeleteRecords."),
    P("auto.leader.rebalance.enable", BOOLEAN, True, HIGH,
      "Move leadership back to the preferred replicas at an interval.",
      has_effect=True),
    P("leader.imbalance.check.interval.seconds", LONG, 300, HIGH,
      "Interval in seconds of the check for leadership to move back.",
      validator=Range(1), has_effect=True),
    P("unclean.leader.election.interval.ms", LONG, 300_000, MEDIUM,
      "Interval in milliseconds of the check for partitions that may elect a leader uncleanly.",
      validator=Range(1), internal=True, has_effect=True),
    P("unclean.leader.election.enable", BOOLEAN, False, HIGH,
      "Allow a replica that is not in sync to lead when no other is available. Records that "
      "only the others have are lost.",
      dynamic=CLUSTER_WIDE, has_effect=True),
    P("replica.selector.class", STRING, None, MEDIUM,
      "Class that chooses which replica a consumer reads from; unset, the leader.",
      validator=Check("", _selector_refusal), has_effect=True),
    P("min.insync.replicas", INT, 1, HIGH,
      "In-sync replicas without which a write with acks=all is refused.",
      validator=Range(1), dynamic=CLUSTER_WIDE, has_effect=True),
)

# Set by AlterConfigs alone, never in a file (`DynamicConfig.Broker`).
DYNAMIC_ONLY: tuple[P, ...] = (
    P("leader.replication.throttled.rate", LONG, LONG_MAX, MEDIUM,
      "Bytes a second that a leader sends to the throttled replicas of all topics together.",
      validator=Range(0), dynamic=PER_BROKER, has_effect=True),
    P("follower.replication.throttled.rate", LONG, LONG_MAX, MEDIUM,
      "Bytes a second that a follower fetches for its throttled replicas.",
      validator=Range(0), dynamic=PER_BROKER, has_effect=True),
    P("replica.alter.log.dirs.io.max.bytes.per.second", LONG, LONG_MAX, MEDIUM,
      "Bytes a second that are copied between the directories of one broker.",
      validator=Range(0), dynamic=PER_BROKER, has_effect=True),
)
