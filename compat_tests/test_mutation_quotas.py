"""Quotas of the partitions that clients create and delete a second (KIP-599)."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from compat_tests import wire
from compat_tests.client_quotas import limit
from compat_tests.conftest import Topics

RATE = "controller_mutation_rate"
BURST = 11  # windows of a second
EXCEEDED = 89
UNKNOWN = 3
REFUSED = (EXCEEDED, None)
Unique = Callable[[str], str]


def creation(*sizes: tuple[str, int], validate_only: bool = False) -> CreateTopicsRequest:
    topic = CreateTopicsRequest.CreatableTopic
    topics = [topic(name=n, num_partitions=count, replication_factor=1) for n, count in sizes]
    return CreateTopicsRequest(topics=topics, timeout_ms=30_000, validate_only=validate_only)


def deletion(version: int, *names: str) -> DeleteTopicsRequest:
    if version < 6:
        return DeleteTopicsRequest(topic_names=list(names), timeout_ms=30_000)
    topics = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in names]
    return DeleteTopicsRequest(topics=topics, timeout_ms=30_000)


def addition(name: str, count: int) -> CreatePartitionsRequest:
    topic = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=None)
    return CreatePartitionsRequest(topics=[topic], timeout_ms=30_000)


def outcome(answer: Any) -> tuple[list[tuple[int, str | None]], int]:
    """Return the error of each topic, and the time to wait in ms."""
    found = getattr(answer, "topics", None) or getattr(answer, "responses", None) or answer.results
    codes = [(each.error_code, getattr(each, "error_message", None)) for each in found]
    return codes, answer.throttle_time_ms


def use_up(bootstrap: str, client_id: str, connection: wire.Connection, name: str) -> None:
    """Create a topic whose partitions are five seconds more than the quota has."""
    limit(bootstrap, client_id, RATE, 1)
    codes, throttle_ms = outcome(connection.call(creation((name, BURST + 5)), 7))
    assert [code for code, _ in codes] == [0]
    assert throttle_ms == 0


def test_strict_quota_that_is_used_up_refuses_and_mutes(
    bootstrap: str, client_id: str, unique: Unique
) -> None:
    first, second = unique("mutations"), unique("mutations")
    with wire.Connection(bootstrap) as connection:
        use_up(bootstrap, client_id, connection, first)
        codes, throttle_ms = outcome(connection.call(creation((second, 1)), 7))
        assert codes == [REFUSED]
        assert 2000 < throttle_ms <= 5000
        begun = time.monotonic()
        codes, second_ms = outcome(connection.call(creation((second, 1)), 7))
        waited_ms = (time.monotonic() - begun) * 1000
        assert waited_ms > throttle_ms - 100
        assert codes == [(0, None)]
        assert second_ms == 0


def test_topics_before_the_one_that_uses_the_quota_up_are_created(
    bootstrap: str, client_id: str, unique: Unique
) -> None:
    limit(bootstrap, client_id, RATE, 1)
    names = [unique("mutations") for _ in range(4)]
    with wire.Connection(bootstrap) as connection:
        sizes = [(name, 6) for name in names]
        answer = connection.call(creation(*sizes), 7)
    codes = {each.name: each.error_code for each in answer.topics}
    assert codes == dict(zip(names, [0, 0, EXCEEDED, EXCEEDED], strict=True))
    assert 0 < answer.throttle_time_ms <= 1000


def test_validation_counts_too(bootstrap: str, client_id: str, unique: Unique) -> None:
    limit(bootstrap, client_id, RATE, 1)
    name = unique("mutations")
    with wire.Connection(bootstrap) as connection:
        request = creation((name, BURST + 5), validate_only=True)
        assert outcome(connection.call(request, 7)) == ([(0, None)], 0)
        assert outcome(connection.call(request, 7))[0] == [REFUSED]


@pytest.mark.parametrize(("version", "is_strict"), [(6, True), (5, False)])
def test_creation_is_refused_to_clients_that_know_the_error(
    bootstrap: str, client_id: str, unique: Unique, version: int, is_strict: bool
) -> None:
    first, second = unique("mutations"), unique("mutations")
    with wire.Connection(bootstrap) as connection:
        use_up(bootstrap, client_id, connection, first)
        codes, throttle_ms = outcome(connection.call(creation((second, 1)), version))
    assert codes == [REFUSED if is_strict else (0, None)]
    assert 2000 < throttle_ms <= 6000


@pytest.mark.parametrize(("version", "is_strict"), [(6, True), (5, True), (4, False)])
def test_deletion_is_refused_to_clients_that_know_the_error(
    bootstrap: str, client_id: str, unique: Unique, topics: Topics, version: int, is_strict: bool
) -> None:
    name = topics.create()
    with wire.Connection(bootstrap) as connection:
        use_up(bootstrap, client_id, connection, unique("mutations"))
        answer = connection.call(deletion(version, name), version)
    codes, throttle_ms = outcome(answer)
    assert codes == [REFUSED if is_strict else (0, None)]
    assert answer.responses[0].name == name
    assert 2000 < throttle_ms <= 6000


@pytest.mark.parametrize(("version", "is_strict"), [(3, True), (2, False)])
def test_added_partitions_are_refused_to_clients_that_know_the_error(
    bootstrap: str, client_id: str, unique: Unique, topics: Topics, version: int, is_strict: bool
) -> None:
    name = topics.create()
    with wire.Connection(bootstrap) as connection:
        use_up(bootstrap, client_id, connection, unique("mutations"))
        codes, throttle_ms = outcome(connection.call(addition(name, 2), version))
    assert codes == [REFUSED if is_strict else (0, None)]
    assert 2000 < throttle_ms <= 6000


def test_other_clients_are_not_held_back(
    bootstrap: str, client_id: str, unique: Unique, monkeypatch: pytest.MonkeyPatch
) -> None:
    with wire.Connection(bootstrap) as connection:
        use_up(bootstrap, client_id, connection, unique("mutations"))
    monkeypatch.setattr(wire, "CLIENT_ID", "other")
    assert outcome(wire.call(bootstrap, creation((unique("mutations"), 1)), 7)) == ([(0, None)], 0)


def codes_of_topics(bootstrap: str, *names: str, creates: bool) -> list[int]:
    """Return the errors of a Metadata request for topics, which it may create."""
    wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=creates)
    return [each.error_code for each in wire.call(bootstrap, request, 9).topics]


def test_topics_of_first_use_count_for_the_client(
    bootstrap: str, client_id: str, unique: Unique, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused, created = unique("mutations"), unique("mutations")
    with wire.Connection(bootstrap) as connection:
        use_up(bootstrap, client_id, connection, unique("mutations"))
    assert codes_of_topics(bootstrap, refused, creates=True) == [UNKNOWN]
    monkeypatch.setattr(wire, "CLIENT_ID", "other")
    deadline = time.monotonic() + 60
    while codes_of_topics(bootstrap, created, creates=True) != [0]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    # The controller decided about the other topic first.
    assert codes_of_topics(bootstrap, refused, creates=False) == [UNKNOWN]
