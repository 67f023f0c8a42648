"""DescribeQuorum v0-2: who leads the metadata log, and how far its replicas are."""

from typing import TYPE_CHECKING

from barnabas.cluster.quorum import quorum_description
from barnabas.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)
from barnabas.server.api.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.quorum.quorum import Quorum


def describe_quorum(
    ctx: "RequestContext[Quorum]", request: DescribeQuorumRequest
) -> DescribeQuorumResponse:
    """Describe the quorum, as far as its leader knows it."""
    quorum = ctx.services
    now_ms = quorum.clock.monotonic_ms()
    return quorum_description.describe_quorum(quorum.core, request, ctx.version, now_ms)
