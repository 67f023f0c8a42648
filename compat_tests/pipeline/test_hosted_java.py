"""Java's connectors beside ours: one runner with a worker of Apache Kafka's Connect.

A View is the runner's own job, because it needs no Spark. The connectors of files are both the
runner's and Java's, so these jobs choose Java's. One runner serves all tests, since a JVM takes
ten seconds to start.
"""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from compat_tests import jars, spark
from compat_tests.pipeline.connect_workers import ConnectWorker, JavaWorker, RunnerProcess
from compat_tests.pipeline.killed_job import children
from compat_tests.pipeline.test_connect_takeover import Lines
from compat_tests.pipeline.test_java_connect import (
    DEBEZIUM,
    MIRROR,
    capture_of,
    changes,
    read,
)
from compat_tests.pipeline.test_java_connect import missing as connectors_missing
from compat_tests.pipeline.test_rest_differential import normalized
from compat_tests.postgres import PostgresServer
from compat_tests.servers import ServerProcess

pytestmark = [pytest.mark.timeout(400), pytest.mark.barnabas_only]

STRING = "org.apache.kafka.connect.storage.StringConverter"
MIRROR_CONFIG = {
    "connector.class": f"{MIRROR}.MirrorSourceConnector",
    "name": "m",
    "barnabas.worker": "java",
    "source.cluster.alias": "a",
    "target.cluster.alias": "a b",
    "refresh.topics.interval.seconds": "many",
    "value.converter": "org.example.NoConverter",
}


OWN_CONFIG = {
    "name": "m",
    "source.cluster.alias": "a",
    "security.protocol": "SASL_SSL",
    "ssl.truststore.type": "PEM",
    "ssl.truststore.password": "secret",
    "sasl.login.refresh.window.factor": "2",
    "sasl.login.connect.timeout.ms": "soon",
}
"""A configuration that the runner's own connectors are validated with."""
WORKER_DEFAULTS = {
    "connector.plugin.version",
    *(f"{each}.converter" for each in ("key", "value", "header")),
    *(f"{each}.converter.plugin.version" for each in ("key", "value", "header")),
}
"""Properties whose defaults MirrorMaker 2's definitions hide, and the runner shows."""


class HostingRunner(RunnerProcess):
    """A runner with Java's plug-ins."""

    def properties(self) -> dict[str, str]:
        return {
            **super().properties(),
            "plugin.discovery": "service_load",
            "offset.flush.interval.ms": "1000",
            "barnabas.java.options": "-Xmx384m -XX:TieredStopAtLevel=1",
        }

    def command(self) -> list[str]:
        plugins = self.directory / "plugins"
        return [
            *super().command(),
            "--plugin-path",
            str(plugins),
            "--plugin-path",
            str(jars.CONNECTORS.parent),
        ]

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def guard(self) -> int:
        """Return the process that guards the worker's JVM."""
        (found,) = (pid for pid in children(self.pid) if b"jvm_guard" in command_of(pid))
        return found

    def jvm(self) -> int:
        (found,) = children(self.guard())
        return found

    def metric(self, name: str) -> float:
        with urlopen(f"{self.url}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        (found,) = (line for line in lines if line.startswith(f"{name} "))
        return float(found.split()[1])


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def is_running(pid: int) -> bool:
    return bool(command_of(pid))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("hosted")
    if reason := connectors_missing() or spark.missing():
        pytest.skip(reason)
    (found / "plugins" / "file").mkdir(parents=True)
    library = jars.kafka_lib()
    assert library is not None
    (jar,) = library.glob("connect-file-*.jar")
    (found / "plugins" / "file" / jar.name).symlink_to(jar)
    return found


@pytest.fixture(scope="module")
def runner(directory: Path, server: ServerProcess | None) -> Iterator[HostingRunner]:
    if server is None:
        pytest.skip("needs a server that this suite starts")
    process = HostingRunner(server.bootstrap, directory, "hosting")
    try:
        process.start()
        yield process
    finally:
        process.stop()


@pytest.fixture(scope="module")
def lines(directory: Path) -> Lines:
    return Lines(directory)


def ask(worker: ConnectWorker, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    found = worker.ask(method, path, body)
    return found.status, found.body


def job_command(runner: HostingRunner, *arguments: str) -> str:
    """Return the output of `barnabas job`."""
    done = subprocess.run(
        [sys.executable, "-m", "barnabas", "job", *arguments, "--pipelines", runner.url],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_jobs_of_java_and_of_the_runner_are_one_list(
    runner: HostingRunner, lines: Lines, directory: Path
) -> None:
    lines.append(10)
    source = {
        "connector.class": "FileStreamSource",
        "barnabas.worker": "java",
        "file": str(lines.input),
        "topic": "hosted-lines",
    }
    sink = {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "barnabas.worker": "java",
        "file": str(lines.output),
        "topics": "hosted-lines",
        "some.password": "s3cret",
    }
    view = {"connector.class": "View", "topics": "hosted-lines"}
    given = {"name": "a-source", "config": source}
    created = runner.ask("POST", "/connectors", given)
    assert (created.status, created.body["type"]) == (201, "source")
    assert created.headers["location"] == f"{runner.url}/connectors/a-source"
    assert ask(runner, "PUT", "/connectors/b-sink/config", sink)[0] == 201
    assert ask(runner, "PUT", "/connectors/c-view/config", view)[0] == 201
    for name in ("a-source", "b-sink", "c-view"):
        runner.wait_states(name, "RUNNING", ["RUNNING"])
    runner.wait(lines.are_copied)
    lines.check()
    assert ask(runner, "GET", "/connectors") == (200, ["a-source", "b-sink", "c-view"])
    rows = [line.split()[:4] for line in job_command(runner, "list").splitlines()]
    assert rows[1:] == [
        ["a-source", "source", "RUNNING", "1"],
        ["b-sink", "sink", "RUNNING", "1"],
        ["c-view", "sink", "RUNNING", "1"],
    ]
    assert "state: RUNNING" in job_command(runner, "describe", "b-sink")
    assert "WorkerSinkTask" in job_command(runner, "logs", "b-sink")
    # Names are unique over both. Secrets are masked, and a mask keeps the secret.
    assert ask(runner, "POST", "/connectors", {"name": "a-source", "config": view})[0] == 409
    assert ask(runner, "POST", "/connectors", {"name": "c-view", "config": source})[0] == 409
    assert ask(runner, "PUT", "/connectors/a-source/config", view)[0] == 409
    assert ask(runner, "PUT", "/connectors/c-view/config", source)[0] == 409
    masked = ask(runner, "GET", "/connectors/b-sink/config")[1]
    assert masked["some.password"] == "[hidden]"
    status, answer = ask(runner, "PUT", "/connectors/b-sink/config", masked)
    assert (status, answer["config"]["some.password"]) == (200, "[hidden]")
    configs = read(runner.bootstrap, "hosting-configs-java", 1, runner)
    stored = [each.value() for each in configs if each.key() == b"connector-b-sink"]
    assert len(stored) == 2
    assert all(b'"s3cret"' in each for each in stored)


def test_job_of_java_is_paused_stopped_and_moved_as_another(
    runner: HostingRunner, lines: Lines
) -> None:
    job_command(runner, "pause", "a-source")
    runner.wait_states("a-source", "PAUSED", ["PAUSED"])
    job_command(runner, "resume", "a-source")
    runner.wait_states("a-source", "RUNNING", ["RUNNING"])
    offsets = {"partition": {"filename": str(lines.input)}, "offset": {"position": 0}}
    change = {"offsets": [offsets]}
    assert ask(runner, "PATCH", "/connectors/a-source/offsets", change)[0] == 400  # it runs
    job_command(runner, "stop", "a-source")
    runner.wait_states("a-source", "STOPPED", [])
    place = "/connectors/a-source/offsets"
    assert ask(runner, "GET", place)[1]["offsets"][0]["offset"]["position"] > 0
    assert ask(runner, "PATCH", place, change)[0] == 200
    assert ask(runner, "GET", place) == (200, change)
    lines.output.write_text("")
    job_command(runner, "resume", "a-source")
    runner.wait(lines.are_copied)
    lines.check()
    assert ask(runner, "GET", "/connectors/b-sink/topics")[1] == {
        "b-sink": {"topics": ["hosted-lines"]}
    }
    status, body = ask(runner, "POST", "/connectors/b-sink/restart?includeTasks=true")
    assert (status, body["tasks"][0]["state"]) == (202, "RESTARTING")
    runner.wait_states("b-sink", "RUNNING", ["RUNNING"])
    assert ask(runner, "POST", "/connectors/b-sink/tasks/0/restart") == (204, None)
    runner.wait_states("b-sink", "RUNNING", ["RUNNING"])


def test_plugins_and_validation_are_those_of_a_worker_alone(
    runner: HostingRunner, directory: Path
) -> None:
    alone = JavaWorker(runner.bootstrap, directory, "alone")
    alone.plugins = jars.CONNECTORS.parent
    try:
        alone.start()
        listed = [
            {(each["class"], each["type"]) for each in ask(worker, "GET", "/connector-plugins")[1]}
            for worker in (alone, runner)
        ]
        # Java's worker of the tests has the connectors of files on its class path.
        assert listed[0] <= listed[1]
        assert (DEBEZIUM, "source") in listed[0]
        for method, path, body in (
            ("GET", f"/connector-plugins/{DEBEZIUM}/config", None),
            ("PUT", "/connector-plugins/MirrorSource/config/validate", MIRROR_CONFIG),
            ("PUT", "/connectors/m/config", MIRROR_CONFIG),
        ):
            expected, found = (ask(worker, method, path, body) for worker in (alone, runner))
            assert found == expected, path
        for kind in ("Source", "Checkpoint", "Heartbeat"):
            path = f"/connector-plugins/Mirror{kind}/config/validate"
            config = {**OWN_CONFIG, "connector.class": f"{MIRROR}.Mirror{kind}Connector"}
            java, ours = (ask(worker, "PUT", path, config) for worker in (alone, runner))
            assert ours[0] == java[0] == 200
            wanted, found = (
                {name: each for name, each in configs.items() if name not in WORKER_DEFAULTS}
                for configs in (
                    normalized(java[1], "java")["configs"],
                    normalized(ours[1], "barnabas")["configs"],
                )
            )
            assert list(found) == list(wanted), kind
            assert [found[each] for each in found if found[each] != wanted[each]] == [], kind
    finally:
        alone.stop()


def test_debezium_captures_the_changes_of_a_table(
    runner: HostingRunner, database: PostgresServer
) -> None:
    database.run(
        "CREATE TABLE towns (id int PRIMARY KEY, name text)",
        "INSERT INTO towns VALUES (1, 'Brno')",
    )
    config = capture_of(database, "hosted", "towns")
    assert ask(runner, "PUT", "/connectors/capture/config", config)[0] == 201
    snapshot = changes(read(runner.bootstrap, "hosted.public.towns", 1, runner))
    assert snapshot == [("r", 1, None, "Brno")]
    database.run("UPDATE towns SET name = 'Brünn' WHERE id = 1")
    found = changes(read(runner.bootstrap, "hosted.public.towns", 2, runner))
    assert [(operation, after) for operation, _, _, after in found[1:]] == [("u", "Brünn")]
    assert ask(runner, "DELETE", "/connectors/capture") == (204, None)
    assert "capture" not in ask(runner, "GET", "/connectors")[1]


def test_killed_jvm_is_started_again_and_its_jobs_continue(
    runner: HostingRunner, lines: Lines
) -> None:
    jvm, starts = runner.jvm(), runner.metric("barnabas_pipeline_java_worker_starts_total")
    assert runner.metric("barnabas_pipeline_java_worker_up") == 1
    subprocess.run(["kill", "-9", str(jvm)], check=True)
    runner.wait_states("a-source", "UNASSIGNED", ["UNASSIGNED"])
    status = ask(runner, "GET", "/connectors/b-sink/status")[1]
    assert "ended with status 137" in status["tasks"][0]["trace"]
    assert runner.metric("barnabas_pipeline_java_worker_up") == 0
    # The runner's own jobs do not notice.
    runner.wait_states("c-view", "RUNNING", ["RUNNING"])
    lines.append(10)
    for name in ("a-source", "b-sink"):
        runner.wait_states(name, "RUNNING", ["RUNNING"])
    runner.wait(lambda: set(lines.output.read_text().splitlines()) >= all_lines(lines))
    assert runner.metric("barnabas_pipeline_java_worker_starts_total") == starts + 1
    assert "java worker does not run reason=the JVM of the worker ended" in runner.log_tail(500)


def all_lines(lines: Lines) -> set[str]:
    return {f"line {number}" for number in range(lines.count)}


def test_killed_runner_takes_the_jvm_with_it_and_its_successor_has_the_jobs(
    runner: HostingRunner, lines: Lines
) -> None:
    jvm, guard = runner.jvm(), runner.guard()
    assert runner.process is not None
    runner.process.send_signal(signal.SIGKILL)
    runner.process.wait()
    runner.wait(lambda: not is_running(jvm) and not is_running(guard))
    runner.start()
    lines.append(10)
    for name in ("a-source", "b-sink", "c-view"):
        runner.wait_states(name, "RUNNING", ["RUNNING"])
    runner.wait(lambda: set(lines.output.read_text().splitlines()) >= all_lines(lines))
    for name in ("a-source", "b-sink"):
        assert ask(runner, "DELETE", f"/connectors/{name}") == (204, None)
    assert ask(runner, "GET", "/connectors") == (200, ["c-view"])
    jvm = runner.jvm()
    runner.stop()
    assert not is_running(jvm)
