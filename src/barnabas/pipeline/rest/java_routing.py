"""Requests that concern Java's connectors: which go to the worker, and what the worker answers.

A configuration goes to the worker when the runner has no class of its name, or when it says
`barnabas.worker=java`. Reads of the worker's jobs are answered from its topics with the handlers of
all jobs; changes, positions, validation and the descriptions of plug-ins are the worker's answers.
The rights of the caller are checked first.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import quote

import attrs

from barnabas.pipeline.connect.connector_validation import find_connector
from barnabas.pipeline.connect.plugin_registry import (
    CONNECTORS,
    PluginKind,
    PluginNotFoundError,
)
from barnabas.pipeline.connect.rest_errors import (
    ConnectRestError,
    NotActiveError,
    bad_request,
    conflict,
    not_found,
)
from barnabas.pipeline.connect.secret_masking import unmasked
from barnabas.pipeline.java.java_jobs import JavaJobs
from barnabas.pipeline.rest.connect_calls import OK, ROUTES, Answer, ConnectCall, ConnectRoute
from barnabas.pipeline.rest.connector_handlers import list_connectors
from barnabas.pipeline.rest.connector_service import ConnectorService, Properties
from barnabas.pipeline.rest.runner_handlers import KIND_ORDER, list_plugins

WORKER: Final = "barnabas.worker"
"""The property that chooses who runs a job whose class the runner has, too."""
_JAVA: Final = "java"
_CLASS: Final = "connector.class"
_CONFIG: Final = ("connectors", "{connector}", "config")
_PROGRESS: Final = ("connectors", "{connector}", "progress")
_OFFSETS: Final = ("connectors", "{connector}", "offsets")


class WorkerService(ConnectorService):
    """Reads the worker's topics; it does not write."""

    def type_of(self, config: Properties) -> str:
        """Return the type of a connector, also before its plug-in is known."""
        plugin = self.plugin_of(config)
        if plugin is not None:
            return plugin.kind.value
        # Only sources have producers to fence, and each sink names its topics.
        is_source = config.get("name") in self.state.fencing
        names_topics = any(config.get(each) for each in ("topics", "topics.regex"))
        sink, source = PluginKind.SINK.value, PluginKind.SOURCE.value
        return sink if names_topics and not is_source else source


@attrs.define
class JavaSide:
    """The worker's jobs as handlers see them."""

    jobs: JavaJobs
    service: WorkerService

    def is_job(self, name: str) -> bool:
        """True for a job of the worker."""
        return name in self.jobs.state.connectors

    def check_stored(self, call: ConnectCall, name: str) -> None:
        """Raise ConnectRestError (403) unless the caller may change a job of the worker."""
        entry = self.jobs.state.connectors.get(name)
        if entry is not None:
            self.check_config(call, entry.config)

    def check_config(self, call: ConnectCall, config: Properties) -> None:
        """Raise ConnectRestError (403) unless the caller has the rights on a job's topics."""
        self.service.registry = self.jobs.registry
        call.rights.check_job(config, self.service.plugin_of(config))


async def java_answer(call: ConnectCall, route: ConnectRoute) -> Answer | None:
    """Return the answer to a request that concerns Java's connectors, None for another one."""
    java = call.context.java
    if java is None:
        return None
    java.service.registry = java.jobs.registry
    merged = _MERGED.get((route.method, route.segments))
    if merged is not None:
        return await merged(call, java)
    name = call.places.get("connector")
    if name is None or not java.is_job(name):
        return None
    if route.segments == _PROGRESS:
        raise not_found(f"{name} runs on the worker of Java's connectors, which has no figures")
    if route.method == "GET" and route.segments != _OFFSETS:
        return await route.handler(_of_worker(call, java))
    if (route.method, route.segments) == ("PATCH", _CONFIG):
        return await _patch(call, java)
    return await _pass_on(call, java, route)


def _of_worker(call: ConnectCall, java: JavaSide) -> ConnectCall:
    """Return the call with the worker's jobs in place of the runner's."""
    return attrs.evolve(call, context=attrs.evolve(call.context, service=java.service))


async def _pass_on(call: ConnectCall, java: JavaSide, route: ConnectRoute) -> Answer:
    """Return the worker's answer to the request as it is."""
    java.service.check_active()
    segments = [call.places.get(each.strip("{}"), each) for each in route.segments]
    path = "".join(f"/{quote(each, safe='')}" for each in segments)
    query = [(name, value) for name, value in call.query if name != "forward"]
    body = call.json_object() if call.body else None
    answer = await java.jobs.ask(route.method, path, query, body)
    if route.method != "GET":
        await java.jobs.store.catch_up()
    return Answer(answer.status, answer.body)


async def _list(call: ConnectCall, java: JavaSide) -> Answer:
    own: Any = (await list_connectors(call)).body
    theirs: Any = (await list_connectors(_of_worker(call, java))).body
    if call.texts("expand"):
        return Answer(OK, dict(sorted({**theirs, **own}.items())))
    return Answer(OK, sorted([*theirs, *own]))


async def _create(call: ConnectCall, java: JavaSide) -> Answer | None:
    fields = call.json_object()
    config = call.properties(fields.get("config"))
    name = str(fields.get("name") or "").strip()
    async with java.jobs.changing:
        if not _goes_to_worker(call, java, config):
            if java.is_job(name):
                raise conflict(f"Connector {name} already exists")
            return await _handled(call, "POST", ("connectors",))
        java.service.check_active()
        if name in call.context.service.state.connectors or java.is_job(name):
            raise conflict(f"Connector {name} already exists")
        config.setdefault("name", name)
        await _check_new(call, java, config)
        return await _change(call, java, "POST", "/connectors", name, {**fields, "config": config})


async def _put(call: ConnectCall, java: JavaSide) -> Answer | None:
    config = call.properties(call.json_object())
    name = call.connector
    stored = java.jobs.state.connectors.get(name)
    async with java.jobs.changing:
        goes = _goes_to_worker(call, java, config, is_stored=stored is not None)
        _check_side(name, java, call.context.service, goes_to_worker=goes)
        if not goes:
            return await _handled(call, "PUT", _CONFIG)
        java.service.check_active()
        complete = unmasked(config, {} if stored is None else stored.config)
        await _check_new(call, java, complete)
        return await _change(call, java, "PUT", _config_path(name), name, complete)


async def _patch(call: ConnectCall, java: JavaSide) -> Answer:
    java.service.check_active()
    name = call.connector
    changes = call.properties(call.json_object())
    async with java.jobs.changing:
        stored = java.service.entry(name).config
        complete = unmasked(changes, stored)
        merged = {**stored, **complete}
        goes = _goes_to_worker(call, java, merged, is_stored=True)
        _check_side(name, java, call.context.service, goes_to_worker=goes)
        java.check_config(call, merged)
        return await _change(call, java, "PATCH", _config_path(name), name, complete)


def _config_path(name: str) -> str:
    return f"/connectors/{quote(name, safe='')}/config"


def _check_side(
    name: str, java: JavaSide, service: ConnectorService, *, goes_to_worker: bool
) -> None:
    """Raise ConnectRestError (409) for a change that would move a job."""
    if java.is_job(name) and not goes_to_worker:
        raise conflict(
            f"Connector {name} runs on the worker of Java's connectors, and its new class is one "
            f"of the runner: delete {name} first, or keep {WORKER}={_JAVA}"
        )
    if name in service.state.connectors and goes_to_worker:
        raise conflict(
            f"Connector {name} is the runner's own, and its new configuration is for the worker of "
            f"Java's connectors: delete {name} first"
        )


def _goes_to_worker(
    call: ConnectCall, java: JavaSide, config: Properties, *, is_stored: bool = False
) -> bool:
    """True for a configuration of a job of the worker. Raises ConnectRestError (400)."""
    chosen = config.get(WORKER)
    if chosen is not None and chosen != _JAVA:
        raise bad_request(f"Invalid value {chosen} for configuration {WORKER}: it can be {_JAVA}")
    if config.get(_CLASS) is None:
        return is_stored
    return chosen == _JAVA or call.context.service.plugin_of(config) is None


async def _check_new(call: ConnectCall, java: JavaSide, config: Properties) -> None:
    """Raise ConnectRestError for a class that the worker lacks (400), or without rights (403)."""
    await java.jobs.ready()
    java.service.registry = java.jobs.registry
    if java.service.plugin_of(config) is None:
        find_connector(java.jobs.all_plugins, config)  # raises the error that names all classes
    java.check_config(call, config)


async def _change(
    call: ConnectCall, java: JavaSide, method: str, path: str, name: str, body: Any
) -> Answer:
    """Send a configuration to the worker; return the stored one, without its secrets."""
    answer = await java.jobs.ask(method, path, body=body)
    await java.jobs.store.catch_up()
    location = f"{call.context.base_url}/connectors/{quote(name, safe='')}"
    headers = {"Location": location} if answer.status == 201 else {}
    return Answer(answer.status, java.service.info(name), headers)


async def _handled(call: ConnectCall, method: str, segments: tuple[str, ...]) -> Answer:
    """Return the runner's own answer, while the name cannot be taken by the worker."""
    (found,) = (each for each in ROUTES if (each.method, each.segments) == (method, segments))
    return await found.handler(call)


async def _list_plugins(call: ConnectCall, java: JavaSide) -> Answer:
    own: list[dict[str, Any]] = (await list_plugins(call)).body
    if not java.service.view.is_active:
        if java.service.view.active_url():
            java.service.check_active()  # the active runner knows the worker's plug-ins
        return Answer(OK, own)
    try:
        await java.jobs.ready()
    except ConnectRestError:
        return Answer(OK, own)  # the log and the states of jobs say why
    kinds = [kind.value for kind in KIND_ORDER]
    if call.flag("connectorsOnly", default=True):
        kinds = kinds[: len(CONNECTORS)]
    known = {(each["type"], each["class"]) for each in own}
    added = [
        each
        for each in java.jobs.plugins
        if each["type"] in kinds and (each["type"], each["class"]) not in known
    ]
    return Answer(OK, sorted([*own, *added], key=lambda each: _order(kinds, each)))


def _order(kinds: list[str], plugin: dict[str, Any]) -> tuple[int, str]:
    return kinds.index(plugin["type"]), plugin["class"]


async def _plugin_config(call: ConnectCall, java: JavaSide) -> Answer | None:
    name = call.places["plugin"]
    try:
        call.context.service.registry.find(name, *PluginKind)
    except PluginNotFoundError:
        return await _asked(call, java, "GET", f"/connector-plugins/{quote(name, safe='')}/config")
    return None


async def _validate(call: ConnectCall, java: JavaSide) -> Answer | None:
    config = call.properties(call.json_object())
    name = call.places["plugin"]
    if not _goes_to_worker(call, java, {_CLASS: name, **config}):
        return None
    path = f"/connector-plugins/{quote(name, safe='')}/config/validate"
    return await _asked(call, java, "PUT", path, config)


async def _asked(
    call: ConnectCall, java: JavaSide, method: str, path: str, body: Any = None
) -> Answer:
    if not java.service.view.is_active:
        raise NotActiveError(java.service.view.active_url())
    query = [(name, value) for name, value in call.query if name != "forward"]
    answer = await java.jobs.ask(method, path, query, body)
    return Answer(answer.status, answer.body)


_Merged = Callable[[ConnectCall, JavaSide], Awaitable[Answer | None]]
_PLUGIN: Final = ("connector-plugins", "{plugin}", "config")
_MERGED: Final[dict[tuple[str, tuple[str, ...]], _Merged]] = {
    ("GET", ("connectors",)): _list,
    ("POST", ("connectors",)): _create,
    ("PUT", _CONFIG): _put,
    ("GET", ("connector-plugins",)): _list_plugins,
    ("GET", _PLUGIN): _plugin_config,
    ("PUT", (*_PLUGIN, "validate")): _validate,
}
"""Requests that concern the jobs or the plug-ins of both."""
