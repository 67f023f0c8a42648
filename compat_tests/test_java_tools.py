"""Kafka's own command-line programs, from its jars, against the server under test."""

import re
import time
from pathlib import Path

import pytest

from compat_tests import jars

pytestmark = jars.needed

TOOLS = "org.apache.kafka.tools"
CONSUMER_GROUP = f"{TOOLS}.consumer.group.ConsumerGroupCommand"


def tool(bootstrap: str, name: str, *arguments: str, **options) -> str:
    """Run a tool that takes --bootstrap-server and return its standard output."""
    main_class = name if "." in name else f"{TOOLS}.{name}"
    return jars.java(main_class, "--bootstrap-server", bootstrap, *arguments, **options).stdout


def produce(bootstrap: str, topic: str, lines: str, *arguments: str) -> None:
    tool(bootstrap, "ConsoleProducer", "--topic", topic, *arguments, stdin=lines)


def consume(bootstrap: str, topic: str, count: int, *arguments: str) -> list[str]:
    out = tool(
        bootstrap,
        f"{TOOLS}.consumer.ConsoleConsumer",
        *("--topic", topic, "--from-beginning"),
        *("--max-messages", str(count), "--timeout-ms", "30000"),
        *arguments,
    )
    return out.splitlines()


def test_topics_are_made_described_altered_and_deleted(bootstrap, unique) -> None:
    topic = unique("java-topic")
    shape = ["--partitions", "2", "--replication-factor", "1", "--config", "retention.ms=99000"]
    out = tool(bootstrap, "TopicCommand", "--create", "--topic", topic, *shape)
    assert f"Created topic {topic}." in out
    out = tool(bootstrap, "TopicCommand", "--describe", "--topic", topic)
    assert "PartitionCount: 2" in out
    assert "ReplicationFactor: 1" in out
    assert "retention.ms=99000" in out
    assert re.search(r"Partition: 1\s+Leader: \d+\s+Replicas: \d+\s+Isr: \d+", out)
    tool(bootstrap, "TopicCommand", "--alter", "--topic", topic, "--partitions", "4")
    out = tool(bootstrap, "TopicCommand", "--describe", "--topic", topic)
    assert "PartitionCount: 4" in out
    assert topic in tool(bootstrap, "TopicCommand", "--list").split()
    tool(bootstrap, "TopicCommand", "--delete", "--topic", topic)
    assert topic not in tool(bootstrap, "TopicCommand", "--list").split()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_console_lines_pass_through(bootstrap, topics, codec) -> None:
    topic = topics.create("java-console")
    lines = [f"line {i} {'.' * (i % 50)}" for i in range(500)]
    produce(bootstrap, topic, "\n".join(lines) + "\n", "--compression-codec", codec)
    assert consume(bootstrap, topic, 500) == lines


def test_console_keys_headers_and_timestamps_are_shown(bootstrap, topics) -> None:
    topic = topics.create("java-format")
    properties = ["parse.key=true", "parse.headers=true"]
    flags = [word for item in properties for word in ("--reader-property", item)]
    produce(bootstrap, topic, "h1:a,h2:b\tkey\tvalue\n", *flags)
    shown = ["print.key=true", "print.headers=true", "print.offset=true", "print.timestamp=true"]
    flags = [word for item in shown for word in ("--formatter-property", item)]
    (line,) = consume(bootstrap, topic, 1, *flags)
    assert re.fullmatch(r"CreateTime:\d+\tOffset:0\th1:a,h2:b\tkey\tvalue", line)


def test_groups_are_listed_described_reset_and_deleted(bootstrap, topics, unique) -> None:
    topic, group = topics.create("java-group"), unique("java-group")
    produce(bootstrap, topic, "".join(f"{i}\n" for i in range(20)))
    assert len(consume(bootstrap, topic, 15, "--group", group)) == 15
    assert group in tool(bootstrap, CONSUMER_GROUP, "--list").split()

    def row() -> list[str]:
        out = tool(bootstrap, CONSUMER_GROUP, "--describe", "--group", group)
        return next(line.split() for line in out.splitlines() if topic in line)

    assert row()[1:6] == [topic, "0", "15", "20", "5"]
    out = tool(bootstrap, CONSUMER_GROUP, "--describe", "--group", group, "--state")
    assert "Empty" in out
    reset = ["--reset-offsets", "--group", group, "--topic", topic, "--to-offset", "3"]
    tool(bootstrap, CONSUMER_GROUP, *reset, "--execute")
    assert row()[3:6] == ["3", "20", "17"]
    delete = ["--delete-offsets", "--group", group, "--topic", topic]
    assert "Successful" in tool(bootstrap, CONSUMER_GROUP, *delete)
    tool(bootstrap, CONSUMER_GROUP, "--delete", "--group", group)
    assert group not in tool(bootstrap, CONSUMER_GROUP, "--list").split()


def test_offsets_are_got_by_end_time_and_partition(bootstrap, topics) -> None:
    topic = topics.create("java-offsets", partitions=2)
    produce(bootstrap, topic, "".join(f"{i}\n" for i in range(10)))

    def total(spec: str) -> int:
        out = tool(bootstrap, "GetOffsetShell", "--topic", topic, "--time", spec)
        return sum(int(line.rpartition(":")[2] or 0) for line in out.splitlines())

    assert total("latest") == 10
    assert total("earliest") == 0
    assert total("1") == 0
    now = tool(bootstrap, "GetOffsetShell", "--topic", topic, "--time", "max-timestamp")
    assert topic in now


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_the_performance_tools_run_to_their_end(bootstrap, topics, codec) -> None:
    topic = topics.create("java-perf", partitions=2)
    settings = [f"bootstrap.servers={bootstrap}", "acks=all", f"compression.type={codec}"]
    out = jars.java(
        f"{TOOLS}.ProducerPerformance",
        *("--topic", topic, "--num-records", "50000", "--record-size", "200"),
        *("--throughput", "-1", "--producer-props", *settings),
    ).stdout
    assert "50000 records sent" in out
    out = tool(bootstrap, "ConsumerPerformance", "--topic", topic, "--messages", "50000")
    read = [line.split(", ") for line in out.splitlines() if re.match(r"\d{4}-", line)]
    assert int(read[-1][4]) == 50000


def test_configurations_are_changed_and_described(bootstrap, topics) -> None:
    topic = topics.create("java-config")
    command = "kafka.admin.ConfigCommand"
    entity = ["--entity-type", "topics", "--entity-name", topic]
    tool(bootstrap, command, "--alter", *entity, "--add-config", "segment.bytes=2000000")
    out = tool(bootstrap, command, "--describe", *entity)
    assert "segment.bytes=2000000" in out
    tool(bootstrap, command, "--alter", *entity, "--delete-config", "segment.bytes")
    assert "segment.bytes=2000000" not in tool(bootstrap, command, "--describe", *entity)
    everything = tool(bootstrap, command, "--describe", *entity, "--all")
    assert "cleanup.policy=delete" in everything


def test_log_directories_are_described(bootstrap, topics) -> None:
    topic = topics.create("java-dirs", partitions=2)
    produce(bootstrap, topic, "some\nlines\n")
    out = tool(bootstrap, "LogDirsCommand", "--describe", "--topic-list", topic)
    assert f'"partition":"{topic}-1"' in out
    assert re.search(r'"size":[1-9]', out)


def test_records_are_deleted_from_the_front(bootstrap, topics, tmp_path: Path) -> None:
    topic = topics.create("java-delete")
    produce(bootstrap, topic, "".join(f"{i}\n" for i in range(10)))
    wanted = tmp_path / "offsets.json"
    partition = f'{{"topic": "{topic}", "partition": 0, "offset": 4}}'
    wanted.write_text(f'{{"partitions": [{partition}], "version": 1}}')
    out = tool(bootstrap, "DeleteRecordsCommand", "--offset-json-file", str(wanted))
    assert "low_watermark: 4" in out
    assert consume(bootstrap, topic, 6) == ["4", "5", "6", "7", "8", "9"]


def test_the_verifiable_producer_has_every_record_acknowledged(bootstrap, topics) -> None:
    topic = topics.create("java-verifiable")
    wanted = ["--max-messages", "1000", "--acks", "-1", "--throughput", "-1"]
    out = tool(bootstrap, "VerifiableProducer", "--topic", topic, *wanted)
    assert '"acked":1000' in out
    assert out.count('"producer_send_success"') == 1000


def test_the_quorum_is_described(bootstrap) -> None:
    out = tool(bootstrap, "MetadataQuorumCommand", "describe", "--status")
    assert re.search(r"LeaderId:\s+\d+", out)
    assert re.search(r"HighWatermark:\s+[1-9]", out)
    assert "CurrentVoters:" in out


def test_api_versions_tool_lists_every_api(bootstrap) -> None:
    out = tool(bootstrap, "BrokerApiVersionsCommand")
    assert bootstrap in out
    assert re.search(r"Produce\(0\): 0 to 13", out)
    assert re.search(r"Fetch\(1\): 4 to 1[78]", out)
    assert re.search(r"ListOffsets\(2\): 1 to 11", out)


def test_the_cluster_has_an_id(bootstrap) -> None:
    out = jars.java(f"{TOOLS}.ClusterTool", "cluster-id", "--bootstrap-server", bootstrap).stdout
    assert re.search(r"Cluster ID: \S{22}", out)


def test_features_are_described(bootstrap) -> None:
    out = jars.java(f"{TOOLS}.FeatureCommand", "--bootstrap-server", bootstrap, "describe").stdout
    assert re.search(r"Feature: metadata.version\s.*FinalizedVersionLevel: 4\.\d", out)


def test_end_to_end_latency_is_measured(bootstrap, topics) -> None:
    topic = topics.create("java-latency")
    started = time.monotonic()
    out = jars.java(f"{TOOLS}.EndToEndLatency", bootstrap, topic, "200", "1", "100").stdout
    assert "Percentiles: 50th" in out
    assert time.monotonic() - started < 60
