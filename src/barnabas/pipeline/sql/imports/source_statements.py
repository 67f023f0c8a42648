"""The CREATE statement of a source, from its values: of one whose query was terminated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.pipeline.sql.catalog.format_rules import WRAPPING_FORMATS

if TYPE_CHECKING:
    from barnabas.pipeline.sql.catalog.source_values import Format, Source


def source_statement(source: Source) -> str:
    """Return a statement that makes a source of the same columns, formats and windows."""
    key = " PRIMARY KEY" if source.is_table else " KEY"
    columns = [*(f"{each}{key}" for each in source.key), *map(str, source.value)]
    properties = [f"KAFKA_TOPIC={_text(source.topic)}", *_formats(source)]
    if source.window is not None:
        properties.append(f"WINDOW_TYPE='{source.window.kind}'")
        if source.window.size_ms is not None:
            properties.append(f"WINDOW_SIZE='{source.window.size_ms} MILLISECONDS'")
    if source.timestamp is not None:
        properties.append(f"TIMESTAMP={_text(source.timestamp.column)}")
        if source.timestamp.format is not None:
            properties.append(f"TIMESTAMP_FORMAT={_text(source.timestamp.format)}")
    counts = {"PARTITIONS": source.partitions, "REPLICAS": source.replicas}
    properties += [f"{name}={count}" for name, count in counts.items() if count is not None]
    listed = f" ({', '.join(columns)})" if columns else ""
    return f"CREATE {source.kind} `{source.name}`{listed} WITH ({', '.join(properties)})"


def _formats(source: Source) -> list[str]:
    value = source.value_format
    found = [*_side("KEY", source.key_format), *_side("VALUE", value)]
    if len(source.value) == 1 and value.name in WRAPPING_FORMATS:
        found.append(f"WRAP_SINGLE_VALUE={str(value.is_wrapped).lower()}")
    if value.nulls is not None:
        found.append(f"VALUE_PROTOBUF_NULLABLE_REPRESENTATION='{value.nulls}'")
    return found


def _side(side: str, form: Format) -> list[str]:
    found = [f"{side}_FORMAT='{form.name}'"]
    if form.name == "DELIMITED":
        found.append(f"{side}_DELIMITER={_text(form.delimiter)}")
    if form.schema_id is not None:
        found.append(f"{side}_SCHEMA_ID={form.schema_id}")
    if form.full_name is not None:
        found.append(f"{side}_SCHEMA_FULL_NAME={_text(form.full_name)}")
    return found


def _text(text: str) -> str:
    doubled = text.replace("'", "''")
    return f"'{doubled}'"
