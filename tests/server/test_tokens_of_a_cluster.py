"""Delegation tokens in a cluster: any node creates them, shows them, and lets clients in."""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import trio

from barnabas.client import open_client
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from barnabas.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from barnabas.protocol.messages_base import Message
from barnabas.testing import Cluster, Security

R = TypeVar("R", bound=Message)
CREATE = CreateDelegationTokenRequest(max_lifetime_ms=-1)
DESCRIBE = DescribeDelegationTokenRequest(owners=None)


def ask(properties: Mapping[str, str], request: Message, answer: type[R]) -> R:
    async def send() -> R:
        async with open_client(properties) as client:
            return await client.ask_any(request, answer, timeout_s=60)

    return trio.run(send)


def with_token(
    properties: Mapping[str, str], token: CreateDelegationTokenResponse
) -> dict[str, str]:
    """Return the properties of a client that authenticates with a token."""
    password = base64.b64encode(token.hmac).decode()
    others = {name: properties[name] for name in properties if not name.startswith("sasl.")}
    return {
        **others,
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{token.token_id}" password="{password}" tokenauth="true";',
    }


def test_token_of_one_node_is_a_token_of_each(tmp_path: Path) -> None:
    config = {"delegation.token.secret.key": "secret"}
    with Cluster(3, tmp_path, config, security=Security()) as cluster:
        shared = cluster.client_config()
        addresses = cluster.bootstrap.split(",")
        nodes = [{**shared, "bootstrap.servers": address} for address in addresses]
        created = [ask(node, CREATE, CreateDelegationTokenResponse) for node in nodes]
        assert [each.error_code for each in created] == [ErrorCode.NONE] * 3
        tokens = {each.token_id: each.hmac for each in created}
        assert len(tokens) == 3
        for node in nodes:
            shown = ask(node, DESCRIBE, DescribeDelegationTokenResponse).tokens
            assert {each.token_id: each.hmac for each in shown} == tokens
            for token in created:
                client = with_token(node, token)
                refused = ask(client, DESCRIBE, DescribeDelegationTokenResponse)
                assert refused.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
