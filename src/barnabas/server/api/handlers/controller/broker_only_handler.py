"""Apis that a controller names in ApiVersions, and that only brokers answer.

`ControllerApis` of Apache Kafka 4.3.0 has no handler for them, so each request fails.
"""

from typing import TYPE_CHECKING, Never

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from barnabas.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from barnabas.server.api.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.quorum.quorum import Quorum


def refuse(
    ctx: "RequestContext[Quorum]",
    request: DescribeDelegationTokenRequest | DescribeUserScramCredentialsRequest,
) -> Never:
    """Raise KafkaError UNKNOWN_SERVER_ERROR."""
    del ctx
    raise KafkaError(
        ErrorCode.UNKNOWN_SERVER_ERROR,
        f"a controller does not answer {type(request).__name__}; send it to a broker",
    )
