"""Each named topology on the same generated input: ours and Apache Kafka's agree."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from barnabas.pipeline.streams.kernels import state_pages
from barnabas.pipeline.streams.kernels.kernel_rows import Row, Side, in_stream_order
from compat_tests.pipeline.streams_parity.our_topologies import TOPOLOGIES, Relation, Topology
from compat_tests.pipeline.streams_parity.skewed_cases import Shape, skewed_cases
from compat_tests.pipeline.streams_parity.stream_cases import Case, cases, with_clock
from compat_tests.pipeline.streams_parity.streams_peer import Input, Output, StreamsPeer

PAGE = Path(__file__).parents[3] / "docs" / "streams.md"
EXAMPLES = int(os.environ.get("BARNABAS_STREAMS_EXAMPLES", "25"))
SEED = int(os.environ.get("BARNABAS_STREAMS_SEED", "1"))
WITH_TIME = [
    *("tumbling-count", "tumbling-reduce", "hopping-count", "hopping-aggregate"),
    *("sliding-count", "sliding-aggregate", "session-count", "session-aggregate"),
    *("tumbling-final", "hopping-final", "session-final", "tumbling-emit-on-close"),
    *("time-limit", "table-time-limit", "table-most-records"),
    *("stream-stream-inner", "stream-stream-left", "stream-stream-outer", "stream-stream-after"),
    *("running-total", "punctuation"),
]
TOPICS = {Side.LEFT: "left", Side.RIGHT: "right", Side.CLOCK: "clock"}


def taken(topology: Topology, case: Case, partition: int) -> list[Input]:
    """Return a partition's records in the order in which Kafka Streams takes them."""
    return [
        Input(
            TOPICS[row.side],
            None if row.key is None else row.key.decode(),
            row.value,
            row.timestamp_ms,
        )
        for batch in case.batches
        for row in in_stream_order(batch, topology.first, topology.timed)
        if row.partition == partition or row.side is Side.CLOCK
    ]


def emitted(row: Row) -> Output:
    return Output(
        None if row.key is None else row.key.decode(),
        None if row.window is None else (row.window.start_ms, row.window.end_ms),
        None if row.value is None else str(row.value),
        row.timestamp_ms,
    )


Place = tuple[str | None, tuple[int, int] | None]
Fact = tuple[str | None, int]
Facts = dict[Place, list[Fact]]


def facts(topology: Topology, outputs: Sequence[Output]) -> Facts:
    """Return the values of each key and window in their order; of a table, the last one."""
    found: Facts = {}
    for key, window, value, timestamp in outputs:
        fact = (value, timestamp if topology.has_times else 0)
        found.setdefault((key, window), []).append(fact)
    if not topology.is_table:
        return found
    # A tombstone says only that the key is not there.
    return {place: values[-1:] for place, values in found.items() if values[-1][0] is not None}


def agree(relation: Relation, ours: Facts, theirs: Facts) -> bool:
    """True when our outputs compare as they must."""
    match relation:
        case Relation.EQUAL:
            return ours == theirs
        case Relation.UNORDERED:
            return {place: sorted(map(repr, found)) for place, found in ours.items()} == {
                place: sorted(map(repr, found)) for place, found in theirs.items()
            }
        case Relation.CONTAINS:
            return all(
                Counter(found) <= Counter(ours.get(place, [])) for place, found in theirs.items()
            )


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide the state of the few keys of a case into several pages."""
    monkeypatch.setattr(state_pages, "PAGE_ENTRIES", 2)


def test_page_has_the_numbers_of_topologies() -> None:
    page = PAGE.read_text()
    assert f"\n{len(TOPOLOGIES)} topologies run beside Kafka Streams" in page
    assert f"The {len(WITH_TIME)} of them that have time" in page


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_topology_emits_what_kafka_streams_emits(peer: StreamsPeer, name: str) -> None:
    topology = TOPOLOGIES[name]
    found = list(cases(SEED, EXAMPLES, sides=topology.sides, partitions=topology.partitions))
    if topology.has_clock:
        found = [with_clock(each) for each in found]
    compare(peer, name, found)


@pytest.mark.parametrize("name", WITH_TIME)
def test_partitions_that_are_apart_in_time_emit_what_kafka_streams_emits(
    peer: StreamsPeer, name: str
) -> None:
    count = EXAMPLES * len(Shape)
    found = [case for _, case in skewed_cases(SEED, count, sides=TOPOLOGIES[name].sides)]
    compare(peer, name, found)


def compare(peer: StreamsPeer, name: str, found: Sequence[Case]) -> None:
    """Run cases through both sides, in all numbers of buckets."""
    topology = TOPOLOGIES[name]
    partitions = range(topology.partitions)
    inputs = [taken(topology, case, partition) for case in found for partition in partitions]
    theirs = iter(peer.run(name, inputs))
    for case in found:
        expected = [[each for step in next(theirs) for each in step] for _ in partitions]
        for buckets, relation in topology.relations.items():
            rows = topology.run(case.batches, buckets)
            for partition, outputs in enumerate(expected):
                ours = [emitted(row) for row in rows if row.partition == partition]
                pair = facts(topology, ours), facts(topology, outputs)
                assert agree(relation, *pair), (
                    f"seed {case.seed}, partition {partition}, {buckets} buckets, {relation}:\n"
                    f"input {taken(topology, case, partition)}\nours {pair[0]}\nKafka's {pair[1]}"
                )
