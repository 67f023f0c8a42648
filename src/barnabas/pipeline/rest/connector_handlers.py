"""Handlers of /connectors."""

from typing import Any, Final
from urllib.parse import quote

from barnabas.pipeline.connect.rest_errors import ConnectRestError, bad_request
from barnabas.pipeline.connect.secret_masking import masked
from barnabas.pipeline.jobs.core.job_supervision import TargetState
from barnabas.pipeline.rest.connect_calls import (
    ACCEPTED,
    CREATED,
    NO_CONTENT,
    OK,
    Answer,
    ConnectCall,
    route,
)

_TARGETS: Final = {
    "RUNNING": TargetState.STARTED,
    "PAUSED": TargetState.PAUSED,
    "STOPPED": TargetState.STOPPED,
}


@route("GET /connectors")
async def list_connectors(call: ConnectCall) -> Answer:
    """List the connectors, or what `expand` asks of each; queries of SQL with `hidden=true`."""
    service = call.context.service
    is_all = call.flag("hidden")
    names = sorted(name for name in service.state.connectors if is_all or not service.hides(name))
    expansions = call.texts("expand")
    if not expansions:
        return Answer(OK, names)
    return Answer(OK, {name: _expanded(call, name, expansions) for name in names})


def _expanded(call: ConnectCall, name: str, expansions: list[str]) -> dict[str, Any]:
    service = call.context.service
    found: dict[str, Any] = {}
    if "status" in expansions:
        try:
            found["status"] = service.status(name)
        except ConnectRestError:
            return {}  # created just now
    if "info" in expansions:
        found["info"] = service.info(name)
    return found


@route("POST /connectors")
async def create_connector(call: ConnectCall) -> Answer:
    """Create a connector."""
    fields = call.json_object()
    name = str(fields.get("name") or "").strip()
    config = call.properties(fields.get("config"))
    target = _initial_target(fields.get("initial_state"))
    return await _put(call, name, config, target, replaces=False)


def _initial_target(found: object) -> TargetState | None:
    if found is None:
        return None
    target = _TARGETS.get(str(found).upper())
    if target is None:
        raise bad_request(f"Invalid initial state: {found}")
    return target


@route("PUT /connectors/{connector}/config")
async def put_config(call: ConnectCall) -> Answer:
    """Create a connector, or replace its configuration."""
    config = call.properties(call.json_object())
    return await _put(call, call.connector, config, None, replaces=True)


async def _put(
    call: ConnectCall,
    name: str,
    config: dict[str, str | None],
    target: TargetState | None,
    *,
    replaces: bool,
) -> Answer:
    given = config.setdefault("name", name)
    if given != name:
        raise bad_request(
            f"Connector name configuration ({given}) doesn't match connector name in the URL "
            f"({name})"
        )
    service = call.context.service
    is_new = await service.put(name, config, target, replaces=replaces, allowed=call.check_config)
    if not is_new:
        return Answer(OK, service.info(name))
    location = f"{call.context.base_url}/connectors/{quote(name, safe='')}"
    return Answer(CREATED, service.info(name), {"Location": location})


@route("PATCH /connectors/{connector}/config")
async def patch_config(call: ConnectCall) -> Answer:
    """Change some properties of a connector; null removes one."""
    changes = call.properties(call.json_object())
    await call.context.service.patch(call.connector, changes, allowed=call.check_config)
    return Answer(OK, call.context.service.info(call.connector))


@route("GET /connectors/{connector}")
async def get_connector(call: ConnectCall) -> Answer:
    """Get the configuration and the tasks of a connector."""
    return Answer(OK, call.context.service.info(call.connector))


@route("GET /connectors/{connector}/config")
async def get_config(call: ConnectCall) -> Answer:
    """Get the configuration of a connector."""
    return Answer(OK, masked(call.context.service.entry(call.connector).config))


@route("GET /connectors/{connector}/tasks")
async def get_tasks(call: ConnectCall) -> Answer:
    """Get the configurations of a connector's tasks."""
    entry = call.context.service.entry(call.connector)
    return Answer(
        OK,
        [
            {"id": {"connector": call.connector, "task": number}, "config": masked(config)}
            for number, config in enumerate(entry.tasks)
        ],
    )


@route("GET /connectors/{connector}/status")
async def get_status(call: ConnectCall) -> Answer:
    """Get the states of a connector and its tasks."""
    return Answer(OK, call.context.service.status(call.connector))


@route("GET /connectors/{connector}/tasks/{task}/status")
async def get_task_status(call: ConnectCall) -> Answer:
    """Get the state of a task."""
    return Answer(OK, call.context.service.task_status(call.connector, call.task))


@route("GET /connectors/{connector}/progress")
async def get_progress(call: ConnectCall) -> Answer:
    """Get the figures of a job, which Java's Connect has only as metrics."""
    call.context.service.entry(call.connector)
    return Answer(OK, call.context.progress(call.connector))


@route("GET /connectors/{connector}/logs")
async def get_logs(call: ConnectCall) -> Answer:
    """Get the newest log lines of a job, which Java's Connect does not serve."""
    call.context.service.entry(call.connector)
    return Answer(OK, call.context.logs(call.connector))


@route("PUT /connectors/{connector}/pause")
async def pause(call: ConnectCall) -> Answer:
    """Pause a connector."""
    await call.context.service.set_target(call.connector, TargetState.PAUSED)
    return Answer(ACCEPTED)


@route("PUT /connectors/{connector}/resume")
async def resume(call: ConnectCall) -> Answer:
    """Resume a connector that is paused or stopped."""
    await call.context.service.set_target(call.connector, TargetState.STARTED)
    return Answer(ACCEPTED)


@route("PUT /connectors/{connector}/stop")
async def stop(call: ConnectCall) -> Answer:
    """Stop a connector; it has no tasks then."""
    await call.context.service.set_target(call.connector, TargetState.STOPPED)
    return Answer(NO_CONTENT)


@route("POST /connectors/{connector}/restart")
async def restart(call: ConnectCall) -> Answer:
    """Restart a connector, and its tasks when `includeTasks` says so."""
    tasks, only_failed = call.flag("includeTasks"), call.flag("onlyFailed")
    service = call.context.service
    status = await service.restart(call.connector, tasks=tasks, only_failed=only_failed)
    return Answer(ACCEPTED, status) if tasks or only_failed else Answer(NO_CONTENT)


@route("POST /connectors/{connector}/tasks/{task}/restart")
async def restart_task(call: ConnectCall) -> Answer:
    """Restart a task, and with it its job."""
    await call.context.service.restart_task(call.connector, call.task)
    return Answer(NO_CONTENT)


@route("DELETE /connectors/{connector}")
async def delete_connector(call: ConnectCall) -> Answer:
    """Delete a connector; its offsets stay."""
    await call.context.service.delete(call.connector)
    return Answer(NO_CONTENT)


@route("GET /connectors/{connector}/topics")
async def get_topics(call: ConnectCall) -> Answer:
    """Get the topics that a connector used."""
    _check_tracking(call)
    topics = sorted(call.context.service.state.topics.get(call.connector, ()))
    return Answer(OK, {call.connector: {"topics": topics}})


@route("PUT /connectors/{connector}/topics/reset")
async def reset_topics(call: ConnectCall) -> Answer:
    """Forget the topics that a connector used."""
    _check_tracking(call)
    if not call.context.allows_topics_reset:
        raise ConnectRestError(403, "Topic tracking reset is disabled.")
    await call.context.service.reset_topics(call.connector)
    return Answer(ACCEPTED)


def _check_tracking(call: ConnectCall) -> None:
    if not call.context.tracks_topics:
        raise ConnectRestError(403, "Topic tracking is disabled.")


@route("GET /connectors/{connector}/offsets")
async def get_offsets(call: ConnectCall) -> Answer:
    """Get the position of a connector."""
    return Answer(OK, {"offsets": await call.context.offsets.read(call.connector)})


@route("PATCH /connectors/{connector}/offsets")
async def alter_offsets(call: ConnectCall) -> Answer:
    """Change the position of a stopped connector."""
    offsets = call.json_object().get("offsets")
    if not offsets:
        raise bad_request("Partitions / offsets need to be provided for an alter offsets request")
    await call.context.offsets.alter(call.connector, offsets)
    return _offsets_changed("altered")


@route("DELETE /connectors/{connector}/offsets")
async def reset_offsets(call: ConnectCall) -> Answer:
    """Remove the position of a stopped connector."""
    await call.context.offsets.reset(call.connector)
    return _offsets_changed("reset")


def _offsets_changed(verb: str) -> Answer:
    message = f"The offsets for this connector have been {verb} successfully"
    return Answer(OK, {"message": message})
