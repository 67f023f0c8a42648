"""Clients that a quota holds back: the requests that they send meanwhile, and their end."""

import time
from collections.abc import Callable

import pytest

from barnabas.protocol.messages.list_offsets import ListOffsetsRequest
from compat_tests import wire
from compat_tests.client_quotas import PRODUCER, limit, produce_request
from compat_tests.conftest import Topics
from compat_tests.servers import ServerProcess

LATEST = -1


def end_offset(bootstrap: str, topic: str) -> int:
    partition = ListOffsetsRequest.ListOffsetsPartition(timestamp=LATEST)
    data = ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[partition])
    answer = wire.call(bootstrap, ListOffsetsRequest(replica_id=-1, topics=[data]), 5)
    return answer.topics[0].partitions[0].offset


def test_request_sent_while_muted_is_carried_out_after_its_client_has_closed(
    bootstrap: str, topics: Topics, client_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = topics.create()
    limit(bootstrap, client_id, PRODUCER, 1000)
    with wire.Connection(bootstrap) as connection:
        throttle_ms = connection.call(produce_request(topic, 13_000), 9).throttle_time_ms
        assert 2500 < throttle_ms < 3500
        begun = time.monotonic()
        connection.send(produce_request(topic, 10, acks=0), 9)
    monkeypatch.setattr(wire, "CLIENT_ID", "other")
    assert end_offset(bootstrap, topic) == 1
    while end_offset(bootstrap, topic) == 1:
        assert time.monotonic() - begun < 20
        time.sleep(0.05)
    assert time.monotonic() - begun > throttle_ms / 1000 - 0.1


def test_client_that_is_muted_for_longer_than_it_may_be_idle_is_disconnected(
    start_server: Callable[..., ServerProcess], client_id: str
) -> None:
    server = start_server({"connections.max.idle.ms": "2000"})
    limit(server.bootstrap, client_id, PRODUCER, 1000)
    with wire.Connection(server.bootstrap) as connection:
        answer = connection.call(produce_request("none", 40_000), 9)
        assert answer.throttle_time_ms > 25_000
        begun = time.monotonic()
        assert connection.closes_silently(20)
        assert time.monotonic() - begun > 1.5
