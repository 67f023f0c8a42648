"""Sources of a streaming DataFrame, read from its plan, and checkpoints that start at offsets.

Spark takes the first offsets of a query from the options that its source was made with. A user's
DataFrame has its source already when the offsets of the job's group are read, so the offsets go
into the query's new checkpoint instead, as the end of a batch that was committed.
"""

import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from barnabas.pipeline.delivery.driver.spark_internals import analyzed_plan
from barnabas.pipeline.delivery.driver.spark_library import DataFrame
from barnabas.pipeline.delivery.plan.start_positions import (
    NO_OFFSETS,
    FirstOffsets,
    offsets_of,
)
from barnabas.pipeline.delivery.plan.task_failures import refused

_SOURCE: Final = "StreamingRelationV2"
# Nodes of an analyzed plan that keep rows in their task.
_NARROW: Final = frozenset(
    {
        "CollectMetrics",
        "EventTimeWatermark",
        "Filter",
        "Generate",
        "MapInArrow",
        "MapInPandas",
        "Project",
        "Sample",
        "SubqueryAlias",
        "Union",
        "View",
        _SOURCE,
    }
)
_STATEFUL: Final = (
    "Aggregate",
    "Deduplicate",
    "Distinct",
    "FlatMapGroups",
    "RepartitionByExpression",
    "TransformWithState",
)
_VERSION: Final = "v1"


@attrs.frozen
class KafkaSource:
    """A Kafka source in a plan."""

    topics: tuple[str, ...]
    offset_reset: str
    """The first position without a committed one: earliest or latest."""
    first_offsets: FirstOffsets = NO_OFFSETS
    """The first offsets by topic and partition, where the source names them."""


def is_narrow(frame: DataFrame) -> bool:
    """True when each row of the frame comes from one row of a source, without a shuffle."""
    return all(str(node.nodeName()) in _NARROW for node in _nodes(analyzed_plan(frame)))


def has_state(frame: DataFrame) -> bool:
    """True when the query keeps state, or shuffles rows by columns."""
    return bool(nodes_with_state(frame))


def nodes_with_state(frame: DataFrame) -> list[Any]:
    """Return the nodes of the plan that keep state, or shuffle rows by columns."""
    return [node for node in _nodes(analyzed_plan(frame)) if keeps_state(node)]


def keeps_state(node: Any) -> bool:
    """True for a node of a plan that keeps state, or shuffles rows by columns."""
    name = str(node.nodeName())
    if name == "Join":
        return all(child.isStreaming() for child in items_of(node.children()))
    return name.startswith(_STATEFUL)


def plan_nodes(frame: DataFrame) -> list[Any]:
    """Return the nodes of the analyzed plan, the last operator first."""
    return list(_nodes(analyzed_plan(frame)))


def source_names(frame: DataFrame) -> list[str]:
    """Return the streaming sources in the order of Spark's checkpoint, by topic, path or format."""
    return [_source_name(leaf) for leaf in items_of(analyzed_plan(frame).collectLeaves())]


def _source_name(leaf: Any) -> str:
    if str(leaf.nodeName()) != _SOURCE:
        return str(leaf.nodeName())
    options = leaf.extraOptions()
    found = (options.get(name) for name in ("subscribe", "subscribePattern", "assign", "path"))
    place = next((str(each) for each in found if each is not None), "")
    return f"{leaf.sourceName()} {place}".rstrip()


def kafka_topics(frame: DataFrame) -> tuple[str, ...]:
    """Return the topics of all Kafka sources that name topics."""
    options = [leaf.extraOptions() for leaf in _streaming_leaves(frame)]
    found = [str(each.get("subscribe")) for each in options if each.get("subscribe") is not None]
    names = [name.strip() for each in found for name in each.split(",")]
    return tuple(dict.fromkeys(names))


def kafka_sources(frame: DataFrame) -> list[KafkaSource]:
    """Return the streaming sources in the order of Spark's checkpoint. Raises JobStartError."""
    found: list[KafkaSource] = []
    for leaf in _streaming_leaves(frame):
        options = leaf.extraOptions()
        topics = options.get("subscribe")
        if str(leaf.sourceName()) != "kafka" or topics is None:
            raise refused(
                f"a source of the rows is {leaf.sourceName()}, not Kafka with `subscribe`: its "
                "position cannot be committed to a group"
            )
        names = tuple(name.strip() for name in str(topics).split(","))
        found.append(_source(names, str(options.get("startingOffsets") or "latest")))
    return found


def _source(topics: tuple[str, ...], start: str) -> KafkaSource:
    if start.startswith("{"):
        return KafkaSource(topics, "latest", offsets_of(start))
    return KafkaSource(topics, "earliest" if start == "earliest" else "latest")


def write_checkpoint(
    directory: Path, sources: Sequence[KafkaSource], offsets: Mapping[str, Mapping[int, int]]
) -> None:
    """Write the checkpoint of a new query that starts at `offsets`."""
    batch: dict[str, Any] = {
        "batchWatermarkMs": 0,
        "batchTimestampMs": int(time.time() * 1000),
        "conf": {},
    }
    positions = [
        json.dumps({topic: offsets.get(topic, {}) for topic in source.topics}) for source in sources
    ]
    _write(directory / "metadata", json.dumps({"id": str(uuid.uuid4())}))
    _write(directory / "offsets" / "0", "\n".join([_VERSION, json.dumps(batch), *positions]))
    _write(directory / "commits" / "0", f'{_VERSION}\n{{"nextBatchWatermarkMs":0}}')


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _streaming_leaves(frame: DataFrame) -> list[Any]:
    leaves = items_of(analyzed_plan(frame).collectLeaves())
    return [leaf for leaf in leaves if str(leaf.nodeName()) == _SOURCE]


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for child in items_of(plan.children()):
        yield from _nodes(child)


def items_of(sequence: Any) -> Iterator[Any]:
    """Yield the items of a sequence of Scala."""
    for index in range(int(sequence.size())):
        yield sequence.apply(index)
