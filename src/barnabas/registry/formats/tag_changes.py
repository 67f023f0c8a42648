"""Tags that are added to the entities of a schema and removed from them, in any format."""

from collections.abc import Iterable, Mapping

from barnabas.registry.formats.schema_format import SchemaEntity, SchemaError, SchemaTags

_KINDS = {"sr_record": "record", "sr_field": "field"}
_NAMED_MAX = 20


def changed_tags(
    present: Mapping[SchemaEntity, tuple[str, ...]],
    add: Iterable[SchemaTags],
    remove: Iterable[SchemaTags],
) -> dict[SchemaEntity, tuple[str, ...]]:
    """Return the new tags of the entities that change; `present` has all entities of the schema.

    Raises SchemaError when an entity does not exist.
    """
    changed: dict[SchemaEntity, tuple[str, ...]] = {}
    for change in add:
        before = changed.get(change.entity, _present(present, change.entity))
        changed[change.entity] = tuple(dict.fromkeys((*before, *change.tags)))
    for change in remove:
        before = changed.get(change.entity, _present(present, change.entity))
        changed[change.entity] = tuple(tag for tag in before if tag not in change.tags)
    return changed


def _present(
    present: Mapping[SchemaEntity, tuple[str, ...]], wanted: SchemaEntity
) -> tuple[str, ...]:
    if wanted in present:
        return present[wanted]
    kind = _KINDS.get(wanted.kind)
    if kind is None:
        raise SchemaError(
            f"the entityType '{wanted.kind}' of a tag is unknown: write sr_record or sr_field"
        )
    paths = [each.path for each in present if each.kind == wanted.kind]
    known = ", ".join(paths[:_NAMED_MAX]) + (", ..." if len(paths) > _NAMED_MAX else "")
    raise SchemaError(
        f"the schema has no {kind} with the entityPath '{wanted.path}' for a tag; "
        f"it has: {known or 'none'}"
    )
