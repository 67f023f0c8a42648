"""Brokers and topics in the Metadata response of a node, for tests without an event loop."""

import socket
from collections.abc import Iterable, Mapping
from typing import Final

import trio

from barnabas.client.broker_connection import open_connection
from barnabas.client.client_config import ClientConfig
from barnabas.client.failures import Address, ClientError
from barnabas.protocol.framing import encode_request
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.testing.eventually import wait_until

_VERSION: Final = 9
_CORRELATION_ID: Final = 1
_TIMEOUT_S: Final = 10.0


def wait_until_known(addresses: Mapping[int, str], client: Mapping[str, str] | None = None) -> None:
    """Return once each of these brokers names all of them. Raises TimeoutError.

    Clients drop their connections to a broker that another one does not name yet. `client` has the
    properties of a client, where the listeners have TLS or SASL.
    """
    every = addresses.values()
    wait_until(lambda: all(known_brokers(each, client) >= addresses.keys() for each in every))


def wait_until_topic_known(addresses: Iterable[str], *topics: str) -> None:
    """Return once each of these nodes names the topics with their partitions. Raises TimeoutError.

    A node that is slow may learn of a new topic after the answer to its creation.
    """
    wanted = list(addresses)
    wait_until(lambda: all(known_topics(each, topics) == {*topics} for each in wanted))


def known_brokers(address: str, client: Mapping[str, str] | None = None) -> set[int]:
    """Return the ids of the brokers that the node at HOST:PORT names; empty without an answer."""
    response = _secure_metadata(address, client) if client else _metadata(address, ())
    return set() if response is None else {broker.node_id for broker in response.brokers}


def known_topics(address: str, topics: Iterable[str]) -> set[str]:
    """Return those of the topics that the node at HOST:PORT knows; empty without an answer."""
    response = _metadata(address, topics)
    return (
        set() if response is None else {t.name for t in response.topics if t.name and t.partitions}
    )


def _metadata(address: str, topics: Iterable[str]) -> MetadataResponse | None:
    """Return what a node answers about these topics; None without an answer."""
    host, _, port = address.rpartition(":")
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=each) for each in topics],
        allow_auto_topic_creation=False,
    )
    try:
        with socket.create_connection((host, int(port)), _TIMEOUT_S) as connection:
            connection.sendall(
                b"".join(encode_request(_CORRELATION_ID, "testing", request, _VERSION))
            )
            with connection.makefile("rb") as answer:
                size = int.from_bytes(answer.read(4), "big")
                frame = answer.read(size)
    except OSError:
        return None
    if not frame or len(frame) != size:
        return None
    response, _ = MetadataResponse.decode_from(frame, 5, _VERSION)  # 5: flexible response header
    return response


def _secure_metadata(address: str, client: Mapping[str, str]) -> MetadataResponse | None:
    """Return what a node answers to a client with these properties; None without an answer."""
    host, _, port = address.rpartition(":")
    config = ClientConfig.from_properties({**client, "bootstrap.servers": address})

    async def ask() -> MetadataResponse | None:
        with trio.move_on_after(_TIMEOUT_S):
            async with trio.open_nursery() as nursery:
                connection = await open_connection(Address(host, int(port)), config, nursery)
                try:
                    return await connection.ask(MetadataRequest(topics=[]), MetadataResponse)
                finally:
                    connection.close()
        return None

    try:
        return trio.run(ask)
    except* ClientError:
        pass
    return None
