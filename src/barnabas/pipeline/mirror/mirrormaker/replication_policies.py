"""The names that topics have at the target, and the names of MirrorMaker 2's own topics.

The results are those of MirrorMaker 2's classes DefaultReplicationPolicy and
IdentityReplicationPolicy.
"""

from typing import Final

import attrs

HEARTBEATS: Final = "heartbeats"
DEFAULT_POLICY: Final = "org.apache.kafka.connect.mirror.DefaultReplicationPolicy"
IDENTITY_POLICY: Final = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
POLICIES: Final = (DEFAULT_POLICY, IDENTITY_POLICY)

_OFFSET_SYNCS: Final = "mm2-offset-syncs"
_OWN_PREFIX: Final = "mm2"
_KAFKA_PREFIXES: Final = ("__", ".")


@attrs.frozen
class ReplicationPolicy:
    """Names of remote topics: topics of the source as the target has them."""

    source: str
    """The alias of the source cluster."""
    is_identity: bool = False
    """True when topics keep their names; only heartbeats are renamed."""
    separator: str = "."
    separates_internal: bool = True
    """True when the names of internal topics have the separator, too; else a dot."""

    def remote_topic(self, topic: str) -> str:
        """Return the name at the target of a topic of the source."""
        if self.is_identity and not _looks_like_heartbeats(topic):
            return topic
        return f"{self.source}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        """Return the alias of the cluster that a topic was copied from, None for other topics.

        With the identity policy, the result is always the source of the flow.
        """
        if self.is_identity and not _looks_like_heartbeats(topic):
            return self.source
        rest = topic
        while rest.endswith(self.separator):
            rest = rest.removesuffix(self.separator)
        source, found, _ = rest.partition(self.separator)
        return source if found else None

    def upstream_topic(self, topic: str) -> str | None:
        """Return the name that a remote topic has at its source, None for other topics."""
        if self.is_identity and not _looks_like_heartbeats(topic):
            return topic
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def original_topic(self, topic: str) -> str:
        """Return the name at the cluster where a topic was written first."""
        upstream = self.upstream_topic(topic)
        while upstream is not None and upstream != topic:
            topic, upstream = upstream, self.upstream_topic(upstream)
        return topic

    def is_cycle(self, topic: str, target: str) -> bool:
        """True when a topic of the source was copied from the target, over any number of hops."""
        while (source := self.topic_source(topic)) is not None:
            if source == target:
                return True
            upstream = self.upstream_topic(topic)
            if upstream is None or upstream == topic:
                return False
            topic = upstream
        return False

    def is_heartbeats(self, topic: str) -> bool:
        """True for the topic of heartbeats and its copies."""
        return self.original_topic(topic) == HEARTBEATS

    def is_checkpoints(self, topic: str) -> bool:
        """True for a topic of checkpoints."""
        return topic.endswith(self._checkpoints_suffix)

    def is_internal(self, topic: str) -> bool:
        """True for topics that are never copied: Kafka's and MirrorMaker 2's own."""
        is_own = topic.startswith(_OWN_PREFIX) and topic.endswith(self._internal_suffix)
        return topic.startswith(_KAFKA_PREFIXES) or is_own or self.is_checkpoints(topic)

    def offset_syncs_topic(self, other: str) -> str:
        """Return the topic of offset syncs at one cluster; `other` is the other cluster's alias."""
        return f"{_OFFSET_SYNCS}{self._internal_separator}{other}{self._internal_suffix}"

    @property
    def checkpoints_topic(self) -> str:
        """Return the topic of checkpoints at the target."""
        return f"{self.source}{self._checkpoints_suffix}"

    @property
    def _internal_separator(self) -> str:
        return self.separator if self.separates_internal else "."

    @property
    def _internal_suffix(self) -> str:
        return f"{self._internal_separator}internal"

    @property
    def _checkpoints_suffix(self) -> str:
        return f"{self._internal_separator}checkpoints{self._internal_suffix}"


def _looks_like_heartbeats(topic: str) -> bool:
    return topic.endswith(HEARTBEATS)
