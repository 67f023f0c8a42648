"""The directories of a group's nodes: formatted at the first start, or joined to what exists."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from barnabas.cluster.metadata.image import Endpoint
from barnabas.cluster.quorum.metadata_snapshot import SnapshotId, decode_snapshot
from barnabas.cluster.quorum.quorum_state import FILE_NAME as QUORUM_STATE
from barnabas.cluster.quorum.storage_format import METADATA_DIRECTORY
from barnabas.cluster.quorum.voters import ReplicaKey, Voter, VoterSet
from barnabas.log import DataDirectoryError
from barnabas.log.checkpoints import META_PROPERTIES, CheckpointError, MetaProperties
from barnabas.log.file_operations import replace_file
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.messages_base import Message
from barnabas.protocol.types import Uuid
from barnabas.server.node_group.group_defaults import keep_topic_defaults
from barnabas.server.node_group.group_plan import GroupPlan, PlannedNode
from barnabas.server.quorum.quorum_files import format_directory

_INITIAL_VOTERS: Final = f"{METADATA_DIRECTORY}/{SnapshotId(0, 0).file_name}"


def format_group(
    plan: GroupPlan, now_ms: int, credentials: Sequence[Message] = ()
) -> Iterator[str]:
    """Format the directories that are not formatted; yield a line for each that needs attention.

    A new cluster has the SCRAM `credentials`.

    The initial voters get the same list. When the quorum has already run, a new directory joins it
    as an observer: an empty log must not vote in the place of the one that is missing. The values
    of new topics are kept when nothing is formatted yet. Raises DataDirectoryError when the
    directories do not belong together, and OSError.
    """
    found = {node.node_id: _read(node) for node in plan.nodes}
    clusters = {each.cluster_id for each in found.values() if each is not None}
    if len(clusters) > 1:
        raise DataDirectoryError(
            "the directories of the nodes belong to different clusters: "
            f"{', '.join(sorted(clusters))}; choose another --data"
        )
    if not clusters and plan.topic_defaults:
        keep_topic_defaults(plan.nodes[0].directory.parent, plan.topic_defaults)
    cluster_id = clusters.pop() if clusters else str(Uuid.random())
    voters = None if _has_run(plan) else (_stated_voters(plan) or _new_voters(plan))
    for node in plan.nodes:
        if found[node.node_id] is not None:
            continue
        initial = voters if node.is_controller else None
        if node.is_controller and voters is None:
            yield (
                f"{node.directory} is new in a quorum that has run: node {node.node_id} joins as "
                "an observer; 'barnabas cluster voters add' makes it a voter"
            )
        format_directory(node.directory, voters=initial, now_ms=now_ms, credentials=credentials)
        own = initial.voters.get(node.node_id) if initial is not None else None
        directory_id = own.key.directory_id if own is not None else Uuid.random()
        properties = MetaProperties(cluster_id, node.node_id, directory_id)
        replace_file(node.directory / META_PROPERTIES, properties.encode())


def _read(node: PlannedNode) -> MetaProperties | None:
    file = node.directory / META_PROPERTIES
    try:
        properties = MetaProperties.decode(file.read_bytes())
    except FileNotFoundError:
        return None
    except CheckpointError as error:
        raise DataDirectoryError(f"{file} is damaged: {error}") from error
    if properties.node_id != node.node_id:
        raise DataDirectoryError(f"{file} belongs to node.id {properties.node_id}")
    return properties


def _has_run(plan: GroupPlan) -> bool:
    """True when a node of the group has taken part in a quorum."""
    return any((node.directory / METADATA_DIRECTORY / QUORUM_STATE).exists() for node in plan.nodes)


def _stated_voters(plan: GroupPlan) -> VoterSet | None:
    """Return the voters that an interrupted formatting wrote."""
    for node in plan.controllers:
        voters = _voters_in(node.directory / _INITIAL_VOTERS)
        if voters is not None:
            return voters
    return None


def _voters_in(file: Path) -> VoterSet | None:
    try:
        return decode_snapshot(file.read_bytes()).voters
    except FileNotFoundError:
        return None
    except ProtocolError as error:
        raise DataDirectoryError(f"{file} is damaged: {error}") from error


def _new_voters(plan: GroupPlan) -> VoterSet:
    return VoterSet.of(
        *(
            Voter(
                ReplicaKey(node.node_id, Uuid.random()),
                (Endpoint(plan.listeners.controllers, node.internal_host, node.controller_port),),
            )
            for node in plan.controllers
        )
    )
