"""Properties of the engine that have no effect on a connector are refused."""

import pytest

from barnabas.pipeline.connect.connector_validation import ConfigInfos, ConnectorValidator
from barnabas.pipeline.connect.kind_definitions import engine_keys
from barnabas.pipeline.connect.plugin_registry import plugin_registry

VALUES = {
    "delivery": "at-least-once",
    "on.trim": "skip",
    "trigger.ms": "500",
    "batch.records.max": "10",
    "slice.ms": "300",
    "records.per.second.max": "5",
    "isolation": "shared",
}
LIVE = {  # the properties that have an effect
    "FileStreamSource": {
        "trigger.ms",
        "batch.records.max",
        "slice.ms",
        "records.per.second.max",
        "isolation",
    },
    "FileStreamSink": {
        "on.trim",
        "trigger.ms",
        "batch.records.max",
        "records.per.second.max",
        "isolation",
    },
    "TopicCopy": {
        "delivery",
        "on.trim",
        "trigger.ms",
        "batch.records.max",
        "records.per.second.max",
        "isolation",
    },
    "View": {"isolation"},
    "SparkSink": {"on.trim", "batch.records.max", "records.per.second.max", "isolation"},
    "SparkSource": {"trigger.ms", "records.per.second.max", "isolation"},
}


def validated(connector: str, **props: str) -> ConfigInfos:
    validator = ConnectorValidator(plugin_registry(), "runners", {})
    return validator.validate({"name": "n", "connector.class": connector, **props})


def refused(connector: str, props: dict[str, str]) -> list[str]:
    return [text for text in validated(connector, **props).errors if "has no effect" in text]


def test_values_cover_each_property_of_the_engine():
    assert VALUES.keys() == {key.name for key in engine_keys()}


@pytest.mark.parametrize("connector", LIVE)
def test_property_is_refused_exactly_when_it_has_no_effect(connector: str):
    for name, value in VALUES.items():
        is_refused = bool(refused(connector, {name: value}))
        assert is_refused is (name not in LIVE[connector]), name


@pytest.mark.parametrize("connector", LIVE)
def test_exactly_once_is_taken_by_all(connector: str):
    assert refused(connector, {"delivery": "exactly-once"}) == []


def test_refused_property_names_what_to_set_instead():
    assert refused("SparkSource", {"batch.records.max": "10"}) == [
        "Invalid value 10 for configuration batch.records.max: It has no effect on "
        "SparkSourceConnector: options of Spark's reader limit a batch: "
        "spark.option.maxFilesPerTrigger for files and delta, streaming-max-rows-per-micro-batch "
        "for iceberg, rowsPerSecond for rate, rowsPerBatch for rate-micro-batch; a Python data "
        "source limits its own"
    ]
    assert refused("SparkSink", {"trigger.ms": "500"})[0].endswith("set rotate.interval.ms")


@pytest.mark.parametrize("name", ["transaction.boundary.interval.ms", "offsets.storage.topic"])
def test_properties_of_slices_are_refused_for_spark_source(name: str):
    assert refused("SparkSource", {name: "100"})
    assert not refused("FileStreamSource", {name: "100"})
