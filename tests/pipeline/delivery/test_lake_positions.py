"""Positions of a lake sink: those of its checkpoint, and those of its dead letters."""

import uuid

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

pytest.importorskip("pyarrow")

from barnabas.pipeline.delivery.lake import lake_rows
from barnabas.pipeline.delivery.lake.lake_positions import DONE, PLANNED, positions_of
from barnabas.pipeline.delivery.plan.job_plan import JobKind
from barnabas.pipeline.delivery.plan.worker_plan import TaskPlan
from barnabas.pipeline.delivery.writing.transactional_producer import committed, offset_reader
from barnabas.testing import Node

FIRST = 'v1\n{"orders":{"0":3}}'


class Files:
    """The texts of a checkpoint."""

    def __init__(self, texts: dict[str, str]) -> None:
        self._texts = texts

    def newest(self, directory: str) -> int:
        prefix = directory.removeprefix("/c/")
        found = (name.split("/") for name in self._texts)
        return max((int(number) for log, *_, number in found if log == prefix), default=-1)

    def read(self, file: str) -> str | None:
        return self._texts.get(file.removeprefix("/c/"))

    def write(self, file: str, text: str) -> None:
        raise NotImplementedError


def test_positions_of_a_new_checkpoint_are_empty() -> None:
    assert positions_of(Files({}), "/c", DONE) == positions_of(Files({}), "/c", PLANNED) == {}


def test_positions_before_the_first_batch_are_those_that_spark_found() -> None:
    files = Files({"sources/0/0": FIRST})
    for log in (DONE, PLANNED):
        assert positions_of(files, "/c", log) == {("orders", 0): 3}


def test_positions_of_a_batch_that_is_not_complete_are_planned() -> None:
    """A partition that it is the first to have is not new: some of its letters may be written."""
    files = Files(
        {
            "sources/0/0": FIRST,
            "offsets/0": 'v1\n{}\n{"orders":{"0":7}}',
            "commits/0": "v1\n{}",
            "offsets/1": 'v1\n{}\n{"orders":{"0":9,"1":4}}',
        }
    )
    assert positions_of(files, "/c", DONE) == {("orders", 0): 7}
    assert positions_of(files, "/c", PLANNED) == {("orders", 0): 9, ("orders", 1): 4}


def test_position_of_letters_is_set_back_where_it_is_greater(
    node: Node, admin: AdminClient
) -> None:
    name = f"lake-{uuid.uuid4().hex[:8]}"
    admin.create_topics([NewTopic(name, 3, 1)])[name].result(30)
    servers = {"bootstrap.servers": node.bootstrap}
    plan = TaskPlan(name, 1, JobKind.SPARK_SINK, f"connect-{name}", name, servers, servers, {})
    reader = offset_reader(f"connect-{name}-dead-letters", servers)
    left = [TopicPartition(name, 0, 6), TopicPartition(name, 1, 2)]
    reader.commit(offsets=left, asynchronous=False)
    places = [(name, partition) for partition in range(3)]
    lake_rows.forget_letters(plan, dict.fromkeys(places, 4))
    assert [found.offset for found in committed(reader, places)] == [4, 2, -1001]
