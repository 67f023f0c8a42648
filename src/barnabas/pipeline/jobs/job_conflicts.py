"""Configurations that are valid alone, and wrong beside other jobs or with their own topics.

Two jobs that commit offsets of one topic to one group skip what the other one read. Two sinks of
one file truncate it to what they wrote themselves. A copy that reads its target never ends.
"""

import os
import re
from collections.abc import Iterator, Mapping
from typing import Final

from barnabas.pipeline.connect.connector_validation import find_connector
from barnabas.pipeline.connect.plugin_registry import PluginRegistry
from barnabas.pipeline.connect.rest_errors import ConnectRestError
from barnabas.pipeline.definitions.config_types import ConfigType, ConfigValueError, parse_value
from barnabas.pipeline.delivery.plan.job_plan import JobKind
from barnabas.pipeline.jobs.job_config import TARGET_TOPIC, group_of, job_kind

Properties = Mapping[str, str | None]

_FILE_SINK: Final = "org.apache.kafka.connect.file.FileStreamSinkConnector"
_GROUP: Final = "consumer.override.group.id"
_KEEPS_TOPIC: Final = re.compile(r"org\.apache\.kafka\.connect\.transforms\.(?!\w*Router|Filter)")


def conflicts(
    registry: PluginRegistry, name: str, config: Properties, others: Mapping[str, Properties]
) -> Iterator[tuple[str, str]]:
    """Yield each property that conflicts, with an error message; `others` has all stored jobs."""
    kind = _kind(registry, config)
    if kind is None or kind.is_source or kind is JobKind.VIEW:
        return
    if kind is JobKind.COPY:
        yield from _loop(config)
    for other, its in others.items():
        other_kind = _kind(registry, its)
        if other == name or other_kind is None or other_kind.is_source:
            continue
        if other_kind is not JobKind.VIEW and group_of(name, kind, config) == group_of(
            other, other_kind, its
        ):
            yield from _shared_topics(name, config, other, its)
        yield from _same_file(registry, config, other, its)


def _kind(registry: PluginRegistry, config: Properties) -> JobKind | None:
    try:
        return job_kind(find_connector(registry, config))
    except ConnectRestError:
        return None


def _loop(config: Properties) -> Iterator[tuple[str, str]]:
    """Yield an error when a copy reads its target, and no transformation may prevent that."""
    target = config.get(TARGET_TOPIC)
    aliases = _list(config, "transforms")
    classes = [config.get(f"transforms.{alias}.type") or "" for alias in aliases]
    if target and _reads(config, target) and all(map(_KEEPS_TOPIC.match, classes)):
        text = "The job reads this topic, so it would copy its own records without end"
        yield TARGET_TOPIC, str(ConfigValueError.of(TARGET_TOPIC, target, text))


def _shared_topics(
    name: str, config: Properties, other: str, its: Properties
) -> Iterator[tuple[str, str]]:
    topics, its_topics = _list(config, "topics"), _list(its, "topics")
    has_patterns = bool(config.get("topics.regex") and its.get("topics.regex"))
    if not (
        has_patterns
        or any(_reads(config, topic) for topic in its_topics)
        or any(_reads(its, topic) for topic in topics)
    ):
        return
    given = config.get(_GROUP)
    place, value = (_GROUP, given) if given else ("name", name)
    text = (
        f"Job {other} reads the same topics in the same consumer group, so each would skip records "
        "that the other one reads"
    )
    yield place, str(ConfigValueError.of(place, value, text))


def _same_file(
    registry: PluginRegistry, config: Properties, other: str, its: Properties
) -> Iterator[tuple[str, str]]:
    paths = [_sink_file(registry, each) for each in (config, its)]
    if paths[0] is not None and paths[0] == paths[1]:
        text = f"Job {other} writes this file, and each would remove lines of the other one"
        yield "file", str(ConfigValueError.of("file", config["file"], text))


def _sink_file(registry: PluginRegistry, config: Properties) -> str | None:
    file = config.get("file")
    if (
        not file
        or file.startswith("/dev/")
        or find_connector(registry, config).class_name != _FILE_SINK
    ):
        return None
    return os.path.normpath(file)


def _reads(config: Properties, topic: str) -> bool:
    pattern = config.get("topics.regex")
    if not pattern:
        return topic in _list(config, "topics")
    try:
        return re.fullmatch(pattern, topic) is not None
    except re.error:
        return False  # the property's own validator reports it


def _list(config: Properties, name: str) -> list[str]:
    parsed = parse_value(name, config.get(name), ConfigType.LIST)
    return parsed if isinstance(parsed, list) else []
