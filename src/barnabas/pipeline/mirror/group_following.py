"""Offsets of groups that the target shall have: a decision, without input or output."""

from collections.abc import Mapping

from barnabas.pipeline.delivery.driver.group_offsets import GroupEntry
from barnabas.pipeline.mirror.flow_values import Partition

Entries = Mapping[Partition, GroupEntry]


def offsets_to_write(
    source: Entries, target: Entries, ends: Mapping[Partition, int]
) -> dict[Partition, GroupEntry]:
    """Return the offsets of a group that the target lacks; `ends` are those of its logs.

    An offset never goes backwards, and never beyond what the target holds: it would be out of range
    for a consumer there. The leader epochs of the source mean nothing at the target.
    """
    found: dict[Partition, GroupEntry] = {}
    for where, entry in source.items():
        if where not in ends:
            continue
        wanted = min(entry.offset, ends[where])
        present = target.get(where, GroupEntry(-1)).offset
        if wanted > present:
            found[where] = GroupEntry(wanted, entry.metadata)
    return found
