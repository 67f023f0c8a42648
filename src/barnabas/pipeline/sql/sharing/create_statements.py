"""The CREATE statement of a topic that an app of streams writes or reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.pipeline.sql.scripts import StatementText, parse_statement
from barnabas.pipeline.sql.sql_failures import SqlError, UnresolvedError
from barnabas.pipeline.sql.sql_tokens import RESERVED
from barnabas.pipeline.sql.sql_types import from_spark
from barnabas.pipeline.streams import serdes
from barnabas.pipeline.streams.avro_serde import Avro
from barnabas.pipeline.streams.json_schema_serde import JsonSchema
from barnabas.pipeline.streams.protobuf_serde import Protobuf
from barnabas.pipeline.streams.serdes import Serde, spark_type
from barnabas.pipeline.streams.window_specs import Window, WindowKind

if TYPE_CHECKING:
    from barnabas.pipeline.sql.statement_values import SourceKind

_KAFKA: Final[dict[type[Serde], str]] = {
    serdes.Bytes: "BYTES",
    serdes.String: "STRING",
    serdes.Integer: "INTEGER",
    serdes.Long: "BIGINT",
    serdes.Double: "DOUBLE",
}
_REGISTRY: Final[dict[type[Serde], str]] = {
    Avro: "AVRO",
    Protobuf: "PROTOBUF",
    JsonSchema: "JSON_SR",
}
_KEY_COLUMN: Final = "ROWKEY"
_VALUE_COLUMN: Final = "ROWVAL"


def create_statement(
    name: str,
    topic: str,
    *,
    value: Serde,
    key: Serde | None = None,
    kind: SourceKind = "STREAM",
    window: Window | None = None,
) -> str:
    """Return the statement that makes a topic of an app a stream or a table of SQL.

    `key` and `value` are the serdes with which the app writes the topic: a struct gives a column
    for each field, another value the column ROWKEY or ROWVAL. Columns of Avro, Protobuf and JSON
    Schema are those of the registry. `window` is that of a windowed table. Raises ValueError for a
    serde or a type that SQL does not have.
    """
    key_form, key_columns = _side(key, _KEY_COLUMN)
    value_form, value_columns = _side(value, _VALUE_COLUMN)
    role = " KEY" if kind == "STREAM" else " PRIMARY KEY"
    columns = [*(each + role for each in key_columns), *value_columns]
    properties = [f"kafka_topic='{topic}'"]
    properties += [f"key_format='{key_form}'", f"value_format='{value_form}'"]
    if isinstance(value, serdes.Json) and value_columns[0].startswith(_VALUE_COLUMN):
        properties.append("wrap_single_value=false")
    properties += _window(window)
    listed = f" ({', '.join(columns)})" if columns else ""
    text = f"CREATE {kind} {_quoted(name)}{listed} WITH ({', '.join(properties)})"
    try:
        parse_statement(StatementText(text, 1, 1), {})
    except SqlError as error:
        raise UnresolvedError(f"{text} is not a statement of SQL: {error}") from None
    return f"{text};"


def _side(serde: Serde | None, alone: str) -> tuple[str, list[str]]:
    """Return the format of a key or a value, and its columns."""
    if serde is None:
        return "NONE", []
    if type(serde) in _REGISTRY:
        return _REGISTRY[type(serde)], []
    if type(serde) in _KAFKA:
        return "KAFKA", [f"{alone} {_KAFKA[type(serde)]}"]
    if not isinstance(serde, serdes.Json):
        known = ", ".join(each.__name__ for each in (*_KAFKA, serdes.Json, *_REGISTRY))
        raise UnresolvedError(
            f"SQL has no format for the serde {type(serde).__name__}: write the topic with one of "
            f"{known}"
        )
    if serde.schema is None:
        raise UnresolvedError("Json needs its schema here: Json('user STRING, ms LONG')")
    found = from_spark(spark_type(serde.schema))
    if found.name != "STRUCT":
        return "JSON", [f"{alone} {found}"]
    return "JSON", [f"{_quoted(name)} {each}" for name, each in found.fields]


def _quoted(name: str) -> str:
    """Return a name as statements write it: fields of JSON are found in any case."""
    is_plain = name.isidentifier() and name.isascii() and name.upper() not in RESERVED
    return name if is_plain else f"`{name}`"


def _window(window: Window | None) -> list[str]:
    if window is None:
        return []
    if window.kind is WindowKind.SLIDING:
        raise UnresolvedError("SQL has no sliding windows")
    found = [f"window_type='{window.kind.name}'"]
    if window.kind is not WindowKind.SESSION:
        found.append(f"window_size='{window.size_ms} MILLISECONDS'")
    return found
