"""Columns that a schema registry has, for statements that leave them out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from barnabas.pipeline.sql.catalog import format_rules
from barnabas.pipeline.sql.sql_failures import UnresolvedError

if TYPE_CHECKING:
    from barnabas.pipeline.sql.catalog.source_values import Format, SourceColumn

Side = Literal["key", "value"]
Columns = tuple["SourceColumn", ...]


class RegisteredSchemas(Protocol):
    """The schemas of a registry, as columns."""

    def columns(self, topic: str, side: Side, form: Format) -> Columns:
        """Return the columns of the schema that a format names, or of the topic's newest one.

        Raises UnresolvedError when the registry has none.
        """
        ...


def completed(
    key: Columns,
    value: Columns,
    topic: str,
    forms: tuple[Format, Format],
    schemas: RegisteredSchemas | None,
) -> tuple[Columns, Columns]:
    """Return the columns of a CREATE, with those of the registry where it has none itself.

    Raises UnresolvedError.
    """
    key_form, value_form = forms
    for columns, form, name in ((key, key_form, "KEY"), (value, value_form, "VALUE")):
        if columns and form.schema_id is not None:
            raise UnresolvedError(
                f"{name}_SCHEMA_ID names the columns of the {name.lower()}, and the statement has "
                "some, too: leave out these columns, or the property"
            )
    found_key = key or _registered(topic, "key", key_form, schemas)
    return found_key, value or _registered(topic, "value", value_form, schemas)


def _registered(topic: str, side: Side, form: Format, schemas: RegisteredSchemas | None) -> Columns:
    if form.name not in format_rules.REGISTRY_FORMATS:
        return ()
    if schemas is None:
        raise UnresolvedError(
            f"The statement names no columns of the {side}, and no schema registry is known that "
            "has them: name the columns, or the registry with --registry"
        )
    return schemas.columns(topic, side, form)


def check_result(
    columns: Columns, topic: str, side: Side, form: Format, schemas: RegisteredSchemas | None
) -> None:
    """Raise UnresolvedError when a result does not fit the schema that its format names by id."""
    if form.schema_id is None or schemas is None or not columns:
        return
    known = schemas.columns(topic, side, form)
    if columns == known[: len(columns)]:
        return
    changed = [str(each) for each, other in zip(columns, known, strict=False) if each != other]
    changed += [str(each) for each in columns[len(known) :]]
    raise UnresolvedError(
        f"The {side} columns {', '.join(changed)} are not those of the schema with the id "
        f"{form.schema_id}, which are {', '.join(map(str, known))}: select these, in this order"
    )
