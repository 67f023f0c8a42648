"""The process that forks Spark's Python workers (`spark.python.daemon.module`).

Before each task a worker calls `importlib.invalidate_caches()`, which reads pyspark.zip again for
every zip importer: 130 ms. Here the zip entries leave `sys.path` when the package is installed, and
zip importers keep their directory. Libraries that the tasks use are imported once, before the fork.
After each task a worker collects garbage, which takes 10 ms for the objects of these libraries:
they are frozen, so that a collection looks at those of the task only.

The JVM sends a task in two parts, and the second only when the kernel has acknowledged the first:
a worker acknowledges at once what it has read, else it would wait 40 ms for the kernel to do so.
"""

import gc
import importlib.util
import io
import os
import socket
import sys
import zipimport
from collections.abc import Callable
from typing import Any, Final

_READ_BYTES: Final = 65_536


def prepare() -> None:
    """Make tasks cheap in the workers that are forked from this process."""
    sys.path[:] = [entry for entry in sys.path if not _is_spark_archive(entry)]
    zipimport.zipimporter.invalidate_caches = lambda self: None
    for name in ("confluent_kafka", "pyarrow", "barnabas.pipeline.delivery.worker_tasks"):
        if importlib.util.find_spec(name) is not None:
            importlib.import_module(name)


def _is_spark_archive(entry: str) -> bool:
    """True for pyspark.zip and the py4j archive when both packages are installed beside them."""
    name = os.path.basename(entry)
    if not (name == "pyspark.zip" or (name.startswith("py4j-") and name.endswith(".zip"))):
        return False
    return any(
        os.path.isdir(os.path.join(other, "pyspark"))
        for other in sys.path
        if other and not other.endswith(".zip")
    )


class AcknowledgedInput(io.RawIOBase):
    """The bytes of a connection; those that were read are acknowledged before it waits for more."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def readable(self) -> bool:
        """True: the bytes can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer; return the number of bytes, 0 at the end."""
        # The kernel drops this setting by itself.
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        return self._connection.recv_into(buffer)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
        super().close()


def acknowledged(run: Callable[[Any, Any], object]) -> Callable[[Any, Any], object]:
    """Return Spark's function that runs a task, with input that is acknowledged at once."""

    def run_acknowledged(infile: Any, outfile: Any) -> object:
        with socket.socket(fileno=os.dup(infile.fileno())) as connection:
            if connection.family not in (socket.AF_INET, socket.AF_INET6):
                return run(infile, outfile)
            found = io.BufferedReader(AcknowledgedInput(connection), _READ_BYTES)
            return run(found, outfile)

    return run_acknowledged


def main() -> None:
    """Run Spark's daemon."""
    prepare()
    daemon: Any = importlib.import_module("pyspark.daemon")
    if hasattr(socket, "TCP_QUICKACK"):
        daemon.worker_main = acknowledged(daemon.worker_main)
    gc.collect()
    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
