"""Produce requests that wait for the in-sync replicas, for the disk, or for both."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.server.api.context import Deferred

if TYPE_CHECKING:
    from barnabas.server.replication.commit_wait import Appended, CommitWaits

PartitionResponse = ProduceResponse.PartitionProduceResponse

_ACKS_ALL = -1


def resolve_when_committed(
    commits: "CommitWaits",
    request: ProduceRequest,
    response: ProduceResponse,
    appended: "Iterable[Appended[PartitionResponse]]",
) -> Deferred:
    """Resolve with `response` once each partition has met the request's acks.

    The answers are filled in already; waiting adds only error codes (Kafka: DelayedProduce).
    """
    deferred = Deferred()
    commits.wait(
        appended,
        _settle,
        lambda: deferred.resolve(response),
        timeout_ms=request.timeout_ms,
        replicated=request.acks == _ACKS_ALL,
    )
    return deferred


def _settle(answer: PartitionResponse, outcome: ErrorCode) -> None:
    if outcome is not ErrorCode.NONE:
        answer.error_code = outcome
