"""The registry's authorizer: the ACLs of the Kafka cluster decide about subjects."""

from collections.abc import Mapping
from typing import Final

import attrs

from barnabas.access.cluster_acls import (
    ACL_PROPERTIES,
    AclSettings,
    Caller,
    ClusterAcls,
)
from barnabas.client import KafkaClient
from barnabas.cluster.metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from barnabas.config import ConfigError, boolean_of
from barnabas.http import principal_of
from barnabas.http.asgi import Scope
from barnabas.registry.core.subject_topics import SubjectTopics
from barnabas.registry.rest.route_rights import Rights

_SUBJECT_TOPICS: Final = "registry.subject.acls"
_AUTHORIZE: Final = "barnabas.registry.authorize"
AUTHORIZATION_PROPERTIES: Final = (_AUTHORIZE, _SUBJECT_TOPICS, *ACL_PROPERTIES)
"""Properties of the registry's file that say how it authorizes."""


@attrs.frozen
class Authorization:
    """The settings of a registry that authorizes."""

    acls: AclSettings = attrs.field(factory=AclSettings)
    topics: SubjectTopics = attrs.field(factory=SubjectTopics)

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, str], *, enabled: bool
    ) -> "Authorization | None":
        """Return the settings, None without authorization. Raises ConfigError."""
        is_set = boolean_of(_AUTHORIZE, properties.get(_AUTHORIZE, "false"))
        if not (enabled or is_set):
            given = [name for name in AUTHORIZATION_PROPERTIES[1:] if name in properties]
            if given:
                raise ConfigError(
                    f"{given[0]} has no effect without authorization: use --authorize, or set "
                    f"{_AUTHORIZE}=true"
                )
            return None
        try:
            topics = SubjectTopics.parse(properties.get(_SUBJECT_TOPICS, ""))
        except ValueError as error:
            raise ConfigError(f"Invalid value for {_SUBJECT_TOPICS}: {error}") from None
        return cls(AclSettings.from_properties(properties), topics)


class AclAuthorizer:
    """Decides by the ACLs of the topics that subjects belong to."""

    def __init__(self, client: KafkaClient, settings: Authorization) -> None:
        self._acls = ClusterAcls(client, settings.acls)
        self._topics = settings.topics

    async def load(self) -> None:
        """Read the ACLs. Raises ConfigError when the cluster cannot be authorized by."""
        await self._acls.load()

    async def rights(self, scope: Scope) -> Rights:
        """Return the rights of the sender of a request. Raises AccessUnavailableError."""
        await self._acls.refresh()
        host, _ = scope.get("client") or ("", 0)
        caller = Caller.named(principal_of(scope), host)
        return _CallerRights(self._acls, self._topics, caller, f"{scope['method']} registry")


@attrs.frozen
class _CallerRights:
    acls: ClusterAcls
    topics: SubjectTopics
    caller: Caller
    request: str

    def allows(
        self, operation: AclOperation, subject: str | None, *, only_filters: bool = False
    ) -> bool:
        kind = ResourceType.CLUSTER if subject is None else ResourceType.TOPIC
        name = CLUSTER_NAME if subject is None else self.topics.topic(subject)
        return self.acls.allows(
            self.caller, operation, kind, name, request=self.request, only_filters=only_filters
        )
