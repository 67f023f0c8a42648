"""A topology as text: what `Topology.describe()` of Kafka Streams prints.

Kafka Streams orders the processors of a sub-topology by the number of the paths that start at them,
and their neighbours by the number that was known when they were added, in the order of a hash map.
"""

import bisect
from collections.abc import Mapping
from typing import Final

import attrs

from barnabas.pipeline.data.java_values import hash_order
from barnabas.pipeline.streams.topology_nodes import (
    GlobalJoin,
    Processor,
    ProcessorKind,
    Topology,
)

_NO_NAMES: Final = "none"


@attrs.frozen
class SubTopology:
    """Processors that are connected by records or by stores, in the order of a description."""

    number: int
    is_global: bool
    """True for a table whose rows are all in each instance."""
    processors: tuple[Processor, ...]
    predecessors: Mapping[str, list[str]]
    successors: Mapping[str, list[str]]


def text_of(topology: Topology) -> str:
    """Return the text that Kafka Streams prints for a topology."""
    parts = [_text_of_part(part) for part in sub_topologies(topology)]
    return "Topologies:\n " + "".join(f"  {each}" for each in parts)


def sub_topologies(topology: Topology) -> list[SubTopology]:
    """Return the parts of a topology, in the order of their numbers."""
    processors = _with_stores_of_joins(topology)
    global_tables = {each.table for each in topology.global_joins if _is_global(topology, each)}
    return [
        _part(
            number, {name: processors[name] for name in names}, not global_tables.isdisjoint(names)
        )
        for number, names in enumerate(_groups(processors))
    ]


def _text_of_part(part: SubTopology) -> str:
    suffix = " for global store (will not generate tasks)" if part.is_global else ""
    lines = [f"Sub-topology: {part.number}{suffix}\n"]
    for each in part.processors:
        lines.append(f"    {each.kind.value}: {each.name} ({_contents(each)})\n")
        if each.kind is not ProcessorKind.SINK:
            lines.append(f"      --> {_names(part.successors[each.name])}\n")
        if each.kind is not ProcessorKind.SOURCE:
            lines.append(f"      <-- {_names(part.predecessors[each.name])}\n")
    # Kafka Streams prints no empty line behind a global store.
    return "".join(lines) + ("" if part.is_global else "\n")


def _contents(processor: Processor) -> str:
    """Return the topics or the stores of a processor."""
    if processor.kind is ProcessorKind.SOURCE:
        return f"topics: [{processor.topic}]"
    if processor.kind is ProcessorKind.PROCESSOR:
        return f"stores: [{', '.join(processor.stores)}]"
    if processor.topic is None:
        return "extractor class: the column topic"
    return f"topic: {processor.topic}"


def _names(names: list[str]) -> str:
    return ", ".join(names) or _NO_NAMES


def _is_global(topology: Topology, join: GlobalJoin) -> bool:
    """True for a table that only such joins read: then each instance has all its rows."""
    readers = [each for each in topology.processors.values() if join.store in each.stores]
    return not topology.successors(join.table) and all(each.name == join.table for each in readers)


def _with_stores_of_joins(topology: Topology) -> dict[str, Processor]:
    """Return the processors; tables of joins by other keys have their stores."""
    found = {
        name: attrs.evolve(each, stores=list(each.stores))
        for name, each in topology.processors.items()
    }
    for join in topology.global_joins:
        found[join.table].use(join.store)
        if not _is_global(topology, join):
            found[join.join].use(join.store)
    return found


def _groups(processors: Mapping[str, Processor]) -> list[list[str]]:
    """Return the names of connected processors; parts are numbered by their first source."""
    roots = {name: name for name in processors}

    def root(name: str) -> str:
        while roots[name] != name:
            name = roots[name]
        return name

    users: dict[str, str] = {}
    for name, each in processors.items():
        for other in each.predecessors:
            roots[root(name)] = root(other)
        for store in each.stores:
            roots[root(name)] = root(users.setdefault(store, name))
    is_source = {name: each.kind is ProcessorKind.SOURCE for name, each in processors.items()}
    groups: dict[str, list[str]] = {}
    for name in sorted(processors, key=lambda name: (not is_source[name], name)):
        groups.setdefault(root(name), []).append(name)
    return list(groups.values())


def _part(number: int, processors: Mapping[str, Processor], is_global: bool) -> SubTopology:
    sizes = dict.fromkeys(processors, 1)
    predecessors: dict[str, list[str]] = {name: [] for name in processors}
    successors: dict[str, list[str]] = {name: [] for name in processors}

    def place(name: str) -> tuple[int, str]:
        return -sizes[name], name

    def grow(name: str, paths: int) -> None:
        sizes[name] += paths
        for each in predecessors[name]:
            grow(each, paths)

    for name in hash_order(processors):
        for other in processors[name].predecessors:
            bisect.insort(predecessors[name], other, key=place)
            bisect.insort(successors[other], name, key=place)
            grow(other, sizes[name])
    ordered = tuple(processors[name] for name in sorted(processors, key=place))
    return SubTopology(number, is_global, ordered, predecessors, successors)
