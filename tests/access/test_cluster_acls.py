"""ACLs that a client reads: how long they are used, and what refuses the start."""

from typing import Any, cast

import pytest
import trio
import trio.testing

from barnabas.access.cluster_acls import AclSettings, Caller, ClusterAcls
from barnabas.client import BrokerGoneError, KafkaClient
from barnabas.client.failures import Address
from barnabas.cluster.metadata.acls import AclOperation, ResourceType
from barnabas.config import ConfigError
from barnabas.http.authentication import AccessUnavailableError
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.describe_acls import DescribeAclsResponse

ALICE = Caller.named("alice", "127.0.0.1")


class FakeClient:
    """Answers DescribeAcls with one ACL for each name in `readers`, or fails."""

    def __init__(self) -> None:
        self.readers: list[str] = []
        self.code = 0
        self.is_gone = False
        self.asked = 0

    async def ask_any(self, request: Any, answer: Any) -> DescribeAclsResponse:
        self.asked += 1
        await trio.sleep(0.01)
        if self.is_gone:
            raise BrokerGoneError(Address("broker", 9092), "refused")
        entry = DescribeAclsResponse.AclDescription
        acls = [
            entry(principal=f"User:{each}", host="*", operation=3, permission_type=3)
            for each in self.readers
        ]
        resource = DescribeAclsResponse.DescribeAclsResource(
            resource_type=2, resource_name="orders", pattern_type=3, acls=acls
        )
        return DescribeAclsResponse(error_code=self.code, resources=[resource])

    async def retry(self, what: str, attempt: Any) -> Any:
        return await attempt()


def of(client: FakeClient, **settings: Any) -> ClusterAcls:
    return ClusterAcls(cast(KafkaClient, client), AclSettings(**settings))


def reads(acls: ClusterAcls, caller: Caller = ALICE, topic: str = "orders") -> bool:
    return acls.allows(caller, AclOperation.READ, ResourceType.TOPIC, topic, request="test")


def run(test: Any) -> None:
    trio.run(test, clock=trio.testing.MockClock(autojump_threshold=0))


def test_acls_are_read_again_when_they_are_old() -> None:
    async def test() -> None:
        client = FakeClient()
        acls = of(client)
        await acls.load()
        assert not reads(acls)
        client.readers = ["alice"]
        await acls.refresh()
        assert (reads(acls), client.asked) == (False, 1)
        await trio.sleep(5)
        async with trio.open_nursery() as nursery:  # one look for all that wait
            for _ in range(5):
                nursery.start_soon(acls.refresh)
        assert (reads(acls), client.asked) == (True, 2)
        client.readers = []
        await trio.sleep(5)
        await acls.refresh()
        assert not reads(acls)

    run(test)


def test_old_acls_are_used_for_a_minute_without_brokers() -> None:
    async def test() -> None:
        client = FakeClient()
        client.readers = ["alice"]
        acls = of(client)
        await acls.load()
        client.is_gone = True
        await trio.sleep(55)
        await acls.refresh()
        assert reads(acls)
        asked = client.asked
        await acls.refresh()  # less than a second after the last attempt
        assert client.asked == asked
        await trio.sleep(10)
        with pytest.raises(AccessUnavailableError):
            await acls.refresh()
        client.is_gone = False
        await trio.sleep(1)
        await acls.refresh()
        assert reads(acls)

    run(test)


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (ErrorCode.SECURITY_DISABLED, r"set authorizer\.class\.name"),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "needs DESCRIBE on the cluster"),
    ],
)
def test_cluster_whose_acls_cannot_be_read_is_refused(code: ErrorCode, remedy: str) -> None:
    async def test() -> None:
        client = FakeClient()
        client.code = code
        with pytest.raises(ConfigError, match=remedy):
            await of(client).load()

    run(test)


def test_settings_of_the_authorizer_decide_beside_the_acls() -> None:
    async def test() -> None:
        client = FakeClient()
        client.readers = ["bob"]
        properties = {"super.users": "User:root", "allow.everyone.if.no.acl.found": "TRUE"}
        settings = AclSettings.from_properties(properties)
        acls = ClusterAcls(cast(KafkaClient, client), settings)
        await acls.load()
        assert reads(acls, Caller.named("root", "::1"))
        assert not reads(acls)
        assert reads(acls, topic="without-acls")

    run(test)
