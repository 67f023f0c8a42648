"""Reading the quorum's files at start-up."""

import attrs

from barnabas.cluster.metadata.image import MetadataImage
from barnabas.cluster.quorum.metadata_loader import MetadataLoader
from barnabas.cluster.quorum.quorum_state import FILE_NAME as QUORUM_STATE
from barnabas.cluster.quorum.quorum_state import QuorumState, QuorumStateError
from barnabas.protocol.errors import KafkaError
from barnabas.server.node_failures import StartupError
from barnabas.server.quorum.metadata_log import MetadataLog
from barnabas.server.quorum.quorum_files import read_quorum_state
from barnabas.server.quorum.quorum_setup import QuorumSetup
from barnabas.server.work_slices import in_slices


@attrs.frozen
class LoadedQuorum:
    """The state file and the metadata of this node, as a start finds them."""

    log: MetadataLog
    state: QuorumState
    loader: MetadataLoader


async def load_quorum(setup: QuorumSetup) -> LoadedQuorum:
    """Read the files; with many partitions the loop serves others meanwhile.

    Raises StartupError when they do not allow a start.
    """
    log = MetadataLog(setup.logs, setup.config)
    try:
        state = read_quorum_state(log.directory)
        loader = await in_slices(log.loading(MetadataImage(cluster_id=setup.cluster_id)))
    except QuorumStateError as error:
        raise StartupError(f"{log.directory / QUORUM_STATE}: {error}") from error
    except (KafkaError, OSError) as error:
        raise StartupError(f"cannot read {log.directory}: {error}") from error
    return LoadedQuorum(log, state, loader)
