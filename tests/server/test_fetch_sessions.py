"""Fetch sessions: epochs, dirty partitions, their order, and evictions from a full cache."""

from itertools import count
from types import SimpleNamespace
from typing import Any

from barnabas.server.replication.fetch_sessions import (
    EVICTION_MS,
    FetchedPartition,
    FetchSession,
    FetchSessionCache,
    Watch,
    next_epoch,
)

NOW_MS = 1_700_000_000_000


def cache_of(slots: int) -> FetchSessionCache:
    numbers = count(1)
    return FetchSessionCache(slots, lambda: next(numbers))


def asked(number: int = 0) -> Any:
    return SimpleNamespace(partition=number)


def create(
    cache: FetchSessionCache, *, partitions: int = 1, privileged: bool = False, now_ms: int = NOW_MS
) -> FetchSession | None:
    return cache.create(
        ((("t", number), asked(number)) for number in range(partitions)),
        by_id=False,
        privileged=privileged,
        now_ms=now_ms,
    )


def partition(topic: str = "t", number: int = 0) -> Any:
    return SimpleNamespace(topic=topic, topic_id=b"id", partition=number, listeners={})


def answer(**changes: Any) -> Any:
    values = {
        "error_code": 0,
        "high_watermark": 5,
        "log_start_offset": 0,
        "preferred_read_replica": -1,
        "diverging_epoch": SimpleNamespace(epoch=-1),
    }
    return SimpleNamespace(**(values | changes))


def test_fetch_session_epoch_wraps_to_1() -> None:
    assert next_epoch(0) == 1
    assert next_epoch(1) == 2
    assert next_epoch((1 << 31) - 1) == 1


def test_fetch_session_new_has_epoch_1_and_all_partitions_dirty() -> None:
    session = create(cache_of(2), partitions=3)
    assert session is not None
    assert session.epoch == 1
    assert [fetched.key for fetched in session.take_dirty()] == [("t", 0), ("t", 1), ("t", 2)]
    assert session.take_dirty() == []


def test_fetch_session_only_changed_partitions_are_dirty() -> None:
    session = create(cache_of(2), partitions=3)
    assert session is not None
    partitions = [partition(number=number) for number in range(3)]
    for fetched in session.take_dirty():
        session.watch.follow(fetched, partitions[fetched.key[1]])
    session.watch.partition_changed(partitions[1])
    assert [fetched.key for fetched in session.take_dirty()] == [("t", 1)]
    session.request(("t", 2), asked(2))
    assert [fetched.key for fetched in session.take_dirty()] == [("t", 2)]


def test_fetch_session_partition_with_records_moves_to_the_end() -> None:
    session = create(cache_of(2), partitions=3)
    assert session is not None
    first = session.take_dirty()[0]
    session.to_end(first)
    session.watch.dirty |= {("t", 0), ("t", 1), ("t", 2)}
    assert [fetched.key[1] for fetched in session.take_dirty()] == [1, 2, 0]


def test_fetch_session_forgotten_partition_has_no_listener() -> None:
    session = create(cache_of(2))
    assert session is not None
    followed = partition()
    session.watch.follow(session.partitions["t", 0], followed)
    assert followed.listeners == {session.watch: None}
    session.forget(("t", 0))
    session.forget(("t", 7))
    assert followed.listeners == {}
    assert session.take_dirty() == []
    assert not session.partitions


def test_fetch_session_recreated_partition_replaces_the_old_one() -> None:
    watch = Watch({}, by_id=True, is_follower=False)
    fetched = FetchedPartition((b"id", 0), asked())
    old, new = partition(), partition()
    watch.follow(fetched, old)
    watch.follow(fetched, new)
    assert (old.listeners, new.listeners) == ({}, {watch: None})
    watch.partition_changed(new)
    assert watch.dirty == {(b"id", 0)}


def test_fetch_session_change_wakes_the_parked_request() -> None:
    watch = Watch({}, by_id=False, is_follower=False)
    woken: list[str] = []
    watch.partition_changed(partition())
    watch.wake = lambda: woken.append("up")
    watch.partition_changed(partition())
    assert woken == ["up"]


def test_fetch_session_unchanged_partition_is_omitted() -> None:
    fetched = FetchedPartition(("t", 0), asked())
    told: list[bool] = []
    for change in (
        {},
        {},
        {"high_watermark": 6},
        {"high_watermark": 6, "log_start_offset": 1},
        {"high_watermark": 6, "log_start_offset": 1},
    ):
        fetched.answer = answer(**change)
        told.append(fetched.is_included())
    assert told == [True, False, True, True, False]


def test_fetch_session_errors_and_the_success_after_them_are_included() -> None:
    fetched = FetchedPartition(("t", 0), asked())
    told: list[bool] = []
    for change in ({}, {"error_code": 6}, {"error_code": 6}, {}, {}):
        fetched.answer = answer(**change)
        told.append(fetched.is_included())
    assert told == [True, True, True, True, False]


def test_fetch_session_records_and_diverging_epochs_are_included() -> None:
    fetched = FetchedPartition(("t", 0), asked())
    fetched.answer = answer()
    fetched.is_included()
    fetched.size = 10
    assert fetched.is_included()
    fetched.size = 0
    fetched.answer = answer(diverging_epoch=SimpleNamespace(epoch=3))
    assert fetched.is_included()


def test_fetch_session_cache_ids_are_unique() -> None:
    numbers = iter([7, 0, 7, 9])
    cache = FetchSessionCache(5, lambda: next(numbers))
    first, second = create(cache), create(cache)
    assert first is not None
    assert second is not None
    assert (first.id, second.id) == (7, 9)


def test_fetch_session_cache_full_of_used_sessions_creates_none() -> None:
    cache = cache_of(2)
    assert create(cache)
    assert create(cache)
    assert create(cache, partitions=50) is None
    assert len(cache) == 2


def test_fetch_session_cache_evicts_the_oldest_stale_session() -> None:
    cache = cache_of(2)
    first, second = create(cache), create(cache)
    assert first is not None
    assert second is not None
    followed = partition()
    second.watch.follow(second.partitions["t", 0], followed)
    cache.touch(first, NOW_MS + 1000)
    newcomer = create(cache, now_ms=NOW_MS + EVICTION_MS + 1)
    assert newcomer is not None
    assert cache.get(second.id) is None
    assert followed.listeners == {}
    assert cache.get(first.id) is first
    assert cache.evictions == 1


def test_fetch_session_cache_old_session_is_evicted_only_for_a_larger_one() -> None:
    cache = cache_of(1)
    old = create(cache, partitions=5)
    assert old is not None
    now_ms = NOW_MS + EVICTION_MS + 1
    cache.touch(old, now_ms)
    assert create(cache, partitions=4, now_ms=now_ms) is None
    assert create(cache, partitions=6, now_ms=now_ms) is not None
    assert cache.get(old.id) is None


def test_fetch_session_cache_follower_evicts_a_consumer_at_once() -> None:
    cache = cache_of(1)
    consumer = create(cache, partitions=100)
    assert consumer is not None
    follower = create(cache, privileged=True)
    assert follower is not None
    assert cache.get(consumer.id) is None
    assert create(cache, partitions=100, now_ms=NOW_MS + 1) is None


def test_fetch_session_cache_without_slots_creates_none() -> None:
    assert create(cache_of(0)) is None


def test_fetch_session_cache_remove_of_an_unknown_session_is_ignored() -> None:
    cache_of(1).remove(5)
