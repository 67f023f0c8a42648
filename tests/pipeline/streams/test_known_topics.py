"""The ids of topics that an app has read, in Kafka."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from barnabas.pipeline.streams.known_topics import KnownTopics
from barnabas.testing import Node


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as found:
        yield found


def known(node: Node, app: str) -> KnownTopics:
    return KnownTopics(app, {"bootstrap.servers": node.bootstrap})


def test_ids_are_known_to_the_next_process(node: Node) -> None:
    first = known(node, "next")
    assert first.of("query") == {}
    first.remember("query", {"t": "id"})
    first.remember("other", {"u": "1"})
    first.remember("query", {"t": "id", "v": "2"})
    assert first.of("query") == {"t": "id", "v": "2"}
    again = known(node, "next")
    assert (again.of("query"), again.of("other")) == ({"t": "id", "v": "2"}, {"u": "1"})
    assert known(node, "nobody").of("query") == {}


def test_forgotten_ids_are_unknown_to_the_next_process(node: Node) -> None:
    first = known(node, "forgetful")
    first.remember("query", {"t": "id"})
    first.forget("query")
    first.forget("unknown")
    assert first.of("query") == {}
    assert known(node, "forgetful").of("query") == {}


def test_values_of_other_programs_are_left_out(node: Node) -> None:
    known(node, "strange").of("query")
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for key, value in (("a", b"{"), ("b", b"[1]"), (b"\xff", b"{}"), ("d", b'{"t": "id"}')):
        producer.produce("strange-source-topics", value, key)
    assert producer.flush(60) == 0
    found = known(node, "strange")
    assert [dict(found.of(each)) for each in "abd"] == [{}, {}, {"t": "id"}]
