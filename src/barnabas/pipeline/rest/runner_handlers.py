"""Handlers about the runner itself: version, health, plug-ins, loggers, progress of all jobs."""

from collections.abc import Sequence
from typing import Any, Final

from barnabas import __version__
from barnabas.pipeline.connect import version_range
from barnabas.pipeline.connect.connector_definitions import connector_definition
from barnabas.pipeline.connect.plugin_registry import (
    CONNECTORS,
    Plugin,
    PluginKind,
    PluginNotFoundError,
)
from barnabas.pipeline.connect.rest_errors import bad_request, not_found
from barnabas.pipeline.definitions.config_def import ConfigDef
from barnabas.pipeline.rest.connect_calls import NO_CONTENT, OK, Answer, ConnectCall, route
from barnabas.pipeline.rest.runner_loggers import LEVELS

KAFKA_VERSION: Final = "4.3.0"
"""The version whose API is served: clients choose their requests by it."""

_UNAVAILABLE: Final = 503
_SUFFIX: Final = "Connector"
KIND_ORDER: Final = (
    PluginKind.SINK,
    PluginKind.SOURCE,
    PluginKind.TRANSFORMATION,
    PluginKind.PREDICATE,
    PluginKind.CONVERTER,
    PluginKind.HEADER_CONVERTER,
)


@route("GET /", needs_store=False)
async def root(call: ConnectCall) -> Answer:
    """Get the version of the API and the id of the Kafka cluster."""
    found = {
        "version": KAFKA_VERSION,
        "commit": f"barnabas-{__version__}",
        "kafka_cluster_id": call.context.service.view.cluster_id,
    }
    return Answer(OK, found)


@route("GET /health", needs_store=False)
async def health(call: ConnectCall) -> Answer:
    """Report the runner's state: 200 healthy, 503 starting."""
    problem = call.context.service.view.starting or call.context.engine_problem()
    if problem is None:
        message = "Worker has completed startup and is ready to handle requests."
        return Answer(OK, {"status": "healthy", "message": message})
    message = f"Worker is still starting up. {problem}"
    return Answer(_UNAVAILABLE, {"status": "starting", "message": message})


@route("GET /progress")
async def progress_of_all(call: ConnectCall) -> Answer:
    """Get the figures of all jobs, which Java's Connect has only as metrics."""
    names = sorted(call.context.service.state.connectors)
    return Answer(OK, {name: call.context.progress(name) for name in names})


@route("GET /connector-plugins", needs_store=False)
async def list_plugins(call: ConnectCall) -> Answer:
    """List the connectors, and the other plug-ins with `connectorsOnly=false`."""
    kinds = KIND_ORDER
    if call.flag("connectorsOnly", default=True):
        kinds = KIND_ORDER[: len(CONNECTORS)]
    registry = call.context.service.registry
    found = [plugin for kind in kinds for plugin in registry.plugins(kind)]
    return Answer(OK, [_plugin_json(plugin) for plugin in found])


def _plugin_json(plugin: Plugin) -> dict[str, Any]:
    return {"class": plugin.class_name, "type": plugin.kind.value, "version": plugin.version}


@route("GET /connector-plugins/{plugin}/config", needs_store=False)
async def get_plugin_config(call: ConnectCall) -> Answer:
    """Get the properties of a plug-in: its own, then those of all connectors."""
    registry = call.context.service.registry
    name = call.places["plugin"]
    try:
        plugin = registry.find(name, *PluginKind)
    except PluginNotFoundError:
        raise not_found(f"Unknown plugin {name}.") from None
    _check_version(plugin, call.texts("version"))
    definition: ConfigDef = plugin.load()().config()
    if plugin.kind in CONNECTORS:
        defaults = {"connector.plugin.version": plugin.version}
        base = connector_definition(registry, plugin.kind, defaults)
        missing = [key for key in base.keys.values() if key.name not in definition.keys]
        definition = definition.extended(missing)
    return Answer(OK, [key.to_json() for key in definition.keys.values()])


def _check_version(plugin: Plugin, wanted: Sequence[str]) -> None:
    """Raise ConnectRestError (400) when the plug-in does not have the version of a request."""
    if wanted and not version_range.includes(wanted[0], plugin.version):
        shown = version_range.as_range(wanted[0])
        raise bad_request(
            f"Plugin {plugin.class_name} not found that matches the version range {shown}, "
            f"available versions: [{plugin.version}]"
        )


@route("PUT /connector-plugins/{plugin}/config/validate", needs_store=False)
async def validate(call: ConnectCall) -> Answer:
    """Validate a configuration without storing it."""
    config = call.properties(call.json_object())
    plugin, given = call.places["plugin"], config.get("connector.class")
    if given is not None and not _short(given).endswith(_short(plugin)):
        raise bad_request(f"Included connector type {given} does not match request type {plugin}")
    return Answer(OK, (await call.context.service.validate(config)).to_json())


def _short(name: str) -> str:
    return name.removesuffix(_SUFFIX) or name


@route("GET /admin/loggers", needs_store=False)
async def list_loggers(call: ConnectCall) -> Answer:
    """List the loggers whose level was changed."""
    return Answer(OK, call.context.loggers.changed())


@route("GET /admin/loggers/{logger}", needs_store=False)
async def get_logger(call: ConnectCall) -> Answer:
    """Get the level of a logger."""
    found = call.context.loggers.level(call.places["logger"])
    if found is None:
        raise not_found(f"Logger {call.places['logger']} not found.")
    return Answer(OK, found)


@route("PUT /admin/loggers/{logger}", needs_store=False)
async def set_logger(call: ConnectCall) -> Answer:
    """Set the level of a logger and of those below it, on this runner or on all."""
    level = call.json_object().get("level")
    if level is None:
        raise bad_request("Desired 'level' parameter was not specified in request.")
    if str(level).upper() not in LEVELS:
        raise not_found(f"invalid log level '{level}'.")
    name = call.places["logger"]
    if (call.texts("scope") or ["worker"])[0].lower() == "cluster":
        call.context.service.check_ready()
        await call.context.service.set_cluster_level(name, str(level))
        return Answer(NO_CONTENT)
    return Answer(OK, call.context.loggers.set_level(name, str(level)))
