"""From configurations to plans."""

import pytest

from barnabas.pipeline.connect.config_providers import ConfigProviders, ProviderLimits
from barnabas.pipeline.connect.plugin_registry import CONNECTORS, plugin_registry
from barnabas.pipeline.connect.rest_errors import ConnectRestError
from barnabas.pipeline.definitions.config_types import ConfigValueError
from barnabas.pipeline.delivery.plan.job_plan import Guarantee, JobKind, JobPlan, OnTrim
from barnabas.pipeline.jobs.job_config import RunnerDefaults, job_plan
from barnabas.pipeline.jobs.job_planning import JobPlanner, JobSpec
from barnabas.pipeline.jobs.runner_settings import RunnerSettings

RUNNER = RunnerDefaults(
    group_id="g",
    bootstrap="127.0.0.1:9092",
    client_properties={"security.protocol": "SSL"},
    consumer_properties={"fetch.min.bytes": "1", "max.poll.records": "9"},
    producer_properties={"linger.ms": "5"},
    converter_properties={"value.converter": "V", "value.converter.schemas.enable": "false"},
)


def plan(connector: str, **config: str) -> JobPlan:
    plugin = plugin_registry().find(connector, *CONNECTORS)
    return job_plan(plugin, {"name": "n", **config}, [{"task": "0"}], 3, RUNNER)


def test_sink_reads_with_its_own_group_and_the_overrides() -> None:
    found = plan(
        "FileStreamSink",
        topics="a, b",
        **{
            "consumer.override.fetch.min.bytes": "7",
            "consumer.override.auto.offset.reset": "latest",
            "producer.override.transaction.timeout.ms": "1000",
            "delivery": "at-least-once",
            "on.trim": "skip",
            "trigger.ms": "500",
        },
    )
    assert (found.kind, found.topics, found.topics_pattern) == (JobKind.SINK, ("a", "b"), None)
    assert (found.group_id, found.transactional_id) == ("connect-n", "n")
    assert found.consumer_overrides["fetch.min.bytes"] == "7"
    assert found.producer_overrides == {"linger.ms": "5"}
    assert (found.offset_reset, found.on_trim) == ("latest", OnTrim.SKIP)
    assert (found.guarantee, found.transaction_timeout_ms) == (Guarantee.AT_LEAST_ONCE, 1000)
    assert (found.trigger_ms, found.generation) == (500, 3)


def test_source_has_the_transactional_ids_of_connect() -> None:
    found = plan("FileStreamSource", topic="t", **{"transaction.boundary.interval.ms": "250"})
    assert (found.kind, found.topics, found.slice_ms) == (JobKind.SOURCE, (), 250)
    assert found.transactional_id == "g-n"


def test_copy_reads_with_the_group_of_its_name() -> None:
    found = plan("TopicCopy", **{"topics.regex": "a.*", "target.topic": "b"})
    assert (found.kind, found.group_id, found.target_topic) == (JobKind.COPY, "n", "b")
    assert (found.topics, found.topics_pattern) == ((), "a.*")


def test_converter_of_the_runner_is_used_with_its_properties() -> None:
    assert plan("TopicCopy", topics="a").properties["value.converter.schemas.enable"] == "false"
    own = plan("TopicCopy", topics="a", **{"value.converter": "W"}).properties
    assert own["value.converter"] == "W"
    assert "value.converter.schemas.enable" not in own


@pytest.mark.parametrize(
    "config",
    [
        {"delivery": "twice"},
        {"trigger.ms": "soon"},
        {"batch.records.max": "0"},
        {"records.per.second.max": "-1"},
        {"isolation": "none"},
        {"application.spark.driver.memory": "512m"},
    ],
)
def test_bad_property_of_the_engine_is_refused(config: dict[str, str]) -> None:
    with pytest.raises(ConfigValueError):
        plan("TopicCopy", topics="a", **config)


def test_job_in_its_own_application_has_its_properties() -> None:
    config = {"isolation": "own", "application.spark.driver.memory": "512m"}
    found = plan("TopicCopy", topics="a", **config)
    assert found.is_isolated
    assert found.spark_properties == {"spark.driver.memory": "512m"}
    assert not plan("TopicCopy", topics="a").is_isolated


@pytest.fixture
def planner(monkeypatch: pytest.MonkeyPatch) -> JobPlanner:
    limits = ProviderLimits(variables=["SECRET"])
    providers = ConfigProviders(limits, {"SECRET": "s3cret"})
    return JobPlanner(plugin_registry(), providers, RUNNER)


def test_task_is_stored_with_references_and_run_with_secrets(planner: JobPlanner) -> None:
    config = {"connector.class": "FileStreamSink", "topics": "a", "file": "${env:SECRET}"}
    found = planner.plan(JobSpec("n", config), 1)
    assert found.stored_tasks[0]["file"] == "${env:SECRET}"
    assert found.plan.task_configs[0]["file"] == "s3cret"
    assert found.stored_tasks[0]["task.class"] == "org.apache.kafka.connect.file.FileStreamSinkTask"
    assert found.stored_tasks[0]["topics"] == "a"


def test_unknown_class_cannot_be_planned(planner: JobPlanner) -> None:
    with pytest.raises(ConnectRestError):
        planner.plan(JobSpec("n", {"connector.class": "os:system", "topics": "a"}), 1)


def test_settings_of_a_java_worker_are_accepted() -> None:
    settings = RunnerSettings.from_properties(
        {
            "bootstrap.servers": "kafka-1:9092,kafka-2:9092",
            "group.id": "connect-cluster",
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "key.converter.schemas.enable": "false",
            "offset.storage.topic": "connect-offsets",
            "offset.storage.partitions": "25",
            "offset.flush.interval.ms": "10000",
            "plugin.path": "/usr/share/java",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": 'x.PlainLoginModule required username="u" password="p";',
            "producer.compression.type": "lz4",
            "spark.master": "local[2]",
        }
    )
    assert settings.group_id == "connect-cluster"
    assert settings.defaults.converter_properties["key.converter.schemas.enable"] == "false"
    assert settings.defaults.producer_properties == {"compression.type": "lz4"}
    assert settings.client.sasl is not None
    assert (settings.client.sasl.username, len(settings.client.bootstrap)) == ("u", 2)
    assert settings.spark_properties == {"spark.master": "local[2]"}
    assert settings.restarts.restarts_max is None


def test_restarts_can_be_switched_off() -> None:
    settings = RunnerSettings.from_properties({"barnabas.restart.max": "0"})
    assert settings.restarts.restarts_max == 0
