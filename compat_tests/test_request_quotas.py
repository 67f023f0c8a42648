"""Quotas of request time: any request may be throttled, by at most one second."""

import time
from typing import Any

from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.list_groups import ListGroupsRequest
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest
from compat_tests import wire
from compat_tests.client_quotas import fetch_request, limit, produce_request
from compat_tests.conftest import Topics

PERCENTAGE = "request_percentage"


def exhaust(connection: wire.Connection, request: Any, version: int) -> Any:
    """Send requests until one is throttled; return its response."""
    for _ in range(200):
        answer = connection.call(request, version)
        if answer.throttle_time_ms:
            return answer
    raise AssertionError("no request was throttled")


def test_requests_of_each_kind_are_throttled(bootstrap: str, client_id: str) -> None:
    limit(bootstrap, client_id, PERCENTAGE, 0.01)
    with wire.Connection(bootstrap) as connection:
        exhaust(connection, MetadataRequest(topics=[]), 12)
        for request, version in (
            (MetadataRequest(topics=[]), 12),
            (ListGroupsRequest(), 4),
            (FindCoordinatorRequest(coordinator_keys=["g"]), 4),
            (ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3),
            (CreateDelegationTokenRequest(max_lifetime_ms=-1), 3),  # refused on this listener
            (ListPartitionReassignmentsRequest(topics=[]), 0),  # forwarded to the controller
        ):
            begun = time.monotonic()
            answer = connection.call(request, version)
            assert 0 < answer.throttle_time_ms <= 1000
            assert time.monotonic() - begun < 10


def test_throttled_request_mutes_the_connection(bootstrap: str, client_id: str) -> None:
    limit(bootstrap, client_id, PERCENTAGE, 0.01)
    with wire.Connection(bootstrap) as connection:
        answer = exhaust(connection, MetadataRequest(topics=[]), 12)
        begun = time.monotonic()
        connection.call(MetadataRequest(topics=[]), 12)
        waited_ms = (time.monotonic() - begun) * 1000
        assert answer.throttle_time_ms - 100 < waited_ms < answer.throttle_time_ms + 10_000


def test_response_without_a_throttle_time_is_sent_and_mutes_the_connection(
    bootstrap: str, client_id: str
) -> None:
    limit(bootstrap, client_id, PERCENTAGE, 0.0001)  # each request is throttled by a second
    with wire.Connection(bootstrap) as connection:
        begun = time.monotonic()
        exhaust(connection, MetadataRequest(topics=[]), 12)
        assert connection.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 34
        connection.call(MetadataRequest(topics=[]), 12)
        assert time.monotonic() - begun > 1.9


def test_throttled_fetch_is_empty_and_throttled_produce_is_written(
    bootstrap: str, client_id: str, topics: Topics
) -> None:
    topic = topics.create("request-time")
    limit(bootstrap, client_id, PERCENTAGE, 0.01)
    with wire.Connection(bootstrap) as connection:
        exhaust(connection, MetadataRequest(topics=[]), 12)
        produced = connection.call(produce_request(topic, 1000), 9)
        assert produced.throttle_time_ms
        assert produced.responses[0].partition_responses[0].error_code == 0
        answer = connection.call(fetch_request(topic), 12)
        assert answer.throttle_time_ms
        assert answer.responses == []


def test_client_within_its_quota_is_not_throttled(bootstrap: str, client_id: str) -> None:
    limit(bootstrap, client_id, PERCENTAGE, 1000)
    with wire.Connection(bootstrap) as connection:
        for _ in range(200):
            assert connection.call(MetadataRequest(topics=[]), 12).throttle_time_ms == 0
