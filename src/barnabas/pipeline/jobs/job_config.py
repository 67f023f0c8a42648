"""From a connector's configuration to the plan that the engine runs.

The properties of a plan are complete: secrets are resolved, and the runner's converters are used
where the connector names none. What the connector overrides for its clients (`consumer.override.*`,
`producer.override.*`) goes before what the runner sets for all (`consumer.*`, `producer.*`).
"""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from barnabas.pipeline.connect.kind_definitions import engine_keys, sink_keys, source_keys
from barnabas.pipeline.connect.plugin_registry import Plugin, PluginKind
from barnabas.pipeline.definitions.config_def import ConfigDef
from barnabas.pipeline.definitions.config_types import ConfigValueError, ParsedValue
from barnabas.pipeline.delivery.plan.job_plan import Guarantee, JobKind, JobPlan, OnTrim
from barnabas.pipeline.delivery.plan.worker_plan import TRANSACTION_TIMEOUT_MS

TOPIC_COPY_CLASS: Final = "barnabas.TopicCopyConnector"
"""The class name of jobs that copy records from topics to topics."""

VIEW_CLASS: Final = "barnabas.ViewConnector"
"""The class name of jobs that keep a view."""

QUERY_CLASS: Final = "barnabas.sql.Query"
"""The class name of jobs that run a query of SQL."""

MIRROR_CLASS: Final = "barnabas.MirrorConnector"
"""The class name of flows between clusters."""

MIRROR_MAKER_CLASSES: Final = tuple(
    f"org.apache.kafka.connect.mirror.Mirror{part}Connector"
    for part in ("Source", "Checkpoint", "Heartbeat")
)
"""The class names of MirrorMaker 2's connectors."""

TARGET_TOPIC: Final = "target.topic"

_OWN_KINDS: Final = {
    TOPIC_COPY_CLASS: JobKind.COPY,
    VIEW_CLASS: JobKind.VIEW,
    QUERY_CLASS: JobKind.QUERY,
    MIRROR_CLASS: JobKind.MIRROR,
    **dict.fromkeys(MIRROR_MAKER_CLASSES, JobKind.MIRROR),
    "barnabas.SparkSink": JobKind.SPARK_SINK,
    "barnabas.SparkSource": JobKind.SPARK_SOURCE,
}
_CONVERTERS: Final = ("key.converter", "value.converter", "header.converter")
ISOLATION: Final = "isolation"
OWN: Final = "own"
_APPLICATION: Final = "application."


@attrs.frozen
class RunnerDefaults:
    """Settings that the runner gives to every job."""

    group_id: str
    bootstrap: str
    offsets_topic: str = "connect-offsets"
    client_properties: Mapping[str, str] = attrs.Factory(dict[str, str])
    """Security and other settings of all clients."""
    consumer_properties: Mapping[str, str] = attrs.Factory(dict[str, str])
    producer_properties: Mapping[str, str] = attrs.Factory(dict[str, str])
    converter_properties: Mapping[str, str] = attrs.Factory(dict[str, str])
    """`key.converter`, `value.converter`, `header.converter` and their own properties."""


def job_kind(plugin: Plugin) -> JobKind:
    """Return the kind of the job of a connector."""
    if plugin.class_name in _OWN_KINDS:
        return _OWN_KINDS[plugin.class_name]
    return JobKind.SOURCE if plugin.kind is PluginKind.SOURCE else JobKind.SINK


def group_of(name: str, kind: JobKind, config: Mapping[str, str | None]) -> str:
    """Return the consumer group whose offsets are the position of a job."""
    given = config.get("consumer.override.group.id")
    if given:
        return given
    if kind is JobKind.MIRROR:
        return f"mirror-{name}"
    return name if kind in (JobKind.COPY, JobKind.QUERY) else f"connect-{name}"


def with_prefix(properties: Mapping[str, str | None], prefix: str) -> dict[str, str]:
    """Return the properties with a prefix, without it."""
    return {
        name.removeprefix(prefix): value
        for name, value in properties.items()
        if name.startswith(prefix) and value is not None
    }


def full_properties(
    config: Mapping[str, str | None], converters: Mapping[str, str]
) -> dict[str, str]:
    """Return the configuration with the runner's converters where it names none."""
    given = {name: value for name, value in config.items() if value is not None}
    missing = [converter for converter in _CONVERTERS if converter not in given]
    return given | {
        name: value
        for name, value in converters.items()
        if any(name == each or name.startswith(f"{each}.") for each in missing)
    }


def job_plan(
    plugin: Plugin,
    config: Mapping[str, str | None],
    task_configs: Sequence[Mapping[str, str]],
    generation: int,
    runner: RunnerDefaults,
) -> JobPlan:
    """Return the plan of a valid configuration with resolved secrets. Raises ConfigValueError."""
    properties = full_properties(config, runner.converter_properties)
    kind = job_kind(plugin)
    own = source_keys() if kind.is_source else sink_keys()
    parsed = ConfigDef([*engine_keys(), *own]).parse(properties)
    name = properties["name"]
    consumer = {**runner.consumer_properties, **with_prefix(config, "consumer.override.")}
    producer = {**runner.producer_properties, **with_prefix(config, "producer.override.")}
    topics = () if kind.is_source else tuple(_list(parsed["topics"]))
    pattern = None if kind.is_source else str(parsed["topics.regex"]) or None
    timeout_ms = producer.pop("transaction.timeout.ms", str(TRANSACTION_TIMEOUT_MS))
    return JobPlan(
        name=name,
        generation=generation,
        kind=kind,
        bootstrap=producer.pop("bootstrap.servers", runner.bootstrap),
        group_id=group_of(name, kind, config),
        transactional_id=f"{runner.group_id}-{name}" if kind.is_source else name,
        topics=topics,
        topics_pattern=pattern,
        target_topic=properties.get(TARGET_TOPIC),
        connector_class=plugin.class_name,
        task_configs=tuple(task_configs),
        properties=properties,
        guarantee=Guarantee(str(parsed["delivery"])),
        client_properties=runner.client_properties,
        consumer_overrides=consumer,
        producer_overrides=producer,
        offset_reset=consumer.get("auto.offset.reset", "earliest"),
        on_trim=OnTrim(str(parsed["on.trim"])),
        offsets_topic=properties.get("offsets.storage.topic", runner.offsets_topic),
        trigger_ms=_number(parsed["trigger.ms"]),
        max_records_per_batch=_number(parsed["batch.records.max"]),
        slice_ms=_number(parsed.get("transaction.boundary.interval.ms") or parsed["slice.ms"]),
        transaction_timeout_ms=_timeout_ms(timeout_ms),
        records_per_second_max=_number(parsed["records.per.second.max"]),
        spark_properties=_own_application(properties, kind, str(parsed[ISOLATION])),
        is_isolated=parsed[ISOLATION] == OWN,
    )


def _own_application(
    properties: Mapping[str, str], kind: JobKind, isolation: str
) -> dict[str, str]:
    """Return the properties of a job's own application. Raises ConfigValueError."""
    found = with_prefix(properties, _APPLICATION)
    if kind is JobKind.VIEW and isolation == OWN:
        reason = "A view needs no Spark application: remove the property"
        raise ConfigValueError.of(ISOLATION, isolation, reason)
    if found and isolation != OWN:
        name, value = next(iter(found.items()))
        reason = "Properties of an application need isolation=own: other jobs share the runner's"
        raise ConfigValueError.of(_APPLICATION + name, value, reason)
    return found


def _list(value: ParsedValue) -> list[str]:
    return value if isinstance(value, list) else []


def _number(value: ParsedValue) -> int:
    return value if isinstance(value, int) else 0


def _timeout_ms(text: str) -> int:
    if not text.isascii() or not text.isdecimal():
        name = "producer.override.transaction.timeout.ms"
        raise ConfigValueError.of(name, text, "Not a number of type INT")
    return int(text)
