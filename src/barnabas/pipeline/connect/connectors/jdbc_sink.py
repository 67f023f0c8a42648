"""Records as rows of tables: the connector; `jdbc_sink_task` has its task.

The task's module imports SQLAlchemy, so it is imported where the task runs.
"""

from collections.abc import Iterator, Mapping
from typing import ClassVar

from barnabas.pipeline.connect.connectors.jdbc_config import SINK
from barnabas.pipeline.connect.connectors.jdbc_validation import raise_first, sink_errors
from barnabas.pipeline.connect.plugin_api import Properties, SinkTask
from barnabas.pipeline.definitions.config_def import ConfigDef
from barnabas.pipeline.definitions.config_types import ParsedValue


class JdbcSinkConnector:
    """Writes tables."""

    kind: ClassVar[str] = "sink"
    java_class = "io.confluent.connect.jdbc.JdbcSinkConnector"

    def config(self) -> ConfigDef:
        """Return the definition of the connector's properties."""
        return SINK

    def config_errors(self, values: Mapping[str, ParsedValue]) -> Iterator[tuple[str, str]]:
        """Return the errors that are seen without a connection."""
        return sink_errors(values)

    def task_configs(self, props: Properties, max_tasks: int) -> list[dict[str, str]]:
        """Return one task; the delivery runs it once for each partition. Raises ConnectError."""
        raise_first(sink_errors(SINK.parse(props)))
        return [dict(props)]

    def sink_task(self) -> type[SinkTask]:
        """Return the class of the tasks."""
        from barnabas.pipeline.connect.connectors.jdbc_sink_task import JdbcSinkTask

        return JdbcSinkTask
