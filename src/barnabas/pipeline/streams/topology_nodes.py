"""The topology that operators describe: processors, stores and topics, as in Kafka Streams.

A topology only describes what an app does. Names count up in the order in which operators are
called, as those of Kafka Streams do.
"""

import enum
import re
from collections.abc import Iterable
from typing import Final

import attrs

from barnabas.pipeline.streams.operator_chains import Chain
from barnabas.pipeline.streams.operator_errors import OperatorError

_DIGITS: Final = 10
_TOPIC_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


class ProcessorKind(enum.Enum):
    """The kinds of processors, by the names in a description."""

    SOURCE = "Source"
    PROCESSOR = "Processor"
    SINK = "Sink"


@attrs.define(eq=False)
class Processor:
    """A processor of a topology: a source, an operator or a sink."""

    name: str
    kind: ProcessorKind
    topic: str | None = None
    """The topic of a source or a sink; None for a sink whose rows name their topics."""
    predecessors: list[str] = attrs.field(factory=list[str])
    stores: list[str] = attrs.field(factory=list[str])

    def use(self, store: str) -> None:
        """Add a store, once."""
        if store not in self.stores:
            self.stores.append(store)


@attrs.frozen
class GlobalJoin:
    """A join that looks up all rows of a table, and not only those of its partition."""

    join: str
    table: str
    store: str


@attrs.frozen(eq=False)
class NamedGroup:
    """A group that the user has named: one call of `group_by` or `group_by_key`."""

    name: str

    @classmethod
    def of(cls, name: str | None) -> "NamedGroup | None":
        """Return a group of a name, None without one.

        Raises OperatorError for a name that no topic can have.
        """
        if name is None:
            return None
        if not _TOPIC_NAME.fullmatch(name) or name in (".", ".."):
            raise OperatorError(
                f"'{name}' cannot name a group, which has a topic of this name: use up to 249 "
                "letters, digits, '.', '_' and '-'"
            )
        return cls(name)


@attrs.define(eq=False)
class Topology:
    """The processors of an app, in the order of their operators."""

    processors: dict[str, Processor] = attrs.field(factory=dict[str, Processor])
    global_joins: list[GlobalJoin] = attrs.field(factory=list[GlobalJoin])
    _next: int = 0
    _repartitioned: dict[str, NamedGroup] = attrs.field(factory=dict[str, NamedGroup])
    """The named groups that have a repartition topic."""
    chain: Chain | None = attrs.field(default=None, kw_only=True)
    """Writes records to a topic for the next operator with state; None without an app."""

    def take_name(self, prefix: str) -> str:
        """Return a prefix with the next number."""
        name = self.next_name(prefix)
        self._next += 1
        return name

    def next_name(self, prefix: str) -> str:
        """Return the name that `take_name` would return now."""
        return f"{prefix}{self._next:0{_DIGITS}}"

    def source(self, name: str, topic: str) -> str:
        """Add a source, and return its name; a topic has one source, the first."""
        for each in self.processors.values():
            if each.kind is ProcessorKind.SOURCE and each.topic == topic:
                return each.name
        self.processors[name] = Processor(name, ProcessorKind.SOURCE, topic)
        return name

    def processor(self, name: str, predecessors: Iterable[str], stores: Iterable[str] = ()) -> str:
        """Add an operator, and return its name."""
        self.processors[name] = Processor(
            name, ProcessorKind.PROCESSOR, None, list(predecessors), list(dict.fromkeys(stores))
        )
        return name

    def sink(self, name: str, predecessor: str, topic: str | None) -> None:
        """Add a sink."""
        self.processors[name] = Processor(name, ProcessorKind.SINK, topic, [predecessor])

    def check_processor(self, group: NamedGroup) -> None:
        """Raise OperatorError when a processor has the name of a group."""
        if group.name in self.processors:
            raise _taken(group)

    def take_topic(self, group: NamedGroup) -> None:
        """Reserve the repartition topic of a group, which all its aggregates read.

        Raises OperatorError when another group has the topic.
        """
        if self._repartitioned.setdefault(group.name, group) is not group:
            raise _taken(group)

    def successors(self, name: str) -> list[str]:
        """Return the names of the processors that take the records of another one."""
        return [each.name for each in self.processors.values() if name in each.predecessors]


@attrs.frozen
class StoreOfTable:
    """The store of a table, and the processor that only writes it when an operator reads it."""

    processor: str
    store: str


@attrs.frozen(eq=False)
class TopologyNode:
    """The place of a stream or a table in the topology."""

    topology: Topology
    name: str
    """The processor that the records come from."""
    has_new_keys: bool = False
    """True when Kafka Streams writes the records to a repartition topic before it groups them."""
    tables: tuple[StoreOfTable, ...] = ()
    """The stores that have the rows of a table."""
    group: NamedGroup | None = None
    """The group of the records, when the user has named it."""

    def add(self, prefix: str, *stores: str, has_new_keys: bool | None = None) -> "TopologyNode":
        """Add an operator behind this node, and return its node."""
        name = self.topology.take_name(prefix)
        self.topology.processor(name, [self.name], stores)
        new_keys = self.has_new_keys if has_new_keys is None else has_new_keys
        return attrs.evolve(self, name=name, has_new_keys=new_keys)

    def read_stores(self) -> list[str]:
        """Return the names of the stores that have the rows of this table, which are now kept."""
        for each in self.tables:
            self.topology.processors[each.processor].use(each.store)
        return [each.store for each in self.tables]


def _taken(group: NamedGroup) -> OperatorError:
    return OperatorError(
        f"the app has a group {group.name} already: use another name=, or take both results from "
        "one group"
    )


def detached() -> TopologyNode:
    """Return a node of a separate topology, which no app describes."""
    return TopologyNode(Topology(), "")
