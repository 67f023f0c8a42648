"""The properties of the JDBC connectors, by the names that Confluent documents."""

from collections.abc import Mapping
from typing import Any, Final

from barnabas.pipeline.connect.connectors.database_access import NumericMapping
from barnabas.pipeline.definitions.config_def import NO_DEFAULT, ConfigDef, ConfigKey, Importance
from barnabas.pipeline.definitions.config_types import ConfigType, ParsedValue
from barnabas.pipeline.definitions.config_validators import InRange, OneOf, non_empty

MODES: Final = ("bulk", "timestamp", "incrementing", "timestamp+incrementing")


def _key(
    name: str, kind: ConfigType, default: Any, documentation: str, validator: Any = None
) -> ConfigKey:
    importance = Importance.HIGH if default is NO_DEFAULT else Importance.MEDIUM
    return ConfigKey(
        name, kind, default, importance, documentation, validator=validator, display_name=name
    )


_CONNECTION: Final = (
    _key(
        "connection.url",
        ConfigType.STRING,
        NO_DEFAULT,
        "The JDBC address of the database: jdbc:sqlite:/path/of/file, "
        "jdbc:postgresql://host:5432/database, jdbc:mariadb://host:3306/database, "
        "jdbc:mysql://host:3306/database, jdbc:oracle:thin:@//host:1521/service or "
        "jdbc:sqlserver://host:1433;databaseName=database.",
        non_empty,
    ),
    _key("connection.user", ConfigType.STRING, None, "The user of the database."),
    _key("connection.password", ConfigType.PASSWORD, None, "The password of the user."),
    _key(
        "db.timezone",
        ConfigType.STRING,
        "UTC",
        "The zone of timestamps without zone: UTC only.",
        OneOf(("UTC",)),
    ),
)

SOURCE: Final = ConfigDef(
    [
        *_CONNECTION,
        _key("mode", ConfigType.STRING, NO_DEFAULT, "How rows are found.", OneOf(MODES)),
        _key("incrementing.column.name", ConfigType.STRING, "", "The column that only grows."),
        _key(
            "timestamp.column.name",
            ConfigType.LIST,
            [],
            "The columns with the time of a change: the first that has a value counts.",
        ),
        _key(
            "timestamp.initial",
            ConfigType.LONG,
            None,
            "The time, in milliseconds since 1970, after which changes are read when there is no "
            "offset; -1 is now.",
        ),
        _key(
            "timestamp.delay.interval.ms",
            ConfigType.LONG,
            0,
            "The age of a change before it is read, for transactions that commit late.",
            InRange(0),
        ),
        _key(
            "validate.non.null",
            ConfigType.BOOLEAN,
            True,
            "True when the columns of the mode must be NOT NULL; rows without a value are not "
            "read otherwise.",
        ),
        _key("table.whitelist", ConfigType.LIST, [], "The tables to read; all when empty."),
        _key("table.blacklist", ConfigType.LIST, [], "The tables to leave out."),
        _key(
            "table.types",
            ConfigType.LIST,
            ["TABLE"],
            "The kinds of tables to read, such as TABLE, PARTITIONED TABLE or VIEW.",
        ),
        _key(
            "schema.pattern",
            ConfigType.STRING,
            None,
            "A pattern of schemas for LIKE; all when null. MariaDB's and MySQL's schemas are "
            "databases: that of connection.url when null.",
        ),
        _key("query", ConfigType.STRING, "", "A query to read in place of tables."),
        _key(
            "numeric.mapping",
            ConfigType.STRING,
            NumericMapping.NONE.value,
            "How columns of type NUMERIC are read: as decimals, or as numbers where they fit.",
            OneOf(tuple(each.value for each in NumericMapping)),
        ),
        _key("topic.prefix", ConfigType.STRING, NO_DEFAULT, "The beginning of topics."),
        _key(
            "poll.interval.ms", ConfigType.INT, 5000, "The pause between two queries.", InRange(0)
        ),
        _key("batch.max.rows", ConfigType.INT, 1000, "The rows that one poll returns.", InRange(1)),
    ]
)

SINK: Final = ConfigDef(
    [
        *_CONNECTION,
        _key(
            "insert.mode",
            ConfigType.STRING,
            "insert",
            "insert adds rows, upsert adds or replaces them, update changes rows that exist.",
            OneOf(("insert", "upsert", "update")),
        ),
        _key(
            "pk.mode",
            ConfigType.STRING,
            "none",
            "The source of the primary key: none, kafka, record_key or record_value.",
            OneOf(("none", "kafka", "record_key", "record_value")),
        ),
        _key("pk.fields", ConfigType.LIST, [], "The columns of the primary key."),
        _key(
            "table.name.format",
            ConfigType.STRING,
            "${topic}",
            "The table, or schema.table; ${topic} is the topic.",
        ),
        _key("fields.whitelist", ConfigType.LIST, [], "The fields to write; all when empty."),
        _key("auto.create", ConfigType.BOOLEAN, False, "True when a missing table is created."),
        _key("auto.evolve", ConfigType.BOOLEAN, False, "True when missing columns are added."),
        _key(
            "delete.enabled",
            ConfigType.BOOLEAN,
            False,
            "True when a record without a value deletes the row of its key.",
        ),
    ]
)


def texts(values: Mapping[str, ParsedValue], name: str) -> list[str]:
    """Return a property of type list."""
    found = values[name]
    return found if isinstance(found, list) else []


def number(values: Mapping[str, ParsedValue], name: str) -> int:
    """Return a property that is a number."""
    return int(str(values[name]))
