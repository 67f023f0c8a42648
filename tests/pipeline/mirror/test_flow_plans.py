"""From the configuration of a flow to the plan of its job."""

import pytest

from barnabas.pipeline.connect.config_providers import ConfigProviders, ProviderLimits
from barnabas.pipeline.connect.plugin_registry import PluginKind, plugin_registry
from barnabas.pipeline.connect.unused_properties import unused_properties
from barnabas.pipeline.definitions.config_types import ConfigValueError
from barnabas.pipeline.delivery.plan.job_plan import JobKind, JobPlan, OnTrim
from barnabas.pipeline.jobs.job_config import RunnerDefaults
from barnabas.pipeline.jobs.job_conflicts import conflicts
from barnabas.pipeline.jobs.job_planning import JobPlanner, JobSpec
from barnabas.pipeline.mirror.flow_connector import MirrorConnector, settings_of

CONFIG = {
    "connector.class": "Mirror",
    "topics.regex": "orders.*",
    "source.bootstrap.servers": "source:1",
    "on.trim": "skip",
}


def plan_of(config: dict[str, str]) -> JobPlan:
    defaults = RunnerDefaults(
        "runners",
        "runner:2",
        client_properties={"security.protocol": "SSL", "ssl.ca.location": "runner.pem"},
    )
    planner = JobPlanner(plugin_registry(), ConfigProviders(ProviderLimits()), defaults)
    return planner.plan(JobSpec("flow", config), 7).plan


def test_a_flow_without_a_target_copies_to_the_cluster_of_the_runner() -> None:
    plan = plan_of(CONFIG)
    assert (plan.kind, plan.on_trim) == (JobKind.MIRROR, OnTrim.SKIP)
    assert (plan.topics, plan.topics_pattern) == ((), "orders.*")
    settings = settings_of(plan)
    assert plan.group_id == settings.group_id == "mirror-flow"
    assert [str(each) for each in settings.target.bootstrap] == ["runner:2"]
    assert settings.target.tls is not None
    assert settings.source.tls is None


def test_a_flow_with_a_target_does_not_use_the_properties_of_the_runner() -> None:
    target = {"target.bootstrap.servers": "target:3", "source.security.protocol": "SSL"}
    settings = settings_of(plan_of(CONFIG | target))
    assert [str(each) for each in settings.target.bootstrap] == ["target:3"]
    assert settings.target.tls is None
    assert settings.source.tls is not None


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("offsets", "same", "identical, assigned"),
        ("groups", "(", "Invalid regex"),
        ("source.security.protocol", "TLS", "Invalid value TLS for security.protocol"),
    ],
)
def test_a_value_that_cannot_work_is_refused(name: str, value: str, message: str) -> None:
    with pytest.raises(ConfigValueError, match=message):
        plan_of(CONFIG | {name: value})


def test_transformations_are_refused() -> None:
    found = dict(unused_properties(MirrorConnector, PluginKind.SINK, {"transforms": "route"}))
    assert "it copies batches without decoding them" in found["transforms"]


def test_a_flow_conflicts_only_with_a_job_that_commits_to_its_group() -> None:
    copy = {"connector.class": "TopicCopy", "topics.regex": "orders.*", "target.topic": "copy"}
    registry = plugin_registry()
    assert list(conflicts(registry, "flow", CONFIG, {"copy": copy})) == []
    [(place, text)] = conflicts(registry, "flow", CONFIG, {"mirror-flow": copy})
    assert place == "name"
    assert "Job mirror-flow reads the same topics in the same consumer group" in text
