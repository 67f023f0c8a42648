"""Planted mistakes that only clients notice: nothing is lost, but their operations fail."""

from typing import Any

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.server.api.handlers.data.fetch_reading import Fetching
from barnabas.server.controller_channel.remote_controller import RemoteController
from tests.simulation.planting import replaces


@replaces(RemoteController, "forward")
async def forward_nothing_after_a_failure(forward: Any, remote: Any, *args: Any) -> object:
    """A broker forwards nothing to a controller to which it has lost a connection."""
    if hasattr(remote, "has_failed"):
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
    try:
        return await forward(remote, *args)
    except KafkaError:
        remote.has_failed = True
        raise


@replaces(Fetching, "_read")
def refuse_the_end_of_the_log(
    read: Any, fetching: Any, fetched: Any, partition: Any, requested: Any
) -> object:
    """A leader refuses the offset after its last record."""
    if fetching._replica < 0 and requested.fetch_offset >= partition.log.log_end_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    return read(fetching, fetched, partition, requested)
