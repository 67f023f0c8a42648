"""Settings of the topics that a source creates."""

import pytest

from barnabas.pipeline.definitions.config_types import ConfigValueError
from barnabas.pipeline.jobs.job_topics import TopicCreation, creation_of

PROPERTIES = {
    "topic.creation.groups": "compacted, other",
    "topic.creation.default.partitions": "3",
    "topic.creation.default.replication.factor": "-1",
    "topic.creation.compacted.include": "orders.*,users",
    "topic.creation.compacted.exclude": "orders-raw",
    "topic.creation.compacted.cleanup.policy": "compact",
    "topic.creation.other.include": "o.*",
    "topic.creation.other.partitions": "1",
}


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        ("orders-1", TopicCreation(3, -1, {"cleanup.policy": "compact"})),
        ("users", TopicCreation(3, -1, {"cleanup.policy": "compact"})),
        ("orders-raw", TopicCreation(1, -1, {})),
        ("more-users", TopicCreation(3, -1, {})),
    ],
)
def test_topic_has_the_settings_of_the_first_group_that_matches(
    topic: str, expected: TopicCreation
) -> None:
    assert creation_of(topic, PROPERTIES) == expected


def test_topic_without_settings_is_left_to_the_broker() -> None:
    assert creation_of("t", {"topic": "t"}) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"topic.creation.default.partitions": "0"},
        {"topic.creation.default.partitions": "x"},
        {"topic.creation.compacted.include": "("},
    ],
)
def test_bad_settings_are_refused(changed: dict[str, str]) -> None:
    with pytest.raises(ConfigValueError):
        creation_of("t", {**PROPERTIES, **changed})


def test_default_group_is_required() -> None:
    with pytest.raises(ConfigValueError, match="Missing required configuration"):
        creation_of("t", {"topic.creation.default.partitions": "1"})
