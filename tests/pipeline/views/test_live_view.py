"""Views of a node's topics: what is committed is found, and nothing else."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.pipeline.views.live_view import (
    LiveView,
    ViewFailedError,
    ViewNotReadyError,
    ViewRow,
    ViewSpec,
)
from barnabas.pipeline.views.view_codecs import CODECS
from barnabas.pipeline.views.view_feed import ViewFeed
from barnabas.pipeline.views.view_keys import KeyForm, ViewKeys
from barnabas.testing import Node

COMPACT = {"cleanup.policy": "compact"}


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as found:
        yield found


class Table:
    """A topic, its producer, and views of it."""

    def __init__(self, node: Node, name: str, path: Path) -> None:
        self.node = node
        self.name = name
        self.spec = ViewSpec(name, path / "view.sqlite", CODECS["string"], CODECS["json"])
        self.admin = AdminClient({"bootstrap.servers": node.bootstrap})
        self.producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 0})

    def close(self) -> None:
        """Close the clients, which librdkafka does when they are dropped."""
        del self.admin, self.producer

    def create(self, partitions: int = 2, **config: str) -> None:
        new = NewTopic(self.name, partitions, 1, config={**COMPACT, **config})
        self.admin.create_topics([new])[self.name].result(30)

    def delete(self) -> None:
        self.admin.delete_topics([self.name])[self.name].result(30)

    def put(self, **rows: Any) -> None:
        for key, value in rows.items():
            data = None if value is None else CODECS["json"].encode(value)
            self.producer.produce(self.name, data, key, timestamp=1_000)
        assert self.producer.flush(30) == 0

    def view(self, **changes: Any) -> LiveView:
        spec = attrs.evolve(self.spec, **changes)
        return LiveView.open(spec, {"bootstrap.servers": self.node.bootstrap})


@pytest.fixture
def table(node: Node, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Table]:
    made = Table(node, request.node.name[:100], tmp_path)
    yield made
    made.close()


def eventually(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 60
    while not (found := condition()):
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.02)
    return found


def test_get_returns_the_newest_value(table: Table) -> None:
    table.create()
    table.put(a=1, b={"n": [None, "x"]}, c=3)
    table.put(a=2, c=None)
    with table.view() as view:
        view.wait_built()
        assert [view.get(key) for key in "abcd"] == [2, {"n": [None, "x"]}, None, None]
        assert view.get_row("a") == ViewRow("a", 2, 1_000)
        table.put(a=4, d=5)
        view.catch_up()
        assert (view.get("a"), view.get("d")) == (4, 5)
        assert [row.key for row in view.all()] == ["a", "b", "d"]
        assert [row.key for row in view.range("b", "c")] == ["b"]


def test_aborted_and_open_transactions_are_not_seen(table: Table) -> None:
    table.create(1)
    table.put(a=1)
    properties = {"bootstrap.servers": table.node.bootstrap}
    producers = [
        Producer({**properties, "transactional.id": f"{table.name}-{number}"})
        for number in range(2)
    ]
    for producer in producers:
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(table.name, b"2", "a")
        producer.flush(30)
    producers[0].abort_transaction(30)
    with table.view() as view:
        view.wait_built()
        assert view.get("a") == 1
        producers[1].commit_transaction(30)
        assert view.catch_up().get("a") == 2


def test_restart_resumes_at_the_stored_offset(table: Table) -> None:
    table.create(1)
    table.put(a=1, b=1)
    with table.view() as view:
        view.wait_built()
    table.put(a=2)
    with table.view() as view:
        assert view.catch_up().get("a") == 2
        assert view.get("b") == 1
        assert (view.figures.records, view.figures.rebuilds) == (1, 0)


def test_catch_up_waits_for_a_view_that_is_being_opened(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.create(1)
    table.put(a=1)
    with table.view() as view:
        view.wait_built()
    table.put(a=2)
    prepare = ViewFeed._prepare

    async def late(feed: ViewFeed, partition: int, stored: dict[int, int]) -> None:
        await trio.sleep(0.5)
        await prepare(feed, partition, stored)

    monkeypatch.setattr(ViewFeed, "_prepare", late)
    with table.view() as view:
        eventually(lambda: view.is_built)  # its file says so, before any position is known
        assert view.catch_up().get("a") == 2


def test_catch_up_after_the_topic_was_recreated(table: Table) -> None:
    table.create(1)
    table.put(a=1)
    with table.view() as view:
        view.wait_built()
        table.delete()
        table.create(1)
        assert view.catch_up().get("a") is None


def test_queries_before_the_topic_was_read_are_refused(table: Table) -> None:
    with table.view() as view:
        with pytest.raises(ViewNotReadyError, match="reads its topic"):
            view.get("a")
        with pytest.raises(ViewNotReadyError):
            view.wait_built(0.1)
        table.create()
        view.wait_built()
        assert view.get("a") is None


def test_topic_recreated_while_the_view_is_closed_is_read_again(table: Table, caplog: Any) -> None:
    table.create()
    table.put(a=1, b=1, c=1)
    with table.view() as view:
        view.wait_built()
    table.delete()
    table.create()
    table.put(a=7)
    with table.view() as view:
        view.catch_up()
        assert [(row.key, row.value) for row in view.all()] == [("a", 7)]
        assert "was recreated" in (view.figures.rebuilt_because or "")
    assert "rebuilding view" in caplog.text


def test_topic_recreated_while_the_view_runs_is_read_again(table: Table) -> None:
    table.create(1)
    table.put(a=1, b=1, c=1)
    with table.view() as view:
        view.wait_built()
        table.delete()
        table.create(1)
        for number in range(9):
            table.put(a=number, z=number)
        eventually(lambda: view.figures.rebuilds == 1)
        view.catch_up()
        assert [(row.key, row.value) for row in view.all()] == [("a", 8), ("z", 8)]


def test_records_deleted_before_they_were_read_rebuild_the_view(table: Table) -> None:
    from confluent_kafka import TopicPartition

    table.create(1, **{"cleanup.policy": "compact,delete"})
    table.put(a=1)
    with table.view() as view:
        view.wait_built()
    table.put(b=1)
    table.put(c=1)
    for future in table.admin.delete_records([TopicPartition(table.name, 0, 2)]).values():
        future.result(30)
    with table.view() as view:
        eventually(lambda: view.figures.rebuilds == 1)
        view.catch_up()
        assert [row.key for row in view.all()] == ["c"]
        assert "is no longer in the log" in (view.figures.rebuilt_because or "")


def test_view_that_may_have_missed_removals_is_rebuilt(table: Table) -> None:
    table.create(1, **{"delete.retention.ms": "0"})
    table.put(a=1)
    with table.view() as view:
        view.wait_built()
    time.sleep(0.01)
    with table.view() as view:
        view.catch_up()
        assert "keeps the removals of keys" in (view.figures.rebuilt_because or "")


def test_added_partitions_are_read(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.pipeline.views.view_feed._REFRESH_S", 0.05)
    table.create(1)
    with table.view() as view:
        view.wait_built()
        new = NewPartitions(table.name, 3)
        table.admin.create_partitions([new])[table.name].result(30)
        eventually(
            lambda: len(table.admin.list_topics(table.name).topics[table.name].partitions) == 3
        )
        for partition in range(3):
            table.producer.produce(table.name, b"1", f"k{partition}", partition=partition)
        table.producer.flush(30)
        eventually(lambda: view.get("k1") and view.get("k2"))


def test_windows_of_a_key_come_in_their_order(table: Table) -> None:
    table.create()
    for start in (200, 0, 100):
        key = b"k" + start.to_bytes(8, "big")
        table.producer.produce(table.name, b"%d" % start, key)
    table.producer.flush(30)
    with table.view(keys=ViewKeys(KeyForm.TIME_WINDOW, 100)) as view:
        view.wait_built()
        assert [row.window for row in view.windows("k")] == [(0, 100), (100, 200), (200, 300)]
        assert [row.value for row in view.windows("k", 100, 150)] == [100]
        found = view.get_row("k", (100, 200))
        assert found is not None
        assert found.value == 100
        with pytest.raises(ValueError, match="have windows"):
            view.get("k")


def test_key_of_another_form_fails_the_view_with_its_place(table: Table) -> None:
    table.create(1)
    table.put(abc=1)
    with table.view(keys=ViewKeys(KeyForm.SESSION)) as view:
        eventually(lambda: view.failure is not None)
        with pytest.raises(ViewFailedError, match=f"{table.name}-0@0"):
            view.get("abc")
        assert not view.is_running()


def test_query_with_a_key_of_another_type_is_refused(table: Table) -> None:
    table.create()
    with table.view() as view:
        view.wait_built()
        with pytest.raises(ValueError, match="7 is not a text"):
            view.get(7)
        with pytest.raises(ValueError, match="the bytes of 'b' sort after those of 'a'"):
            view.range("b", "a")


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from("abcdef"), st.one_of(st.none(), st.integers(0, 99))),
            max_size=8,
        ),
        min_size=1,
        max_size=4,
    )
)
def test_view_equals_a_dict_over_restarts(
    node: Node, tmp_path_factory: pytest.TempPathFactory, rounds: list[list[tuple[str, Any]]]
) -> None:
    path = tmp_path_factory.mktemp("views")
    table = Table(node, path.name, path)
    table.create(3)
    expected: dict[str, Any] = {}
    read = 0
    for written in rounds:
        for key, value in written:
            table.put(**{key: value})
            expected[key] = value
        rows = {key: value for key, value in expected.items() if value is not None}
        with table.view() as view:
            view.catch_up()
            assert {row.key: row.value for row in view.all()} == rows
            assert {key: view.get(key) for key in expected} == expected
            read += view.figures.records
    assert read == sum(map(len, rounds)), "each record is read once"
