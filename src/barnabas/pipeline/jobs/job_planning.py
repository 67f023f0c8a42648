"""From a stored configuration to a plan: secrets, connector class, tasks.

Everything here may block (files, connectors that ask their external system for tasks), so it runs
in a thread.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from barnabas.pipeline.connect.config_providers import ConfigProviders, has_reference
from barnabas.pipeline.connect.connector_definitions import TASKS_MAX_DEFAULT
from barnabas.pipeline.connect.connector_validation import find_connector
from barnabas.pipeline.connect.plugin_registry import Plugin, PluginKind, PluginRegistry
from barnabas.pipeline.connect.rest_errors import ConnectRestError
from barnabas.pipeline.definitions.config_types import ConfigValueError
from barnabas.pipeline.delivery.plan.job_plan import JobKind, JobPlan
from barnabas.pipeline.jobs.job_config import (
    ISOLATION,
    OWN,
    RunnerDefaults,
    full_properties,
    job_kind,
    job_plan,
)

logger = logging.getLogger(__name__)

_TASK_CLASS: Final = "task.class"
_SINK_TOPICS: Final = ("topics", "topics.regex")


@attrs.frozen
class JobSpec:
    """A job to run, as it is stored. Another spec makes the job start again."""

    name: str
    config: Mapping[str, str | None]


@attrs.frozen
class PlannedJob:
    """A plan, and the configurations of its tasks as they are stored: without secrets."""

    plugin: Plugin
    plan: JobPlan
    stored_tasks: Sequence[Mapping[str, str | None]]


class JobPlanner:
    """Makes plans for the jobs of one runner."""

    def __init__(
        self, registry: PluginRegistry, providers: ConfigProviders, defaults: RunnerDefaults
    ) -> None:
        self.registry = registry
        self.providers = providers
        self.defaults = defaults

    def needs_session(self, config: Mapping[str, str | None]) -> bool:
        """True when a job with this configuration runs in the session that jobs share."""
        if config.get(ISOLATION) == OWN:
            return False
        try:
            plugin = find_connector(self.registry, full_properties(config, {}))
        except ConnectRestError:
            return True  # planning the job says what is wrong
        return job_kind(plugin) is not JobKind.VIEW

    def plan(self, spec: JobSpec, generation: int) -> PlannedJob:
        """Return the plan of a job.

        Raises ConfigValueError, ConnectRestError or ConnectError when the configuration cannot run.
        """
        config = self.providers.resolve({**spec.config, "name": spec.name})
        plugin = find_connector(self.registry, config)
        properties = full_properties(config, {})
        limit = int(properties.get("tasks.max", TASKS_MAX_DEFAULT))
        connector = plugin.load()()
        tasks: list[dict[str, str]] = [
            _task_config(plugin, properties, task)
            for task in connector.task_configs(properties, limit)
        ]
        if len(tasks) > limit and properties.get("tasks.max.enforce", "true").lower() == "true":
            raise ConfigValueError(
                f"The connector {spec.name} has generated {len(tasks)} tasks, which is greater "
                f"than {limit}, the maximum number of tasks it is configured to create."
            )
        plan = job_plan(plugin, config, tasks, generation, self.defaults)
        return PlannedJob(plugin, plan, [_stored(task, spec.config) for task in tasks])


def _task_config(
    plugin: Plugin, properties: Mapping[str, str], task: Mapping[str, str]
) -> dict[str, str]:
    """Return a task's configuration with what Connect adds: its class, and a sink's topics."""
    own = dict(task)
    own[_TASK_CLASS] = plugin.class_name.removesuffix("Connector") + "Task"
    if plugin.kind is PluginKind.SINK:
        own |= {name: properties[name] for name in _SINK_TOPICS if name in properties}
    return own


def _stored(task: Mapping[str, str], raw: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return a task's configuration with the references of the connector's instead of secrets."""
    return {
        name: raw[name] if has_reference(raw.get(name)) else value for name, value in task.items()
    }
