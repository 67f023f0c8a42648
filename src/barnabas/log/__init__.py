"""Partitions on disk, in Kafka's files: segments, indexes, producer state, epochs, retention.

Batches stay bytes: an append checks the header and sets the offset in place; a read returns a range
of a file (`FileSlice`), which the server sends without reading it. `PartitionLog` is one partition;
`LogManager` has all logs of a node, in one or more data directories (`Volume`). Connections, the
event loop and metadata do not belong here, and time is an argument.
"""

from barnabas.log.directories.log_manager import LogManager
from barnabas.log.file_cache import FileCache, FileSlice
from barnabas.log.log_config import LogConfig
from barnabas.log.partition.appending import AppendInfo
from barnabas.log.partition.batch_validation import Origin
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.log.record_work import RecordsRefusedError
from barnabas.log.volume import DataDirectoryError, Volume

__all__ = [
    "AppendInfo",
    "DataDirectoryError",
    "FileCache",
    "FileSlice",
    "LogConfig",
    "LogManager",
    "Origin",
    "PartitionLog",
    "RecordsRefusedError",
    "Volume",
]
