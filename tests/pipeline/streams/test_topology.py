"""The topology of operators: its text, its picture, and cases that Kafka Streams does not have."""

import xml.etree.ElementTree as ET

import pytest

from barnabas.pipeline.streams import topology_operators as operators
from barnabas.pipeline.streams.operator_errors import OperatorError
from barnabas.pipeline.streams.topology_nodes import ProcessorKind, Topology
from barnabas.pipeline.streams.topology_picture import svg_of
from barnabas.pipeline.streams.topology_text import sub_topologies, text_of

SVG = "{http://www.w3.org/2000/svg}"


def count_by_value() -> Topology:
    topology = Topology()
    records = operators.stream_source(topology, "left")
    grouped = operators.grouped_by(records, "KSTREAM-KEY-SELECT-", None)
    operators.written(operators.aggregated(grouped, is_reduction=False), "a<b", is_table=True)
    return topology


def test_text_has_the_topic_between_two_parts() -> None:
    """As Kafka Streams 4.3.0 prints it; its other topologies are in compat_tests."""
    assert text_of(count_by_value()) == (
        "Topologies:\n"
        "   Sub-topology: 0\n"
        "    Source: KSTREAM-SOURCE-0000000000 (topics: [left])\n"
        "      --> KSTREAM-KEY-SELECT-0000000001\n"
        "    Processor: KSTREAM-KEY-SELECT-0000000001 (stores: [])\n"
        "      --> KSTREAM-FILTER-0000000005\n"
        "      <-- KSTREAM-SOURCE-0000000000\n"
        "    Processor: KSTREAM-FILTER-0000000005 (stores: [])\n"
        "      --> KSTREAM-SINK-0000000004\n"
        "      <-- KSTREAM-KEY-SELECT-0000000001\n"
        "    Sink: KSTREAM-SINK-0000000004 "
        "(topic: KSTREAM-AGGREGATE-STATE-STORE-0000000002-repartition)\n"
        "      <-- KSTREAM-FILTER-0000000005\n"
        "\n"
        "  Sub-topology: 1\n"
        "    Source: KSTREAM-SOURCE-0000000006 "
        "(topics: [KSTREAM-AGGREGATE-STATE-STORE-0000000002-repartition])\n"
        "      --> KSTREAM-AGGREGATE-0000000003\n"
        "    Processor: KSTREAM-AGGREGATE-0000000003 "
        "(stores: [KSTREAM-AGGREGATE-STATE-STORE-0000000002])\n"
        "      --> KTABLE-TOSTREAM-0000000007\n"
        "      <-- KSTREAM-SOURCE-0000000006\n"
        "    Processor: KTABLE-TOSTREAM-0000000007 (stores: [])\n"
        "      --> KSTREAM-SINK-0000000008\n"
        "      <-- KSTREAM-AGGREGATE-0000000003\n"
        "    Sink: KSTREAM-SINK-0000000008 (topic: a<b)\n"
        "      <-- KTABLE-TOSTREAM-0000000007\n"
        "\n"
    )


def test_picture_has_each_processor_and_the_ways_between_them() -> None:
    topology = count_by_value()
    picture = ET.fromstring(svg_of(topology))
    texts = [each.text for each in picture.iter(f"{SVG}text")]
    assert set(topology.processors) <= set(texts)
    assert "topic a<b" in texts
    assert "store KSTREAM-AGGREGATE-STATE-STORE-0000000002" in texts
    ways = [each.get("class") for each in picture.iter(f"{SVG}path")]
    assert (ways.count("record"), ways.count("topic")) == (6, 1)
    assert [each.get("class") for each in picture.iter(f"{SVG}rect")].count("part") == 2


def test_boxes_of_a_picture_do_not_overlap() -> None:
    topology = Topology()
    left, right = (operators.table_source(topology, name) for name in ("left", "right"))
    operators.written(operators.joined_by_foreign_key(left, right), "out", is_table=True)
    boxes = [
        tuple(float(each.get(name, "")) for name in ("x", "y", "width", "height"))
        for each in ET.fromstring(svg_of(topology)).iter(f"{SVG}rect")
        if each.get("class") != "part"
    ]
    assert len(boxes) == len(topology.processors)
    for number, (x, y, width, height) in enumerate(boxes):
        for other_x, other_y, other_width, other_height in boxes[number + 1 :]:
            apart_x = x + width <= other_x or other_x + other_width <= x
            assert apart_x or y + height <= other_y or other_y + other_height <= y


def test_picture_of_an_empty_topology_is_empty() -> None:
    assert list(ET.fromstring(svg_of(Topology())).iter(f"{SVG}rect")) == []


def test_query_of_a_dataframe_is_one_processor() -> None:
    topology = Topology()
    operators.written_frame(topology, ("paths",), None)
    (part,) = sub_topologies(topology)
    kinds = [each.kind for each in part.processors]
    assert kinds == [ProcessorKind.SOURCE, ProcessorKind.PROCESSOR, ProcessorKind.SINK]
    assert "(extractor class: the column topic)" in text_of(topology)


def test_table_that_is_joined_by_key_too_is_not_global() -> None:
    """Kafka Streams has two kinds of tables; here one table takes both joins."""
    topology = Topology()
    records = operators.stream_source(topology, "left")
    table = operators.table_source(topology, "right")
    operators.joined_with_table(records, table, is_left=False, is_global=True)
    assert [part.is_global for part in sub_topologies(topology)] == [False, True]
    operators.joined_with_table(records, table, is_left=False, is_global=False)
    (part,) = sub_topologies(topology)
    assert not part.is_global
    stores = [each.stores for each in part.processors if each.stores]
    assert stores == [["right-STATE-STORE-0000000001"]] * 3


def test_topic_that_is_a_stream_and_a_table_has_one_source() -> None:
    """Kafka Streams refuses such a topology."""
    topology = Topology()
    operators.stream_source(topology, "left")
    operators.table_source(topology, "left")
    sources = [
        each.name for each in topology.processors.values() if each.kind is ProcessorKind.SOURCE
    ]
    assert sources == ["KSTREAM-SOURCE-0000000000"]


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "ä", "a\n", "x" * 250])
def test_name_that_no_topic_can_have_is_refused(name: str) -> None:
    records = operators.stream_source(Topology(), "left")
    with pytest.raises(OperatorError, match="cannot name a group"):
        operators.grouped_by(records, "KSTREAM-KEY-SELECT-", name)
    with pytest.raises(OperatorError, match="cannot name a group"):
        operators.grouped_by_key(records, name)


def test_name_of_the_longest_topic_is_accepted() -> None:
    records = operators.stream_source(Topology(), "left")
    assert operators.grouped_by(records, "KSTREAM-KEY-SELECT-", "x" * 249).name == "x" * 249


def test_second_group_of_a_name_is_refused_and_leaves_no_processor() -> None:
    topology = Topology()
    records = operators.stream_source(topology, "left")
    operators.grouped_by(records, "KSTREAM-KEY-SELECT-", "by-value")
    before = text_of(topology)
    with pytest.raises(OperatorError, match="has a group by-value already"):
        operators.grouped_by(records, "KSTREAM-KEY-SELECT-", "by-value")
    assert text_of(topology) == before


def test_groups_of_new_keys_do_not_share_a_topic_but_aggregates_of_one_do() -> None:
    """As in Kafka Streams, a group whose records keep their partitions needs no topic."""
    topology = Topology()
    records = operators.stream_source(topology, "left")
    for _ in range(2):
        operators.aggregated(operators.grouped_by_key(records, "same"), is_reduction=False)
    changed = records.add("KSTREAM-KEY-SELECT-", has_new_keys=True)
    first, second = (operators.grouped_by_key(changed, "same") for _ in range(2))
    operators.aggregated(first, is_reduction=False)
    operators.aggregated(first, is_reduction=True)
    before = text_of(topology)
    with pytest.raises(OperatorError, match="has a group same already"):
        operators.aggregated(second, is_reduction=False)
    assert text_of(topology) == before
