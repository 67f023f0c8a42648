"""The shared part of servers for tests: the data directory, and the `with` statement."""

import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

_RETENTION_BY_TIME = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")


def kept_records(config: Mapping[str, str] | None) -> dict[str, str]:
    """Return a node's properties; without a retention by time, all records are kept.

    Tests choose the timestamps of records. Those of 1970 would be deleted by the first check of
    retention, 30 s after the start, in the middle of some test.
    """
    properties = dict(config or {})
    if not any(name in properties for name in _RETENTION_BY_TIME):
        properties["log.retention.ms"] = "-1"
    return properties


def bootstrap_of(port: int) -> str:
    """Return the address of a node of this host for clients. Raises RuntimeError without a port."""
    if not port:
        raise RuntimeError("the node has no port yet: start it, as `with` does, before clients")
    return f"127.0.0.1:{port}"


class ServerContext(ABC):
    """Servers that a `with` statement starts, and closes in any case.

    `data` is a directory to use and keep; without one the data is temporary.
    """

    def __init__(self, data: str | Path | None) -> None:
        self._temporary = None if data else Path(tempfile.mkdtemp(prefix="barnabas-"))
        self.data = Path(data) if data else Path(str(self._temporary))

    @abstractmethod
    def start(self) -> Self:
        """Start, and return once clients are served."""

    @abstractmethod
    def close(self) -> None:
        """End, and remove temporary data."""

    def _remove_temporary_data(self) -> None:
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
