"""Handlers of subjects, their versions, and compatibility."""

from typing import Any

from barnabas.registry.core.json_fields import MalformedJsonError
from barnabas.registry.core.registry_errors import (
    RegistryError,
    refuse_body,
    schema_not_found,
    subject_not_found,
)
from barnabas.registry.core.schema_entities import SchemaVersion
from barnabas.registry.core.schema_queries import View, version_number
from barnabas.registry.core.schema_requests import Decision, SchemaRequest, TagRequest
from barnabas.registry.core.subject_names import DEFAULT_CONTEXT, SubjectName
from barnabas.registry.core.subject_removal import delete_subject, delete_version
from barnabas.registry.rest.registry_routes import route
from barnabas.registry.rest.rest_calls import RawText, RestCall
from barnabas.registry.rest.route_rights import DELETE, OPEN, READ, WRITE

INVALID_SCHEMA = 42201


def schema_request(call: RestCall) -> SchemaRequest:
    """Return the schema of the body.

    Raises RegistryError: 400 when the body is not of that form, 40301 when the caller may not read
    a schema that it refers to.
    """
    fields = call.fields()
    try:
        request = SchemaRequest.from_json(fields)
    except MalformedJsonError as error:
        refuse_body(str(error))
    # The answer may have the text of a reference, or depend on it.
    for reference in request.references:
        call.check_readable(reference.subject)
    return request


def view_of(call: RestCall, *, with_id: bool = True) -> View:
    """Return how the request wants schemas to be shown."""
    return View(
        call.text("format"), call.text("referenceFormat"), call.texts("findTags"), with_id=with_id
    )


@route("GET /subjects", needs=OPEN, parameters="subjectPrefix deleted deletedOnly offset limit")
def list_subjects(call: RestCall) -> Any:
    """List the subjects of all contexts."""
    return call.page(
        call.queries.subjects(
            call.text("subjectPrefix"),
            deleted=call.flag("deleted"),
            deleted_only=call.flag("deletedOnly"),
        )
    )


@route(
    "POST /subjects/{subject}",
    needs=READ,
    parameters="normalize format deleted",
    body="SchemaRequest",
    errors=(40401, 40403, 42201),
)
def lookup_schema(call: RestCall) -> Any:
    """Look up the version of a subject that has a schema."""
    request = schema_request(call)
    found = None
    for subject in _looked_up(call):
        found = call.core.registration.lookup(
            subject, request, normalize=call.flag("normalize"), deleted=call.flag("deleted")
        )
        if found is not None:
            return call.queries.shown(found, View(call.text("format"), with_place=False))
    raise schema_not_found()


def _looked_up(call: RestCall) -> list[str]:
    """Return the subjects to look in: a bare name may be in any context."""
    name, state = SubjectName.parse(call.subject), call.core.state
    deleted = call.flag("deleted")
    names = [call.subject]
    if name.context == DEFAULT_CONTEXT:
        names += [
            str(SubjectName(context, name.name))
            for context in state.contexts()
            if context != DEFAULT_CONTEXT
        ]
    found = [each for each in names if state.versions(each, deleted=deleted)]
    if not found:
        raise subject_not_found(call.subject)
    return found


@route(
    "DELETE /subjects/{subject}",
    needs=DELETE,
    parameters="permanent",
    errors=(40401, 40404, 40405, 42205, 42206),
    writes=True,
)
def remove_subject(call: RestCall) -> Decision:
    """Delete all versions of a subject."""
    return delete_subject(call.core.state, call.subject, permanent=call.flag("permanent"))


@route(
    "GET /subjects/{subject}/metadata",
    needs=READ,
    parameters="key value format deleted",
    errors=(40401, 40403),
)
def get_with_metadata(call: RestCall) -> Any:
    """Get the newest version with the given metadata properties."""
    wanted = list(zip(call.texts("key"), call.texts("value"), strict=False))
    found = call.queries.with_metadata(call.subject, wanted, deleted=call.flag("deleted"))
    return call.queries.shown(found, view_of(call))


@route(
    "GET /subjects/{subject}/versions",
    needs=READ,
    parameters="deleted deletedOnly deletedAsNegative offset limit",
    errors=(40401,),
)
def list_versions(call: RestCall) -> Any:
    """List the versions of a subject."""
    return call.page(
        call.queries.version_numbers(
            call.subject,
            deleted=call.flag("deleted"),
            deleted_only=call.flag("deletedOnly"),
            deleted_as_negative=call.flag("deletedAsNegative"),
        )
    )


@route(
    "POST /subjects/{subject}/versions",
    needs=WRITE,
    parameters="normalize format force",
    body="SchemaRequest",
    errors=(40901, 42201, 42205, 42207, 42208, 42209, 42210),
    writes=True,
)
def register_schema(call: RestCall) -> Decision:
    """Register a schema as the next version of a subject."""
    return call.core.registration.register(
        call.subject,
        schema_request(call),
        normalize=call.flag("normalize"),
        force=call.flag("force"),
    )


def _found(call: RestCall) -> SchemaVersion:
    number = version_number(call.places["version"])
    return call.queries.version(call.subject, number, deleted=call.flag("deleted"))


@route(
    "GET /subjects/{subject}/versions/{version}",
    needs=READ,
    parameters="format referenceFormat deleted findTags",
    errors=(40401, 40402, 42202),
)
def get_version(call: RestCall) -> Any:
    """Get a version of a subject."""
    return call.queries.shown(_found(call), view_of(call))


@route(
    "GET /subjects/{subject}/versions/{version}/schema",
    needs=READ,
    parameters="format deleted",
    errors=(40401, 40402, 42202),
)
def get_version_text(call: RestCall) -> Any:
    """Get the text of a version's schema."""
    return RawText(call.queries.text(_found(call), call.text("format")))


@route(
    "GET /subjects/{subject}/versions/{version}/referencedby",
    needs=READ,
    parameters="deleted offset limit",
    errors=(40401, 40402, 42202),
)
def list_referrers(call: RestCall) -> Any:
    """List the ids of the schemas that refer to a version."""
    found = _found(call)
    return call.page(call.queries.referrer_ids(found, deleted=call.flag("deleted")))


@route(
    "DELETE /subjects/{subject}/versions/{version}",
    needs=DELETE,
    parameters="permanent",
    errors=(40401, 40402, 40406, 40407, 42202, 42206),
    writes=True,
)
def remove_version(call: RestCall) -> Decision:
    """Delete a version of a subject."""
    number = version_number(call.places["version"])
    return delete_version(call.core.state, call.subject, number, permanent=call.flag("permanent"))


@route(
    "POST /subjects/{subject}/versions/{version}/tags",
    needs=WRITE,
    body="TagRequest",
    errors=(40401, 40402, 40901, 42201, 42202, 42205, 42210),
    writes=True,
)
def register_tags(call: RestCall) -> Decision:
    """Register a version with other tags, metadata or rules."""
    base = _found(call)
    try:
        request = TagRequest.from_json(call.fields())
    except MalformedJsonError as error:
        refuse_body(str(error))
    return call.core.registration.register_tags(call.subject, base, request)


@route(
    "POST /compatibility/subjects/{subject}/versions",
    needs=READ,
    parameters="normalize verbose",
    body="SchemaRequest",
    errors=(42201,),
)
def check_all(call: RestCall) -> Any:
    """Check a schema against the versions that the subject's level asks for."""
    return _checked(call, None)


@route(
    "POST /compatibility/subjects/{subject}/versions/{version}",
    needs=READ,
    parameters="normalize verbose",
    body="SchemaRequest",
    errors=(40402, 42201, 42202),
)
def check_one(call: RestCall) -> Any:
    """Check a schema against one version of a subject."""
    return _checked(call, version_number(call.places["version"]))


def _checked(call: RestCall, version: int | None) -> dict[str, Any]:
    request = schema_request(call)
    verbose = call.flag("verbose")
    try:
        result = call.core.registration.check(
            call.subject, request, version, normalize=call.flag("normalize")
        )
    except RegistryError as error:
        if not verbose or error.code != INVALID_SCHEMA:
            raise
        return {"is_compatible": False, "messages": [error.message]}
    answer: dict[str, Any] = {"is_compatible": result.is_compatible}
    if verbose:
        answer["messages"] = list(result.messages)
        if result.details:
            answer["details"] = list(result.details)
    return answer
