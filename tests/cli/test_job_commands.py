"""`barnabas job` against a runner whose engine is not Spark."""

import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from barnabas.cli import job_command
from barnabas.cli.command_errors import CliError
from barnabas.cli.main import run
from barnabas.pipeline.delivery.plan.job_plan import JobFailure
from barnabas.testing import Node
from tests.pipeline.runner.live_runner import LiveRunner, eventually, live_runner


@pytest.fixture(scope="module")
def runner() -> Iterator[LiveRunner]:
    with Node() as node, live_runner(node.bootstrap) as found:
        eventually(found.is_healthy)
        yield found


@pytest.fixture(autouse=True)
def address(runner: LiveRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARNABAS_PIPELINES", runner.url)


def written(directory: Path, name: str, **more: str) -> str:
    config = {"connector.class": "FileStreamSink", "topics": "t", "file": "/tmp/none", **more}
    file = directory / f"{name}.json"
    file.write_text(json.dumps({"name": name, "config": config}))
    return str(file)


def test_job_is_created_shown_changed_and_deleted(
    runner: LiveRunner, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, "life")
    assert run(["job", "create", file, "--wait"]) == 0
    assert run(["job", "create", file]) == 1
    assert "Connector life already exists" in capsys.readouterr().err
    assert run(["job", "list"]) == 0
    assert "life  sink  RUNNING  1" in capsys.readouterr().out
    assert run(["job", "apply", file]) == 0
    assert run(["job", "apply", written(tmp_path, "life", file="/tmp/b")]) == 0
    assert capsys.readouterr().out.splitlines() == ["unchanged job life", "changed job life"]
    assert run(["job", "describe", "life"]) == 0
    assert "file=/tmp/b" in capsys.readouterr().out
    for command in ("pause", "resume", "restart", "stop"):
        assert run(["job", command, "life"]) == 0
    eventually(lambda: runner.states("life") == ["STOPPED"])
    assert run(["job", "delete", "life", "--yes"]) == 0
    eventually(lambda: runner.states("life") == [])
    assert run(["job", "describe", "life"]) == 1
    assert "Connector life not found" in capsys.readouterr().err


def test_properties_file_describes_a_job(runner: LiveRunner, tmp_path: Path) -> None:
    file = tmp_path / "sink.properties"
    file.write_text("name=props\nconnector.class=FileStreamSink\ntopics=t\nfile=/tmp/none\n")
    assert run(["job", "create", str(file), "--wait"]) == 0
    assert runner.states("props") == ["RUNNING", "RUNNING"]
    assert run(["job", "delete", "props", "--yes"]) == 0


def test_yaml_file_is_refused(
    runner: LiveRunner, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It reads as properties, with quotes in the values."""
    file = tmp_path / "sink.yaml"
    file.write_text('name: yaml\nconfig:\n  connector.class: FileStreamSink\n  topics: "t"\n')
    assert run(["job", "validate", str(file)]) == 1
    assert "YAML is not supported: write the job as JSON" in capsys.readouterr().err


def test_validation_prints_errors_and_ends_with_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["job", "validate", written(tmp_path, "good")]) == 0
    assert capsys.readouterr().out == "job good: valid\n"
    assert run(["job", "validate", written(tmp_path, "bad", **{"tasks.max": "x"})]) == 1
    out = capsys.readouterr().out
    assert "job bad: invalid" in out
    assert "tasks.max: Invalid value x for configuration tasks.max: Not a number" in out


def test_failed_job_is_reported_by_wait_and_logs(
    runner: LiveRunner, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runner.engine.refuse = lambda plan: JobFailure("no such table", True)
    try:
        assert run(["job", "create", written(tmp_path, "broken"), "--wait"]) == 1
    finally:
        runner.engine.refuse = lambda plan: None
    assert "job broken failed: no such table" in capsys.readouterr().err
    assert run(["job", "logs", "broken"]) == 0
    assert "error job failed job=broken permanent=True" in capsys.readouterr().out
    assert run(["job", "delete", "broken", "--yes"]) == 0


def test_offsets_are_shown_set_and_removed(
    runner: LiveRunner, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["job", "create", written(tmp_path, "moved"), "--wait"]) == 0
    assert run(["job", "offsets", "moved", "--reset", "--yes"]) == 1
    assert "must be in the STOPPED state" in capsys.readouterr().err
    assert run(["job", "stop", "moved"]) == 0
    place = {"kafka_topic": "t", "kafka_partition": 0}
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps({"offsets": [{"partition": place, "offset": {"kafka_offset": 3}}]}))
    assert run(["job", "offsets", "moved", "--set", str(file)]) == 0
    capsys.readouterr()
    assert run(["job", "offsets", "moved", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(file.read_text())
    assert run(["job", "rebuild", "moved", "--yes"]) == 0
    runner.wait_states("moved", "RUNNING", "RUNNING")
    capsys.readouterr()
    assert run(["job", "offsets", "moved"]) == 0
    assert capsys.readouterr().out == "no offsets\n"
    assert run(["job", "delete", "moved", "--yes"]) == 0


def test_dead_letters_are_sent_back_once(
    runner: LiveRunner, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bootstrap: str = runner.bootstrap
    for topic in ("origin", "dead"):
        assert run(["topic", "create", topic, "--bootstrap", bootstrap]) == 0
    more = {"errors.deadletterqueue.topic.name": "dead", "topics": "origin"}
    assert run(["job", "create", written(tmp_path, "redriven", **more), "--wait"]) == 0
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(4):
        stage = b"TASK_PUT" if number % 2 else b"VALUE_CONVERTER"
        headers = [("own", b"x"), ("__connect.errors.topic", b"origin"),
                   ("__connect.errors.stage", stage)]  # fmt: skip
        producer.produce("dead", key=b"k", value=b"%d" % number, headers=headers)
    headers.append(("__connect.errors.connector.name", b"another"))
    producer.produce("dead", key=b"k", value=b"of another job", headers=headers)
    producer.flush(60)
    command = ["job", "redrive", "redriven", "--bootstrap", bootstrap, "--where", "stage=TASK_PUT"]
    capsys.readouterr()
    assert run([*command, "--dry-run"]) == 0
    assert capsys.readouterr().out == "found 2 dead letters, skipped 3\n"
    killed = killed_redrive(bootstrap, "redrive-redriven-TASK_PUT")
    assert run(command) == 0
    assert run(command) == 0
    with pytest.raises(KafkaException, match="fenced"):
        killed.commit_transaction(60)
    out = capsys.readouterr().out.splitlines()
    assert out == ["sent 2 dead letters, skipped 3", "sent 0 dead letters, skipped 0"]
    found = records(bootstrap, "origin")
    assert [message.value() for message in found] == [b"1", b"3"]
    assert [message.headers() for message in found] == [[("own", b"x")]] * 2


def killed_redrive(bootstrap: str, group: str) -> Producer:
    """Return the producer of a redrive that was killed in its transaction, which stays open."""
    servers = {"bootstrap.servers": bootstrap}
    consumer = Consumer({**servers, "group.id": group})
    producer = Producer({**servers, "transactional.id": group, "transaction.timeout.ms": 900_000})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("origin", value=b"not committed")
    metadata = consumer.consumer_group_metadata()
    producer.send_offsets_to_transaction([TopicPartition("dead", 0, 4)], metadata, 60)
    producer.flush(60)
    consumer.close()
    return producer


def records(bootstrap: str, topic: str) -> list[Message]:
    """Return the records of a topic with one partition, up to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[Message] = []
    deadline = time.monotonic() + 60
    while True:
        assert time.monotonic() < deadline
        for each in consumer.consume(10, 1):
            error = each.error()
            if error is None:
                found.append(each)
            elif error.code() == KafkaError._PARTITION_EOF:
                consumer.close()
                return found


def test_dead_letters_of_a_source_are_sent_only_to_a_named_topic(
    runner: LiveRunner, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bootstrap: str = runner.bootstrap
    for topic in ("rows", "rows-failed", "rows-again"):
        assert run(["topic", "create", topic, "--bootstrap", bootstrap]) == 0
    source = {"connector.class": "FileStreamSource", "topic": "rows"}
    letters = {"errors.deadletterqueue.topic.name": "rows-failed"}
    assert run(["job", "create", written(tmp_path, "rows", **source, **letters), "--wait"]) == 0
    producer = Producer({"bootstrap.servers": bootstrap})
    headers = [("__connect.errors.topic", b"rows"), ("__connect.errors.connector.name", b"rows")]
    producer.produce("rows-failed", value=b"9,5", headers=headers)
    producer.flush(60)
    command = ["job", "redrive", "rows", "--bootstrap", bootstrap]
    capsys.readouterr()
    for more in ([], ["--dry-run"]):
        assert run([*command, *more]) == 1
        assert "job rows is a source" in capsys.readouterr().err
    for count in ("1 dead letter", "0 dead letters"):
        assert run([*command, "--to", "rows-again"]) == 0
        assert capsys.readouterr().out == f"sent {count}, skipped 0\n"
    assert records(bootstrap, "rows") == []
    (sent,) = records(bootstrap, "rows-again")
    assert (sent.value(), sent.headers()) == (b"9,5", None)


def test_wait_for_a_job_lasts_longer_while_spark_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_command, "_WAIT_S", 0.05)
    monkeypatch.setattr(job_command, "_POLL_S", 0.02)
    states = iter(["UNASSIGNED"] * 10 + ["RUNNING"])

    def find(method: str, path: str) -> dict[str, Any]:
        state = {"state": next(states)}
        return {"connector": state, "tasks": [state]}

    job_command._wait_running(SimpleNamespace(find=find), ["j"])
    assert list(states) == []
    states = itertools.repeat("UNASSIGNED")
    monkeypatch.setattr(job_command, "_SPARK_WAIT_S", 0.2)
    with pytest.raises(CliError, match="job j does not run in time: UNASSIGNED"):
        job_command._wait_running(SimpleNamespace(find=find), ["j"])


def test_wait_for_a_job_ends_when_spark_cannot_start() -> None:
    state = {"state": "UNASSIGNED", "trace": "Spark cannot start: Java is missing"}
    runner = SimpleNamespace(find=lambda *_: {"connector": state, "tasks": []})
    with pytest.raises(CliError, match="job j was created but does not run: Spark cannot start"):
        job_command._wait_running(runner, ["j"])


def test_runner_that_does_not_answer_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BARNABAS_PIPELINES", "http://127.0.0.1:1")
    assert run(["job", "list"]) == 3
    assert "start a runner with barnabas pipelines" in capsys.readouterr().err
