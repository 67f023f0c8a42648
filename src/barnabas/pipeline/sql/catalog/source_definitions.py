"""CREATE STREAM and CREATE TABLE: columns and WITH properties, to a source."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from barnabas.pipeline.sql.catalog import format_rules, registered_columns
from barnabas.pipeline.sql.catalog.source_values import (
    RESERVED_COLUMNS,
    Format,
    HeaderColumn,
    Nulls,
    Source,
    SourceColumn,
    SourceWindow,
    Timestamp,
)
from barnabas.pipeline.sql.functions.aggregate_properties import AggregateProperties
from barnabas.pipeline.sql.sql_failures import UnresolvedError, nearest
from barnabas.pipeline.sql.sql_types import BYTES, STRING, SqlType, array, resolved, struct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barnabas.pipeline.sql.catalog.registered_columns import RegisteredSchemas
    from barnabas.pipeline.sql.statement_values import Column as WrittenColumn
    from barnabas.pipeline.sql.statement_values import CreateSource, Properties, SourceKind

HEADERS_TYPE: Final = array(struct([("KEY", STRING), ("VALUE", BYTES)]))

_PROPERTIES: Final = (
    "KAFKA_TOPIC",
    "FORMAT",
    "KEY_FORMAT",
    "VALUE_FORMAT",
    "PARTITIONS",
    "REPLICAS",
    "RETENTION_MS",
    "CLEANUP_POLICY",
    "TIMESTAMP",
    "TIMESTAMP_FORMAT",
    "KEY_DELIMITER",
    "VALUE_DELIMITER",
    "WRAP_SINGLE_VALUE",
    "WINDOW_TYPE",
    "WINDOW_SIZE",
    "KEY_SCHEMA_ID",
    "VALUE_SCHEMA_ID",
    "KEY_SCHEMA_FULL_NAME",
    "VALUE_SCHEMA_FULL_NAME",
    "VALUE_AVRO_SCHEMA_FULL_NAME",
    "KEY_PROTOBUF_NULLABLE_REPRESENTATION",
    "VALUE_PROTOBUF_NULLABLE_REPRESENTATION",
)
_UNITS: Final = {
    "MILLISECOND": 1,
    "SECOND": 1_000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": 86_400_000,
}
_WINDOWS: Final = ("TUMBLING", "HOPPING", "SESSION")


@dataclass(frozen=True)
class Defaults:
    """Settings of a session, for properties that a statement leaves out."""

    key_format: str | None = "KAFKA"
    value_format: str | None = None
    wraps_single_values: bool = True
    topic_prefix: str = ""
    partitions: int | None = None
    replicas: int | None = None
    schemas: RegisteredSchemas | None = None
    """The columns of schemas in the registry, for statements that leave them out."""
    aggregates: AggregateProperties = field(default_factory=AggregateProperties)


def declared(statement: CreateSource, types: Mapping[str, SqlType], defaults: Defaults) -> Source:
    """Return the source that a CREATE without a query describes. Raises UnresolvedError."""
    properties = statement.properties
    check_properties(properties)
    topic = _text(properties, "KAFKA_TOPIC")
    if topic is None:
        raise UnresolvedError("The property KAFKA_TOPIC is missing: WITH (KAFKA_TOPIC='...', ...)")
    key, value, headers = _columns(statement, types)
    key, value = registered_columns.completed(
        key, value, topic, _registered_formats(properties, defaults), defaults.schemas
    )
    if not key and not value and not headers:
        raise UnresolvedError(
            "The statement names no columns: write them in brackets behind the name"
        )
    if statement.kind == "TABLE" and not key:
        raise UnresolvedError(f"A table needs a key: mark a column of {statement.name} PRIMARY KEY")
    forms = formats(properties, defaults, key, value)
    source = Source(
        statement.kind,
        statement.name,
        topic,
        key,
        value,
        *forms,
        headers=headers,
        window=_window(properties, key),
        partitions=_number(properties, "PARTITIONS"),
        replicas=_number(properties, "REPLICAS"),
        retention_ms=_number(properties, "RETENTION_MS"),
        is_read_only=statement.read_only,
    )
    return with_timestamp(source, properties)


def _registered_formats(properties: Properties, defaults: Defaults) -> tuple[Format, Format]:
    """Return the formats of key and value as the properties have them, for `completed`."""
    both = _text(properties, "FORMAT")
    key = both or _text(properties, "KEY_FORMAT") or defaults.key_format or "KAFKA"
    value = both or _text(properties, "VALUE_FORMAT") or defaults.value_format or "NONE"
    wraps = properties.get("WRAP_SINGLE_VALUE")
    key_name, value_name = format_rules.format_name(key), format_rules.format_name(value)
    return (
        Format(
            key_name,
            is_wrapped=key_name not in format_rules.WRAPPING_FORMATS,
            schema_id=_schema_id(key_name, properties, "KEY"),
            full_name=_full_name(key_name, properties, "KEY_SCHEMA_FULL_NAME"),
        ),
        Format(
            value_name,
            is_wrapped=wraps is not False,
            schema_id=_schema_id(value_name, properties, "VALUE"),
            full_name=_full_name(value_name, properties, "VALUE_SCHEMA_FULL_NAME"),
        ),
    )


def check_properties(properties: Properties) -> None:
    """Raise UnresolvedError for a property that is not known."""
    for name in properties:
        if name not in _PROPERTIES:
            raise UnresolvedError(f"The property {name} is not known{nearest(name, _PROPERTIES)}")


def _columns(
    statement: CreateSource, types: Mapping[str, SqlType]
) -> tuple[tuple[SourceColumn, ...], tuple[SourceColumn, ...], tuple[HeaderColumn, ...]]:
    key: list[SourceColumn] = []
    value: list[SourceColumn] = []
    headers: list[HeaderColumn] = []
    seen: set[str] = set()
    for each in statement.columns:
        _check_name(each.name, seen)
        kind = resolved(each.type, types)
        if each.role == "HEADERS":
            headers.append(_header(each, kind, headers))
        elif each.role == "VALUE":
            value.append(SourceColumn(each.name, kind))
        else:
            _check_role(each, statement.kind)
            key.append(SourceColumn(each.name, kind))
    return tuple(key), tuple(value), tuple(headers)


def _check_name(name: str, seen: set[str]) -> None:
    if name in RESERVED_COLUMNS:
        raise UnresolvedError(f"{name} is a reserved name: give the column another one")
    if name in seen:
        raise UnresolvedError(f"The column {name} is there twice: give one of them another name")
    seen.add(name)


def _check_role(column: WrittenColumn, kind: SourceKind) -> None:
    wanted = "PRIMARY KEY" if kind == "TABLE" else "KEY"
    if column.role != wanted:
        raise UnresolvedError(
            f"The column {column.name} is {column.role}, and the key of a {kind.lower()} is "
            f"{wanted}: write {wanted}"
        )


def _header(column: WrittenColumn, kind: SqlType, others: Sequence[HeaderColumn]) -> HeaderColumn:
    wanted = HEADERS_TYPE if column.header is None else BYTES
    if kind != wanted:
        raise UnresolvedError(f"The type of the column {column.name} is {wanted}, and not {kind}")
    if any(each.header is None or each.header == column.header for each in others) or (
        column.header is None and others
    ):
        raise UnresolvedError(
            f"Another column has the headers that {column.name} has: remove one of them"
        )
    return HeaderColumn(column.name, kind, column.header)


def formats(
    properties: Properties,
    defaults: Defaults,
    key: Sequence[SourceColumn],
    value: Sequence[SourceColumn],
) -> tuple[Format, Format]:
    """Return the formats of key and value. Raises UnresolvedError."""
    both = _text(properties, "FORMAT")
    if both is not None and ("KEY_FORMAT" in properties or "VALUE_FORMAT" in properties):
        raise UnresolvedError(
            "FORMAT is the format of key and value: write it alone, or KEY_FORMAT and VALUE_FORMAT"
        )
    key_name = both or _text(properties, "KEY_FORMAT")
    key_form = _key_format(key_name, properties, defaults, key)
    value_name = both or _text(properties, "VALUE_FORMAT") or defaults.value_format
    if value_name is None:
        raise UnresolvedError("The property VALUE_FORMAT is missing: VALUE_FORMAT='JSON'")
    value_form = _value_format(value_name, properties, defaults, value)
    format_rules.check_columns(key_form, key, is_key=True)
    format_rules.check_columns(value_form, value, is_key=False)
    return key_form, value_form


def _key_format(
    written: str | None,
    properties: Properties,
    defaults: Defaults,
    key: Sequence[SourceColumn],
) -> Format:
    if not key:
        # A format without key columns is that of keys which queries make.
        return Format("NONE" if written is None else format_rules.format_name(written))
    name = format_rules.format_name(written or defaults.key_format or "KAFKA")
    return Format(
        name,
        _delimiter(name, properties, "KEY_DELIMITER"),
        is_wrapped=len(key) > 1 or name not in ("KAFKA", *format_rules.WRAPPING_FORMATS),
        schema_id=_schema_id(name, properties, "KEY"),
        full_name=_full_name(name, properties, "KEY_SCHEMA_FULL_NAME"),
        nulls=_nulls(name, properties, "KEY"),
    )


def _value_format(
    written: str, properties: Properties, defaults: Defaults, value: Sequence[SourceColumn]
) -> Format:
    name = format_rules.format_name(written)
    return Format(
        name,
        _delimiter(name, properties, "VALUE_DELIMITER"),
        is_wrapped=_is_wrapped(name, properties, defaults, value),
        schema_id=_schema_id(name, properties, "VALUE"),
        full_name=_full_name(name, properties, "VALUE_SCHEMA_FULL_NAME")
        or _full_name(name, properties, "VALUE_AVRO_SCHEMA_FULL_NAME"),
        nulls=_nulls(name, properties, "VALUE"),
    )


def _nulls(name: str, properties: Properties, side: str) -> Nulls | None:
    property_name = f"{side}_PROTOBUF_NULLABLE_REPRESENTATION"
    found = _text(properties, property_name)
    if found is None:
        return None
    if not name.startswith("PROTOBUF"):
        raise UnresolvedError(f"{property_name} is for Protobuf, and not for {name}")
    if found.upper() == "OPTIONAL":
        return "OPTIONAL"
    if found.upper() == "WRAPPER":
        return "WRAPPER"
    raise UnresolvedError(f"{property_name} is OPTIONAL or WRAPPER, and not '{found}'")


def _is_wrapped(
    name: str, properties: Properties, defaults: Defaults, value: Sequence[SourceColumn]
) -> bool:
    wraps = properties.get("WRAP_SINGLE_VALUE")
    if wraps is None:
        wraps = defaults.wraps_single_values if name in format_rules.WRAPPING_FORMATS else True
        return bool(wraps) or len(value) != 1
    if len(value) != 1:
        raise UnresolvedError(
            f"WRAP_SINGLE_VALUE is for a value of one column, and this one has {len(value)}"
        )
    if (
        name not in format_rules.WRAPPING_FORMATS
        and not (wraps is False and name in ("KAFKA", "DELIMITED"))
        and not (wraps is True and name.startswith("PROTOBUF"))
    ):
        raise UnresolvedError(f"The format {name} does not take WRAP_SINGLE_VALUE={wraps}")
    return bool(wraps)


def _delimiter(name: str, properties: Properties, property_name: str) -> str:
    text = _text(properties, property_name)
    if text is None:
        return ","
    if name != "DELIMITED":
        raise UnresolvedError(f"{property_name} is for the format DELIMITED, and not for {name}")
    return format_rules.delimiter(text)


def _schema_id(name: str, properties: Properties, side: str) -> int | None:
    found = _number(properties, f"{side}_SCHEMA_ID")
    if found is not None and name not in format_rules.REGISTRY_FORMATS:
        raise UnresolvedError(
            f"{side}_SCHEMA_ID is for formats with a registry "
            f"({', '.join(format_rules.REGISTRY_FORMATS)}), and not for {name}"
        )
    return found


def _full_name(name: str, properties: Properties, property_name: str) -> str | None:
    found = _text(properties, property_name)
    if found is None:
        return None
    if name not in format_rules.REGISTRY_FORMATS:
        raise UnresolvedError(f"The format {name} does not take {property_name}")
    if not found.strip():
        raise UnresolvedError(f"{property_name} is empty: name the record, or leave it out")
    return found


def _window(properties: Properties, key: Sequence[SourceColumn]) -> SourceWindow | None:
    kind, size = _text(properties, "WINDOW_TYPE"), _text(properties, "WINDOW_SIZE")
    if kind is None:
        if size is not None:
            raise UnresolvedError("WINDOW_SIZE needs WINDOW_TYPE: WINDOW_TYPE='TUMBLING'")
        return None
    name = kind.upper()
    if name not in _WINDOWS:
        hint = nearest(name, _WINDOWS)
        raise UnresolvedError(f"WINDOW_TYPE is TUMBLING, HOPPING or SESSION, and not {kind}{hint}")
    if not key:
        raise UnresolvedError("A source with WINDOW_TYPE needs a key column: mark one KEY")
    if (name == "SESSION") != (size is None):
        text = "has no" if name == "SESSION" else "needs a"
        raise UnresolvedError(f"A source with WINDOW_TYPE={name} {text} WINDOW_SIZE")
    return SourceWindow(name, None if size is None else _duration(size))


def _duration(text: str) -> int:
    match = re.fullmatch(r"\s*(\d+)\s+([A-Z]+?)S?\s*", text.upper())
    if match is None or match[2] not in _UNITS or int(match[1]) == 0:
        raise UnresolvedError(f"WINDOW_SIZE is a length of time as '10 SECONDS', and not '{text}'")
    return int(match[1]) * _UNITS[match[2]]


def with_timestamp(source: Source, properties: Properties) -> Source:
    """Return the source with the column that TIMESTAMP names. Raises UnresolvedError."""
    name, form = _text(properties, "TIMESTAMP"), _text(properties, "TIMESTAMP_FORMAT")
    if name is None:
        return source
    name = name[1:-1] if name.startswith("`") and name.endswith("`") else name.upper()
    if name == "ROWTIME":
        return source
    known = {each.name: each.type for each in (*source.key, *source.value)}
    if name not in known:
        hint = nearest(name, known)
        raise UnresolvedError(f"TIMESTAMP names the column {name}, which is not there{hint}")
    kind = known[name].name
    if (kind == "STRING") != (form is not None) or kind not in ("STRING", "BIGINT", "TIMESTAMP"):
        raise UnresolvedError(
            f"TIMESTAMP names the column {name} of {kind}: it is a BIGINT or a TIMESTAMP, or a "
            "STRING with TIMESTAMP_FORMAT"
        )
    return replace(source, timestamp=Timestamp(name, form))


def _text(properties: Properties, name: str) -> str | None:
    found = properties.get(name)
    if found is None or isinstance(found, str):
        return found
    raise UnresolvedError(f"The property {name} is a text in single quotes, and not {found}")


def _number(properties: Properties, name: str) -> int | None:
    found = properties.get(name)
    if found is None:
        return None
    try:
        return int(found)
    except ValueError:
        raise UnresolvedError(f"The property {name} is a whole number, and not {found}") from None


def sink(
    statement: CreateSource,
    kind: SourceKind,
    key: tuple[SourceColumn, ...],
    value: tuple[SourceColumn, ...],
    inherited: tuple[Format, Format],
    window: SourceWindow | None,
    defaults: Defaults,
) -> Source:
    """Return the source that CREATE .. AS SELECT makes; formats are those of the query's source.

    Raises UnresolvedError.
    """
    properties = statement.properties
    check_properties(properties)
    for name in ("WINDOW_TYPE", "WINDOW_SIZE"):
        if name in properties:
            raise UnresolvedError(f"{name} follows from the query: leave it out")
    key_form, value_form = _sink_formats(properties, inherited, defaults, key, value)
    topic = _text(properties, "KAFKA_TOPIC") or f"{defaults.topic_prefix}{statement.name}"
    registered_columns.check_result(key, topic, "key", key_form, defaults.schemas)
    registered_columns.check_result(value, topic, "value", value_form, defaults.schemas)
    source = Source(
        kind,
        statement.name,
        topic,
        key,
        value,
        key_form,
        value_form,
        window=window,
        partitions=_number(properties, "PARTITIONS") or defaults.partitions,
        replicas=_number(properties, "REPLICAS") or defaults.replicas,
        retention_ms=_number(properties, "RETENTION_MS"),
    )
    return with_timestamp(source, properties)


def _sink_formats(
    properties: Properties,
    inherited: tuple[Format, Format],
    defaults: Defaults,
    key: Sequence[SourceColumn],
    value: Sequence[SourceColumn],
) -> tuple[Format, Format]:
    given = dict(properties)
    named = _text(properties, "KEY_FORMAT")
    if named is not None and not key and named.upper() != "NONE":
        raise UnresolvedError("KEY_FORMAT is given, but the result has no key: leave it out")
    if "FORMAT" not in given:
        if key:
            given.setdefault("KEY_FORMAT", _inherited_key(inherited[0], defaults))
        given.setdefault("VALUE_FORMAT", inherited[1].name)
    for name, form in (("KEY_DELIMITER", inherited[0]), ("VALUE_DELIMITER", inherited[1])):
        side = name.partition("_")[0]
        written = str(given.get("FORMAT") or given.get(f"{side}_FORMAT") or "")
        if form.name == "DELIMITED" and written.upper() == "DELIMITED" and form.delimiter != ",":
            given.setdefault(name, form.delimiter)
    return formats(given, defaults, key, value)


def _inherited_key(form: Format, defaults: Defaults) -> str:
    return form.name if form.name != "NONE" else defaults.key_format or "KAFKA"
