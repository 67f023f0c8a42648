"""Handlers of schemas by id and GUID, and of associations."""

from typing import Any

import attrs

from barnabas.registry.core.json_fields import INT_MAX
from barnabas.registry.core.registry_errors import RegistryError
from barnabas.registry.core.schema_entities import SchemaVersion
from barnabas.registry.core.schema_queries import View
from barnabas.registry.core.subject_names import normalize_subject
from barnabas.registry.formats import SCHEMA_TYPES
from barnabas.registry.rest.registry_routes import route
from barnabas.registry.rest.rest_calls import RawText, RestCall, integer_of
from barnabas.registry.rest.route_rights import OPEN, READ
from barnabas.registry.rest.subject_handlers import view_of

_SCHEMAS_MAX = 1000


@route("GET /schemas/types", needs=OPEN)
def list_types(_call: RestCall) -> Any:
    """List the schema types."""
    return list(SCHEMA_TYPES)


@route(
    "GET /schemas",
    needs=OPEN,
    parameters="subjectPrefix aliases deleted latestOnly ruleType resourceType associationType "
    "lifecycle offset limit",
)
def list_schemas(call: RestCall) -> Any:
    """List schemas of all subjects."""
    queries = call.queries
    found = queries.schemas(
        call.text("subjectPrefix"),
        deleted=call.flag("deleted"),
        latest_only=call.flag("latestOnly"),
        aliases=call.flag("aliases"),
        rule_type=call.text("ruleType"),
    )
    resource_type, types = call.text("resourceType"), call.texts("associationType")
    lifecycle = call.text("lifecycle")
    if resource_type or types or lifecycle:
        associated = {
            each["subject"]
            for each in queries.associations(
                resource_type=resource_type, types=types, lifecycle=lifecycle
            )
        }
        found = [version for version in found if version.subject in associated]
    return [queries.shown(version, View()) for version in call.page(found, _SCHEMAS_MAX)]


def _schema_id(call: RestCall) -> int:
    schema_id = integer_of(call.places["id"])
    if schema_id is None or abs(schema_id) > INT_MAX:
        raise RegistryError(404, 404, "HTTP 404 Not Found")
    return schema_id


def _subject(call: RestCall) -> str | None:
    return normalize_subject(call.text("subject")) or None


def _by_id(call: RestCall) -> SchemaVersion:
    return call.queries.by_id(_schema_id(call), _subject(call))


@route(
    "GET /schemas/ids/{id}",
    needs=OPEN,
    parameters="subject format referenceFormat findTags fetchMaxId",
    errors=(40403,),
)
def get_by_id(call: RestCall) -> Any:
    """Get a schema by its id."""
    found = _by_id(call)
    view = view_of(call, with_id=False)
    if call.flag("fetchMaxId"):
        view = attrs.evolve(view, max_id=call.queries.max_id(found.subject))
    return call.queries.shown(found, view)


@route("GET /schemas/ids/{id}/schema", needs=OPEN, parameters="subject format", errors=(40403,))
def get_text_by_id(call: RestCall) -> Any:
    """Get the text of a schema by its id."""
    return RawText(call.queries.text(_by_id(call), call.text("format")))


@route(
    "GET /schemas/ids/{id}/subjects",
    needs=OPEN,
    parameters="subject deleted offset limit",
    errors=(40403,),
)
def list_subjects_of_id(call: RestCall) -> Any:
    """List the subjects that have a schema."""
    holders = _holders(call)
    return call.page(sorted({version.subject for version in holders}))


@route(
    "GET /schemas/ids/{id}/versions",
    needs=OPEN,
    parameters="subject deleted offset limit",
    errors=(40403,),
)
def list_versions_of_id(call: RestCall) -> Any:
    """List the subjects and versions that have a schema."""
    return call.page(
        [{"subject": each.subject, "version": each.version} for each in _holders(call)]
    )


def _holders(call: RestCall) -> list[SchemaVersion]:
    return call.queries.holders_of_id(
        _schema_id(call), _subject(call), deleted=call.flag("deleted")
    )


@route(
    "GET /schemas/guids/{guid}",
    needs=OPEN,
    parameters="format referenceFormat findTags",
    errors=(40403,),
)
def get_by_guid(call: RestCall) -> Any:
    """Get a schema by its GUID."""
    found = call.queries.by_guid(call.places["guid"].lower())
    return call.queries.shown(found, view_of(call, with_id=False))


@route("GET /schemas/guids/{guid}/ids", needs=OPEN)
def list_ids_of_guid(call: RestCall) -> Any:
    """List the contexts that have a schema, with its id there."""
    return call.queries.ids_of_guid(call.places["guid"].lower())


_ASSOCIATION_PARAMETERS = "resourceType associationType lifecycle offset limit"


def _associations(
    call: RestCall,
    *,
    subject: str | None = None,
    resource_id: str | None = None,
    resource: tuple[str, str] | None = None,
) -> list[dict[str, Any]]:
    return call.page(
        call.queries.associations(
            subject=subject,
            resource_id=resource_id,
            resource=resource,
            resource_type=call.text("resourceType"),
            types=call.texts("associationType"),
            lifecycle=call.text("lifecycle"),
        )
    )


@route("GET /associations/subjects/{subject}", needs=READ, parameters=_ASSOCIATION_PARAMETERS)
def list_associations_of_subject(call: RestCall) -> Any:
    """List the resources that a subject describes."""
    return _associations(call, subject=call.subject)


@route("GET /associations/resources/{id}", needs=OPEN, parameters=_ASSOCIATION_PARAMETERS)
def list_associations_of_resource(call: RestCall) -> Any:
    """List the subjects that describe a resource, by its id."""
    return _associations(call, resource_id=call.places["id"])


@route(
    "GET /associations/resources/{namespace}/{name}", needs=OPEN, parameters=_ASSOCIATION_PARAMETERS
)
def list_associations_by_name(call: RestCall) -> Any:
    """List the subjects that describe a resource, by its name; namespace - is any."""
    return _associations(call, resource=(call.places["namespace"], call.places["name"]))


def _not_served(_call: RestCall) -> Any:
    """Refuse to change associations: this registry only shows them."""
    raise RegistryError(403, 40301, "Changing associations is not served by this registry")


for _spec in (
    "POST /associations",
    "PUT /associations",
    "POST /associations:batchGet",
    "POST /associations:batchMutate",
    "DELETE /associations/resources/{id}",
):
    route(_spec, needs=OPEN, errors=(40301,))(_not_served)
