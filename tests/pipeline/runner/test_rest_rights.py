"""Connect's REST API on a secured node: users of Kafka, read-only users, and ACLs of topics."""

import base64
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from barnabas.http import HttpOptions
from barnabas.http.http_settings import BY_KAFKA
from barnabas.pipeline.connect.plugin_registry import plugin_registry
from barnabas.pipeline.rest.job_rights import read_topics, written_topics
from tests.pipeline.runner.live_runner import LiveRunner, eventually, live_runner
from tests.secured_node import SecuredNode, add_users, allow, secured_node

SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
COPY = "TopicCopy"
REGISTRY = plugin_registry()


def config(kind: str, **more: str) -> dict[str, str]:
    return {
        "connector.class": kind,
        "tasks.max": "1",
        **{k.replace("_", "."): v for k, v in more.items()},
    }


def writes(kind: str, **more: str) -> list[str]:
    found = config(kind, **more)
    from barnabas.pipeline.connect.connector_validation import find_connector
    from barnabas.pipeline.connect.rest_errors import ConnectRestError

    try:
        plugin = find_connector(REGISTRY, found)
    except ConnectRestError:
        plugin = None
    return list(written_topics(found, plugin))


def test_topics_that_a_configuration_names() -> None:
    mask = {
        "transforms": "m",
        "transforms_m_type": "org.apache.kafka.connect.transforms.MaskField$Value",
    }
    route = {
        "transforms": "m",
        "transforms_m_type": "org.apache.kafka.connect.transforms.RegexRouter",
    }
    assert writes(SOURCE, topic="a") == ["a"]
    assert writes(SOURCE, topic="a", **mask) == ["a"]
    assert writes(SOURCE, topic="a", **route) == ["a", "*"]
    assert writes(SOURCE, topic="${env:T}") == ["*"]
    assert writes(SOURCE, topic="a", offsets_storage_topic="o") == ["o", "a"]
    assert writes(SOURCE) == ["*"]
    assert writes("JdbcSourceConnector", topic_prefix="db-") == ["db-*"]
    assert writes("no.such.Source", topic="a") == ["a", "*"]
    assert writes(SINK, topics="a", **route) == []
    dead = {"errors_deadletterqueue_topic_name": "dead"}
    assert writes(SINK, topics="a", **dead) == ["dead"]
    assert writes(COPY, topics="a", target_topic="b", **dead) == ["dead", "b"]
    assert writes(COPY, topics="a", **route) == ["*"]
    assert list(read_topics(config(SINK, topics="a, b"))) == ["a", "b"]
    assert list(read_topics(config(SINK, topics_regex="a.*"))) == ["*"]
    assert list(read_topics(config(SINK, topics="a,${file:x:y}"))) == ["a", "*"]
    assert list(read_topics(config(SOURCE, topic="a", offsets_storage_topic="o"))) == ["o"]


@pytest.fixture(scope="module")
def node() -> Iterator[SecuredNode]:
    with secured_node() as found:
        add_users(found, "runner", "alice", "bob", "carol", "watcher", "admin")
        allow(found, "runner", "broker:kafka-cluster", "DESCRIBE", "CREATE")
        allow(found, "runner", "topic:*", "ALL")
        allow(found, "runner", "group:*", "ALL")
        allow(found, "runner", "transactional_id:*", "ALL")
        allow(found, "alice", "topic:lines", "WRITE")
        allow(found, "bob", "topic:lines", "READ")
        allow(found, "carol", "topic:lines", "WRITE", host="127.0.0.2")
        yield found


@pytest.fixture(scope="module")
def runner(node: SecuredNode) -> Iterator[LiveRunner]:
    properties = {
        **node.properties("runner", "runner-secret"),
        "barnabas.rest.full.users": "alice,bob,admin",
        "barnabas.rest.authorize": "true",
        "super.users": "User:admin",
    }
    with live_runner(node.sasl, http=HttpOptions(auth=BY_KAFKA), more=properties) as found:
        eventually(lambda: ask(found, "admin", "GET", "/health")[0] == 200)
        write_once(found)
        yield found


def write_once(runner: LiveRunner) -> None:
    """Create a job and delete it: from then on the runner has all of its Kafka clients."""
    first = {"name": "first", "config": config(SOURCE, file="/dev/null", topic="first")}
    assert ask(runner, "admin", "POST", "/connectors", first)[0] == 201
    assert ask(runner, "admin", "DELETE", "/connectors/first")[0] == 204
    eventually(lambda: ask(runner, "admin", "GET", "/connectors")[1] == [])


def ask(runner: LiveRunner, user: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    token = base64.b64encode(f"{user}:{user}-secret".encode()).decode()
    return runner.ask(method, path, body, authorization=f"Basic {token}")


def message(answer: tuple[int, Any]) -> str:
    status, body = answer
    assert (status, body["error_code"]) == (403, 403)
    return body["message"]


def test_rights_on_topics_and_read_only_users(runner: LiveRunner, tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("one\n")
    assert httpx.get(f"{runner.url}/connectors").status_code == 401
    source = config(SOURCE, file=str(file), topic="lines")
    create = {"name": "lines", "config": source}
    refused = ask(runner, "watcher", "POST", "/connectors", create)
    assert message(refused) == "User watcher is a read-only user"
    refused = ask(runner, "bob", "POST", "/connectors", create)
    assert message(refused) == "User bob needs WRITE on the topic lines of the job"
    assert ask(runner, "alice", "POST", "/connectors", create)[0] == 201
    for user in ("watcher", "bob"):
        assert ask(runner, user, "GET", "/connectors")[1] == ["lines"]
        for method, path, body in (
            ("PUT", "/connectors/lines/config", source),
            ("PUT", "/connectors/lines/config", {**source, "topic": "other"}),
            ("PATCH", "/connectors/lines/config", {"topic": "other"}),
            ("PUT", "/connectors/lines/pause", None),
            ("PUT", "/connectors/lines/stop", None),
            ("POST", "/connectors/lines/restart", None),
            ("PATCH", "/connectors/lines/offsets", {"offsets": [{}]}),
            ("DELETE", "/connectors/lines/offsets", None),
            ("DELETE", "/connectors/lines", None),
        ):
            assert ask(runner, user, method, path, body)[0] == 403, (user, method, path)
    refused = ask(runner, "alice", "PATCH", "/connectors/lines/config", {"topic": "other"})
    assert message(refused) == "User alice needs WRITE on the topic other of the job"
    sink = {"name": "out", "config": config(SINK, file=str(tmp_path / "out"), topics="lines")}
    refused = ask(runner, "alice", "POST", "/connectors", sink)
    assert message(refused) == "User alice needs READ on the topic lines of the job"
    other_group = {**sink["config"], "consumer.override.group.id": "billing"}
    refused = ask(runner, "bob", "PUT", "/connectors/out/config", other_group)
    assert message(refused) == "User bob needs READ on the group billing of the job"
    assert ask(runner, "bob", "POST", "/connectors", sink)[0] == 201
    pattern = config(SINK, file=str(tmp_path / "all"), topics_regex=".*")
    refused = ask(runner, "bob", "POST", "/connectors", {"name": "all", "config": pattern})
    assert message(refused) == "User bob needs READ on the topic * of the job"
    assert ask(runner, "alice", "PUT", "/connectors/lines/pause")[0] == 202
    assert ask(runner, "admin", "DELETE", "/connectors/lines")[0] == 204
    assert ask(runner, "bob", "DELETE", "/connectors/out")[0] == 204
    level = ("PUT", "/admin/loggers/org.apache.kafka.connect", {"level": "INFO"})
    assert ask(runner, "watcher", *level)[0] == 403
    assert ask(runner, "alice", *level)[0] == 200


def test_rows_of_a_view_need_read_on_its_topics(runner: LiveRunner) -> None:
    view = {"name": "rows", "config": config("barnabas.ViewConnector", topics="lines")}
    refused = ask(runner, "alice", "POST", "/connectors", view)
    assert message(refused) == "User alice needs READ on the topic lines of the job"
    status, answer = ask(runner, "bob", "POST", "/connectors", view)
    assert status == 201, answer
    for path in ("/views/rows", "/views/rows/key"):
        refused = ask(runner, "alice", "GET", path)
        assert message(refused) == "User alice needs READ on the topic lines of the job"
        assert ask(runner, "bob", "GET", path)[0] == 503  # the engine of the test runs no view
    assert ask(runner, "bob", "DELETE", "/connectors/rows")[0] == 204


def test_address_of_the_first_caller_decides_about_a_forwarded_request(
    node: SecuredNode, tmp_path: Path
) -> None:
    """The active runner sees the address of the one on standby."""
    properties = {
        **node.properties("runner", "runner-secret"),
        "barnabas.rest.authorize": "true",
        "super.users": "User:admin",
        "group.id": "addresses",
        "config.storage.topic": "addresses-configs",
    }
    file = tmp_path / "lines.txt"
    file.write_text("one\n")

    def start(stack: ExitStack) -> LiveRunner:
        http = HttpOptions(auth=BY_KAFKA)
        runner = stack.enter_context(live_runner(node.sasl, http=http, more=properties))
        eventually(lambda: ask(runner, "admin", "GET", "/health")[0] == 200)
        return runner

    def create(runner: LiveRunner, address: str, **headers: str) -> int:
        transport = httpx.HTTPTransport(local_address=address)
        with httpx.Client(transport=transport, timeout=60) as client:
            return client.put(
                f"{runner.url}/connectors/a%20b/config",
                json=config(SOURCE, file=str(file), topic="lines"),
                headers=headers,
                auth=("carol", "carol-secret"),
            ).status_code

    with ExitStack() as stack:
        active = start(stack)
        standby = start(stack)
        assert create(active, "127.0.0.1") == create(standby, "127.0.0.1") == 403
        forged = {"x-barnabas-first-caller": f"{int(time.time())} 127.0.0.2 {'A' * 43}="}
        assert create(active, "127.0.0.1", **forged) == 403
        assert create(standby, "127.0.0.2") == 201
        assert create(active, "127.0.0.2") == 200
