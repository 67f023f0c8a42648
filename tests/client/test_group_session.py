"""Members of a group with a private protocol, on a real node."""

import json
from collections.abc import Iterator, Mapping, Sequence

import pytest
import trio

from barnabas.client import open_client
from barnabas.client.group_session import (
    Assigned,
    GroupEvent,
    GroupSession,
    GroupSettings,
    Revoked,
    join_group,
)
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.leave_group import LeaveGroupRequest
from barnabas.testing import Node
from tests.client.harness import FAST, eventually, run

CONFIG = {"group.min.session.timeout.ms": "500"}


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(config=CONFIG) as running:
        yield running


class SmallestUrl:
    """Elects the member with the smallest url, as a schema registry does."""

    def __init__(self, url: str) -> None:
        self.url = url

    def protocols(self) -> Sequence[tuple[str, bytes]]:
        return [("v0", json.dumps({"url": self.url}).encode())]

    def assign(self, protocol: str, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        urls = sorted(json.loads(metadata)["url"] for metadata in members.values())
        return dict.fromkeys(members, urls[0].encode())


def settings(**changes: object) -> GroupSettings:
    values = {"session_timeout_s": 1.0, "heartbeat_interval_s": 0.1, **changes}
    return GroupSettings("registry", "sr", **values)


class Member:
    """One member with its own client."""

    def __init__(self, node: Node, url: str, **changes: object) -> None:
        self.settings = settings(**changes)
        self.node = node
        self.protocol = SmallestUrl(url)
        self.events: list[GroupEvent] = []
        self.session: GroupSession | None = None
        self.scope = trio.CancelScope()

    async def run(self, task_status: "trio.TaskStatus[None]" = trio.TASK_STATUS_IGNORED) -> None:
        async with open_client({"bootstrap.servers": self.node.bootstrap, **FAST}) as client:
            # The client outlives the membership, which says goodbye on its connections.
            with self.scope:
                async with join_group(
                    client, self.settings, self.protocol, self.events.append
                ) as session:
                    self.session = session
                    task_status.started()
                    await trio.sleep_forever()

    @property
    def elected(self) -> bytes | None:
        if self.session is None or self.session.current is None:
            return None
        return self.session.current.assignment


def test_members_elect_one_leader_and_the_next_when_it_leaves(node: Node) -> None:
    async def test() -> None:
        urls = ("http://c", "http://a", "http://b")
        members = [Member(node, url, session_timeout_s=30.0) for url in urls]
        async with trio.open_nursery() as nursery:
            for member in members:
                await nursery.start(member.run)
            await eventually(lambda: all(each.elected == b"http://a" for each in members))
            members[1].scope.cancel()
            rest = [members[0], members[2]]
            await eventually(lambda: all(each.elected == b"http://b" for each in rest))
            assert members[1].events[-1] == Revoked(is_lost=False)
            nursery.cancel_scope.cancel()
        for member in members:
            for before, after in zip(member.events, member.events[1:], strict=False):
                assert isinstance(before, Assigned) != isinstance(after, Assigned)

    run(test)


def test_member_is_lost_while_the_node_is_away_and_joins_again(node: Node) -> None:
    async def test() -> None:
        member = Member(node, "http://a")
        async with trio.open_nursery() as nursery:
            await nursery.start(member.run)
            await eventually(lambda: member.elected == b"http://a")
            await trio.to_thread.run_sync(node.kill)
            await eventually(lambda: Revoked(is_lost=True) in member.events)
            assert member.elected is None
            await trio.to_thread.run_sync(node.start)
            await eventually(lambda: member.elected == b"http://a")
            nursery.cancel_scope.cancel()

    run(test)


def test_member_with_a_rejoin_request_gets_a_new_generation(node: Node) -> None:
    async def test() -> None:
        member = Member(node, "http://a")
        async with trio.open_nursery() as nursery:
            await nursery.start(member.run)
            assert member.session is not None
            first = await member.session.wait_assigned()
            member.protocol.url = "http://z"
            member.session.request_rejoin()
            await eventually(lambda: member.elected == b"http://z")
            assert member.session.current is not None
            assert member.session.current.generation > first.generation
            nursery.cancel_scope.cancel()

    run(test)


def test_member_refused_for_good_raises_where_it_waits(node: Node) -> None:
    async def test() -> None:
        async with open_client({"bootstrap.servers": node.bootstrap}) as client:
            refused = settings(session_timeout_s=3600.0)
            with pytest.raises(KafkaError) as error:
                async with join_group(client, refused, SmallestUrl("http://a")) as session:
                    await session.wait_assigned()
            assert error.value.code is ErrorCode.INVALID_SESSION_TIMEOUT

    run(test)


def test_removed_member_makes_the_others_rebalance_at_once(node: Node) -> None:
    async def test() -> None:
        first, second = (
            Member(node, url, instance_id=url, session_timeout_s=30.0)
            for url in ("http://a", "http://b")
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(first.run)
            await nursery.start(second.run)
            await eventually(lambda: first.elected == second.elected == b"http://a")
            assert second.session is not None
            generation = (await second.session.wait_assigned()).generation
            # A member that is not there is ignored; the removed one comes back.
            identity = LeaveGroupRequest.MemberIdentity
            absent, present = (identity(group_instance_id=each) for each in ("x", "http://a"))
            await second.session.remove([absent, present])
            await eventually(lambda: Revoked(is_lost=True) in first.events, timeout_s=60)
            await eventually(lambda: first.elected == second.elected == b"http://a")
            assert (await second.session.wait_assigned()).generation > generation
            nursery.cancel_scope.cancel()

    run(test)


def test_static_member_that_leaves_is_not_waited_for(node: Node) -> None:
    async def test() -> None:
        members = [
            Member(node, url, instance_id=url, session_timeout_s=30.0)
            for url in ("http://a", "http://b")
        ]
        async with trio.open_nursery() as nursery:
            for member in members:
                await nursery.start(member.run)
            await eventually(lambda: all(each.elected == b"http://a" for each in members))
            members[0].scope.cancel()
            await eventually(lambda: members[1].elected == b"http://b", timeout_s=60)
            nursery.cancel_scope.cancel()

    run(test)
