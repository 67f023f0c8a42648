"""Configurations that are valid alone, and wrong beside others."""

import pytest

from barnabas.pipeline.connect.plugin_registry import plugin_registry
from barnabas.pipeline.delivery.plan.worker_plan import TaskPlan, transactional_id
from barnabas.pipeline.jobs.job_conflicts import conflicts

SINK = {"connector.class": "FileStreamSink", "file": "/tmp/out", "topics": "a,b"}
COPY = {"connector.class": "TopicCopy", "topics": "a,b", "target.topic": "c"}
GROUP = "consumer.override.group.id"
RENAMED = {
    "transforms": "x",
    "transforms.x.type": "org.apache.kafka.connect.transforms.RegexRouter",
}
CAST = {"transforms": "x", "transforms.x.type": "org.apache.kafka.connect.transforms.Cast$Value"}


def found(name: str, config: dict[str, str], **others: dict[str, str]) -> list[tuple[str, str]]:
    return list(conflicts(plugin_registry(), name, config, others))


@pytest.mark.parametrize(
    "config",
    [
        {"target.topic": "b"},
        {"topics": "", "topics.regex": "a.*", "target.topic": "a-all"},
        {"target.topic": "b", **CAST},
    ],
)
def test_copy_that_reads_its_target_is_refused(config: dict[str, str]) -> None:
    assert found("n", COPY | config) == [
        (
            "target.topic",
            f"Invalid value {config['target.topic']} for configuration target.topic: The job reads "
            "this topic, so it would copy its own records without end",
        )
    ]


def test_copy_whose_transformation_may_change_the_topic_is_accepted() -> None:
    assert found("n", COPY | {"target.topic": "b"} | RENAMED) == []
    assert found("n", COPY) == []


@pytest.mark.parametrize(
    ("topics", "others"),
    [
        ({"topics": "a"}, {"topics": "x,a"}),
        ({"topics": "", "topics.regex": "a.*"}, {"topics": "x,abc"}),
        ({"topics": "abc"}, {"topics": "", "topics.regex": "a.*"}),
        ({"topics": "", "topics.regex": "a"}, {"topics": "", "topics.regex": "b"}),
    ],
)
def test_jobs_that_share_topics_and_a_group_are_refused(
    topics: dict[str, str], others: dict[str, str]
) -> None:
    one = COPY | topics | {GROUP: "g"}
    assert found("one", one, other=COPY | others | {GROUP: "g"}) == [
        (
            GROUP,
            "Invalid value g for configuration consumer.override.group.id: Job other reads the "
            "same topics in the same consumer group, so each would skip records that the other "
            "one reads",
        )
    ]
    assert found("one", one, one=one, other=COPY | others | {GROUP: "h"}) == []


def test_name_that_gives_a_copy_the_group_of_a_sink_is_refused() -> None:
    assert [name for name, _ in found("connect-x", COPY, x=SINK)] == ["name"]
    assert found("connect-x", COPY, x=SINK | {"topics": "z"}) == []
    assert found("connect-x", COPY, x={"connector.class": "View", "topics": "a"}) == []


def test_sink_of_a_file_that_another_sink_writes_is_refused() -> None:
    (error,) = found("n", SINK | {"file": "/tmp/../tmp/out"}, other=SINK | {"topics": "z"})
    assert error[0] == "file"
    assert error[1].endswith(
        "Job other writes this file, and each would remove lines of the other one"
    )
    source = {"connector.class": "FileStreamSource", "file": "/tmp/out", "topic": "t"}
    assert found("n", SINK, other=source, n=SINK, unknown={"connector.class": "?"}) == []
    assert found("n", source, other=SINK) == []


def test_transactional_ids_of_jobs_differ_where_names_and_topics_join() -> None:
    def plan(name: str) -> TaskPlan:
        return TaskPlan(name, 1, "copy", name, name, {}, {}, {})

    assert transactional_id(plan("a"), "b-c", 0) != transactional_id(plan("a-b"), "c", 0)
