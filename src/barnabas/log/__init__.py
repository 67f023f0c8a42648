"""One partition on disk, in Kafka's files: segments, indexes, producers, epochs, retention.

Batches come as bytes and stay bytes: an append checks the header and patches the offset, a read
answers with a range of a file (`FileSlice`) that the server sends without looking. `PartitionLog`
is one partition, `LogManager` all of a node's, over one or more data directories (`Volume`).
Nothing here knows of connections, of the loop or of metadata; time comes as an argument.
"""

from barnabas.log.directories.log_manager import LogManager
from barnabas.log.directories.volume import DataDirectoryError, Volume
from barnabas.log.file_cache import FileCache, FileSlice
from barnabas.log.log_config import LogConfig
from barnabas.log.partition.appending import AppendInfo
from barnabas.log.partition.batch_validation import Origin
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.log.record_work import RecordsRefusedError

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
