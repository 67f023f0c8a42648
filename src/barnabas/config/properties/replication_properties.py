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
from barnabas.config.schema import Range

# A table, read a row at a time.
# fmt: off
PROPERTIES: tuple[P, ...] = (
    P("num.replica.alter.log.dirs.threads", INT, None, HIGH,
      "Threads that move replicas between directories; unset, one for each directory."),
    P("controlled.shutdown.enable", BOOLEAN, True, MEDIUM,
      "Hand leadership over before stopping."),
    P("max.incremental.fetch.session.cache.slots", INT, 1000, MEDIUM,
      "Fetch sessions that are kept; when all are taken, new consumers fetch without one.",
      validator=Range(0), has_effect=True),
    P("fetch.max.bytes", INT, 57_671_680, MEDIUM,
      "Most bytes in one answer to a fetch, whatever the client asks for; a first batch above "
      "it comes whole.",
      validator=Range(1024), has_effect=True),
    P("max.request.partition.size.limit", INT, 2000, MEDIUM,
      "Most partitions in one answer of DescribeTopicPartitions.",
      validator=Range(1), has_effect=True),
    P("default.replication.factor", INT, 1, MEDIUM,
      "Replicas of a topic that does not say how many it wants, also of one created on first "
      "use.",
      has_effect=True),
    P("replica.lag.time.max.ms", LONG, 30000, HIGH,
      "Milliseconds behind the end of the leader's log after which a follower leaves the in- "
      "sync replicas."),
    P("replica.socket.timeout.ms", INT, 30000, HIGH,
      "Milliseconds that a follower waits for an answer of its leader; not below "
      "replica.fetch.wait.max.ms."),
    P("replica.socket.receive.buffer.bytes", INT, 65536, HIGH,
      "Receive buffer of a follower's connection to its leader."),
    P("replica.fetch.max.bytes", INT, 1_048_576, MEDIUM,
      "Bytes that a follower asks for of each partition; a larger batch comes whole.",
      validator=Range(0)),
    P("replica.fetch.wait.max.ms", INT, 500, HIGH,
      "Milliseconds that a leader may hold a follower's fetch open."),
    P("replica.fetch.backoff.ms", INT, 1000, MEDIUM,
      "Milliseconds that a follower waits after a partition's fetch failed.",
      validator=Range(0)),
    P("replica.fetch.min.bytes", INT, 1, HIGH,
      "Bytes that a follower's fetch waits for."),
    P("replica.fetch.response.max.bytes", INT, 10_485_760, MEDIUM,
      "Bytes that a follower asks for in one answer over all partitions.",
      validator=Range(0)),
    P("num.replica.fetchers", INT, 1, HIGH,
      "Fetches that a follower keeps going at a time to each leader.",
      validator=Range(1), dynamic=CLUSTER_WIDE),
    P("replica.high.watermark.checkpoint.interval.ms", LONG, 5000, HIGH,
      "Milliseconds between two writes of the high watermarks to disk."),
    P("fetch.purgatory.purge.interval.requests", INT, 1000, MEDIUM,
      "Fetches after which Kafka clears finished waits from memory. Barnabas forgets a wait "
      "when it ends."),
    P("producer.purgatory.purge.interval.requests", INT, 1000, MEDIUM,
      "As fetch.purgatory.purge.interval.requests, for Produce."),
    P("delete.records.purgatory.purge.interval.requests", INT, 1, MEDIUM,
      "As fetch.purgatory.purge.interval.requests, for DeleteRecords."),
    P("auto.leader.rebalance.enable", BOOLEAN, True, HIGH,
      "Give leadership back to the preferred replicas from time to time."),
    P("leader.imbalance.check.interval.seconds", LONG, 300, HIGH,
      "Seconds between two looks at whether leadership should go back.",
      validator=Range(1)),
    P("unclean.leader.election.interval.ms", LONG, 300_000, MEDIUM,
      "Milliseconds between two looks for partitions that may elect a leader uncleanly.",
      validator=Range(1), internal=True),
    P("unclean.leader.election.enable", BOOLEAN, False, HIGH,
      "Let a replica that is not in sync lead when no other is left. Records that only others "
      "had are lost.",
      dynamic=CLUSTER_WIDE, has_effect=True),
    P("replica.selector.class", STRING, None, MEDIUM,
      "Class that chooses which replica a consumer reads from; unset, the leader."),
    P("min.insync.replicas", INT, 1, HIGH,
      "In-sync replicas without which a write with acks=all is refused.",
      validator=Range(1), dynamic=CLUSTER_WIDE, has_effect=True),
)

# Set by AlterConfigs alone, never in a file (`DynamicConfig.Broker`).
DYNAMIC_ONLY: tuple[P, ...] = (
    P("leader.replication.throttled.rate", LONG, LONG_MAX, MEDIUM,
      "Bytes a second that a leader sends to the throttled replicas of all topics together.",
      validator=Range(0), dynamic=PER_BROKER),
    P("follower.replication.throttled.rate", LONG, LONG_MAX, MEDIUM,
      "Bytes a second that a follower fetches for its throttled replicas.",
      validator=Range(0), dynamic=PER_BROKER),
    P("replica.alter.log.dirs.io.max.bytes.per.second", LONG, LONG_MAX, MEDIUM,
      "Bytes a second that are copied between the directories of one broker.",
      validator=Range(0), dynamic=PER_BROKER),
)
