"""AlterReplicaLogDirs: which error a replica gets that cannot move."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.log import FileCache, Volume
from barnabas.log.directories.relocation_registry import RelocationRegistry
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest as Request
from barnabas.server.api.handlers.log_dirs.alter_replica_log_dirs_handler import (
    alter_replica_log_dirs,
)


def moved(root: Path, path: str) -> int:
    """Return the error code of a move of a partition that the node does not have."""

    def none(_topic: str, _partition: int) -> None:
        return None

    relocations = RelocationRegistry([Volume(root, FileCache(5))], none)
    context: Any = SimpleNamespace(
        services=SimpleNamespace(
            replicas=SimpleNamespace(hosted=none),
            logs=SimpleNamespace(relocations=relocations),
        )
    )
    topic = Request.AlterReplicaLogDirTopic(name="zz", partitions=[0])
    request = Request(dirs=[Request.AlterReplicaLogDir(path=path, topics=[topic])])
    (result,) = alter_replica_log_dirs(context, request).results
    return result.partitions[0].error_code


@pytest.mark.parametrize("path", ["/nowhere", "relative", ""])
def test_unknown_directory_is_the_error_also_of_a_partition_that_does_not_exist(
    tmp_path: Path, path: str
) -> None:
    assert moved(tmp_path, path) == ErrorCode.LOG_DIR_NOT_FOUND
    assert moved(tmp_path, str(tmp_path)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
