"""`ReplicaFetchers`: tasks and connections that follow the assignments."""

from typing import Any

import trio

from tests.client.harness import eventually
from tests.server.replication.fetcher_harness import LEADER, Harness, with_fetchers


def test_followers_get_the_leaders_records() -> None:
    async def test(harness: Harness) -> None:
        for number, leader in enumerate(harness.leaders):
            leader.produce(b"%d" % number)
        harness.publish()
        await eventually(lambda: all(each.log.high_watermark == 1 for each in harness.followers))
        assert harness.broker.connections == 1

    with_fetchers(test, partitions=3)


def test_fetcher_connects_again_after_a_lost_connection() -> None:
    async def test(harness: Harness) -> None:
        harness.publish()
        await eventually(lambda: len(harness.fetches) > 2)
        answer, harness.broker.handler = harness.broker.handler, lambda *_: b""
        await eventually(lambda: harness.broker.connections > 2)
        harness.broker.handler = answer
        harness.leaders[0].produce(b"later")
        await eventually(lambda: harness.followers[0].log.log_end_offset == 1)

    with_fetchers(test)


def test_leader_without_an_address_is_tried_again() -> None:
    async def test(harness: Harness) -> None:
        replica = harness.followers[0]
        harness.assignments.follow(replica, LEADER, 0)
        harness.publisher.publish(harness.publisher.image, None)
        await trio.sleep(0.02)
        assert harness.broker.connections == 0
        harness.leaders[0].produce(b"a")
        harness.publish()
        await eventually(lambda: replica.log.log_end_offset == 1)

    with_fetchers(test)


def test_fetcher_without_partitions_ends_with_its_connection() -> None:
    async def test(harness: Harness) -> None:
        harness.publish()
        await eventually(lambda: len(harness.fetches) > 2)
        harness.assignments.unfollow((harness.followers[0].topic_id, 0))
        harness.publisher.publish(harness.publisher.image, None)
        count = len(harness.fetches)
        await trio.sleep(0.05)
        assert len(harness.fetches) <= count + 1
        harness.publish()
        await eventually(lambda: len(harness.fetches) > count + 3)

    with_fetchers(test)


def test_added_partition_does_not_wait_for_a_parked_fetch() -> None:
    async def test(harness: Harness) -> None:
        first, second = harness.followers
        harness.followers = [first]
        harness.publish()
        await eventually(lambda: len(harness.fetches) > 2)
        harness.is_silent = True
        count = len(harness.fetches)
        await eventually(lambda: len(harness.fetches) > count)
        harness.is_silent = False
        harness.leaders[1].produce(b"a")
        harness.followers = [first, second]
        harness.publish()
        await eventually(lambda: second.log.log_end_offset == 1, timeout_s=60)

    with_fetchers(test, partitions=2)


def test_defect_in_a_fetcher_does_not_end_the_node() -> None:
    async def test(harness: Harness) -> None:
        harness.publish()
        await eventually(lambda: len(harness.fetches) > 2)
        (core,) = harness.assignments.cores.values()
        apply = core.on_response

        def fail_once(*arguments: Any, **named: Any) -> None:
            core.on_response = apply
            raise ZeroDivisionError

        core.on_response = fail_once
        harness.leaders[0].produce(b"a")
        await eventually(lambda: harness.followers[0].log.log_end_offset == 1)

    with_fetchers(test)


def test_image_after_the_end_starts_no_fetcher() -> None:
    ended: list[Harness] = []

    async def test(harness: Harness) -> None:
        harness.publish()
        await eventually(lambda: len(harness.fetches) > 2)
        ended.append(harness)

    with_fetchers(test)
    (harness,) = ended
    for follower in harness.followers:
        harness.assignments.unfollow((follower.topic_id, follower.partition))
    harness.publish()
