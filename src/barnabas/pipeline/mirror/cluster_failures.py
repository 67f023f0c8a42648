"""Failures of a job whose clusters do not answer as it needs."""

from barnabas.client import (
    AuthenticationError,
    ConnectionFailureError,
    UnsupportedVersionError,
)
from barnabas.pipeline.delivery.plan.task_failures import JobStartError, refused
from barnabas.protocol.errors import KafkaError


def unanswered(error: Exception) -> JobStartError:
    """Return the failure of a flow whose clusters do not answer as it needs."""
    is_permanent = isinstance(error, KafkaError) and not error.code.retriable
    if isinstance(error, ConnectionFailureError):
        is_permanent = not error.retriable
    elif isinstance(error, AuthenticationError | UnsupportedVersionError):
        is_permanent = True
    name = f" ({error.code.name})" if isinstance(error, KafkaError) else ""
    return refused(
        f"a cluster of the flow refuses a request or does not answer: {error}{name}",
        is_permanent=is_permanent,
    )
