"""Why groups rebalanced: asked of their coordinator, which tells it if it is a barnabas.

librdkafka has no way to ask, so this is one request over a socket of its own; where that cannot
be had (another server, TLS, a password) there is no history, and nothing is amiss.
"""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.cli.client_options import Client
    from barnabas.coordinator.groups.rebalance_history import Cause

_TIMEOUT_S = 5.0
_ANSWER_BYTES_MAX = 16 << 20
# The newest versions with tagged fields of their apis.
_CLASSIC_VERSION = 6
_CONSUMER_VERSION = 1


def rebalances(client: Client, group_id: str, described: Any) -> list[Cause]:
    """Give the last causes of a described group, the oldest first; none where they are not told."""
    from barnabas.coordinator.groups.rebalance_history import CAUSES_TAG, decode_causes

    plain = client.properties.get("security.protocol", "plaintext").lower() == "plaintext"
    coordinator = described.coordinator
    if coordinator is None or not plain:
        return []
    request, version = _request(group_id, described.type.name)
    request.unknown_tagged_fields[CAUSES_TAG] = b""
    try:
        answer = _ask(coordinator.host, coordinator.port, request, version)
        told = [group.unknown_tagged_fields.get(CAUSES_TAG) for group in answer.groups]
        return [cause for data in told if data for cause in decode_causes(data)]
    except (OSError, ValueError):
        return []


def _request(group_id: str, kind: str) -> tuple[Any, int]:
    if kind == "CONSUMER":
        from barnabas.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest

        return ConsumerGroupDescribeRequest(group_ids=[group_id]), _CONSUMER_VERSION
    from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest

    return DescribeGroupsRequest(groups=[group_id]), _CLASSIC_VERSION


def _ask(host: str, port: int, request: Any, version: int) -> Any:
    """Send one request and decode its answer; OSError or ValueError where that does not work."""
    from barnabas.protocol.apis import API
    from barnabas.protocol.errors import ProtocolError
    from barnabas.protocol.framing import encode_request

    api = API[request.API_KEY]
    with socket.create_connection((host, port), _TIMEOUT_S) as connection:
        connection.sendall(b"".join(encode_request(1, "barnabas-cli", request, version)))
        with connection.makefile("rb") as answers:
            (length,) = struct.unpack(">i", _exactly(answers, 4))
            if not 4 <= length <= _ANSWER_BYTES_MAX:
                raise ValueError(f"an answer of {length} bytes")
            frame = _exactly(answers, length)
    start = 4 + (api.response_header_version(version) >= 1)
    try:
        return api.response_type.decode_from(frame, start, version)[0]
    except ProtocolError as error:
        raise ValueError(str(error)) from error


def _exactly(answers: Any, size: int) -> bytes:
    data = answers.read(size)
    if len(data) < size:
        raise ConnectionError("the server closed the connection")
    return data
