"""Topics that a job needs before it starts.

Java's consumers and producers have the broker create missing topics (`auto.create.topics.enable`).
A job asks for its topics in the same way, so that a sink may be created before its source. A source
with properties `topic.creation.*` creates its topics with the settings of the first group that
matches, as Java's Connect does (KIP-158). That holds for topics that the tasks' configurations
name; others are left to the broker.
"""

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import attrs

from barnabas.client import KafkaClient
from barnabas.client.admin_calls import ensure_topic
from barnabas.pipeline.definitions.config_types import ConfigValueError
from barnabas.pipeline.delivery.plan.job_plan import JobPlan
from barnabas.protocol.errors import ErrorCode, error_code
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse

logger = logging.getLogger(__name__)

_PREFIX: Final = "topic.creation."
_DEFAULT: Final = "default"
_OWN: Final = ("include", "exclude", "partitions", "replication.factor")


@attrs.frozen
class TopicCreation:
    """The settings of a topic to create; -1 is the broker's default."""

    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


async def prepare_topics(client: KafkaClient, plan: JobPlan, known: Collection[str]) -> None:
    """Create the topics of a job, or have the broker do it, except those that the job has read.

    Raises ClientError when no broker answers, KafkaError when the broker refuses a topic, and
    ConfigValueError for bad settings.
    """
    if not plan.kind.is_source:
        wanted = [name for name in plan.topics if name not in known]
        await _request_topics(client, plan.name, wanted)
        return
    for topic in source_topics(plan):
        settings = creation_of(topic, plan.properties)
        if settings is not None:
            await ensure_topic(
                client,
                topic,
                partitions=settings.partitions,
                replication_factor=settings.replication_factor,
                configs=settings.configs,
            )


async def _request_topics(client: KafkaClient, job: str, topics: Sequence[str]) -> None:
    """Have the broker create the topics that do not exist, and log which these are."""
    if not topics:
        return
    missing = await _missing(client, topics, creates=False)
    for name in missing:
        logger.warning(
            "topic did not exist when the job started, check its name: the broker creates it with "
            "auto.create.topics.enable=true job=%s topic=%s",
            job,
            name,
        )
    if missing:
        await _missing(client, missing, creates=True)


async def _missing(client: KafkaClient, topics: Sequence[str], *, creates: bool) -> list[str]:
    """Return the topics that do not exist; the broker may create them then."""
    wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=creates)
    found = await client.ask_any(request, MetadataResponse)
    return [
        topic.name
        for topic in found.topics
        if topic.name and error_code(topic.error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    ]


def source_topics(plan: JobPlan) -> list[str]:
    """Return the topics that the tasks of a source name."""
    names = (task.get("topic") or task.get("kafka.topic") for task in plan.task_configs)
    return list(dict.fromkeys(name for name in names if name))


def creation_of(topic: str, properties: Mapping[str, str]) -> TopicCreation | None:
    """Return the settings of a new topic; None without properties `topic.creation.*`.

    Raises ConfigValueError for a bad number or regular expression.
    """
    if not any(name.startswith(_PREFIX) for name in properties):
        return None
    aliases = [each.strip() for each in properties.get(f"{_PREFIX}groups", "").split(",")]
    groups = [_group(properties, alias) for alias in aliases if alias and alias != _DEFAULT]
    default = _group(properties, _DEFAULT)
    chosen = next((group for group in groups if _matches(group, topic)), default)
    return TopicCreation(
        _number("partitions", chosen, default),
        _number("replication.factor", chosen, default),
        {name: value for name, value in chosen.items() if name not in _OWN},
    )


def _group(properties: Mapping[str, str], alias: str) -> dict[str, str]:
    prefix = f"{_PREFIX}{alias}."
    return {
        name.removeprefix(prefix): value
        for name, value in properties.items()
        if name.startswith(prefix)
    }


def _matches(group: Mapping[str, str], topic: str) -> bool:
    included, excluded = (
        any(_matches_whole(each.strip(), topic) for each in group.get(kind, "").split(",") if each)
        for kind in ("include", "exclude")
    )
    return included and not excluded


def _matches_whole(pattern: str, topic: str) -> bool:
    try:
        return re.fullmatch(pattern, topic) is not None
    except re.error as error:
        reason = f"Syntax error in regular expression: {error}"
        raise ConfigValueError.of("topic.creation", pattern, reason) from None


def _number(name: str, chosen: Mapping[str, str], default: Mapping[str, str]) -> int:
    """Return a number of a group, or that of the default group, which must have it."""
    text = chosen.get(name, default.get(name))
    full = f"{_PREFIX}{_DEFAULT}.{name}"
    if text is None:
        raise ConfigValueError(
            f'Missing required configuration "{full}" which has no default value.'
        )
    if not re.fullmatch(r"-1|[1-9][0-9]{0,8}", text.strip()):
        raise ConfigValueError.of(full, text, "Number must be positive, or -1")
    return int(text)
