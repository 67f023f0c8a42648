"""Format a node's log directories, as `kafka-storage format` does."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from barnabas.cluster.metadata.feature_levels import BOOTSTRAP, METADATA_VERSION
from barnabas.cluster.metadata.image import Endpoint
from barnabas.cluster.metadata.releases import METADATA_VERSION_NAMES
from barnabas.cluster.quorum.voters import ReplicaKey, Voter, VoterSet
from barnabas.config import NodeConfig
from barnabas.log import DataDirectoryError
from barnabas.log.checkpoints import META_PROPERTIES, CheckpointError, MetaProperties
from barnabas.log.file_operations import replace_file
from barnabas.protocol.messages_base import Message
from barnabas.protocol.types import Uuid
from barnabas.server.quorum.quorum_files import format_directory


def standalone_voter(config: NodeConfig) -> VoterSet:
    """Return a set with this node as the only voter, and a new directory id.

    Raises DataDirectoryError when the node is not a controller, or has no fixed port.
    """
    if not config.is_controller:
        raise DataDirectoryError("You can only use --standalone on a controller.")
    listener = config.advertised_controller_listeners[0]
    if not listener.port:
        raise DataDirectoryError(
            f"{listener} has no fixed port: the voters of a quorum need one, "
            f"as {listener.name}://{listener.host}:9093 in listeners"
        )
    endpoint = Endpoint(listener.name, listener.host, listener.port)
    return VoterSet.of(Voter(ReplicaKey(config.node_id, Uuid.random()), (endpoint,)))


def format_storage(
    config: NodeConfig,
    *,
    cluster_id: str,
    voters: VoterSet | None,
    now_ms: int,
    features: Mapping[str, int] = BOOTSTRAP,
    credentials: Sequence[Message] = (),
    ignore_formatted: bool = False,
) -> Iterator[str]:
    """Format the directories of a node that are not formatted; yield one line for each.

    The quorum's directory, which is the last, has the id that `voters` states for this node.
    Without voters the node finds its quorum elsewhere. `credentials` are the records of users that
    the cluster has from its first start. Raises DataDirectoryError when a directory
    belongs to another node or cluster, or is formatted and not ignored, and OSError.
    """
    others = [path for path in dict.fromkeys(config.log_dirs) if path != config.metadata_log_dir]
    paths = [*others, config.metadata_log_dir]
    found = {path: _read(path, config, cluster_id) for path in paths}
    if not ignore_formatted:
        for path in filter(found.get, paths):
            raise DataDirectoryError(
                f"Log directory {path} is already formatted. Use --ignore-formatted to ignore "
                "this directory and format the others."
            )
    if all(found.values()):
        yield "All of the log directories are already formatted."
        return
    version = METADATA_VERSION_NAMES[features[METADATA_VERSION]]
    own = voters.voters.get(config.node_id) if voters is not None else None
    for path in paths:
        if found[path]:
            continue
        is_metadata = path == config.metadata_log_dir
        kind = _kind(voters, own) if is_metadata else "data directory"
        yield f"Formatting {kind} {path} with metadata.version {version}."
        format_directory(
            path,
            voters=voters if is_metadata else None,
            now_ms=now_ms,
            features=features,
            credentials=credentials,
        )
        directory_id = own.key.directory_id if own and is_metadata else Uuid.random()
        properties = MetaProperties(cluster_id, config.node_id, directory_id)
        replace_file(path / META_PROPERTIES, properties.encode())


def refuse_unformatted(path: Path) -> None:
    """Raise DataDirectoryError for a directory that holds logs but no `meta.properties`."""
    for entry in path.iterdir() if path.exists() else ():
        if entry.is_dir() and any(entry.glob("*.log")):
            raise DataDirectoryError(
                f"{path} holds {entry.name} but no meta.properties: put that file back, or choose "
                "an empty directory"
            )


def _read(path: Path, config: NodeConfig, cluster_id: str) -> MetaProperties | None:
    file = path / META_PROPERTIES
    try:
        properties = MetaProperties.decode(file.read_bytes())
    except FileNotFoundError:
        refuse_unformatted(path)
        return None
    except CheckpointError as error:
        raise DataDirectoryError(f"{file} is damaged: {error}") from error
    for name, stored, expected in (
        ("cluster.id", properties.cluster_id, cluster_id),
        ("node.id", properties.node_id, config.node_id),
    ):
        if stored != expected:
            raise DataDirectoryError(
                f"Invalid {name} in: {file}. Expected {expected}, but read {stored}"
            )
    return properties


def _kind(voters: VoterSet | None, own: Voter | None) -> str:
    if voters is None:
        return "metadata directory"
    return "dynamic metadata directory" if own is None else "dynamic metadata voter directory"
