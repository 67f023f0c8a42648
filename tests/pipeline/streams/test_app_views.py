"""Views of an app: look-ups in a table's topic, without Spark."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas import streams as ks
from barnabas.pipeline.views.view_store import ViewStoreError
from barnabas.testing import Node


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as found:
        yield found


@pytest.fixture
def app(node: Node, tmp_path: Path) -> Iterator[ks.App]:
    found = ks.App("app", node.bootstrap, state=tmp_path)
    yield found
    found.stop()


def put(node: Node, topic: str, **rows: bytes) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    if topic not in admin.list_topics(timeout=30).topics:
        admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for key, value in rows.items():
        producer.produce(topic, value, key, timestamp=7)
    assert producer.flush(30) == 0


def test_query_looks_up_keys_and_follows_the_topic(node: Node, app: ks.App) -> None:
    put(node, "users", a=b'{"n":1}', b=b"[2]")
    users = app.query("users", key=ks.String(), value=ks.Json())
    assert (users.get("a"), users.get("b"), users.get("c")) == ({"n": 1}, [2], None)
    assert [row.key for row in users.range("a", "a")] == ["a"]
    put(node, "users", a=b"3")
    again = app.query("users", key=ks.String(), value=ks.Json())
    assert again is users
    assert again.catch_up().get("a") == 3


def test_query_of_windows_returns_them_in_order(node: Node, app: ks.App) -> None:
    keys = [b"k" + start.to_bytes(8, "big") for start in (60_000, 0)]
    put(node, "windows", x=b"1")
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for key in keys:
        producer.produce("counts", (5).to_bytes(8, "big"), key)
    producer.flush(30)
    counts = app.query("counts", key=ks.String(), value=ks.Long(), windows=ks.tumbling("1 minute"))
    found = counts.catch_up().windows("k")
    assert [(row.window, row.value) for row in found] == [((0, 60_000), 5), ((60_000, 120_000), 5)]
    with pytest.raises(ValueError, match="open for time-window keys, not for plain keys"):
        app.query("counts", key=ks.String(), value=ks.Long())


def test_query_with_custom_serde_uses_its_functions(node: Node, app: ks.App) -> None:
    put(node, "custom", a=b"42")
    found = app.query("custom", key=ks.String(), value=ks.Custom("INT", decode=int))
    assert found.get("a") == 42
    put(node, "custom-2", a=b"42")
    unwritten = app.query("custom-2", key=ks.Custom("STRING", decode=bytes.decode))
    with pytest.raises(ValueError, match="Custom needs encode="):
        unwritten.get("a")


def test_second_process_with_the_same_state_is_refused(
    node: Node, app: ks.App, tmp_path: Path
) -> None:
    put(node, "locked", a=b"1")
    app.query("locked")
    second = ks.App("app", node.bootstrap, state=tmp_path)
    with pytest.raises(ViewStoreError, match="in use by another process"):
        second.query("locked")


def test_query_of_a_topic_that_is_not_read_in_time_says_so(app: ks.App) -> None:
    with pytest.raises(ks.ViewNotReadyError, match="the view of missing reads its topic"):
        app.query("missing", timeout_s=0.2)
