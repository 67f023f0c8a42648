"""The processors that operators add to the topology, with the names and numbers of Kafka Streams.

Each function takes the nodes that an operator reads, and returns the node of its result. The order
of the calls of `take_name` is the order in which Kafka Streams numbers its processors.
"""

import attrs

from barnabas.pipeline.streams.topology_nodes import (
    GlobalJoin,
    NamedGroup,
    StoreOfTable,
    Topology,
    TopologyNode,
)


def stream_source(topology: Topology, topic: str) -> TopologyNode:
    """Return the node of a topic's records."""
    name = topology.take_name("KSTREAM-SOURCE-")
    return TopologyNode(topology, topology.source(name, topic))


def table_source(topology: Topology, topic: str) -> TopologyNode:
    """Return the node of a table of a topic."""
    store = topology.take_name(f"{topic}-STATE-STORE-")
    source = topology.source(topology.take_name("KSTREAM-SOURCE-"), topic)
    name = topology.processor(topology.take_name("KTABLE-SOURCE-"), [source])
    return TopologyNode(topology, name, tables=(StoreOfTable(name, store),))


def written(node: TopologyNode, topic: str, *, is_table: bool) -> None:
    """Add the sink of a stream or a table."""
    last = to_stream(node) if is_table else node
    last.topology.sink(last.topology.take_name("KSTREAM-SINK-"), last.name, topic)


def written_frame(topology: Topology, topics: tuple[str, ...], topic: str | None) -> None:
    """Add a query of a DataFrame, which is one processor with its topics."""
    sources = [stream_source(topology, each).name for each in topics]
    name = topology.processor(topology.take_name("SPARK-DATAFRAME-"), sources)
    topology.sink(topology.take_name("KSTREAM-SINK-"), name, topic)


def to_stream(node: TopologyNode) -> TopologyNode:
    """Return the node of a table's changes."""
    return attrs.evolve(node.add("KTABLE-TOSTREAM-", has_new_keys=False), tables=())


def branches(node: TopologyNode, count: int) -> list[TopologyNode]:
    """Return the nodes of the branches of a stream."""
    split = node.add("KSTREAM-BRANCH-")
    for _ in range(count):  # Kafka Streams takes a number for each branch, and does not use it
        node.topology.take_name("KSTREAM-BRANCH-")
    names = [f"{split.name}{number + 1}" for number in range(count)]
    return [attrs.evolve(split, name=node.topology.processor(name, [split.name])) for name in names]


def merged(node: TopologyNode, other: TopologyNode) -> TopologyNode:
    """Return the node of the records of two streams."""
    name = node.topology.take_name("KSTREAM-MERGE-")
    node.topology.processor(name, [node.name, other.name])
    has_new_keys = node.has_new_keys or other.has_new_keys
    return attrs.evolve(node, name=name, has_new_keys=has_new_keys)


def deduplicated(node: TopologyNode) -> TopologyNode:
    """Return the node of a stream without duplicates; Kafka Streams has no such operator."""
    store = node.topology.take_name("KSTREAM-DEDUPE-STATE-STORE-")
    return node.add("KSTREAM-DEDUPE-", store)


def grouped_by(node: TopologyNode, prefix: str, name: str | None) -> TopologyNode:
    """Return the node of records or rows that are grouped by an expression.

    Raises OperatorError for a name that is not one of a topic, or that the topology has already.
    """
    group = NamedGroup.of(name)
    if group is not None:
        node.topology.check_processor(group)
    node.read_stores()
    generated = node.topology.take_name(prefix)
    chosen = node.topology.processor(name or generated, [node.name])
    return attrs.evolve(node, name=chosen, has_new_keys=True, tables=(), group=group)


def grouped_by_key(node: TopologyNode, name: str | None) -> TopologyNode:
    """Return the node of records that are grouped by their key.

    Raises OperatorError for a name that is not one of a topic.
    """
    return attrs.evolve(node, group=NamedGroup.of(name))


def repartition_name(node: TopologyNode, *, is_reduction: bool) -> str:
    """Return the name of the topic that the records of a group pass before they are aggregated.

    It is the name of Kafka Streams where that has a repartition topic, without the suffix.
    Raises OperatorError when another group has the topic.
    """
    if not node.has_new_keys:
        return node.name
    if node.group is not None:
        node.topology.take_topic(node.group)
    store = node.topology.next_name(f"{_aggregate(is_reduction)}-STATE-STORE-")
    return _topic_name(node, store)


def aggregated(node: TopologyNode, *, is_reduction: bool) -> TopologyNode:
    """Return the node of a table of a stream's groups.

    Raises OperatorError when another group has the repartition topic of this one.
    """
    topology, operator = node.topology, _aggregate(is_reduction)
    if node.has_new_keys and node.group is not None:
        topology.take_topic(node.group)
    store = topology.take_name(f"{operator}-STATE-STORE-")
    name = topology.take_name(f"{operator}-")
    source = node
    if node.has_new_keys:
        source = repartitioned(node, _topic_name(node, store), is_named=node.group is not None)
    return _table_of(topology, name, source.name, store)


def table_aggregated(node: TopologyNode, *, is_reduction: bool) -> TopologyNode:
    """Return the node of a table of a table's groups.

    Raises OperatorError when another group has the repartition topic of this one.
    """
    topology = node.topology
    if node.group is not None:
        topology.take_topic(node.group)
    store = topology.take_name("KTABLE-AGGREGATE-STATE-STORE-")
    topic = f"{_topic_name(node, store)}-repartition"
    sink, source = (topology.take_name(f"KSTREAM-{each}-") for each in ("SINK", "SOURCE"))
    found = topology.source(source, topic)
    if found == source:  # the aggregates of one group share its repartition topic
        topology.sink(sink, node.name, topic)
    name = topology.take_name("KTABLE-REDUCE-" if is_reduction else "KTABLE-AGGREGATE-")
    return _table_of(topology, name, found, store)


def suppressed(node: TopologyNode) -> TopologyNode:
    """Return the node of a table whose changes are held back."""
    node.read_stores()
    name = node.topology.take_name("KTABLE-SUPPRESS-")
    store = node.topology.take_name("KTABLE-SUPPRESS-STATE-STORE-")
    node.topology.processor(name, [node.name], [store])
    return attrs.evolve(node, name=name)


def repartitioned(node: TopologyNode, name: str, *, is_named: bool = False) -> TopologyNode:
    """Return the node of the records behind a repartition topic, which has one of its name.

    Its processors have the name when the user gave it.
    """
    topology, topic = node.topology, f"{name}-repartition"
    sink, kept, source = (
        topology.take_name(f"KSTREAM-{each}-") for each in ("SINK", "FILTER", "SOURCE")
    )
    if is_named:
        sink, kept, source = (f"{topic}-{each}" for each in ("sink", "filter", "source"))
    found = topology.source(source, topic)
    if found == source and kept not in topology.processors:
        topology.processor(kept, [node.name])
        topology.sink(sink, kept, topic)
    return attrs.evolve(node, name=found, has_new_keys=False, group=None)


def joined_with_table(
    node: TopologyNode, table: TopologyNode, *, is_left: bool, is_global: bool
) -> TopologyNode:
    """Return the node of a stream whose records are joined with a table."""
    if is_global:
        found = node.add("KSTREAM-LEFTJOIN-")
        joins = [GlobalJoin(found.name, each.processor, each.store) for each in table.tables]
        node.topology.global_joins += joins
        return found
    left = repartitioned(node, node.name) if node.has_new_keys else node
    return left.add("KSTREAM-LEFTJOIN-" if is_left else "KSTREAM-JOIN-", *table.read_stores())


def joined_streams(
    node: TopologyNode, other: TopologyNode, *, is_left: bool, is_outer: bool
) -> TopologyNode:
    """Return the node of the pairs of two streams; `is_left` of an outer join, too."""
    topology = node.topology
    left, right = (
        repartitioned(each, each.name) if each.has_new_keys else each for each in (node, other)
    )
    windowed = [topology.take_name("KSTREAM-WINDOWED-") for _ in range(2)]
    this = topology.take_name("KSTREAM-OUTERTHIS-" if is_outer else "KSTREAM-JOINTHIS-")
    that = topology.take_name("KSTREAM-OUTEROTHER-" if is_left else "KSTREAM-JOINOTHER-")
    name = topology.take_name("KSTREAM-MERGE-")
    number = this.rpartition("-")[2]
    shared = [f"KSTREAM-OUTERSHARED-{number}-store"] if is_left else []
    for source, window, store in ((left, windowed[0], this), (right, windowed[1], that)):
        topology.processor(window, [source.name], [f"{store}-store"])
    topology.processor(this, [windowed[0]], [f"{that}-store", *shared])
    topology.processor(that, [windowed[1]], [f"{this}-store", *shared])
    topology.processor(name, [this, that])
    return TopologyNode(topology, name)


def joined_tables(node: TopologyNode, other: TopologyNode) -> TopologyNode:
    """Return the node of the join of two tables."""
    topology = node.topology
    name = topology.take_name("KTABLE-MERGE-")
    this = topology.take_name("KTABLE-JOINTHIS-")
    that = topology.take_name("KTABLE-JOINOTHER-")
    topology.processor(this, [node.name], other.read_stores())
    topology.processor(that, [other.name], node.read_stores())
    topology.processor(name, [this, that])
    return TopologyNode(topology, name, tables=node.tables + other.tables)


def joined_by_foreign_key(node: TopologyNode, other: TopologyNode) -> TopologyNode:
    """Return the node of the join of a table with the rows of another that its rows refer to."""
    topology, prefix = node.topology, "KTABLE-FK-JOIN-SUBSCRIPTION-"
    own, foreign = node.read_stores(), other.read_stores()
    asked = f"{topology.take_name(f'{prefix}REGISTRATION-')}-topic"
    registration = topology.take_name(f"{prefix}REGISTRATION-")
    topology.processor(registration, [node.name])
    topology.sink(topology.take_name("KTABLE-SINK-"), registration, asked)
    questions = topology.source(topology.take_name("KTABLE-SOURCE-"), asked)
    store = topology.take_name(f"{prefix}STATE-STORE-")
    received, looked_up, changed = (topology.take_name(f"{prefix}PROCESSOR-") for _ in range(3))
    topology.processor(received, [questions], [store])
    topology.processor(looked_up, [received], foreign)
    topology.processor(changed, [other.name], [store])
    answered = f"{topology.take_name(f'{prefix}RESPONSE-')}-topic"
    sink = topology.take_name("KTABLE-SINK-")
    topology.sink(sink, looked_up, answered)
    topology.processors[sink].predecessors.append(changed)
    answers = topology.source(topology.take_name("KTABLE-SOURCE-"), answered)
    resolver = topology.take_name(f"{prefix}RESPONSE-RESOLVER-PROCESSOR-")
    topology.processor(resolver, [answers], own)
    name = topology.take_name("KTABLE-FK-JOIN-OUTPUT-")
    topology.processor(name, [resolver])
    result = topology.take_name("KTABLE-FK-JOIN-OUTPUT-STATE-STORE-")
    return TopologyNode(topology, name, tables=(StoreOfTable(name, result),))


def _aggregate(is_reduction: bool) -> str:
    return "KSTREAM-REDUCE" if is_reduction else "KSTREAM-AGGREGATE"


def _topic_name(node: TopologyNode, store: str) -> str:
    """Return the name of a group's repartition topic: the user's, or that of the store."""
    return store if node.group is None else node.group.name


def _table_of(topology: Topology, name: str, source: str, store: str) -> TopologyNode:
    topology.processor(name, [source], [store])
    return TopologyNode(topology, name, tables=(StoreOfTable(name, store),))
