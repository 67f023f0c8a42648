"""Rows of one of Spark's streaming sources as records: the properties of `barnabas.SparkSource`.

The engine runs the job as one streaming query (`delivery.lake.row_source_job`); there is no source
task. The position is in the query's checkpoint, not in Connect's topic of offsets.
"""

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any, ClassVar, Final

import attrs

from barnabas.pipeline.connect.connectors.ddl_columns import valid_columns
from barnabas.pipeline.connect.connectors.spark_sink import (
    FILE_FORMATS,
    ICEBERG,
    TABLE_FORMATS,
    check_iceberg_path,
    options_of,
    spark_key,
)
from barnabas.pipeline.connect.plugin_api import Properties
from barnabas.pipeline.connect.unused_properties import (
    DELIVERY,
    EXACTLY_ONCE_ONLY,
    NO_TOPICS,
    ON_TRIM,
    SLICE,
)
from barnabas.pipeline.data.connect_errors import ConnectError
from barnabas.pipeline.definitions.config_def import NO_DEFAULT, ConfigDef, Importance
from barnabas.pipeline.definitions.config_types import ConfigType, ConfigValueError, ParsedValue
from barnabas.pipeline.definitions.config_validators import InRange, non_empty

FILES: Final = (*FILE_FORMATS, "text")
GENERATED: Final = ("rate", "rate-micro-batch")
_NO_SLICES: Final = "it has batches; set trigger.ms"
_BATCHES_OF_READER: Final = (
    "options of Spark's reader limit a batch: spark.option.maxFilesPerTrigger for files and delta, "
    "streaming-max-rows-per-micro-batch for iceberg, rowsPerSecond for rate, rowsPerBatch for "
    "rate-micro-batch; a Python data source limits its own"
)
DATA_SOURCES: Final = "barnabas.data_sources"
"""The group of entry points with Python data sources (`pyspark.sql.datasource`)."""


def data_source_names() -> list[str]:
    """Return the names of the Python data sources that are installed."""
    return sorted({entry.name for entry in entry_points(group=DATA_SOURCES)})


def data_source(name: str) -> Any:
    """Return the class of an installed Python data source, None when there is none."""
    found = entry_points(group=DATA_SOURCES, name=name)
    return next(iter(found)).load() if found else None


def _known_format(name: str, value: ParsedValue) -> None:
    known = (*FILES, *TABLE_FORMATS, *GENERATED, *data_source_names())
    if value not in known:
        raise ConfigValueError.of(name, value, f"String must be one of: {', '.join(known)}")


_DEFINITION: Final = ConfigDef(
    [
        spark_key("topic", ConfigType.STRING, NO_DEFAULT, Importance.HIGH, "The topic.", non_empty),
        spark_key(
            "spark.format",
            ConfigType.STRING,
            NO_DEFAULT,
            Importance.HIGH,
            "The source: parquet, csv, json, orc or text files, a table of delta or iceberg, rate, "
            "rate-micro-batch, or the name of an installed Python data source. Options of Spark's "
            "reader are spark.option.NAME.",
            _known_format,
        ),
        spark_key(
            "path",
            ConfigType.STRING,
            None,
            Importance.HIGH,
            "The directory of the files or the table: a path, or a URI such as hdfs:// or s3a://.",
        ),
        spark_key(
            "schema",
            ConfigType.STRING,
            "",
            Importance.MEDIUM,
            "The columns in SQL, such as `id BIGINT, name STRING`; files other than text need it.",
            valid_columns,
        ),
        spark_key(
            "key.column",
            ConfigType.STRING,
            None,
            Importance.MEDIUM,
            "The column that is the key of records; records have no key without it.",
        ),
        spark_key(
            "tasks.write",
            ConfigType.INT,
            2,
            Importance.LOW,
            "The number of tasks that write, which the first start fixes.",
            InRange(1),
        ),
        spark_key(
            "checkpoint.location",
            ConfigType.STRING,
            NO_DEFAULT,
            Importance.HIGH,
            "The directory of the job's position. It must last, and be shared by all runners.",
            non_empty,
        ),
    ]
)


@attrs.frozen
class SparkSourceSettings:
    """The properties of one job."""

    format: str
    path: str | None
    schema: str
    topic: str
    key_column: str | None
    tasks: int
    checkpoint: str
    options: Mapping[str, str]

    @classmethod
    def of(cls, props: Properties) -> "SparkSourceSettings":
        """Return the settings of a configuration. Raises ConfigValueError."""
        values = _DEFINITION.parse(props)
        kind, path = str(values["spark.format"]), values["path"]
        needs_path = kind in FILES or kind in TABLE_FORMATS
        if needs_path and not path:
            raise ConfigValueError.of("path", path, f"the format {kind} needs it")
        if kind in FILE_FORMATS and not values["schema"]:
            raise ConfigValueError.of("schema", "", f"the format {kind} needs it")
        if kind in TABLE_FORMATS and values["schema"]:
            reason = f"a table of {kind} has its own columns: remove the property"
            raise ConfigValueError.of("schema", values["schema"], reason)
        if kind == ICEBERG:
            check_iceberg_path(str(path))
        tasks = values["tasks.write"]
        return cls(
            kind,
            None if path is None else str(path),
            str(values["schema"]),
            str(values["topic"]),
            None if values["key.column"] is None else str(values["key.column"]),
            tasks if isinstance(tasks, int) else 1,
            str(values["checkpoint.location"]).rstrip("/"),
            options_of(props),
        )


class SparkSourceConnector:
    """Reads with one of Spark's streaming sources."""

    kind: ClassVar[str] = "source"
    java_class = "barnabas.SparkSource"
    keeps_positions_in_checkpoint: ClassVar[bool] = True
    without_effect: ClassVar[Mapping[str, str]] = {
        DELIVERY: EXACTLY_ONCE_ONLY,
        ON_TRIM: NO_TOPICS,
        SLICE: _NO_SLICES,
        "batch.records.max": _BATCHES_OF_READER,
        "transaction.boundary.interval.ms": _NO_SLICES,
        "offsets.storage.topic": "its position is in checkpoint.location",
    }

    def config(self) -> ConfigDef:
        """Return the definition of the connector's properties."""
        return _DEFINITION

    def task_configs(self, props: Properties, max_tasks: int) -> list[dict[str, str]]:
        """Return one task: Spark divides the work. Raises ConfigValueError."""
        del max_tasks
        SparkSourceSettings.of(props)
        return [dict(props)]

    def check_offset(self, partition: Mapping[str, Any], offset: Mapping[str, Any] | None) -> None:
        """Raise ConnectError: a user cannot set the position."""
        raise ConnectError("the position is in the checkpoint, which a request cannot change")
