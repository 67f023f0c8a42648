"""The small files of the quorum: `quorum-state`, and those of a new directory."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from barnabas.cluster.metadata.feature_levels import BOOTSTRAP
from barnabas.cluster.metadata.image import Endpoint
from barnabas.cluster.quorum.quorum_state import FILE_NAME, QuorumState
from barnabas.cluster.quorum.storage_format import METADATA_DIRECTORY, standalone_files
from barnabas.log.file_operations import replace_file
from barnabas.protocol.types import Uuid


def read_quorum_state(metadata_directory: Path) -> QuorumState:
    """Read the state that the node last wrote, or a new one where there is no file.

    Raises QuorumStateError when the file is damaged.
    """
    try:
        content = (metadata_directory / FILE_NAME).read_bytes()
    except FileNotFoundError:
        return QuorumState()
    return QuorumState.decode(content)


def write_quorum_state(metadata_directory: Path, state: QuorumState) -> None:
    """Write the state durably; raises OSError."""
    replace_file(metadata_directory / FILE_NAME, state.encode())


def format_metadata_directory(
    log_directory: Path,
    *,
    node_id: int,
    directory_id: Uuid,
    controller_endpoints: Iterable[Endpoint],
    now_ms: int,
    features: Mapping[str, int] = BOOTSTRAP,
) -> None:
    """Format a log directory for a quorum whose only voter is this node; raises OSError.

    Each file appears whole or not at all; formatting again after a crash completes it.
    """
    (log_directory / METADATA_DIRECTORY).mkdir(parents=True, exist_ok=True)
    files = standalone_files(
        node_id=node_id,
        directory_id=directory_id,
        controller_endpoints=controller_endpoints,
        now_ms=now_ms,
        features=features,
    )
    for name, content in files:
        replace_file(log_directory / name, content)
