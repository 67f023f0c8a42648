"""Views as jobs of the runner, and their look-ups over HTTP."""

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.pipeline.delivery.plan.job_plan import JobKind, JobPlan
from barnabas.pipeline.views import view_job
from barnabas.testing import Node
from tests.pipeline.runner.fake_engine import FakeEngine
from tests.pipeline.runner.live_runner import LiveRunner, eventually, live_runner

PREFIX = "org.apache.kafka.connect"
STRINGS = {
    "key.converter": f"{PREFIX}.storage.StringConverter",
    "value.converter": f"{PREFIX}.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


class ViewEngine(FakeEngine):
    """Runs views; the other jobs are fakes."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.views: list[view_job.ViewJob] = []
        self._directory = directory

    def start_job(self, plan: JobPlan) -> Any:
        if plan.kind is not JobKind.VIEW:
            return super().start_job(plan)
        job = view_job.start(plan, self._directory)
        self.views.append(job)
        return job

    def stop(self) -> None:
        super().stop()
        for job in self.views:
            job.stop()


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as found:
        yield found


@pytest.fixture
def runner(node: Node, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LiveRunner]:
    name = re.sub("[^a-z0-9]+", "-", request.node.name[:80])
    topics = {f"{kind}_storage_topic": f"{name}-{kind}" for kind in ("config", "offset", "status")}
    engine = ViewEngine(tmp_path)
    with live_runner(node.bootstrap, engine, group_id=name, **topics) as found:
        eventually(found.is_healthy)
        yield found


@pytest.fixture
def topic(node: Node, request: pytest.FixtureRequest) -> str:
    name = "table-" + re.sub("[^a-z0-9]+", "-", request.node.name[:80])
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    new = NewTopic(name, 2, 1, config={"cleanup.policy": "compact"})
    admin.create_topics([new])[name].result(30)
    return name


def put(node: Node, topic: str, rows: dict[bytes, bytes | None]) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for key, value in rows.items():
        producer.produce(topic, value, key, timestamp=5)
    assert producer.flush(30) == 0


def create(runner: LiveRunner, topic: str, **more: str) -> None:
    config = {"connector.class": "View", "topics": topic, **STRINGS, **more}
    status, body = runner.ask("POST", "/connectors", {"name": "per-user", "config": config})
    assert status == 201, body


def test_rows_are_found_by_key_and_range(node: Node, runner: LiveRunner, topic: str) -> None:
    put(node, topic, {b"a": b'{"n":1}', b"b": b"2", b"c/d": b'"x"', b"gone": b"1"})
    put(node, topic, {b"gone": None})
    create(runner, topic)
    runner.wait_states("per-user", "RUNNING", "RUNNING")
    eventually(lambda: runner.ask("GET", "/views/per-user/a")[0] == 200)
    assert runner.ask("GET", "/views/per-user/a") == (
        200,
        {"key": "a", "value": {"n": 1}, "timestamp": 5},
    )
    assert runner.ask("GET", f"/views/per-user/{quote('c/d', safe='')}")[1]["value"] == "x"
    status, body = runner.ask("GET", "/views/per-user/gone")
    assert (status, body["message"]) == (404, "The view per-user has no row with the key gone")
    status, first = runner.ask("GET", "/views/per-user?limit=2")
    assert [row["key"] for row in first["rows"]] == ["a", "b"]
    _, second = runner.ask("GET", f"/views/per-user?limit=2&after={first['next']}")
    assert ([row["key"] for row in second["rows"]], second["next"]) == (["c/d"], None)
    _, found = runner.ask("GET", "/views/per-user?from=b&to=c")
    assert [row["key"] for row in found["rows"]] == ["b"]


def test_changes_are_seen_and_progress_is_that_of_a_job(
    node: Node, runner: LiveRunner, topic: str
) -> None:
    create(runner, topic)
    eventually(lambda: runner.ask("GET", "/views/per-user")[0] == 200)
    put(node, topic, {b"a": b"1"})
    eventually(lambda: runner.ask("GET", "/views/per-user/a")[0] == 200)
    status, listed = runner.ask("GET", "/views")
    assert status == 200
    assert (listed["per-user"]["topic"], listed["per-user"]["lag_records"]) == (topic, 0)
    eventually(lambda: runner.ask("GET", "/connectors/per-user/progress")[1]["records"] == 1)


def test_paused_view_is_unavailable_and_resumes(node: Node, runner: LiveRunner, topic: str) -> None:
    put(node, topic, {b"a": b"1"})
    create(runner, topic)
    eventually(lambda: runner.ask("GET", "/views/per-user/a")[0] == 200)
    runner.ask("PUT", "/connectors/per-user/pause")
    eventually(lambda: runner.ask("GET", "/views/per-user/a")[0] == 503)
    put(node, topic, {b"a": b"2"})
    runner.ask("PUT", "/connectors/per-user/resume")
    eventually(lambda: runner.ask("GET", "/views/per-user/a")[1].get("value") == 2)
    assert runner.ask("GET", "/views")[1]["per-user"]["records"] == 1, "only the new record"


def test_windows_and_numbers_are_found(node: Node, runner: LiveRunner, topic: str) -> None:
    def windowed(key: int, start: int) -> bytes:
        return key.to_bytes(8, "big", signed=True) + start.to_bytes(8, "big")

    put(node, topic, {windowed(-7, start): b"%d" % start for start in (0, 100, 200)})
    number = {"key.converter": f"{PREFIX}.converters.LongConverter"}
    create(runner, topic, **number, **{"key.windows": "time", "window.size.ms": "100"})
    eventually(lambda: runner.ask("GET", "/views/per-user/-7")[0] == 200)
    _, found = runner.ask("GET", "/views/per-user/-7?from_ms=100")
    assert found["rows"] == [
        {
            "key": -7,
            "value": start,
            "timestamp": 5,
            "window": {"start_ms": start, "end_ms": start + 100},
        }
        for start in (100, 200)
    ]
    _, first = runner.ask("GET", "/views/per-user?limit=2")
    _, second = runner.ask("GET", f"/views/per-user?limit=2&after={first['next']}")
    assert [row["value"] for row in second["rows"]] == [200]


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/views/other/a", 404, "No view has the name other"),
        ("/views/per-user?limit=0", 400, "limit=0 must be between 1 and 10000"),
        ("/views/per-user?limit=x", 400, "limit=x is not a number"),
        ("/views/per-user?after=%21", 400, "after=! is not the `next` of an answer"),
        ("/views/per-user/x", 400, "invalid literal"),
    ],
)
def test_bad_requests_are_refused(
    runner: LiveRunner, topic: str, path: str, status: int, text: str
) -> None:
    create(runner, topic, **{"key.converter": f"{PREFIX}.converters.LongConverter"})
    eventually(lambda: runner.ask("GET", "/views/per-user")[0] == 200)
    found, body = runner.ask("GET", path)
    assert found == status
    assert text in body["message"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"key.windows": "time"}, "needs the length of windows"),
        ({"topics": "a,b"}, "A view has one topic"),
        ({"key.converter": f"{PREFIX}.json.JsonConverter"}, "schemas.enable=false"),
    ],
)
def test_view_with_bad_properties_fails_with_the_reason(
    runner: LiveRunner, topic: str, change: dict[str, str], text: str
) -> None:
    create(runner, topic, **change)
    eventually(lambda: "FAILED" in runner.states("per-user"))
    _, found = runner.ask("GET", "/connectors/per-user/status")
    assert text in str(found)


def test_bytes_are_looked_up_in_base64(node: Node, runner: LiveRunner, topic: str) -> None:
    put(node, topic, {b"\xff\x00": b"1"})
    create(runner, topic, **{"key.converter": f"{PREFIX}.converters.ByteArrayConverter"})
    key = base64.b64encode(b"\xff\x00").decode()
    eventually(lambda: runner.ask("GET", f"/views/per-user/{quote(key, safe='')}")[0] == 200)
    assert runner.ask("GET", "/views/per-user/!")[0] == 400
