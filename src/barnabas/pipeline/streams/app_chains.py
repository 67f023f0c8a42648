"""The topics between the queries of an app: which query writes one, and which queries read it."""

from collections.abc import Iterable, Iterator, Mapping

import attrs

from barnabas.pipeline.streams.operator_chains import ChainedRecords
from barnabas.pipeline.streams.topic_reading import TopicInput


@attrs.frozen
class AppChains:
    """The topics of an app that one of its queries writes, with the name of the topic.

    A query that writes such a topic has its name.
    """

    links: dict[str, ChainedRecords] = attrs.field(factory=dict[str, ChainedRecords])
    """The records behind each topic."""

    def read_by(self, inputs: Iterable[TopicInput]) -> list[str]:
        """Return the topics of chains among the inputs of a query."""
        return list(dict.fromkeys(each.topic for each in inputs if each.topic in self.links))

    def readers(self, queries: Mapping[str, Iterable[TopicInput]]) -> dict[str, list[str]]:
        """Return the queries that read each topic, of all queries with their inputs."""
        return {
            topic: [name for name, inputs in queries.items() if topic in self.read_by(inputs)]
            for topic in self.links
        }

    def sources(self, topic: str, queries: Mapping[str, Iterable[TopicInput]]) -> Iterator[str]:
        """Yield the topics of other programs that the records of a topic come from."""
        for each in queries[topic]:
            if each.topic in self.links:
                yield from self.sources(each.topic, queries)
            else:
                yield each.topic

    def needed(self, queries: Mapping[str, Iterable[TopicInput]]) -> list[str]:
        """Return the queries without those that only write topics that no query reads."""
        found = dict(queries)
        while unread := found.keys() & {
            topic for topic, readers in self.readers(found).items() if not readers
        }:
            for topic in unread:
                del found[topic]
        return list(found)

    def connected(
        self, names: Iterable[str], queries: Mapping[str, Iterable[TopicInput]]
    ) -> list[str]:
        """Return queries, and all those that topics connect with them, in their order."""
        found = set(names)
        parts = [{topic, *readers} for topic, readers in self.readers(queries).items()]
        while new := [part for part in parts if part & found and not part <= found]:
            found |= set().union(*new)
        return [name for name in queries if name in found]
