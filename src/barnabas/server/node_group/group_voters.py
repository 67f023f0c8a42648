"""The voters that the directories of a group state, in their snapshots and their logs.

Read before the nodes start, so nothing is locked or written. A damaged file ends the reading of
this file only: the node that owns it reports the damage when it starts.
"""

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from barnabas.cluster.quorum.metadata_snapshot import (
    SnapshotId,
    decode_control_record,
    decode_snapshot,
)
from barnabas.cluster.quorum.storage_format import METADATA_DIRECTORY
from barnabas.cluster.quorum.voters import VoterSet
from barnabas.protocol.batches.batch_header import iter_batches
from barnabas.protocol.batches.record_decoding import read_records
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.records.control_records import VotersRecord


class _Stated(NamedTuple):
    """Voters, and the position in the log up to which they are the latest."""

    epoch: int
    end_offset: int
    voters: VoterSet


def latest_voters(data: Path) -> VoterSet | None:
    """Return the latest voters that the directories `data`/node-* state; None without any."""
    stated = [each for directory in data.glob("node-*") for each in _stated(directory)]
    return max(stated, key=lambda each: each[:2]).voters if stated else None


def _stated(directory: Path) -> Iterator[_Stated]:
    """Yield the voters of each snapshot and of each record in a node's directory."""
    for path in (directory / METADATA_DIRECTORY).glob("*"):
        try:
            snapshot_id = SnapshotId.parse(path.name)
            if snapshot_id is not None:
                voters = decode_snapshot(path.read_bytes()).voters
                if voters is not None:
                    yield _Stated(snapshot_id.epoch, snapshot_id.end_offset, voters)
            elif path.suffix == ".log" and path.stat().st_size:
                yield from _in_segment(path)
        except (ProtocolError, ValueError):
            continue


def _in_segment(path: Path) -> Iterator[_Stated]:
    with path.open("rb") as file:
        content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    for position, header in iter_batches(content):
        if not header.is_control:
            continue
        for record in read_records(content, position, header):
            message = decode_control_record(record)
            if isinstance(message, VotersRecord):
                voters = VoterSet.from_record(message)
                yield _Stated(header.partition_leader_epoch, record.offset + 1, voters)
