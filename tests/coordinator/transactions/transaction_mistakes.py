"""Planted mistakes of transaction coordinators; the numbers are those of the mistake table.

`test_transaction_simulation` plants more of them.
"""

from collections.abc import Callable
from typing import Any

from barnabas.coordinator.transactions import pending_markers
from barnabas.log.segment.producer_state import ProducerState
from barnabas.protocol.errors import ErrorCode
from tests.simulation.planting import replaces, substituted


@replaces(ProducerState, "check_marker")
def write_markers_of_deposed_coordinators(
    check: Callable[..., None], state: ProducerState, header: Any, marker: Any
) -> None:
    """38: a partition writes the marker of a coordinator that has been deposed."""
    check(state, header, marker._replace(coordinator_epoch=1 << 30))


take_failed_markers_as_written = substituted(
    pending_markers, "_SETTLED", frozenset({ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT})
)
"""38: the error of a marker counts as success."""
