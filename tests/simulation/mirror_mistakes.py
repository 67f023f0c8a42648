"""Planted mistakes in how a leader takes over the batches of a flow."""

from typing import Any

from barnabas.cluster.replication import Partition
from barnabas.log import AppendInfo
from tests.simulation.planting import replaces


@replaces(Partition, "append_mirrored")
def acknowledge_known_batches_at_once(append: Any, *args: Any, **named: Any) -> AppendInfo:
    """A batch that the log has already is acknowledged before the in-sync replicas have it."""
    info = append(*args, **named)
    return info._replace(last_offset=-1) if info.duplicate else info
