"""The files that `kafka-storage format` of Kafka 4.3 writes, as content.

`bootstrap.checkpoint`, in each log directory, has the feature levels and the SCRAM credentials that
the first controller writes to the quorum's log. With initial controllers (kraft.version 1), the
snapshot `0-0.checkpoint` of the quorum's log has the voters. A node without that snapshot finds the
voters through `controller.quorum.bootstrap.servers`, or has them in `controller.quorum.voters`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from barnabas.cluster.metadata.feature_levels import BOOTSTRAP, KRAFT_VERSION_LATEST
from barnabas.cluster.metadata.image import Endpoint
from barnabas.cluster.quorum.metadata_snapshot import (
    BOOTSTRAP_CHECKPOINT,
    Snapshot,
    SnapshotId,
    encode_snapshot,
)
from barnabas.cluster.quorum.voters import ReplicaKey, Voter, VoterSet
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.metadata_records import FeatureLevelRecord
from barnabas.protocol.types import Uuid

METADATA_DIRECTORY: Final = "__cluster_metadata-0"

_PORT_MAX: Final = 65535


class InitialControllersError(ValueError):
    """A list of initial controllers that cannot be used; the message is one line."""


def parse_initial_controllers(text: str, listener_name: str) -> VoterSet:
    """Return the voters of a list `id@host:port:directoryId,...`, as `DynamicVoters` in Kafka.

    Their endpoints have the name of the first controller listener. Raises InitialControllersError.
    """
    voters: dict[int, Voter] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        voter = _parse_voter(part, listener_name)
        if voter.key.id in voters:
            raise InitialControllersError(
                f"Node id {voter.key.id} was specified more than once in {text}."
            )
        voters[voter.key.id] = voter
    if not voters:
        raise InitialControllersError("No voters given.")
    return VoterSet(voters)


def _parse_voter(text: str, listener_name: str) -> Voter:
    node, at, address = text.partition("@")
    host, separator, rest = address.rpartition(":")
    name, colon, port = host.rpartition(":")
    if not (at and separator and colon):
        raise InitialControllersError(
            f"Failed to parse initial controller {text}: it must be id@host:port:directoryId"
        )
    if not node.isdecimal():
        raise InitialControllersError(f"Failed to parse node id in dynamic voter string {text}.")
    if not (port.isdecimal() and 0 < int(port) <= _PORT_MAX):
        raise InitialControllersError(f"Failed to parse port in dynamic voter string {text}.")
    try:
        directory_id = Uuid.parse(rest)
    except ValueError as error:
        raise InitialControllersError(
            f"Failed to parse directory ID in dynamic voter string {text}: {error}"
        ) from None
    endpoint = Endpoint(listener_name, name.removeprefix("[").removesuffix("]"), int(port))
    return Voter(ReplicaKey(int(node), directory_id), (endpoint,))


def formatted_files(
    *,
    voters: VoterSet | None,
    now_ms: int,
    features: Mapping[str, int] = BOOTSTRAP,
    credentials: Sequence[Message] = (),
) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each file of a new log directory, except `meta.properties`.

    Names are relative to the directory. Without voters there is no snapshot: the directory is not
    for the quorum's log, or the node joins as an observer.
    """
    if voters is not None:
        quorum = Snapshot(
            kraft_version=KRAFT_VERSION_LATEST, voters=voters, last_timestamp_ms=now_ms
        )
        yield f"{METADATA_DIRECTORY}/{SnapshotId(0, 0).file_name}", _encoded(quorum, now_ms)
    levels = sorted(features.items(), key=_metadata_version_first)
    records: list[Message] = [
        FeatureLevelRecord(name=name, feature_level=level) for name, level in levels
    ]
    yield BOOTSTRAP_CHECKPOINT, _encoded(Snapshot(records=[*records, *credentials]), now_ms)


def _encoded(snapshot: Snapshot, now_ms: int) -> bytes:
    return b"".join(encode_snapshot(snapshot, now_ms))


def _metadata_version_first(feature: tuple[str, int]) -> tuple[bool, str]:
    return feature[0] != "metadata.version", feature[0]
