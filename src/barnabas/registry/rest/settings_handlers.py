"""Handlers of configurations, modes, contexts, and of what the registry says of itself."""

from typing import Any

from barnabas import __version__
from barnabas.registry.core.json_fields import JsonFields, MalformedJsonError
from barnabas.registry.core.registry_errors import refuse_body
from barnabas.registry.core.schema_requests import Decision
from barnabas.registry.core.subject_names import normalize_context
from barnabas.registry.core.subject_removal import delete_context
from barnabas.registry.core.subject_settings import (
    delete_config,
    delete_mode,
    get_config,
    get_mode,
    set_config,
    set_mode,
)
from barnabas.registry.rest.registry_routes import route
from barnabas.registry.rest.rest_calls import RestCall
from barnabas.registry.rest.route_rights import ALTER_CLUSTER, ALTER_SETTINGS, OPEN, READ


@route("GET /", needs=OPEN)
def root(_call: RestCall) -> Any:
    """Answer an empty object."""
    return {}


@route("POST /", needs=OPEN)
def post_root(call: RestCall) -> Any:
    """Answer an empty object to any JSON object."""
    call.fields()
    return {}


def _set_config(call: RestCall) -> Decision:
    """Change a configuration: an absent field keeps its value, null clears it."""
    fields: JsonFields = call.fields()
    try:
        return set_config(call.core.state, call.optional_subject, fields)
    except MalformedJsonError as error:
        refuse_body(str(error))


def _get_config(call: RestCall) -> Any:
    """Get a configuration."""
    return get_config(
        call.core.state, call.optional_subject, default_to_global=call.flag("defaultToGlobal")
    )


def _delete_config(call: RestCall) -> Decision:
    """Drop a configuration."""
    return delete_config(call.core.state, call.optional_subject)


def _set_mode(call: RestCall) -> Decision:
    """Change a mode."""
    fields = call.fields()
    try:
        return set_mode(call.core.state, call.optional_subject, fields, force=call.flag("force"))
    except MalformedJsonError as error:
        refuse_body(str(error))


def _get_mode(call: RestCall) -> Any:
    """Get a mode."""
    return get_mode(
        call.core.state, call.optional_subject, default_to_global=call.flag("defaultToGlobal")
    )


def _delete_mode(call: RestCall) -> Decision:
    """Drop a mode."""
    return delete_mode(call.core.state, call.optional_subject, recursive=call.flag("recursive"))


for _place in ("", "/{subject}"):
    _reads = READ if _place else OPEN
    route(f"GET /config{_place}", needs=_reads, parameters="defaultToGlobal", errors=(40408,))(
        _get_config
    )
    route(
        f"PUT /config{_place}",
        needs=ALTER_SETTINGS,
        body="ConfigRequest",
        errors=(42203, 42205, 42208, 42210),
        writes=True,
    )(_set_config)
    route(f"DELETE /config{_place}", needs=ALTER_SETTINGS, errors=(40401, 42205), writes=True)(
        _delete_config
    )
    route(f"GET /mode{_place}", needs=_reads, parameters="defaultToGlobal", errors=(40409,))(
        _get_mode
    )
    route(
        f"PUT /mode{_place}",
        needs=ALTER_SETTINGS,
        parameters="force",
        body="ModeRequest",
        errors=(42204, 42205, 42208),
        writes=True,
    )(_set_mode)
    route(
        f"DELETE /mode{_place}",
        needs=ALTER_SETTINGS,
        parameters="recursive",
        errors=(40401,),
        writes=True,
    )(_delete_mode)


@route("GET /settings", needs=OPEN, parameters="subjectPrefix offset limit")
def list_settings(call: RestCall) -> Any:
    """List the subjects and contexts with a configuration or mode, those without versions too."""
    state, prefix = call.core.state, call.text("subjectPrefix")
    named = sorted({each for each in (*state.configs, *state.modes) if each is not None})
    return call.page([each for each in named if each.startswith(prefix) and call.sees(each)])


@route("GET /contexts", needs=OPEN, parameters="contextPrefix offset limit")
def list_contexts(call: RestCall) -> Any:
    """List the contexts."""
    prefix = call.text("contextPrefix")
    return call.page([each for each in call.queries.contexts() if each.startswith(prefix)])


@route("DELETE /contexts/{context}", needs=ALTER_CLUSTER, errors=(42205, 42211), writes=True)
def remove_context(call: RestCall) -> Decision:
    """Delete an empty context."""
    return delete_context(call.core.state, normalize_context(call.places["context"]))


@route("GET /v1/metadata/id", needs=OPEN)
def get_cluster_ids(call: RestCall) -> Any:
    """Get the ids of the Kafka cluster and of the group of registries."""
    return {"scope": {"path": [], "clusters": dict(call.clusters)}}


@route("GET /v1/metadata/version", needs=OPEN)
def get_version_info(_call: RestCall) -> Any:
    """Get the version of the registry."""
    return {"version": __version__, "commitId": ""}


@route("GET /v1/metadata/deployment", needs=OPEN)
def get_deployment(_call: RestCall) -> Any:
    """Get the attributes of the deployment."""
    return {"attributes": []}
