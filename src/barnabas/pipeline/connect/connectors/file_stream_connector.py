"""The parts that both FileStream connectors have: one file, and one task for it."""

from collections.abc import Mapping
from typing import ClassVar

from barnabas.pipeline.connect.config_def import ConfigDef
from barnabas.pipeline.connect.plugin_api import Properties
from barnabas.pipeline.data.connect_errors import ConnectError


def required_file(props: Mapping[str, str]) -> str:
    """Return the file of a configuration. Raises ConnectError when it has none."""
    name = props.get("file", "").strip()
    if not name:
        raise ConnectError("file must be set: a job has no standard input or output")
    return name


class FileStreamConnector:
    """A connector of one file."""

    definition: ClassVar[ConfigDef]

    def config(self) -> ConfigDef:
        """Return the definition of the connector's properties."""
        return self.definition

    def task_configs(self, props: Properties, max_tasks: int) -> list[dict[str, str]]:
        """Return one task. Raises ConnectError when no file is configured."""
        required_file(props)
        return [dict(props)]
