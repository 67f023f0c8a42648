"""Commands against a server."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from barnabas.cli import consume_command, produce_command
from barnabas.cli.client_options import Client
from barnabas.cli.command_errors import CliError
from barnabas.testing import Node

from .conftest import Barnabas

BIG = "9" * 20


def test_topic_is_created_altered_and_deleted(barnabas: Barnabas, topic: str) -> None:
    listed = barnabas("topic", "list", "--json").data
    assert {"name": topic, "partitions": 3, "replicas": 1} in listed
    altered = barnabas("topic", "alter", topic, "-p", "4", "--set", "retention.ms=5000")
    assert altered.out == f"{topic} altered\n"
    (described,) = barnabas("topic", "describe", topic, "--json").data
    assert described["config"] == {"retention.ms": "5000"}
    assert [p["partition"] for p in described["partitions"]] == [0, 1, 2, 3]
    barnabas("topic", "alter", topic, "--unset", "retention.ms")
    shown = barnabas("topic", "describe", topic)
    assert "own properties: none" in shown.lines[0]
    assert shown.lines[1].split() == [
        *("PARTITION", "LEADER", "REPLICAS", "IN", "SYNC", "EARLIEST", "LATEST")
    ]
    assert barnabas("topic", "delete", topic).out == f"{topic} deleted\n"
    assert topic not in barnabas("topic", "list").out


def test_dry_run_changes_nothing(barnabas: Barnabas, topic: str) -> None:
    other = f"{topic}-other"
    assert barnabas("topic", "create", other, "--dry-run").out == f"{other} could be created\n"
    assert other not in barnabas("topic", "list").out
    assert barnabas("topic", "alter", topic, "-p", "9", "--dry-run").code == 0
    (described,) = barnabas("topic", "describe", topic, "--json").data
    assert len(described["partitions"]) == 3


def test_assignment_places_replicas(barnabas: Barnabas, topic: str) -> None:
    node = barnabas("cluster", "--json").data["nodes"][0]["id"]
    name = f"{topic}-placed"
    assert barnabas("topic", "create", name, "--assignment", f"{node},{node}").code == 0
    (described,) = barnabas("topic", "describe", name, "--json").data
    assert [p["replicas"] for p in described["partitions"]] == [[node], [node]]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["topic", "create", "{topic}"], 1, "use --if-not-exists"),
        (["topic", "create", "a b"], 1, "(TOPIC_EXCEPTION)"),
        (["topic", "create", "{topic}2", "-r", "3"], 1, "--replicas must not exceed"),
        (["topic", "create", "{topic}2", "--set", "foo=1"], 1, "INVALID_CONFIG"),
        (["topic", "create", "{topic}2", "--set", "foo"], 2, "'foo' for --set"),
        (["topic", "create", "{topic}2", "--assignment", "x"], 2, "broker ids such as 1:2,2:1"),
        (["topic", "describe", "{topic}2"], 1, "see barnabas topic list"),
        (["topic", "delete", "{topic}2"], 1, "UNKNOWN_TOPIC_OR_PART"),
        (["topic", "create", "{topic}2", "--assignment", BIG], 2, "broker ids such as 1:2,2:1"),
        (["topic", "create", "{topic}2", "--replicas", BIG], 2, "is not in the range 1<=x<=32767"),
        (["topic", "alter", "{topic}", "-p", BIG], 2, "is not in the range 1<=x<=2147483647"),
        (["cluster", "reassign", "--plan", sys.executable], 1, "the plan is not"),
        (["user", "add", "u", "--password-file", sys.executable], 1, "is not text in UTF-8"),
        (["topic", "alter", "{topic}", "-p", "2"], 1, "INVALID_PARTITIONS"),
        (["topic", "alter", "{topic}"], 2, "Nothing to change"),
        (["topic", "lst"], 2, "list"),
        (["tpic"], 2, "No such command"),
        (["produce", "{topic}2"], 1, "create it with barnabas topic create {topic}2"),
        (["produce", "{topic}", "-p", "7"], 1, "no partition 7; its partitions are 0 to 2"),
        (["produce", "{topic}", "nowhere.txt"], 1, "file nowhere.txt does not exist"),
        (["produce", "{topic}", "--idempotent", "--acks", "1"], 2, "needs --acks all"),
        (["produce", "{topic}", "-X", "no.such=1"], 1, "no.such"),
        (["consume", "{topic}2"], 1, "does not exist; list topics"),
        (["consume", "{topic}", "-p", "7", "-e"], 1, "no partition 7; its partitions are 0 to 2"),
        (["consume", "{topic}", "-o", "5", "-e"], 1, "it must be from 0 to 0"),
        (["consume", "{topic}", "-o", "x"], 2, "earliest, latest, a number, or -N"),
        (["consume", "{topic}", "-b", "-o", "1"], 2, "Use only one of"),
        (["consume", "{topic}", "-g", "g", "-o", "1"], 2, "with group reset-offsets"),
        (["consume", "{topic}", "--template", "{{x}}"], 1, "unknown field {{x}}"),
        (["group", "describe", "{topic}"], 1, "does not exist; list groups"),
        (["group", "delete", "{topic}"], 1, "GROUP_ID_NOT_FOUND"),
        (["group", "list", "--state", "tired"], 2, "stable"),
        (["group", "reset-offsets", "{topic}", "--to", "latest"], 1, "has no offsets"),
        (["group", "reset-offsets", "{topic}"], 2, "Use exactly one of"),
        (["group", "reset-offsets", "{topic}", "--to", "x"], 2, "earliest, latest, or an offset"),
        (["config", "alter", "topic", "{topic}", "--set", "foo=1"], 1, "INVALID_CONFIG"),
        (["config", "describe", "broker", "99"], 1, "broker 99 does not run; the brokers are "),
        (["config", "alter", "broker", "x", "--set", "a=1"], 1, "broker x does not run"),
        (["config", "alter", "topic", "{topic}"], 2, "Nothing to change"),
    ],
)
def test_wrong_command_is_one_line_on_stderr(
    barnabas: Barnabas, topic: str, arguments: list[str], code: int, says: str
) -> None:
    done = barnabas(*(argument.format(topic=topic) for argument in arguments))
    assert (done.code, done.out) == (code, "")
    assert done.err.startswith("barnabas: ")
    assert done.err.count("\n") == 1
    assert says.format(topic=topic) in done.err


def test_consumed_lines_equal_produced_lines(barnabas: Barnabas, topic: str) -> None:
    lines = [f"line {number}" for number in range(100)]
    sent = barnabas("produce", topic, "-p", "0", stdin="\r\n".join(lines).encode())
    assert (sent.code, sent.out) == (0, "")
    assert sent.err == f"100 records, 690 bytes to {topic}\n"
    assert barnabas("consume", topic, "-b", "-e").lines == lines
    assert barnabas("consume", topic, "-b", "-n", "3").lines == lines[:3]
    assert barnabas("consume", topic, "-o", "-2", "-e").lines == lines[-2:]
    assert barnabas("consume", topic, "-o", "97", "-p", "0", "-e").lines == lines[97:]
    assert barnabas("consume", topic, "-e").lines == []
    assert barnabas("consume", topic, "-b", "--idle", "0.5").lines == lines


def test_consume_ends_when_its_topic_is_deleted(
    barnabas: Barnabas, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_lost, deleted = Client.check_lost, list[str]()

    def idle(client: Client, since: float) -> None:
        if not deleted:
            client.wait(client.admin.delete_topics([topic])[topic])
            deleted.append(topic)
        check_lost(client, since)

    monkeypatch.setattr(Client, "check_lost", idle)
    monkeypatch.setattr(consume_command, "_CHECK_S", 0.1)
    done = barnabas("consume", topic)
    assert (done.code, done.out) == (1, "")
    assert done.err == f"barnabas: topic {topic} does not exist any longer\n"


def test_record_that_is_not_acknowledged_names_a_deleted_topic(bootstrap: str, topic: str) -> None:
    client = Client(bootstrap, {}, 2.0)
    for name, says in ((topic, "no acknowledgement within 2 s"), ("gone", "does not exist")):
        sending = produce_command._Sending(
            client, client.producer(), name, partition=None, timestamp=None, headers=[]
        )
        sending._report(KafkaError(KafkaError._MSG_TIMED_OUT), None)
        with pytest.raises(CliError, match=f"topic {name}.*{says}.*; acknowledged: 0 records"):
            sending.check()


def test_record_that_would_be_written_differently_is_refused(
    barnabas: Barnabas, topic: str
) -> None:
    lines = b'{"value": "v", "timestamp": 1}\n{"value": "v", "timestamp": 0}\n'
    done = barnabas("produce", topic, "-f", "json", stdin=lines)
    assert done.code == 1
    assert "line 2: timestamp 0 cannot be written" in done.err
    for text, says in (("0", "timestamp 0 cannot be written"), ("9" * 20, "Invalid time")):
        done = barnabas("produce", topic, "--timestamp", text, stdin=b"v")
        assert done.code == 2
        assert says in done.err


def test_object_with_other_names_is_refused_and_not_sent_as_null(
    barnabas: Barnabas, topic: str
) -> None:
    done = barnabas("produce", topic, "-f", "json", stdin=b'{"user": "alice", "ms": 5}')
    assert done.code == 1
    assert "line 1: a record has no 'user'" in done.err
    assert barnabas("consume", topic, "-b", "-e").out == ""


def test_topics_limit_decides_how_large_a_message_may_be(barnabas: Barnabas, topic: str) -> None:
    large = b"v" * 3_000_000
    done = barnabas("produce", topic, "-f", "raw", stdin=large)
    assert done.code == 1
    assert "raise the topic's max.message.bytes, or send less" in done.err
    assert barnabas("topic", "alter", topic, "--set", "max.message.bytes=4000000").code == 0
    assert barnabas("produce", topic, "-f", "raw", stdin=large).code == 0
    assert barnabas("consume", topic, "-b", "-n", "1", "-f", "raw").out == large.decode()


def test_json_has_all_parts_of_a_record(barnabas: Barnabas, topic: str) -> None:
    record = (
        '{"key": "k", "value": {"n": 1}, "headers": [["h", "1"]], "partition": 2, '
        '"timestamp": 1700000000000}'
    )
    shown = barnabas(
        "produce", topic, "-f", "json", "-H", "more=x", "--json", stdin=record.encode()
    ).data
    assert (shown["topic"], shown["records"]) == (topic, 1)
    (read,) = (barnabas("consume", topic, "-b", "-n", "1", "--json").data,)
    assert read == {
        "topic": topic,
        "partition": 2,
        "offset": 0,
        "timestamp": 1700000000000,
        "key": "k",
        "value": '{"n":1}',
        "headers": [["h", "1"], ["more", "x"]],
    }


def test_keys_nulls_and_files(barnabas: Barnabas, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "records"
    file.write_text("a=1\nb=NULL\n")
    options = ["-f", "key-value", "--key-separator", "=", "--null", "NULL", "-p", "1"]
    assert barnabas("produce", topic, str(file), str(file), *options).code == 0
    read = barnabas("consume", topic, "-b", "-e", "-f", "key-value", "--key-separator", "=")
    assert read.lines == ["a=1", "b=", "a=1", "b="]
    out = tmp_path / "out"
    barnabas("consume", topic, "-b", "-n", "2", "--template", "{key}:{value}", "--null", "-",
             "--output", str(out))  # fmt: skip
    assert out.read_text() == "a:1\nb:-\n"


def test_bad_line_stops_with_its_number(barnabas: Barnabas, topic: str) -> None:
    done = barnabas("produce", topic, "-f", "json", stdin=b'{"value": "ok"}\nnonsense\n')
    assert done.code == 1
    assert "standard input line 2: it is not JSON" in done.err


def test_raw_file_is_one_record(barnabas: Barnabas, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "image"
    file.write_bytes(b"\n\x00\xff" * 100)
    barnabas("produce", topic, str(file), "-f", "raw", "-k", "image")
    out = tmp_path / "out"
    barnabas("consume", topic, "-b", "-n", "1", "-f", "raw", "--output", str(out))
    assert out.read_bytes() == file.read_bytes()


def test_since_and_until_limit_the_records(barnabas: Barnabas, topic: str) -> None:
    lines = "".join(
        f'{{"value": "{n}", "timestamp": {n}000, "partition": 0}}\n' for n in range(1, 10)
    )
    barnabas("produce", topic, "-f", "json", stdin=lines.encode())
    read = barnabas("consume", topic, "--since", "3000", "--until", "6000", "-e")
    assert read.lines == ["3", "4", "5", "6"]
    assert barnabas("consume", topic, "--since", "2035-01-01", "-e").lines == []


def test_group_continues_at_its_committed_offset(barnabas: Barnabas, topic: str) -> None:
    group = f"g-{topic}"
    barnabas("produce", topic, "-p", "0", stdin=b"1\n2\n3\n4\n")
    assert barnabas("consume", topic, "-b", "-g", group, "-n", "3").lines == ["1", "2", "3"]
    assert barnabas("consume", topic, "-b", "-g", group, "-e").lines == ["4"]
    barnabas("produce", topic, "-p", "0", stdin=b"5\n")
    assert {"group": group, "state": "empty", "type": "classic"} in barnabas(
        "group", "list", "--state", "empty", "--json"
    ).data
    (shown,) = barnabas("group", "describe", group, "--json").data
    assert (shown["state"], shown["lag"], shown["members"]) == ("empty", 1, [])
    (place,) = (p for p in shown["partitions"] if p["partition"] == 0)
    assert (place["topic"], place["offset"], place["end"], place["lag"]) == (topic, 4, 5, 1)


def test_reset_offsets_sets_each_kind_of_target(barnabas: Barnabas, topic: str) -> None:
    group = f"g-{topic}"
    lines = "".join(
        f'{{"value": "{n}", "timestamp": {n}000, "partition": 1}}\n' for n in range(1, 10)
    )
    barnabas("produce", topic, "-f", "json", stdin=lines.encode())

    def reset(*options: str) -> int:
        (moved,) = barnabas(
            "group", "reset-offsets", group, "--topic", f"{topic}:1", *options, "--json"
        ).data
        return moved["to"]

    assert reset("--to", "latest") == 9
    assert reset("--to", "earliest") == 0
    assert reset("--to", "4") == 4
    assert reset("--to", "400") == 9
    assert reset("--shift-by", "-3") == 6
    assert reset("--to-datetime", "3500") == 3
    assert reset("--to", "earliest", "--dry-run") == 0
    (shown,) = barnabas("group", "describe", group, "--json").data
    assert shown["partitions"][0]["offset"] == 3
    assert barnabas("consume", topic, "-g", group, "-e", "-n", "1").lines == ["4"]
    assert barnabas("group", "delete", group).out == f"{group} deleted\n"


def test_cluster_shows_its_nodes(barnabas: Barnabas, bootstrap: str) -> None:
    described = barnabas("cluster", "--json").data
    (node,) = described["nodes"]
    assert f"{node['host']}:{node['port']}" == bootstrap
    assert described["partitions_without_leader"] == 0
    shown = barnabas("cluster")
    assert shown.lines[0].startswith(f"cluster {described['cluster_id']}  topics ")
    (replica,) = described["quorum"]["replicas"]
    assert (replica["role"], replica["lag"]) == ("leader", 0)
    assert any(line.startswith("quorum  leader ") for line in shown.lines)


def test_cluster_without_a_reassignment_says_so(barnabas: Barnabas, topic: str) -> None:
    node = str(barnabas("cluster", "--json").data["nodes"][0]["id"])
    assert barnabas("cluster", "reassign").out == "no reassignment runs\n"
    assert barnabas("cluster", "reassign", topic, "--to", node).out == "nothing to move\n"
    assert barnabas("cluster", "reassign", "--cancel").out == "0 reassignments cancelled\n"
    drained = barnabas("cluster", "reassign", topic, "--drain", node)
    assert "has a replica on every other broker" in drained.err
    assert "is unknown or fenced" in barnabas("cluster", "reassign", topic, "--to", "99").err


def test_cluster_elect_without_a_need_elects_nothing(barnabas: Barnabas, topic: str) -> None:
    assert barnabas("cluster", "elect", topic).code == 0
    assert "does not exist" in barnabas("cluster", "elect", "nowhere").err


def test_cluster_does_not_unregister_a_broker_that_runs(barnabas: Barnabas) -> None:
    node = str(barnabas("cluster", "--json").data["nodes"][0]["id"])
    assert "stop it first" in barnabas("cluster", "unregister", node, "--yes").err
    assert "is not registered" in barnabas("cluster", "unregister", "99").err


def test_cluster_voters_are_checked_before_a_change(barnabas: Barnabas) -> None:
    node = str(barnabas("cluster", "--json").data["nodes"][0]["id"])
    assert barnabas("cluster", "voters").lines[1].startswith("quorum  leader ")
    shown = barnabas("cluster", "voters", "--json").data
    assert (shown["leader"], [each["role"] for each in shown["replicas"]]) == (
        int(node),
        ["leader"],
    )
    assert "is the only voter" in barnabas("cluster", "voters", "remove", node).err
    assert "is not a voter" in barnabas("cluster", "voters", "remove", "99").err
    new = "99@127.0.0.1:1:JEXY6aqzQY-32P5TStzaFg"
    assert "does not follow the quorum" in barnabas("cluster", "voters", "add", new).err
    assert "id@host:port:directoryId" in barnabas("cluster", "voters", "add", "99").err


def test_cluster_features_are_validated(barnabas: Barnabas) -> None:
    done = barnabas("cluster", "features", "group.version=1", "--dry-run")
    assert (done.code, done.out) == (0, "the levels are valid\n")
    assert barnabas("cluster", "features", "group.version=9").code == 1
    assert barnabas("cluster", "features", "group.version").code == 1


def test_cluster_option_before_a_command_is_refused(barnabas: Barnabas) -> None:
    done = barnabas("cluster", "--timeout", "3", "elect")
    assert (done.code, "Put --timeout after elect." in done.err) == (2, True)


def test_properties_are_described_and_altered(barnabas: Barnabas, topic: str) -> None:
    done = barnabas("config", "alter", "topic", topic, "--set", "segment.ms=70000")
    assert done.out == f"topic {topic} altered\n"
    (entry,) = (
        entry
        for entry in barnabas("config", "describe", "topic", topic, "--json").data
        if entry["name"] == "segment.ms"
    )
    assert (entry["value"], entry["source"]) == ("70000", "topic")
    everything = barnabas("config", "describe", "topic", topic, "--all")
    assert len(everything.lines) > 30
    node = barnabas("cluster", "--json").data["nodes"][0]["id"]
    assert "node.id" in barnabas("config", "describe", "broker", str(node)).out


def test_missing_server_is_reported_within_seconds(barnabas: Barnabas) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # and never listens
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        started = time.monotonic()
        done = barnabas("topic", "list", "--bootstrap", address, "--timeout", "600")
        assert (done.code, time.monotonic() - started < 60) == (3, True)
    assert f"no Kafka server answers at {address} (Connection refused)" in done.err


def test_name_without_an_address_is_not_said_to_answer(barnabas: Barnabas) -> None:
    done = barnabas("topic", "list", "--bootstrap", "nothing.invalid", "--timeout", "5")
    assert done.code == 3
    assert "no Kafka server answers at nothing.invalid (" in done.err


def test_server_that_names_an_address_out_of_reach_is_reported(barnabas: Barnabas) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # and never listens
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with Node(config={"advertised.listeners": f"PLAINTEXT://{address}"}) as node:
            done = barnabas("topic", "create", "t", "--bootstrap", node.bootstrap)
    assert done.code == 3
    assert f"{node.bootstrap} answers, but names broker 1 as {address}" in done.err
    assert "(Connection refused); set advertised.listeners of that broker" in done.err


def test_acls_of_a_node_without_authorizer_are_refused_with_the_setting(
    barnabas: Barnabas,
) -> None:
    done = barnabas("acl", "list")
    assert done.code == 1
    assert "(SECURITY_DISABLED); start the nodes with --secure, or set authorizer" in done.err


@pytest.mark.parametrize("arguments", [[], ["topic"], ["group"]])
def test_command_without_arguments_prints_its_help(
    barnabas: Barnabas, arguments: list[str]
) -> None:
    done = barnabas(*arguments)
    assert done.code == 2
    lines = done.err.splitlines()
    assert lines[0].startswith("Usage: barnabas")
    assert len(lines) > 8


def test_bootstrap_server_is_the_same_as_bootstrap(barnabas: Barnabas, bootstrap: str) -> None:
    assert barnabas("topic", "list", "--bootstrap-server", bootstrap).code == 0


def test_count_of_one_is_singular(barnabas: Barnabas, topic: str) -> None:
    assert barnabas("produce", topic, stdin=b"v\n").err == f"1 record, 1 byte to {topic}\n"
    assert barnabas("produce", topic, stdin=b"v\nv\n").err == f"2 records, 2 bytes to {topic}\n"


JAVA_FILE = "sasl.jaas.config=\nsecurity.protocol=PLAINTEXT\n"


@pytest.mark.parametrize("more", ["", JAVA_FILE], ids=["librdkafka", "Java"])
def test_server_is_that_of_the_option_else_of_the_file_else_of_the_environment(
    barnabas: Barnabas, tmp_path: Path, bootstrap: str, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    right, wrong = tmp_path / "right.properties", tmp_path / "wrong.properties"
    right.write_text(f"bootstrap.servers={bootstrap}\n{more}")
    wrong.write_text(f"bootstrap.servers=127.0.0.1:1\n{more}")
    assert (
        barnabas("topic", "list", "--bootstrap", bootstrap, "--client-config", str(wrong)).code == 0
    )
    monkeypatch.setenv("BARNABAS_BOOTSTRAP", "127.0.0.1:1")
    assert barnabas("topic", "list", "--client-config", str(right)).code == 0
    refused = barnabas(
        "topic", "list", "--bootstrap", bootstrap, "--client-config", str(right),
        "-X", "bootstrap.servers=127.0.0.1:1", "--timeout", "0.5",
    )  # fmt: skip
    assert "127.0.0.1:1" in refused.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(barnabas: Barnabas, shell: str) -> None:
    assert "_BARNABAS_COMPLETE" in barnabas("completion", shell).out


class TestAsAProcess:
    """Pipes, signals and imports, which need a process."""

    def command(self, bootstrap: str, *arguments: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-m", "barnabas", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "BARNABAS_BOOTSTRAP": bootstrap},
        )

    def test_closed_pipe_ends_without_output(
        self, barnabas: Barnabas, topic: str, bootstrap: str
    ) -> None:
        barnabas("produce", topic, stdin=b"x" * 99 + b"\n" + b"line\n" * 50_000)
        process = self.command(bootstrap, "consume", topic, "-b", "-e")
        with process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.read(10)
            process.stdout.close()
            assert process.wait(60) == 141
            assert process.stderr.read() == b""

    @pytest.mark.parametrize(
        ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["int", "term"]
    )
    def test_signal_ends_without_output(
        self, barnabas: Barnabas, topic: str, bootstrap: str, number: int, code: int
    ) -> None:
        barnabas("produce", topic, "-p", "0", stdin=b"one\n")
        process = self.command(bootstrap, "consume", topic, "-b", "-g", f"g-{topic}")
        with process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline() == b"one\n"
            process.send_signal(number)
            assert process.wait(60) == code
            assert process.stderr.read() == b""
        (shown,) = barnabas("group", "describe", f"g-{topic}", "--json").data
        assert (shown["state"], shown["lag"]) == ("empty", 0)
