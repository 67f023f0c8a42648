"""Operations on connectors for REST: read the store, check, and write to it.

Messages and statuses of errors are those of Apache Kafka 4.3. A runner on standby answers reads
from its own replay; writes are passed on to the active runner.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import attrs
import trio

from barnabas.pipeline.connect.config_providers import ConfigProviders
from barnabas.pipeline.connect.connector_validation import (
    ConfigInfo,
    ConfigInfos,
    ConnectorValidator,
    find_connector,
)
from barnabas.pipeline.connect.plugin_registry import Plugin, PluginKind, PluginRegistry
from barnabas.pipeline.connect.rest_errors import (
    ConnectRestError,
    NotActiveError,
    bad_request,
    conflict,
    not_found,
)
from barnabas.pipeline.connect.secret_masking import masked, unmasked
from barnabas.pipeline.definitions.config_def import ConfigValue
from barnabas.pipeline.definitions.config_types import ConfigValueError
from barnabas.pipeline.delivery.plan.job_plan import JobKind
from barnabas.pipeline.jobs.core.job_supervision import JobState, TargetState
from barnabas.pipeline.jobs.core.store_records import (
    ActiveTopicRecord,
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    LoggerRecord,
    RestartRecord,
    StatusRecord,
    TargetRecord,
)
from barnabas.pipeline.jobs.core.store_state import ConnectorEntry, StoreState
from barnabas.pipeline.jobs.job_config import job_kind
from barnabas.pipeline.jobs.job_conflicts import conflicts

logger = logging.getLogger(__name__)

Properties = Mapping[str, str | None]

_FAILED: Final = JobState.FAILED.value


def _by_anyone(_config: Properties) -> None:
    """Allow a configuration."""


class ConnectorStore(Protocol):
    """The store of connectors."""

    state: StoreState

    async def write_configs(self, records: Sequence[ConfigRecord]) -> None:
        """Write configurations and wait until they are replayed."""
        ...

    async def write_statuses(self, records: Sequence[StatusRecord | ActiveTopicRecord]) -> None:
        """Write statuses and wait until they are replayed."""
        ...


@attrs.define
class RunnerView:
    """The runner's state as the service sees it; the runner keeps it up to date."""

    url: str
    cluster_id: str = ""
    starting: str | None = "The runner reads its topics"
    """Why nothing can be answered yet, None once the store is read."""
    is_active: bool = False
    active_url: Callable[[], str] = str
    """Returns the URL of the active runner, empty while there is none."""


class ConnectorService:
    """Connectors of one group."""

    def __init__(
        self,
        store: ConnectorStore,
        registry: PluginRegistry,
        validator: ConnectorValidator,
        providers: ConfigProviders,
        view: RunnerView,
    ) -> None:
        self.store = store
        self.registry = registry
        self.view = view
        self._validator = validator
        self._providers = providers

    @property
    def state(self) -> StoreState:
        """The replayed topics."""
        return self.store.state

    def check_ready(self) -> None:
        """Raise ConnectRestError (503) until the store is read."""
        if self.view.starting is not None:
            raise ConnectRestError(503, self.view.starting)

    def check_active(self) -> None:
        """Raise NotActiveError (409) unless this runner is the one that writes."""
        if not self.view.is_active:
            raise NotActiveError(self.view.active_url())

    def entry(self, name: str, message: str = "Connector {name} not found") -> ConnectorEntry:
        """Return a connector. Raises ConnectRestError (404)."""
        found = self.state.connectors.get(name)
        if found is None:
            raise not_found(message.format(name=name))
        return found

    def plugin(self, name: str) -> Plugin:
        """Return the plug-in of a connector. Raises ConnectRestError."""
        return find_connector(self.registry, self.entry(name).config)

    def plugin_of(self, config: Properties) -> Plugin | None:
        """Return the plug-in of a configuration, None for an unknown class."""
        try:
            return find_connector(self.registry, config)
        except ConnectRestError:
            return None

    def type_of(self, config: Properties) -> str:
        """Return the type of a connector, "unknown" when its class is."""
        plugin = self.plugin_of(config)
        return "unknown" if plugin is None else plugin.kind.value

    def info(self, name: str) -> dict[str, Any]:
        """Return a connector's configuration and tasks. Raises ConnectRestError (404)."""
        entry = self.entry(name)
        tasks = [{"connector": name, "task": number} for number in range(len(entry.tasks))]
        return {
            "name": name,
            "config": masked(entry.config),
            "tasks": tasks,
            "type": self.type_of(entry.config),
        }

    def status(self, name: str) -> dict[str, Any]:
        """Return the states of a connector and its tasks. Raises ConnectRestError (404)."""
        found = self.state.statuses.get(name)
        if found is None or found.connector is None:
            raise not_found(f"No status found for connector {name}")
        entry = self.state.connectors.get(name)
        return {
            "name": name,
            "connector": state_json(found.connector),
            "tasks": [task_json(found.tasks[number]) for number in sorted(found.tasks)],
            "type": "unknown" if entry is None else self.type_of(entry.config),
        }

    def task_status(self, name: str, task: int) -> dict[str, Any]:
        """Return the state of a task. Raises ConnectRestError (404)."""
        found = self.state.statuses.get(name)
        if found is None or task not in found.tasks:
            raise not_found(f"No status found for task {name}-{task}")
        return task_json(found.tasks[task])

    async def validate(self, config: Properties) -> ConfigInfos:
        """Return the result of a validation. Raises ConnectRestError for an unknown class."""
        others = {name: entry.config for name, entry in self.state.connectors.items()}

        def blocking() -> ConfigInfos:
            try:
                resolved = self._providers.resolve(config)
            except ConfigValueError as error:
                raise bad_request(str(error)) from None
            infos = self._validator.validate(resolved)
            if not infos.errors:
                name = resolved.get("name") or ""
                found = conflicts(self.registry, name, resolved, others)
                infos = _with_errors(infos, resolved, found)
            _hide_resolved(infos, config, resolved)
            return infos

        return await trio.to_thread.run_sync(blocking)

    async def put(
        self,
        name: str,
        config: Properties,
        target: TargetState | None,
        *,
        replaces: bool,
        allowed: Callable[[Properties], None] = _by_anyone,
    ) -> bool:
        """Store a configuration; return True when the connector is new.

        Raises ConnectRestError, also when `allowed` raises it for the new configuration or for the
        one that it replaces.
        """
        self.check_active()
        stored = self.state.connectors.get(name)
        complete = unmasked(config, {} if stored is None else stored.config)
        allowed(complete)
        if stored is not None:
            allowed(stored.config)
        infos = await self.validate(complete)
        if infos.errors:
            lines = "".join(f"\n{error}" for error in infos.errors)
            raise bad_request(
                f"Connector configuration is invalid and contains the following "
                f"{len(infos.errors)} error(s):{lines}\nYou can also find the above list of errors "
                "at the endpoint `/connector-plugins/{connectorType}/config/validate`"
            )
        is_new = name not in self.state.connectors
        if not is_new and not replaces:
            raise conflict(f"Connector {name} already exists")
        records: list[ConfigRecord] = [ConnectorRecord(name, complete)]
        if target is not None:
            records.insert(0, TargetRecord(name, target.value))
        await self.store.write_configs(records)
        return is_new

    async def patch(
        self, name: str, changes: Properties, *, allowed: Callable[[Properties], None] = _by_anyone
    ) -> None:
        """Change some properties; None removes one. Raises ConnectRestError."""
        self.check_active()
        merged = {**self.entry(name).config, **unmasked(changes, self.entry(name).config)}
        config = {key: value for key, value in merged.items() if value is not None}
        await self.put(name, config, None, replaces=True, allowed=allowed)

    async def delete(self, name: str) -> None:
        """Delete a connector. Raises ConnectRestError (404)."""
        self.check_active()
        self.entry(name)
        await self.store.write_configs([ConnectorRecord(name, None), TargetRecord(name, None)])

    async def set_target(self, name: str, target: TargetState) -> None:
        """Pause, resume or stop a connector. Raises ConnectRestError (404)."""
        self.check_active()
        self.entry(name, "Unknown connector {name}")
        records: list[ConfigRecord] = [TargetRecord(name, target.value)]
        if target is TargetState.STOPPED:  # also without tasks: a start may be writing them
            records.append(CommitRecord(name, 0))
        await self.store.write_configs(records)

    async def restart(self, name: str, *, tasks: bool, only_failed: bool) -> dict[str, Any]:
        """Request a restart; return the status with what is going to restart.

        Raises ConnectRestError (404).
        """
        self.check_active()
        self.entry(name, "Unknown connector: {name}")
        status = self._restart_plan(name, tasks=tasks, only_failed=only_failed)
        await self.store.write_configs([RestartRecord(name, tasks, only_failed)])
        return status

    def _restart_plan(self, name: str, *, tasks: bool, only_failed: bool) -> dict[str, Any]:
        try:
            status = self.status(name)
        except ConnectRestError:
            raise not_found(f"Status for connector {name} not found") from None
        states = [status["connector"], *(status["tasks"] if tasks else ())]
        for each in states:
            if not only_failed or each["state"] == _FAILED:
                each["state"] = JobState.RESTARTING.value
        return status

    async def restart_task(self, name: str, task: int) -> None:
        """Request a restart of a task, which restarts its job. Raises ConnectRestError (404)."""
        self.check_active()
        entry = self.entry(name, "Unknown connector: {name}")
        if task >= len(entry.tasks):
            raise not_found(f"Unknown task: {name}-{task}")
        await self.store.write_configs([RestartRecord(name, True, False)])

    async def reset_topics(self, name: str) -> None:
        """Forget the topics of a connector."""
        self.check_active()
        topics = self.state.topics.get(name, {})
        records = [ActiveTopicRecord(topic, name, None) for topic in topics]
        if records:
            await self.store.write_statuses(records)

    async def set_cluster_level(self, name: str, level: str) -> None:
        """Set the level of a logger on all runners."""
        self.check_active()
        await self.store.write_configs([LoggerRecord(name, level)])

    def check_stopped(self, name: str) -> ConnectorEntry:
        """Return a stopped connector. Raises ConnectRestError (404, 400)."""
        self.check_active()
        entry = self.entry(name)
        if entry.target is not TargetState.STOPPED or entry.tasks:
            raise bad_request(
                "Connectors must be in the STOPPED state before their offsets can be modified. "
                "This can be done for the specified connector by issuing a 'PUT' request to the "
                f"'/connectors/{name}/stop' endpoint"
            )
        return entry

    def hides(self, name: str) -> bool:
        """True for a connector that lists leave out: the query of a SQL statement."""
        plugin = self.plugin_of(self.entry(name).config)
        return plugin is not None and job_kind(plugin) is JobKind.QUERY

    def is_source(self, name: str) -> bool:
        """True for a connector that reads an external system."""
        return self.type_of(self.entry(name).config) == PluginKind.SOURCE.value


def _with_errors(
    infos: ConfigInfos, config: Properties, errors: Iterable[tuple[str, str]]
) -> ConfigInfos:
    """Return the result of a validation with further errors of properties."""
    added: list[ConfigInfo] = []
    for name, error in errors:
        value = next(
            (each.value for each in (*infos.configs, *added) if each.value.name == name), None
        )
        if value is None:
            value = ConfigValue(name, config.get(name))
            added.append(ConfigInfo(None, value))
        value.errors.append(error)
    return attrs.evolve(infos, configs=(*infos.configs, *added))


def _hide_resolved(infos: ConfigInfos, raw: Properties, resolved: Properties) -> None:
    """Show references to providers instead of the secrets that they stand for."""
    for info in infos.configs:
        value, reference = info.value, raw.get(info.value.name)
        secret = resolved.get(value.name)
        if reference is None or not secret or secret == reference:
            continue
        value.value = reference
        value.errors = [error.replace(secret, reference) for error in value.errors]


def state_json(record: StatusRecord) -> dict[str, Any]:
    """Return a state as REST answers show it; a trace is there only when there is one."""
    trace = {"trace": record.trace} if record.trace else {}
    return {
        "state": record.state,
        "worker_id": record.worker_id,
        **trace,
        "version": record.version,
    }


def task_json(record: StatusRecord) -> dict[str, Any]:
    """Return the state of a task as REST answers show it."""
    return {"id": record.task, **state_json(record)}
