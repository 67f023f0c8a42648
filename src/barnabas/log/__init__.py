"""One partition on disk, in Kafka's files: segments, indexes, producers, epochs, retention.

Batches come as bytes and stay bytes: an append checks the header and patches the offset, a read
answers with a range of a file (`FileSlice`) that the server sends without looking. `PartitionLog`
is one partition, `LogManager` all of a node's, over one or more data directories (`Volume`).
Nothing here knows of connections, of the loop or of metadata; time comes as an argument.
"""

from barnabas.log.appending import AppendInfo
from barnabas.log.config import LogConfig
from barnabas.log.files import FileCache, FileSlice
from barnabas.log.manager import LogManager
from barnabas.log.partition_log import PartitionLog
from barnabas.log.record_work import RecordsRefusedError
from barnabas.log.validation import Origin
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
