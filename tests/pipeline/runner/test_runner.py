"""The runner: jobs of the store run in the engine, and requests see their states."""

import json
import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import pytest
import trio
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.cli.main import run
from barnabas.client import open_client
from barnabas.client.admin_calls import create_topic
from barnabas.client.group_session import GroupSettings, join_group
from barnabas.http import HttpOptions, HttpStartError, ListenAddress
from barnabas.pipeline.connect.rest_errors import ConnectRestError, NotActiveError
from barnabas.pipeline.delivery.plan.job_plan import JobFailure, JobKind, RecordPosition
from barnabas.pipeline.jobs.activity import Activity, ForeignGroupError
from barnabas.pipeline.jobs.configs_writer import ConfigsWriteError, ConfigsWriter
from barnabas.pipeline.jobs.storage_topics import StorageLog
from barnabas.pipeline.rest.request_forwarding import RequestForwarding
from barnabas.pipeline.runner.runner_process import RunnerListen
from barnabas.testing import Node
from tests.pipeline.runner.fake_engine import FakeEngine
from tests.pipeline.runner.live_runner import LiveRunner, eventually, live_runner

STRING = "org.apache.kafka.connect.storage.StringConverter"


def sink(**more: str) -> dict[str, str]:
    return {"connector.class": "FileStreamSink", "topics": "t", "file": "/tmp/none", **more}


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as found:
        yield found


@pytest.fixture
def runner(node: Node, request: pytest.FixtureRequest) -> Iterator[LiveRunner]:
    name = request.node.name[:80].translate(str.maketrans("[]", "--"))
    topics = {f"{kind}_storage_topic": f"{name}-{kind}" for kind in ("config", "offset", "status")}
    with live_runner(node.bootstrap, group_id=name, **topics) as found:
        eventually(found.is_healthy)
        yield found


def create(runner: LiveRunner, name: str = "c", **more: str) -> None:
    config = sink(**{"file": f"/tmp/none-{name}", **more})
    status, body = runner.ask("POST", "/connectors", {"name": name, "config": config})
    assert status == 201, body


def test_topic_that_did_not_exist_is_in_the_jobs_log(runner: LiveRunner) -> None:
    async def create_read() -> None:
        async with open_client({"bootstrap.servers": runner.bootstrap}) as client:
            await create_topic(client, "is-there")

    trio.run(create_read)
    create(runner, topics="is-there,misspelled")
    runner.wait_states("c", "RUNNING", "RUNNING")
    lines = runner.ask("GET", "/connectors/c/logs")[1]
    found = [each["message"] for each in lines if "check its name" in each["message"]]
    assert [line.rpartition("topic=")[2] for line in found] == ["misspelled"]


def test_client_that_takes_no_json_is_refused(runner: LiveRunner) -> None:
    taken = ("", "application/*", "application/json;q=0", "text/html, */*;q=0.1")
    for accept in ("text/plain", "text/*", *taken):
        given = {"Accept": accept}
        status = 200 if accept in taken else 406
        assert asked(runner, "GET", "/connectors", given).status == status, accept
        assert asked(runner, "GET", "/nothing", given).status == 404
        assert asked(runner, "PUT", "/connectors", given).status == 405


def test_options_of_a_path_are_its_methods(runner: LiveRunner) -> None:
    for path, allowed in {
        "/connectors": "GET,HEAD,OPTIONS,POST",
        "/connectors/none/config": "GET,HEAD,OPTIONS,PATCH,PUT",
        "/connector-plugins/FileStreamSink/config/validate": "OPTIONS,PUT",
    }.items():
        found = asked(runner, "OPTIONS", path, {})
        assert (found.status, found.headers["Allow"]) == (200, allowed)
    assert asked(runner, "OPTIONS", "/nothing", {}).status == 404


def test_plugin_of_another_version_is_refused(runner: LiveRunner) -> None:
    path = "/connector-plugins/FileStreamSink/config?version="
    status, body = runner.ask("GET", f"{path}99")
    assert (status, "matches the version range [99,99], available" in body["message"]) == (
        400,
        True,
    )
    assert runner.ask("GET", f"{path}latest")[0] == 200
    assert runner.ask("GET", f"{path}(0,99)")[0] == 200
    assert runner.ask("GET", "/connector-plugins/None/config?version=99")[0] == 404


def asked(runner: LiveRunner, method: str, path: str, headers: dict[str, str]) -> HTTPResponse:
    """Return the response to a request with these headers only."""
    connection = HTTPConnection(runner.url.removeprefix("http://"), timeout=60)
    connection.request(method, path, headers=headers)
    response = connection.getresponse()
    response.read()
    connection.close()
    return response


def test_created_job_runs_with_its_plan(runner: LiveRunner) -> None:
    create(runner, **{"value.converter": STRING, "consumer.override.fetch.min.bytes": "5"})
    runner.wait_states("c", "RUNNING", "RUNNING")
    plan = runner.engine.running()["c"].plan
    assert (plan.kind, plan.topics, plan.group_id) == (JobKind.SINK, ("t",), "connect-c")
    assert plan.properties["value.converter"] == STRING
    assert plan.properties["key.converter"] == "org.apache.kafka.connect.json.JsonConverter"
    assert plan.consumer_overrides == {"fetch.min.bytes": "5"}
    assert len(plan.task_configs) == 1


def test_job_follows_pause_resume_stop_and_delete(runner: LiveRunner) -> None:
    create(runner)
    runner.wait_states("c", "RUNNING", "RUNNING")
    assert runner.ask("PUT", "/connectors/c/pause")[0] == 202
    runner.wait_states("c", "PAUSED", "PAUSED")
    assert runner.engine.running() == {}
    assert runner.ask("PUT", "/connectors/c/resume")[0] == 202
    runner.wait_states("c", "RUNNING", "RUNNING")
    assert runner.ask("PUT", "/connectors/c/stop")[0] == 204
    runner.wait_states("c", "STOPPED")
    assert runner.ask("GET", "/connectors/c/tasks") == (200, [])
    assert runner.ask("DELETE", "/connectors/c")[0] == 204
    eventually(lambda: runner.states("c") == [])
    assert runner.ask("GET", "/connectors") == (200, [])


def test_changed_configuration_starts_the_job_again(runner: LiveRunner) -> None:
    create(runner)
    runner.wait_states("c", "RUNNING", "RUNNING")
    runner.ask("PUT", "/connectors/c/config", sink(file="/tmp/other"))
    eventually(
        lambda: (
            [job.plan.properties["file"] for job in runner.engine.running().values()]
            == ["/tmp/other"]
        )
    )
    runs = len(runner.engine.jobs)
    runner.ask("PUT", "/connectors/c/config", sink(file="/tmp/other"))
    runner.wait_states("c", "RUNNING", "RUNNING")
    assert len(runner.engine.jobs) == runs


def test_skipped_offsets_of_a_job_are_logged(runner: LiveRunner) -> None:
    def logged() -> list[str]:
        _, answer = runner.ask("GET", "/connectors/c/logs")
        return [each["message"] for each in answer if "skipped" in each["message"]]

    text = "skipped offsets that retention deleted before they were read job=c offsets="
    create(runner)
    runner.wait_states("c", "RUNNING", "RUNNING")
    job = runner.engine.running()["c"]
    job.trimmed = 7
    eventually(lambda: logged() == [f"{text}7"])
    job.trimmed = 9  # within ten seconds: the line comes when the job ends, at the latest
    eventually(lambda: runner.ask("GET", "/connectors/c/progress")[1]["trimmed"] == 9)
    assert runner.ask("PUT", "/connectors/c/stop")[0] == 204
    eventually(lambda: logged() == [f"{text}7", f"{text}2"])


def test_job_that_does_not_run_has_no_rate(runner: LiveRunner) -> None:
    def figures() -> tuple[float, int]:
        _, answer = runner.ask("GET", "/connectors/c/progress")
        return answer["records_per_second"], answer["records"]

    create(runner)
    eventually(lambda: figures() == (3.0, 7))
    assert runner.ask("PUT", "/connectors/c/pause")[0] == 202
    eventually(lambda: figures() == (0.0, 7))
    assert runner.ask("PUT", "/connectors/c/resume")[0] == 202
    eventually(lambda: figures() == (3.0, 7))
    runner.engine.running()["c"].end = JobFailure("bad record", True)
    eventually(lambda: figures() == (0.0, 7))


def test_position_in_a_checkpoint_cannot_be_set(runner: LiveRunner) -> None:
    config = {
        "connector.class": "SparkSink",
        "topics": "t",
        "spark.format": "parquet",
        "path": "/tmp/none",
    }
    body = {"name": "lake", "config": config, "initial_state": "STOPPED"}
    assert runner.ask("POST", "/connectors", body)[0] == 201
    runner.wait_states("lake", "STOPPED")
    place = {"kafka_topic": "t", "kafka_partition": 0}
    change = {"offsets": [{"partition": place, "offset": {"kafka_offset": 5}}]}
    for method, sent in (("PATCH", change), ("DELETE", None)):
        status, answer = runner.ask(method, "/connectors/lake/offsets", sent)
        assert (status, "is in the checkpoint" in str(answer)) == (400, True)


def test_permanent_failure_names_the_record_and_waits_for_a_restart(runner: LiveRunner) -> None:
    create(runner)
    runner.wait_states("c", "RUNNING", "RUNNING")
    record = RecordPosition("t", 0, 42)
    runner.engine.running()["c"].end = JobFailure("bad record", True, record, "VALUE_CONVERTER")
    runner.wait_states("c", "RUNNING", "FAILED")
    _, task = runner.ask("GET", "/connectors/c/tasks/0/status")
    assert task["trace"] == "bad record in stage VALUE_CONVERTER at t-0@42"
    _, progress = runner.ask("GET", "/connectors/c/progress")
    assert progress["is_permanent"]
    status, body = runner.ask("POST", "/connectors/c/restart?includeTasks=true&onlyFailed=true")
    assert (status, body["tasks"][0]["state"]) == (202, "RESTARTING")
    runner.wait_states("c", "RUNNING", "RUNNING")


def test_passing_failure_restarts_by_itself(runner: LiveRunner) -> None:
    create(runner)
    runner.wait_states("c", "RUNNING", "RUNNING")
    runner.engine.running()["c"].end = JobFailure("broker lost", False)
    runner.wait_states("c", "RUNNING", "RESTARTING")
    runner.wait_states("c", "RUNNING", "RUNNING")
    assert runner.ask("GET", "/connectors/c/progress")[1]["restarts"] == 1
    assert len(runner.engine.jobs) == 2


def test_job_that_cannot_start_fails_as_a_connector(runner: LiveRunner) -> None:
    runner.engine.refuse = lambda plan: JobFailure("no such table", True)
    create(runner)
    eventually(lambda: runner.states("c")[:1] == ["FAILED"])
    _, found = runner.ask("GET", "/connectors/c/status")
    assert "no such table" in found["connector"]["trace"]


def test_engine_that_ends_is_started_again_with_its_jobs(runner: LiveRunner) -> None:
    create(runner)
    runner.wait_states("c", "RUNNING", "RUNNING")
    runner.engine.crash()
    eventually(lambda: runner.engine.starts == 2)
    eventually(lambda: list(runner.engine.running()) == ["c"])
    runner.wait_states("c", "RUNNING", "RUNNING")


def test_engine_that_cannot_start_is_said_by_rest_and_by_the_commands(
    node: Node, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Missing(FakeEngine):
        def start(self) -> None:
            raise RuntimeError("Java is missing: install a JDK 17")

    (tmp_path / "c.json").write_text(json.dumps({"name": "c", "config": sink()}))
    topics = {f"{kind}_storage_topic": f"missing-{kind}" for kind in ("config", "status")}
    with live_runner(node.bootstrap, Missing(), group_id="missing", **topics) as runner:
        eventually(runner.is_healthy)
        create = ["job", "create", str(tmp_path / "c.json"), "--wait"]
        began = time.monotonic()
        assert run([*create, "--pipelines", runner.url]) == 1
        assert time.monotonic() - began < 50, "the command waits five minutes for Spark"
        problem = "Spark cannot start: Java is missing: install a JDK 17"
        assert f"job c was created but does not run: {problem}" in capsys.readouterr().err
        status, body = runner.ask("GET", "/health")
        assert (status, body["status"]) == (503, "starting")
        assert problem in body["message"]
        _, found = runner.ask("GET", "/connectors/c/status")
        assert (found["connector"]["state"], found["connector"]["trace"]) == ("UNASSIGNED", problem)
        assert run(["job", "list", "--pipelines", runner.url]) == 0
        assert problem in capsys.readouterr().err
        runner.ask("POST", "/connectors", {"name": "later", "config": sink(file="/tmp/none-l")})
        eventually(lambda: "trace" in str(runner.ask("GET", "/connectors/later/status")))


def test_tasks_are_known_before_the_engine_has_started(node: Node) -> None:
    """As in Java's Connect, whose workers run when a request comes."""

    class Slow(FakeEngine):
        def __init__(self) -> None:
            super().__init__()
            self.may_start = threading.Event()

        def start(self) -> None:
            assert self.may_start.wait(120)
            super().start()

    def source(tasks: int) -> dict[str, str]:
        return {"connector.class": "DatagenSource", "topic": "t", "tasks.max": str(tasks)}

    engine = Slow()
    topics = {f"{kind}_storage_topic": f"slow-{kind}" for kind in ("config", "offset", "status")}
    with live_runner(node.bootstrap, engine, group_id="slow", **topics) as runner:
        try:
            eventually(runner.is_healthy)
            create(runner)
            runner.wait_states("c", "UNASSIGNED", "UNASSIGNED")
            _, found = runner.ask("GET", "/connectors/c")
            assert found["tasks"] == [{"connector": "c", "task": 0}]
            _, (task,) = runner.ask("GET", "/connectors/c/tasks")
            assert task["config"]["task.class"].endswith("FileStreamSinkTask")
            for tasks in (1, 3, 2):
                assert runner.ask("PUT", "/connectors/s/config", source(tasks))[0] in (200, 201)
                runner.wait_states("s", *["UNASSIGNED"] * (tasks + 1))
            assert runner.ask("PUT", "/connectors/s/stop")[0] == 204
            runner.wait_states("s", "STOPPED")
            assert runner.ask("PUT", "/connectors/s/resume")[0] == 202
            runner.wait_states("s", *["UNASSIGNED"] * 3)
        finally:
            engine.may_start.set()
        runner.wait_states("c", "RUNNING", "RUNNING")
        runner.wait_states("s", *["RUNNING"] * 3)


def test_error_without_a_text_is_shown_with_its_type(node: Node) -> None:
    class Failed(FakeEngine):
        def start(self) -> None:
            raise AssertionError

    topics = {f"{kind}_storage_topic": f"bare-{kind}" for kind in ("config", "status")}
    with live_runner(node.bootstrap, Failed(), group_id="bare", **topics) as runner:
        eventually(runner.is_healthy)
        create(runner)
        eventually(lambda: "AssertionError()" in str(runner.ask("GET", "/health")))


def test_progress_metrics_and_logs_show_the_job(
    runner: LiveRunner, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="barnabas.pipeline")
    create(runner)
    eventually(lambda: runner.ask("GET", "/connectors/c/progress")[1]["records"] == 7)
    _, progress = runner.ask("GET", "/progress")
    assert progress["c"]["lag_records"] == 2
    assert progress["c"]["phases_ms"] == {"addBatch": 3}
    eventually(lambda: runner.ask("GET", "/connectors/c/topics")[1] == {"c": {"topics": ["t"]}})
    _, lines = runner.ask("GET", "/connectors/c/logs")
    assert any("started job=c" in line["message"] for line in lines)


def test_secrets_are_hidden_and_kept_when_written_back(runner: LiveRunner) -> None:
    create(runner, **{"sink.password": "s3cret"})
    _, shown = runner.ask("GET", "/connectors/c/config")
    assert shown["sink.password"] == "[hidden]"
    assert "s3cret" not in str(runner.ask("GET", "/connectors?expand=info&expand=status"))
    runner.ask("PUT", "/connectors/c/config", {**shown, "file": "/tmp/changed"})
    eventually(
        lambda: (
            [job.plan.properties["sink.password"] for job in runner.engine.running().values()]
            == ["s3cret"]
        )
    )


def test_reference_that_is_not_allowed_fails_the_job(runner: LiveRunner) -> None:
    status, body = runner.ask(
        "POST", "/connectors", {"name": "c", "config": sink(file="${env:HOME}")}
    )
    assert status == 400
    assert "config.providers.allowed.env does not allow the variable HOME" in body["message"]


def test_resolved_secret_is_not_shown_by_validation(node: Node, tmp_path: Path) -> None:
    (tmp_path / "secrets.properties").write_text("key=s3cret\n")
    allowed = {"config_providers_allowed_paths": str(tmp_path), "group_id": "providers"}
    topics = {"config_storage_topic": "providers-configs"}
    with live_runner(node.bootstrap, **allowed, **topics) as runner:
        eventually(runner.is_healthy)
        reference = f"${{file:{tmp_path}/secrets.properties:key}}"
        config = sink(name="c", **{"tasks.max": reference})
        path = "/connector-plugins/FileStreamSink/config/validate"
        status, body = runner.ask("PUT", path, config)
        assert (status, body["error_count"]) == (200, 2)
        assert "s3cret" not in str(body)
        create(runner, file=reference)
        eventually(lambda: "c" in runner.engine.running())
        assert runner.engine.running()["c"].plan.properties["file"] == "s3cret"
        for part in ("config", "tasks"):
            assert "s3cret" not in str(runner.ask("GET", f"/connectors/c/{part}"))


def test_malformed_body_is_refused(runner: LiveRunner) -> None:
    for body in (b"{", b"[]", b'{"name":"c","config":[]}', b'{"name":"c","config":{"a":[1]}}'):
        status, answer = runner.ask("POST", "/connectors", body)
        assert (status, answer["error_code"]) == (400, 400), body


def test_standby_forwards_writes_and_takes_over(node: Node) -> None:
    names = {"group_id": "standby", "config_storage_topic": "standby-configs"}
    active_engine, standby_engine = FakeEngine(), FakeEngine()
    with ExitStack() as active_ends, ExitStack() as standby_ends:
        active = active_ends.enter_context(live_runner(node.bootstrap, active_engine, **names))
        eventually(active.is_healthy)
        create(active)
        active.wait_states("c", "RUNNING", "RUNNING")
        standby = standby_ends.enter_context(live_runner(node.bootstrap, standby_engine, **names))
        eventually(standby.is_healthy)
        assert standby.states("c") == ["RUNNING", "RUNNING"]
        # A runner that joins does not disturb the jobs of the active one.
        assert (len(active_engine.jobs), active_engine.starts) == (1, 1)
        assert standby_engine.starts == 0
        create(standby, "a b/c")
        active.wait_states("a%20b%2Fc", "RUNNING", "RUNNING")
        assert standby.ask("PUT", "/connectors/a%20b%2Fc/stop")[0] == 204
        active.wait_states("a%20b%2Fc", "STOPPED")
        assert standby.ask("DELETE", "/connectors/a%20b%2Fc/offsets")[0] == 200
        assert standby.ask("DELETE", "/connectors/a%20b%2Fc")[0] == 204
        status, body = standby.ask("POST", "/connectors", {"name": "c", "config": sink()})
        assert (status, body["message"]) == (409, "Connector c already exists")
        status, body = standby.ask("PUT", "/connectors/c/pause?forward=false")
        assert (status, active.url in body["message"]) == (409, True), body
        active_ends.close()
        eventually(lambda: list(standby_engine.running()) == ["c"])
        eventually(lambda: standby.ask("PUT", "/connectors/c/pause")[0] == 202)
        standby.wait_states("c", "PAUSED", "PAUSED")
    assert active_engine.running() == {}


def test_standby_reports_an_active_runner_that_does_not_answer() -> None:
    async def main() -> ConnectRestError:
        error = NotActiveError("http://127.0.0.1:1")
        with pytest.raises(ConnectRestError) as caught:
            await RequestForwarding().send(error, "PUT", "/connectors/c/pause", "", {}, b"")
        return caught.value

    found = trio.run(main)
    assert (found.status, "127.0.0.1:1" in found.message) == (500, True)


def test_engine_starts_with_the_first_job_and_stays(runner: LiveRunner) -> None:
    assert runner.engine.starts == 0
    status, body = runner.ask(
        "POST", "/connectors", {"name": "c", "config": sink(), "initial_state": "STOPPED"}
    )
    assert status == 201, body
    runner.wait_states("c", "STOPPED")
    assert runner.engine.starts == 0
    runner.ask("PUT", "/connectors/c/resume")
    runner.wait_states("c", "RUNNING", "RUNNING")
    runner.ask("DELETE", "/connectors/c")
    eventually(lambda: runner.engine.running() == {})
    assert (runner.engine.starts, runner.engine.is_up) == (1, True)
    assert runner.is_healthy()


def test_isolated_jobs_and_views_run_without_the_shared_session(runner: LiveRunner) -> None:
    create(runner, isolation="own")
    view = {"connector.class": "View", "topics": "t"}
    assert runner.ask("POST", "/connectors", {"name": "v", "config": view})[0] == 201
    for name in ("c", "v"):
        runner.wait_states(name, "RUNNING", "RUNNING")
    assert runner.engine.starts == 0
    assert runner.is_healthy()
    runner.engine.running()["c"].end = JobFailure("connection lost", is_permanent=False)
    eventually(lambda: len([job for job in runner.engine.jobs if job.plan.name == "c"]) == 2)
    runner.wait_states("c", "RUNNING", "RUNNING")
    assert runner.engine.starts == 0


def test_isolated_job_runs_on_when_the_shared_session_ends(runner: LiveRunner) -> None:
    create(runner, "own", isolation="own")
    create(runner, "shared")
    for name in ("own", "shared"):
        runner.wait_states(name, "RUNNING", "RUNNING")
    first = runner.engine.running()
    runner.engine.crash()
    eventually(lambda: runner.engine.starts == 2)
    eventually(lambda: runner.engine.running().keys() == {"own", "shared"})
    assert runner.engine.running()["own"] is first["own"]
    assert runner.engine.running()["shared"] is not first["shared"]


def test_job_moves_between_its_own_application_and_the_shared_session(runner: LiveRunner) -> None:
    create(runner, isolation="own")
    runner.wait_states("c", "RUNNING", "RUNNING")
    for isolation, starts in (("shared", 1), ("own", 1)):
        put = runner.ask("PUT", "/connectors/c/config", sink(name="c", isolation=isolation))
        assert put[0] == 200, put
        eventually(
            lambda wanted=isolation: (
                "c" in runner.engine.running()
                and runner.engine.running()["c"].plan.is_isolated == (wanted == "own")
            )
        )
        assert runner.engine.starts == starts
        runner.wait_states("c", "RUNNING", "RUNNING")


def test_view_in_its_own_application_is_refused(runner: LiveRunner) -> None:
    view = {"connector.class": "View", "topics": "t", "isolation": "own"}
    assert runner.ask("POST", "/connectors", {"name": "v", "config": view})[0] == 201
    eventually(lambda: runner.states("v") == ["FAILED"], lambda: runner.states("v"))
    trace = runner.ask("GET", "/connectors/v/status")[1]["connector"]["trace"]
    assert "A view needs no Spark application" in trace


def test_rebuilt_row_source_loses_its_checkpoint_and_a_row_sink_keeps_it(
    runner: LiveRunner,
) -> None:
    """A sink that starts again would write its rows a second time."""
    source = {"spark.format": "rate", "topic": "t", "checkpoint.location": "/tmp/none/c"}
    sink = {"spark.format": "parquet", "topics": "t", "path": "/tmp/none/rows"}
    sink |= {"schema": "a INT"}
    for name, config in (("source", source), ("sink", sink)):
        plugin = f"barnabas.Spark{name.capitalize()}"
        body = {"name": name, "config": {"connector.class": plugin, **config}}
        status, answer = runner.ask("POST", "/connectors", {**body, "initial_state": "STOPPED"})
        assert status == 201, answer
        runner.wait_states(name, "STOPPED")
    assert runner.ask("DELETE", "/connectors/source/offsets")[0] == 200
    assert runner.ask("DELETE", "/connectors/sink/offsets")[0] == 400
    assert runner.engine.forgotten == [("source", "connect-source", "/tmp/none/c")]


def test_topic_recreated_while_no_runner_runs_keeps_its_stored_id(node: Node) -> None:
    """The engine compares the id in the plan with the topic's, and stops the job."""
    kinds = ("config", "offset", "status")
    topics = {f"{kind}_storage_topic": f"recreated-{kind}" for kind in kinds}
    names = {"group_id": "recreated", **topics}
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    with live_runner(node.bootstrap, **names) as runner:
        eventually(runner.is_healthy)
        create(runner, topics="known")
        runner.wait_states("c", "RUNNING", "RUNNING")
        before = dict(runner.engine.running()["c"].plan.topic_ids)
        assert list(before) == ["known"]
    admin.delete_topics(["known"])["known"].result(30)
    with live_runner(node.bootstrap, **names) as runner:
        eventually(lambda: "c" in runner.engine.running())
        assert runner.engine.running()["c"].plan.topic_ids == before
        # The runner does not create a topic again that the job has read.
        assert "known" not in admin.list_topics(timeout=60).topics
        admin.create_topics([NewTopic("known", 1, 1)])["known"].result(30)
        runner.ask("POST", "/connectors/c/restart")
        eventually(lambda: len(runner.engine.jobs) == 2)
        assert runner.engine.jobs[-1].plan.topic_ids == before
        runner.ask("PUT", "/connectors/c/stop")
        runner.wait_states("c", "STOPPED")
        assert runner.ask("DELETE", "/connectors/c/offsets")[0] == 200
        assert runner.engine.forgotten == [("c", "connect-c", None)]
        runner.ask("PUT", "/connectors/c/resume")
        eventually(lambda: len(runner.engine.jobs) == 3)
        assert list(runner.engine.jobs[-1].plan.topic_ids) == ["known"]
        assert runner.engine.jobs[-1].plan.topic_ids != before


def test_group_of_java_workers_is_refused(node: Node) -> None:
    """A member of protocol type `connect`, as Java's workers are, keeps runners out."""

    class JavaProtocol:
        def protocols(self) -> list[tuple[str, bytes]]:
            return [("sessioned", b"\0\2")]

        def assign(self, protocol: str, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
            return dict.fromkeys(members, b"")

    async def main() -> None:
        async with open_client({"bootstrap.servers": node.bootstrap}) as client:
            settings = GroupSettings("of-java", "connect")
            async with join_group(client, settings, JavaProtocol()) as session:
                await session.wait_assigned()
                activity = Activity(client, "of-java", "configs", "http://127.0.0.1:1")
                with pytest.raises(ForeignGroupError, match="Java's Connect workers"):
                    await activity.run()

    trio.run(main)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::"])
def test_other_address_needs_authentication(host: str) -> None:
    with pytest.raises(HttpStartError, match="without authentication"):
        RunnerListen(ListenAddress(host, 8083)).check()
    protected = HttpOptions(password_file=Path("users"))
    RunnerListen(ListenAddress(host, 8083), protected).check()


def test_created_connector_is_known_although_the_end_of_its_transaction_comes_later(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator answers before the last stable offset passes the records."""
    topics = {f"{kind}_storage_topic": f"later-{kind}" for kind in ("config", "offset", "status")}
    with live_runner(node.bootstrap, group_id="later", **topics) as runner:
        eventually(runner.is_healthy)

        async def end(log: StorageLog, partition: int) -> int:
            return 0

        monkeypatch.setattr(StorageLog, "_end", end)
        for number in range(20):
            create(runner, f"c{number}")


def test_deposed_writer_of_configurations_is_fenced(node: Node) -> None:
    async def main() -> None:
        async with open_client({"bootstrap.servers": node.bootstrap}) as client:
            await create_topic(client, "fenced", partitions=1)
        properties = {"bootstrap.servers": node.bootstrap}
        first, second = (ConfigsWriter(properties, "fencing", "fenced") for _ in range(2))
        await first.take_over()
        await first.write([(b"k", b"1")])
        await second.take_over()
        await second.write([(b"k", b"2")])
        with pytest.raises(ConfigsWriteError) as caught:
            await first.write([(b"k", b"3")])
        assert caught.value.is_fenced
        await second.write([(b"k", b"4")])

    trio.run(main)
