"""A planted mistake of the coordinators' shell; the number is that of the mistake table."""

from typing import Any

from barnabas.server.coordinators.group_partition import GroupPartition
from tests.simulation.planting import replaces


@replaces(GroupPartition, "continue_in")
def answer_after_losing_the_partition(*_: Any) -> bool:
    """39: a coordinator continues, with what it has in memory, after it has lost its partition."""
    return True
