"""Committed offsets of groups by barnabas's own client, and REST requests that change them."""

from collections.abc import Iterator

import pytest
import trio

from barnabas.client import open_client
from barnabas.client.admin_calls import create_topic
from barnabas.pipeline.delivery.driver import group_offsets
from barnabas.pipeline.delivery.driver.group_offsets import GroupOffsets, GroupOffsetsError
from barnabas.testing import Node
from tests.pipeline.runner.live_runner import LiveRunner, eventually, live_runner


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as found:
        yield found


def test_offsets_of_partitions_are_set_and_removed_one_by_one(node: Node) -> None:
    async def main() -> None:
        async with open_client({"bootstrap.servers": node.bootstrap}) as client:
            await create_topic(client, "read", partitions=3)
            offsets = GroupOffsets(client)
            assert await offsets.committed("g") == {}
            await offsets.reset("g")
            await offsets.alter("g", {("read", 0): 5, ("read", 2): 7, ("read", 1): 6})
            await offsets.alter("g", {("read", 1): None, ("read", 2): 8})
            assert await offsets.committed("g") == {("read", 0): 5, ("read", 2): 8}
            with pytest.raises(GroupOffsetsError, match="read-9: UNKNOWN_TOPIC_OR_PARTITION"):
                await offsets.alter("g", {("read", 9): 1})
            await offsets.reset("g")
            assert await offsets.committed("g") == {}

    trio.run(main)


def test_broker_that_does_not_answer_is_an_error_of_the_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_offsets, "_TIMEOUT_S", 0.5)

    async def main() -> None:
        with Node() as gone:
            bootstrap = gone.bootstrap
        async with open_client({"bootstrap.servers": bootstrap}) as client:
            with pytest.raises(GroupOffsetsError, match=r"offsets of group g .*0.5 s"):
                await GroupOffsets(client).committed("g")

    trio.run(main)


@pytest.fixture(scope="module")
def runner(node: Node) -> Iterator[LiveRunner]:
    with live_runner(node.bootstrap, group_id="offsets") as found:
        eventually(found.is_healthy)
        config = {"connector.class": "FileStreamSink", "topics": "some", "file": "/dev/null"}
        body = {"name": "c", "config": config, "initial_state": "STOPPED"}
        assert found.ask("PUT", "/connectors/c/config", config)[0] in (200, 201)
        assert found.ask("POST", "/connectors", body)[0] == 409
        assert found.ask("PUT", "/connectors/c/stop")[0] == 204
        found.wait_states("c", "STOPPED")
        yield found


def change(topic: str, partition: int, offset: int | None) -> object:
    place = {"kafka_topic": topic, "kafka_partition": partition}
    return {"partition": place, "offset": None if offset is None else {"kafka_offset": offset}}


def test_request_removes_the_offset_of_one_partition(node: Node, runner: LiveRunner) -> None:
    async def create() -> None:
        async with open_client({"bootstrap.servers": node.bootstrap}) as client:
            await create_topic(client, "other", partitions=2)

    trio.run(create)
    path = "/connectors/c/offsets"
    both = {"offsets": [change("other", 0, 4), change("other", 1, 5)]}
    assert runner.ask("PATCH", path, both)[0] == 200
    assert runner.ask("PATCH", path, {"offsets": [change("other", 0, None)]})[0] == 200
    assert runner.ask("GET", path) == (200, {"offsets": [change("other", 1, 5)]})


def test_request_for_a_topic_that_does_not_exist_is_an_error(runner: LiveRunner) -> None:
    status, body = runner.ask("PATCH", "/connectors/c/offsets", {"offsets": [change("no", 0, 1)]})
    assert (status, body["message"]) == (500, "no-0: UNKNOWN_TOPIC_OR_PARTITION")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded"])
def test_body_that_a_page_in_a_browser_can_send_is_refused(runner: LiveRunner, kind: str) -> None:
    config = b'{"connector.class": "FileStreamSink", "topics": "t", "file": "/tmp/page"}'
    body = b'{"name": "page", "config": %s, "initial_state": "STOPPED"}' % config
    status, answer = runner.ask("POST", "/connectors", body, kind)
    assert (status, "Content-Type: application/json" in answer["message"]) == (415, True)
    assert runner.ask("POST", "/connectors", body, "application/JSON; charset=utf-8")[0] == 201
    assert runner.ask("DELETE", "/connectors/page")[0] == 204


def test_numbers_of_a_configuration_are_the_texts_of_the_request(runner: LiveRunner) -> None:
    body = b'{"connector.class": "FileStreamSink", "topics": "some", "file": "/dev/null", %s}'
    numbers = b'"a": 1e5, "b": 1E400, "c": 0.10, "d": 12345678901234567890, "e": true'
    status, answer = runner.ask("PUT", "/connectors/c/config", body % numbers)
    shown = {name: answer["config"][name] for name in "abcde"}
    texts = {"a": "1e5", "b": "1E400", "c": "0.10", "d": "12345678901234567890", "e": "true"}
    assert (status, shown) == (200, texts)
    assert runner.ask("PUT", "/connectors/c/config", body % b'"a": NaN')[0] == 400


@pytest.mark.parametrize("number", range(5))
def test_job_that_is_stopped_while_it_starts_has_no_tasks(runner: LiveRunner, number: int) -> None:
    config = {"connector.class": "FileStreamSink", "topics": "some", "file": "/dev/null"}
    assert runner.ask("PUT", f"/connectors/s{number}/config", config)[0] == 201
    assert runner.ask("PUT", f"/connectors/s{number}/stop")[0] == 204
    runner.wait_states(f"s{number}", "STOPPED")
    path = f"/connectors/s{number}/offsets"
    eventually(lambda: runner.ask("DELETE", path)[0] == 200, lambda: runner.ask("DELETE", path))


def test_half_of_a_surrogate_pair_is_refused(runner: LiveRunner) -> None:
    body = b'{"name": "\\ud800", "config": {"connector.class": "FileStreamSink"}}'
    status, answer = runner.ask("POST", "/connectors", body)
    assert (status, "surrogates not allowed" in answer["message"]) == (400, True)
