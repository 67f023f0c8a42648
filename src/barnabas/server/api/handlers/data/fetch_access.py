"""Which partitions the sender of a Fetch may read, on a node with an authorizer.

A consumer needs READ on the topic; a follower CLUSTER_ACTION on the cluster, for all of them. A
request of a session reads partitions that it does not name, so they are checked as they are read.
"""

from collections import Counter
from collections.abc import Iterable

from barnabas.cluster.metadata.acls import AclOperation, AclsImage, ResourceType
from barnabas.protocol.errors import ErrorCode
from barnabas.server.api.handler_services import DataContext
from barnabas.server.api.permissions import authorizer_of, may, may_on_cluster, refused
from barnabas.server.replication.fetch_sessions import FetchSession, Key


class FetchAccess:
    """The decisions for one request.

    When ACLs have changed since the last request of a session, all its partitions are read again,
    so that the response refuses those that the sender may no longer read.
    """

    def __init__(
        self, context: DataContext, session: FetchSession | None, *, by_id: bool, is_follower: bool
    ) -> None:
        self._context = context
        self._by_id = by_id
        self._topics: dict[object, bool] = {}
        self.acls: AclsImage = authorizer_of(context).acls
        self.is_broker = is_follower and may_on_cluster(context, AclOperation.CLUSTER_ACTION)
        self._is_follower = is_follower
        if session is not None and session.acls is not self.acls:
            session.acls = self.acls
            session.watch.dirty.update(session.partitions)

    def decide(self, keys: Iterable[Key]) -> None:
        """Decide on the partitions that a request reads; each topic once."""
        if not self._is_follower:
            for topic, count in Counter(topic for topic, _ in keys).items():
                self._decide(topic, count)

    def _decide(self, topic: object, count: int) -> bool:
        """Return True when the sender may read a topic, by name or id, or its id is unknown."""
        name = topic
        if self._by_id:
            found = self._context.services.replicas.image.topics_by_id.get(topic)  # pyright: ignore[reportArgumentType]
            name = None if found is None else found.name
        allowed = name is None or may(
            self._context, AclOperation.READ, ResourceType.TOPIC, str(name), references=count
        )
        self._topics[topic] = allowed
        return allowed

    def check(self, key: Key) -> None:
        """Raise KafkaError TOPIC_AUTHORIZATION_FAILED where the sender may not read."""
        if self._is_follower:
            allowed = self.is_broker
        else:
            decided = self._topics.get(key[0])
            allowed = self._decide(key[0], 1) if decided is None else decided
        if not allowed:
            raise refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
