"""The properties of SparkSink and SparkSource, and what they refuse."""

import pytest

from barnabas.pipeline.connect.connector_validation import ConnectorValidator
from barnabas.pipeline.connect.connectors.spark_sink import SparkSinkConnector, SparkSinkSettings
from barnabas.pipeline.connect.connectors.spark_source import (
    SparkSourceConnector,
    SparkSourceSettings,
)
from barnabas.pipeline.connect.plugin_registry import PluginKind, plugin_registry
from barnabas.pipeline.data.connect_errors import ConnectError
from barnabas.pipeline.definitions.config_types import ConfigValueError
from barnabas.pipeline.delivery.plan.job_plan import JobKind
from barnabas.pipeline.jobs.job_config import RunnerDefaults, job_kind, job_plan

SINK = {"name": "lake", "topics": "t", "spark.format": "parquet", "path": "/data/lake/"}
SOURCE = {
    "name": "rows",
    "topic": "t",
    "spark.format": "rate",
    "checkpoint.location": "/data/checkpoint",
}


def test_spark_sink_settings_have_defaults():
    settings = SparkSinkSettings.of({**SINK, "spark.option.compression": "zstd"})
    assert settings.path == "/data/lake"
    assert settings.checkpoint == "/data/lake/_checkpoints/lake"
    assert settings.options == {"compression": "zstd"}
    assert (settings.rotate_ms, settings.flush_size, settings.tasks) == (10_000, 0, 1)


@pytest.mark.parametrize(
    ("props", "message"),
    [
        ({"spark.format": "jdbc"}, "must be one of"),
        ({"path": ""}, "non-empty"),
        ({"spark.option.checkpointLocation": "/x"}, "checkpoint.location"),
        ({"spark.option.Path": "/x"}, "set path"),
        ({"rotate.interval.ms": "1"}, "at least 100"),
        ({"behavior.on.null.values": "write"}, "must be one of"),
        ({"spark.format": "iceberg", "flush.size": "5"}, "target-file-size-bytes"),
        ({"spark.format": "iceberg", "path": "s3a://bucket/t"}, "which s3a does not"),
        ({"spark.format": "iceberg", "path": "lake.db.orders"}, "names a table of a catalog"),
        ({"schema": "id BIGINTT"}, "'BIGINTT' of column id is not a type .* do you mean BIGINT?"),
        ({"schema": "id INT, d DATE", "partition.by": "day"}, "day is not a column of schema"),
        ({"schema": "id INT", "partition.by": "id"}, "files need one more column"),
    ],
)
def test_spark_sink_refuses_properties(props: dict[str, str], message: str):
    with pytest.raises(ConfigValueError, match=message):
        SparkSinkConnector().task_configs({**SINK, **props}, 1)


@pytest.mark.parametrize(
    ("props", "message"),
    [
        ({"spark.format": "socket"}, "must be one of"),
        ({"spark.format": "csv", "path": "/x"}, "needs it"),
        ({"spark.format": "text"}, "needs it"),
        ({"checkpoint.location": ""}, "non-empty"),
        ({"spark.option.path": "/x"}, "set path"),
        ({"spark.format": "delta"}, "needs it"),
        ({"spark.format": "json", "path": "/x", "schema": "id INTT"}, "do you mean INT?"),
        ({"spark.format": "delta", "path": "/x", "schema": "id INT"}, "has its own columns"),
        ({"spark.format": "iceberg", "path": "gs://b/t"}, "which gs does not"),
    ],
)
def test_spark_source_refuses_properties(props: dict[str, str], message: str):
    with pytest.raises(ConfigValueError, match=message):
        SparkSourceConnector().task_configs({**SOURCE, **props}, 1)


@pytest.mark.parametrize(
    ("props", "wrong", "message"),
    [
        ({"schema": "id BIGINTT"}, "schema", "do you mean BIGINT?"),
        ({"schema": "id INT, d DATE", "partition.by": "id,day"}, "partition.by", "id, d"),
    ],
)
def test_validation_says_what_is_wrong_with_columns(
    props: dict[str, str], wrong: str, message: str
):
    """Without a running Spark: what a person sees before the job is created."""
    given = {**SINK, **props, "connector.class": "SparkSink"}
    infos = ConnectorValidator(plugin_registry(), "runners", {}).validate(given)
    found = {each.value.name: each.value.errors for each in infos.configs if each.value.errors}
    assert list(found) == [wrong]
    assert message in found[wrong][0]


def test_spark_source_position_cannot_be_set():
    with pytest.raises(ConnectError, match="checkpoint"):
        SparkSourceConnector().check_offset({}, {})
    assert SparkSourceSettings.of(SOURCE).path is None


def test_iceberg_tables_are_at_paths_of_file_systems_with_atomic_renames():
    for path in ("/data/lake", "file:///data/lake", "hdfs://host/lake", "abfss://c@a/lake"):
        settings = SparkSinkSettings.of({**SINK, "spark.format": "iceberg", "path": path})
        assert settings.path == path


def test_spark_connectors_have_their_own_kinds_of_jobs():
    registry = plugin_registry()
    runner = RunnerDefaults("runners", "127.0.0.1:9092")
    for alias, kind, props in (
        ("SparkSink", PluginKind.SINK, SINK),
        ("SparkSource", PluginKind.SOURCE, SOURCE),
    ):
        plugin = registry.find(alias, kind)
        plan = job_plan(plugin, props, [props], 1, runner)
        assert plan.kind is job_kind(plugin)
        assert plan.kind.is_source is (kind is PluginKind.SOURCE)
        assert plan.group_id == f"connect-{props['name']}"
    assert plan.kind is JobKind.SPARK_SOURCE
