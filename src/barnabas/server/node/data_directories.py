"""The data directories of a node: locking, formatting, and checks of their owner."""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from barnabas.cluster.metadata.image import Endpoint
from barnabas.cluster.quorum.voters import ReplicaKey, Voter, VoterSet
from barnabas.config import ConfigError, NodeConfig, TopicConfig
from barnabas.log import DataDirectoryError, FileCache, LogConfig, LogManager, Volume
from barnabas.log.checkpoints import MetaProperties
from barnabas.protocol.types import Uuid
from barnabas.server.node.endpoints import registered
from barnabas.server.node.storage_formatting import refuse_unformatted
from barnabas.server.node_failures import StartupError
from barnabas.server.open_files import log_files_max
from barnabas.server.quorum.quorum_files import format_directory

if TYPE_CHECKING:
    from barnabas.server.node.node import Node


logger = logging.getLogger(__name__)

_CORDONED: Final = "cordoned.log.dirs"
_RECOVERY_THREADS: Final = "num.recovery.threads.per.data.dir"


def open_data(node: "Node") -> LogManager:
    """Lock and check the node's directories, and find the logs in them.

    Sets `node.cluster_id`. New directories of a single node are formatted as by `kafka-storage
    format --standalone`. A directory that fails is left out while others work. Raises StartupError
    when a directory is in use, damaged, not formatted, or another node's.
    """
    config = node.config
    paths = dict.fromkeys((*config.log_dirs, config.metadata_log_dir))
    files = FileCache(log_files_max())
    volumes = [Volume(path, files) for path in paths]
    try:
        for volume in volumes:
            _call_or_fail(volume, config, volume.lock)
        endpoints = registered(node, config.advertised_controller_listeners)
        node.cluster_id = _identify(volumes, config, endpoints, node.clock.wall_ms())
        for volume in volumes:
            _call_or_fail(volume, config, volume.load_checkpoints)
        logs = LogManager(
            [volume for volume in volumes if volume.path in config.log_dirs],
            next(volume for volume in volumes if volume.path == config.metadata_log_dir),
            LogConfig.from_topic(TopicConfig(config)),
            recovery_threads=config.get_int(_RECOVERY_THREADS),
        )
        logs.open()
        logs.cordon(config.cordoned_log_dirs())
        node.settings.subscribe([_CORDONED], partial(_cordon, logs))
        node.settings.subscribe([_RECOVERY_THREADS], partial(_resize_recovery, logs))
        _check_enough_left(logs)
        _report_failures(node, logs)
    except BaseException as error:
        for volume in volumes:
            volume.unlock()
        if isinstance(error, DataDirectoryError | ConfigError):
            raise StartupError(str(error)) from error
        if isinstance(error, OSError):
            raise StartupError(f"cannot use the data directories: {error}") from error
        raise
    return logs


def _cordon(logs: LogManager, config: NodeConfig) -> None:
    """Keep new partitions out of other directories than before; the next heartbeat reports them."""
    try:
        logs.cordon(config.cordoned_log_dirs())
    except ConfigError as error:
        logger.warning("cannot apply the dynamic configuration error=%s", error.message)


def _resize_recovery(logs: LogManager, config: NodeConfig) -> None:
    """Use a changed number of threads to close the logs at shutdown (as in Kafka)."""
    logs.recovery_threads = config.get_int(_RECOVERY_THREADS)


def _call_or_fail(volume: Volume, config: NodeConfig, call: Callable[[], object]) -> None:
    """Call `call`; mark a broken directory as failed when the node can run without it."""
    if volume.failure is not None:
        return
    try:
        call()
    except OSError as error:
        if volume.path == config.metadata_log_dir:
            is_file = isinstance(error, FileExistsError)
            reason = "it is a file, and the data needs a directory" if is_file else error
            raise DataDirectoryError(f"cannot use {volume.path}: {reason}") from error
        volume.fail(error)


def _check_enough_left(logs: LogManager) -> None:
    if logs.is_lost:
        raise DataDirectoryError(lost_directories(logs))


def lost_directories(logs: LogManager) -> str:
    """Return why a node cannot continue when its directories are lost, with each failed one."""
    quorum = logs.metadata_volume
    if quorum.failure is not None:
        return f"the quorum's log in {quorum.path} cannot be used: {quorum.failure}"
    return "no data directory can be used: " + "; ".join(
        f"{volume.path}: {volume.failure}" for volume in logs.volumes
    )


def _report_failures(node: "Node", logs: LogManager) -> None:
    """Report failed directories to the controller and end the fetches into them.

    Stop the node when the quorum's directory or the last one fails.
    """
    in_loop = trio.lowlevel.current_trio_token()

    def failed(_: Volume) -> None:
        in_loop.run_sync_soon(node.directory_failed)

    for volume in {*logs.volumes, logs.metadata_volume}:
        volume.on_failure = failed


def _identify(
    volumes: list[Volume],
    config: NodeConfig,
    controller_endpoints: tuple[Endpoint, ...],
    now_ms: int,
) -> str:
    """Return the id of the directories' cluster; new directories join it.

    Raises DataDirectoryError, or OSError when a file cannot be read.
    """
    found = {volume: volume.read_properties() for volume in volumes if volume.failure is None}
    cluster_id: str | None = None
    for volume, properties in found.items():
        if properties is None:
            continue
        if properties.node_id != config.node_id:
            raise DataDirectoryError(
                f"{volume.path} belongs to node.id {properties.node_id}, not {config.node_id}: "
                "set node.id to that, or choose another directory"
            )
        if cluster_id is not None and properties.cluster_id != cluster_id:
            raise DataDirectoryError(
                f"{volume.path} belongs to cluster {properties.cluster_id}, the others to "
                f"{cluster_id}: give a node directories of one cluster"
            )
        cluster_id = properties.cluster_id
    is_new = cluster_id is None
    _check_formatted(found, config, is_new=is_new)
    cluster_id = cluster_id or str(Uuid.random())
    for volume, properties in found.items():
        directory_id = properties.directory_id if properties else None
        if directory_id is None:
            directory_id = Uuid.random()
        if is_new:
            key = ReplicaKey(config.node_id, directory_id)
            voters = VoterSet.of(Voter(key, controller_endpoints))
            is_metadata = volume.path == config.metadata_log_dir
            format_directory(volume.path, voters=voters if is_metadata else None, now_ms=now_ms)
        if properties is None or properties.directory_id is None:
            volume.write_properties(MetaProperties(cluster_id, config.node_id, directory_id))
    return cluster_id


def _check_formatted(
    found: Mapping[Volume, MetaProperties | None], config: NodeConfig, *, is_new: bool
) -> None:
    """Raise DataDirectoryError for a directory that must be formatted before the start.

    A single node formats its own new directories. In a cluster all nodes need the same cluster id,
    and a new directory with the quorum's log would be another voter.
    """
    for volume, properties in found.items():
        if properties is not None:
            continue
        refuse_unformatted(volume.path)
        is_metadata = volume.path == config.metadata_log_dir
        if is_metadata and not (is_new and config.is_single_node):
            raise DataDirectoryError(
                f"{volume.path} is not formatted (it has no meta.properties): run "
                "'barnabas format' with the id of the cluster and this node's configuration"
            )
