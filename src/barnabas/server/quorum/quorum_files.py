"""The small files of the quorum: `quorum-state`, and those of a new directory."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from barnabas.cluster.metadata.feature_levels import BOOTSTRAP
from barnabas.cluster.quorum.quorum_state import FILE_NAME, QuorumState
from barnabas.cluster.quorum.storage_format import formatted_files
from barnabas.cluster.quorum.voters import VoterSet
from barnabas.log.file_operations import replace_file
from barnabas.private_files import close_to_others
from barnabas.protocol.messages_base import Message


def read_quorum_state(metadata_directory: Path) -> QuorumState:
    """Read the state that the node last wrote, or a new one where there is no file.

    Raises QuorumStateError when the file is damaged.
    """
    try:
        content = (metadata_directory / FILE_NAME).read_bytes()
    except FileNotFoundError:
        return QuorumState()
    return QuorumState.decode(content)


def write_quorum_state(
    metadata_directory: Path, state: QuorumState, kraft_version: int, voter_ids: Iterable[int]
) -> None:
    """Write the state durably, in the version of `kraft_version`; raises OSError."""
    replace_file(metadata_directory / FILE_NAME, state.encode(kraft_version, voter_ids))


def format_directory(
    directory: Path,
    *,
    voters: VoterSet | None,
    now_ms: int,
    features: Mapping[str, int] = BOOTSTRAP,
    credentials: Sequence[Message] = (),
) -> None:
    """Write the files of a new log directory, except `meta.properties`; raises OSError.

    The directory with the quorum's log has the `voters`. Each file appears whole or not at all;
    formatting again after a crash completes it.
    """
    directory.mkdir(parents=True, exist_ok=True)
    files = formatted_files(
        voters=voters, now_ms=now_ms, features=features, credentials=credentials
    )
    for name, content in files:
        (directory / name).parent.mkdir(exist_ok=True)
        replace_file(directory / name, content)
        close_to_others(directory / name)  # it may have credentials
