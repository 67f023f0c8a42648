"""Rights of callers on topics, for Connect's REST API: it knows names and texts, not ACLs."""

from collections.abc import Mapping

import attrs

from barnabas.access.cluster_acls import AclSettings, Caller, ClusterAcls
from barnabas.client import KafkaClient
from barnabas.cluster.metadata.acls import AclOperation, ResourceType

_REQUEST = "Connect"


@attrs.frozen
class CallerOfTopics:
    """The rights of one caller on topics."""

    acls: ClusterAcls
    caller: Caller

    def may_read(self, topic: str) -> bool:
        """Return True when the caller has READ on the topic."""
        return self._may(AclOperation.READ, ResourceType.TOPIC, topic)

    def may_write(self, topic: str) -> bool:
        """Return True when the caller has WRITE on the topic."""
        return self._may(AclOperation.WRITE, ResourceType.TOPIC, topic)

    def may_join(self, group: str) -> bool:
        """Return True when the caller has READ on the group."""
        return self._may(AclOperation.READ, ResourceType.GROUP, group)

    def _may(self, operation: AclOperation, kind: ResourceType, name: str) -> bool:
        return self.acls.allows(self.caller, operation, kind, name, request=_REQUEST)


class TopicAuthorizer:
    """Decides by the ACLs of a cluster."""

    def __init__(self, client: KafkaClient, properties: Mapping[str, str]) -> None:
        """Raises ConfigError for values of `ACL_PROPERTIES` that are wrong."""
        self._acls = ClusterAcls(client, AclSettings.from_properties(properties))

    async def load(self) -> None:
        """Read the ACLs. Raises ConfigError when the cluster cannot be authorized by."""
        await self._acls.load()

    async def rights(self, name: str, host: str) -> CallerOfTopics:
        """Return the rights of a user at an address. Raises AccessUnavailableError."""
        await self._acls.refresh()
        return CallerOfTopics(self._acls, Caller.named(name, host))
