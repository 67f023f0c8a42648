"""Leaders by epoch, for any order of responses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.client import Address
from barnabas.client.core.metadata_cache import LeaderHint, MetadataCache
from barnabas.client.core.retry_backoff import Backoff
from barnabas.protocol.messages.metadata import MetadataResponse
from barnabas.protocol.types import Uuid

ID = Uuid(bytes(range(16)))
OTHER = Uuid(bytes(16))


def response(leader: int, epoch: int, topic_id: Uuid = ID) -> MetadataResponse:
    partition = MetadataResponse.MetadataResponsePartition(
        partition_index=0, leader_id=leader, leader_epoch=epoch, replica_nodes=[1, 2, 3]
    )
    return MetadataResponse(
        brokers=[
            MetadataResponse.MetadataResponseBroker(node_id=number, host="h", port=9000 + number)
            for number in (1, 2, 3)
        ],
        topics=[
            MetadataResponse.MetadataResponseTopic(
                name="t", topic_id=topic_id, partitions=[partition]
            )
        ],
    )


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), min_size=1))
def test_cache_keeps_the_leader_of_the_highest_epoch(news: list[tuple[bool, int]]) -> None:
    cache = MetadataCache()
    cache.update(response(1, 0))
    for is_hint, epoch in news:
        leader = epoch % 3 + 1
        if is_hint:
            cache.learn_leader("t", 0, LeaderHint(leader, epoch, None))
        else:
            cache.update(response(leader, epoch))
    newest = max(epoch for _, epoch in news)
    found = cache.leader("t", 0)
    assert found is not None
    assert found.epoch == newest
    assert found.node_id == (newest % 3 + 1 if newest else found.node_id)


def test_cache_topic_created_again_starts_at_a_lower_epoch() -> None:
    cache = MetadataCache()
    cache.update(response(1, 7))
    cache.update(response(2, 0, OTHER))
    found = cache.leader("t", 0)
    assert found is not None
    assert (found.node_id, found.epoch, found.topic_id) == (2, 0, OTHER)


def test_cache_hint_brings_the_address_of_an_unknown_broker() -> None:
    cache = MetadataCache()
    cache.update(response(1, 7))
    assert not cache.learn_leader("t", 0, LeaderHint(9, 8, None))
    assert cache.learn_leader("t", 0, LeaderHint(9, 8, Address("x", 1)))
    assert cache.brokers[9] == Address("x", 1)


def test_cache_forgotten_leader_may_come_back_in_an_older_epoch() -> None:
    cache = MetadataCache()
    cache.update(response(1, 7))
    cache.forget_leader("t", 0)
    assert cache.leader("t", 0) is None
    cache.update(response(2, 6))
    found = cache.leader("t", 0)
    assert found is not None
    assert found.epoch == 6


@given(st.integers(0, 500), st.floats(0, 1, exclude_max=True))
def test_backoff_doubles_up_to_its_maximum(failures: int, unit: float) -> None:
    delay = Backoff(0.1, 1.0).delay_s(failures, unit)
    expected = min(0.1 * 2 ** (failures - 1), 1.0) if failures else 0
    assert delay == pytest.approx(expected * (0.8 + 0.4 * unit))


def test_backoff_differs_by_a_fifth_in_both_directions() -> None:
    delays = [Backoff(0.1, 1.0).delay_s(2, unit) for unit in (0.0, 0.5, 1.0)]
    assert delays == pytest.approx([0.16, 0.2, 0.24])
