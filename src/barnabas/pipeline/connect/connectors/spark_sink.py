"""Records as rows of files or tables that Spark writes: the properties of `barnabas.SparkSink`.

The engine runs the job as one streaming query (`delivery.lake.lake_job`); there is no sink task.
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

import attrs

from barnabas.pipeline.connect.connectors.ddl_columns import column_names, valid_columns
from barnabas.pipeline.connect.plugin_api import Properties
from barnabas.pipeline.connect.unused_properties import (
    DELIVERY,
    EXACTLY_ONCE_ONLY,
    SLICE,
)
from barnabas.pipeline.definitions.config_def import NO_DEFAULT, ConfigDef, ConfigKey, Importance
from barnabas.pipeline.definitions.config_types import ConfigType, ConfigValueError, ParsedValue
from barnabas.pipeline.definitions.config_validators import InRange, OneOf, non_empty

FILE_FORMATS: Final = ("parquet", "csv", "json", "orc")
DELTA: Final = "delta"
ICEBERG: Final = "iceberg"
TABLE_FORMATS: Final = (DELTA, ICEBERG)
"""The formats that need libraries, which the runner has with `lake.formats`."""
FORMATS_PROPERTY: Final = "spark.barnabas.formats"
"""The property of a session with the table formats whose libraries it has."""
OPTION_PREFIX: Final = "spark.option."

# Schemes of file systems that rename a file only when no other has the name: Iceberg commits so.
_ICEBERG_SCHEMES: Final = ("", "file", "hdfs", "viewfs", "abfs", "abfss")
_RESERVED: Final = ("path", "checkpointlocation", "maxrecordsperfile")
_GROUP: Final = "Spark"


def spark_key(
    name: str,
    kind: ConfigType,
    default: Any,
    importance: Importance,
    documentation: str,
    validator: Any = None,
) -> ConfigKey:
    """Return a property of a connector that Spark runs."""
    return ConfigKey(
        name,
        kind,
        default,
        importance,
        documentation,
        validator=validator,
        group=_GROUP,
        display_name=name,
    )


_DEFINITION: Final = ConfigDef(
    [
        spark_key(
            "spark.format",
            ConfigType.STRING,
            NO_DEFAULT,
            Importance.HIGH,
            "The format: parquet, csv, json, orc, delta or iceberg. Options of Spark's writer are "
            "spark.option.NAME.",
            OneOf((*FILE_FORMATS, *TABLE_FORMATS)),
        ),
        spark_key(
            "path",
            ConfigType.STRING,
            NO_DEFAULT,
            Importance.HIGH,
            "The directory of the files or the table: a path, or a URI such as hdfs:// or s3a://.",
            non_empty,
        ),
        spark_key(
            "schema",
            ConfigType.STRING,
            "",
            Importance.MEDIUM,
            "The columns in SQL, such as `id BIGINT, name STRING`. Without it they are those of "
            "the schema of the first record.",
            valid_columns,
        ),
        spark_key(
            "partition.by",
            ConfigType.LIST,
            [],
            Importance.MEDIUM,
            "The columns whose values are directories.",
        ),
        spark_key(
            "flush.size",
            ConfigType.INT,
            0,
            Importance.MEDIUM,
            "The largest number of records in a file; 0 is without limit.",
            InRange(0),
        ),
        spark_key(
            "rotate.interval.ms",
            ConfigType.INT,
            10_000,
            Importance.MEDIUM,
            "The time in ms from one batch to the next. Each batch ends its files, and its records "
            "become visible then. It replaces trigger.ms.",
            InRange(100),
        ),
        spark_key(
            "behavior.on.null.values",
            ConfigType.STRING,
            "fail",
            Importance.LOW,
            "The outcome of a record without a value: fail treats it as a failed record, ignore "
            "skips it.",
            OneOf(("fail", "ignore")),
        ),
        spark_key(
            "checkpoint.location",
            ConfigType.STRING,
            None,
            Importance.LOW,
            "The directory of the job's position; PATH/_checkpoints/NAME when it is not set.",
        ),
    ]
)


def options_of(props: Mapping[str, str]) -> dict[str, str]:
    """Return the options for Spark. Raises ConfigValueError for those that properties set."""
    found: dict[str, str] = {}
    for name, value in props.items():
        if not name.startswith(OPTION_PREFIX):
            continue
        option = name.removeprefix(OPTION_PREFIX)
        if option.lower() in _RESERVED:
            reason = "set path, checkpoint.location or flush.size"
            raise ConfigValueError.of(name, value, reason)
        found[option] = value
    return found


def check_iceberg_path(path: str) -> None:
    """Raise ConfigValueError for a place where a table without a catalog is not safe."""
    scheme = path.partition("://")[0] if "://" in path else ""
    if scheme not in _ICEBERG_SCHEMES:
        reason = (
            f"a table of iceberg at a path needs a file system that renames atomically, which "
            f"{scheme} does not; catalogs are not supported"
        )
        raise ConfigValueError.of("path", path, reason)
    if not scheme and "/" not in path:
        raise ConfigValueError.of("path", path, "it names a table of a catalog: set a directory")


@attrs.frozen
class SparkSinkSettings:
    """The properties of one job."""

    format: str
    path: str
    schema: str
    partition_by: tuple[str, ...]
    flush_size: int
    rotate_ms: int
    skips_nulls: bool
    checkpoint: str
    options: Mapping[str, str]
    tasks: int

    @classmethod
    def of(cls, props: Properties) -> "SparkSinkSettings":
        """Return the settings of a configuration. Raises ConfigValueError."""
        values = _DEFINITION.parse(props)
        name = props.get("name", "")
        path = str(values["path"]).rstrip("/") or "/"
        columns = values["partition.by"]
        partition_by = tuple(columns) if isinstance(columns, list) else ()
        if values["schema"]:
            _check_partitions(column_names(str(values["schema"])), partition_by)
        if values["spark.format"] == ICEBERG:
            check_iceberg_path(path)
            if values["flush.size"]:
                reason = "iceberg has no limit of records; set spark.option.target-file-size-bytes"
                raise ConfigValueError.of("flush.size", values["flush.size"], reason)
        return cls(
            str(values["spark.format"]),
            path,
            str(values["schema"]),
            partition_by,
            _number(values["flush.size"]),
            _number(values["rotate.interval.ms"]),
            values["behavior.on.null.values"] == "ignore",
            str(values["checkpoint.location"] or f"{path}/_checkpoints/{name}"),
            options_of(props),
            int(props.get("tasks.max", "1")),
        )


def _check_partitions(columns: list[str], given: tuple[str, ...]) -> None:
    """Raise ConfigValueError for directories of columns that are not there, or of all columns."""
    shown = ",".join(given)
    for each in given:
        if each not in columns:
            reason = f"{each} is not a column of schema, which are {', '.join(columns)}"
            raise ConfigValueError.of("partition.by", shown, reason)
    if given and set(given) == set(columns):
        raise ConfigValueError.of("partition.by", shown, "files need one more column")


def _number(value: ParsedValue) -> int:
    return value if isinstance(value, int) else 0


class SparkSinkConnector:
    """Writes files and tables with Spark."""

    kind: ClassVar[str] = "sink"
    java_class = "barnabas.SparkSink"
    keeps_positions_in_checkpoint: ClassVar[bool] = True
    without_effect: ClassVar[Mapping[str, str]] = {
        DELIVERY: EXACTLY_ONCE_ONLY,
        SLICE: "it has batches; set rotate.interval.ms or batch.records.max",
        "trigger.ms": "set rotate.interval.ms",
    }

    def config(self) -> ConfigDef:
        """Return the definition of the connector's properties."""
        return _DEFINITION

    def config_errors(self, values: Mapping[str, ParsedValue]) -> Iterable[tuple[str, str]]:
        """Return what is wrong with `partition.by`, when the columns are known before a record."""
        schema, given = values.get("schema"), values.get("partition.by")
        if isinstance(schema, str) and schema and isinstance(given, list):
            try:
                _check_partitions(column_names(schema), tuple(given))
            except ConfigValueError as error:
                yield "partition.by", str(error)

    def task_configs(self, props: Properties, max_tasks: int) -> list[dict[str, str]]:
        """Return one task: Spark divides the work. Raises ConfigValueError."""
        del max_tasks
        SparkSinkSettings.of(props)
        return [dict(props)]
