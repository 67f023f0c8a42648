"""The parts that both FileStream connectors have: one file, and one task for it."""

import errno
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar, Final

from barnabas.pipeline.connect.plugin_api import Properties
from barnabas.pipeline.data.connect_errors import ConnectError, RetriableError
from barnabas.pipeline.definitions.config_def import ConfigDef
from barnabas.pipeline.definitions.config_types import ConfigValueError, ParsedValue

_IS_DIRECTORY: Final = "it is a directory; set file to the path of a file"
_REMEDIES: Final = {
    errno.EISDIR: _IS_DIRECTORY,
    errno.ENOENT: "its directory does not exist; create the directory, or correct file",
    errno.ENOTDIR: "a part of the path is a file; correct file",
    errno.EACCES: "the user that runs the task has no permission; grant it, or correct file",
    errno.EPERM: "the user that runs the task has no permission; grant it, or correct file",
    errno.EROFS: "the file system is read-only; correct file",
    errno.ENAMETOOLONG: "the name is too long; correct file",
    errno.ELOOP: "the symbolic links of the path are a circle; correct file",
}
"""What to do about errors that a later attempt meets again."""


def required_file(props: Mapping[str, str]) -> str:
    """Return the file of a configuration. Raises ConnectError when it has none."""
    name = props.get("file", "").strip()
    if not name:
        raise ConnectError("file must be set: a job has no standard input or output")
    return name


def file_error(verb: str, file: Path, error: OSError) -> ConnectError:
    """Return the error for a file that cannot be opened; retriable unless the path is wrong."""
    remedy = _REMEDIES.get(error.errno or 0)
    if remedy is None:
        return RetriableError(f"cannot {verb} file={file}: {error.strerror or error}")
    return ConnectError(f"cannot {verb} file={file}: {remedy}")


class FileStreamConnector:
    """A connector of one file."""

    definition: ClassVar[ConfigDef]

    def config(self) -> ConfigDef:
        """Return the definition of the connector's properties."""
        return self.definition

    def config_errors(self, values: Mapping[str, ParsedValue]) -> Iterator[tuple[str, str]]:
        """Yield the error of a file that is a directory on this machine."""
        file = str(values.get("file") or "").strip()
        if file and Path(file).is_dir():
            yield "file", str(ConfigValueError.of("file", file, f"Cannot be used: {_IS_DIRECTORY}"))

    def task_configs(self, props: Properties, max_tasks: int) -> list[dict[str, str]]:
        """Return one task. Raises ConnectError when no file is configured."""
        required_file(props)
        return [dict(props)]
