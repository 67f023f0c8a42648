"""The decision on each operation of a client, by the cluster's ACLs: `StandardAuthorizer`.

Super users may do everything, also before the ACLs are loaded. For all other clients an `AclIndex`
decides; the decisions are cached until an ACL changes. Each decision is logged by the logger
`kafka.authorizer.logger`: a denied one at INFO, an allowed one at DEBUG, and at TRACE one that only
selects what a response shows.
"""

import logging
from collections.abc import Callable, Collection, Iterable
from typing import Final, Protocol

import attrs

from barnabas.cluster.metadata.acls import AclOperation, AclPermission, AclsImage, ResourceType
from barnabas.cluster.metadata.delta import MetadataDelta
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.security.acl_index import DEFAULT_ALLOW, DEFAULT_DENY, SUPER_USER, AclIndex, Rule
from barnabas.security.java_address import java_address
from barnabas.security.principals import LOCAL_NODE, Principal

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

_audit = logging.getLogger("barnabas.kafka.authorizer.logger")
_TRACE: Final = 5
_CACHED_DECISIONS_MAX: Final = 10_000
# The name of a resource that no client uses: who may do an operation on it may do it on all.
_ANY_NAME: Final = "hardcode"

_RESOURCE_NAMES: Final = {
    ResourceType.TOPIC: "Topic",
    ResourceType.GROUP: "Group",
    ResourceType.CLUSTER: "Cluster",
    ResourceType.TRANSACTIONAL_ID: "TransactionalId",
    ResourceType.DELEGATION_TOKEN: "DelegationToken",
    ResourceType.USER: "User",
}


class Client(Protocol):
    """The sender of a request."""

    @property
    def principal(self) -> Principal:
        """The identity that the sender has proved."""
        ...

    @property
    def client_host(self) -> str:
        """The sender's address."""
        ...


@attrs.frozen
class _Sender:
    principal: Principal
    client_host: str


class StandardAuthorizer:
    """Decides what clients may do.

    `super_users` are principals as texts, `allow_without_acl` is
    `allow.everyone.if.no.acl.found`.
    """

    def __init__(self, super_users: Collection[str], *, allow_without_acl: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._without_acl = DEFAULT_ALLOW if allow_without_acl else DEFAULT_DENY
        self._index = AclIndex()
        self.acls = AclsImage()
        self.is_loaded = False
        """False until the committed metadata is known; until then only super users pass."""
        self._decisions: dict[tuple[object, ...], Rule] = {}
        self._any: dict[tuple[object, ...], bool] = {}

    def load(self, acls: AclsImage) -> None:
        """Replace all ACLs."""
        self._use(AclIndex().updated(acls.values(), ()), acls)

    def load_committed(self, image: MetadataImage, high_watermark: int) -> None:
        """Replace all ACLs by those of an image that has committed records only.

        An image without a record says nothing of the ACLs of the cluster: a controller that joins
        knows them once it has fetched the log (`MetadataLoader` of Kafka waits for it, too).
        """
        if 0 <= image.offset < high_watermark:
            self.load(image.acls)

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Follow the metadata: a subscriber of committed images."""
        if not self.is_loaded or self.acls is not delta.image.acls:
            self.load(image.acls)
        elif delta.acls:
            before = self.acls
            changed = [before[each] for each in delta.acls if each in before]
            added = [acl for acl in delta.acls.values() if acl is not None]
            self._use(self._index.updated(added, changed), image.acls)
        self.acls = image.acls

    def _use(self, index: AclIndex, acls: AclsImage) -> None:
        self._index, self.acls, self.is_loaded = index, acls, True
        self._decisions, self._any = {}, {}

    def authorize(
        self,
        client: Client,
        operation: AclOperation,
        kind: ResourceType,
        name: str,
        *,
        request: str,
        references: int = 1,
        log_allowed: bool = True,
        log_denied: bool = True,
    ) -> bool:
        """Return True when the client may do the operation on a resource.

        This node's own requests are not a client's: they are neither refused nor logged. The audit
        log shows the name of the request, and how often the request names the resource.

        Raises KafkaError UNKNOWN_SERVER_ERROR until the ACLs are loaded.
        """
        if client.principal is LOCAL_NODE:
            return True
        rule = self.rule(client.principal, client.client_host, operation, kind, name)
        if rule.allowed:
            level = logging.DEBUG if log_allowed else _TRACE
        else:
            level = logging.INFO if log_denied else _TRACE
        if _audit.isEnabledFor(level):
            message = _audit_message(client, operation, kind, name, request, references, rule)
            _audit.log(level, "%s", message)
        return rule.allowed

    def rule(
        self,
        principal: Principal,
        host: str,
        operation: AclOperation,
        kind: ResourceType,
        name: str,
    ) -> Rule:
        """Return the decision. Raises KafkaError until the ACLs are loaded."""
        key = (principal, host, operation, kind, name)
        found = self._decisions.get(key)
        if found is not None:
            return found
        text = str(principal)
        is_super_user = text in self._super_users
        if not is_super_user and not self.is_loaded:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                "the ACLs are not loaded yet; only super users are served",
            )
        if len(self._decisions) >= _CACHED_DECISIONS_MAX:
            self._decisions.clear()
        if is_super_user:
            found = SUPER_USER
        else:
            host = java_address(host)
            found = self._index.decide(
                text, host, operation, kind, name, without_acl=self._without_acl
            )
        self._decisions[key] = found
        return found

    def authorize_by_type(
        self, client: Client, operation: AclOperation, kind: ResourceType, *, request: str
    ) -> bool:
        """Return True when the client may do the operation on any resource of the type."""
        if self.authorize(
            client, operation, kind, _ANY_NAME, request=request, references=0, log_denied=False
        ):
            return True
        key = (client.principal, client.client_host, operation, kind)
        found = self._any.get(key)
        if found is None:
            if len(self._any) >= _CACHED_DECISIONS_MAX:
                self._any.clear()
            found = self._any[key] = self._index.allows_any(
                str(client.principal), java_address(client.client_host), operation, kind
            )
        return found

    def describer(self, principal: Principal, host: str, request: str) -> Callable[[str], bool]:
        """Return the function that is True for a topic that a client may describe.

        Its decisions are logged as those that only select what a response shows.
        """
        client = _Sender(principal, host)

        def may_describe(name: str) -> bool:
            return self.authorize(
                client,
                AclOperation.DESCRIBE,
                ResourceType.TOPIC,
                name,
                request=request,
                log_denied=False,
            )

        return may_describe

    def can_be_administered(self, acls: AclsImage) -> bool:
        """True when a client could add ACLs to these: as a super user, by an ACL, or by default."""
        return (
            bool(self._super_users)
            or self._without_acl.allowed
            or any(
                acl.resource_type is ResourceType.CLUSTER
                and acl.permission is AclPermission.ALLOW
                and acl.operation in (AclOperation.ALTER, AclOperation.ALL)
                for acl in acls.values()
            )
        )


def super_users_of(text: str) -> frozenset[str]:
    """Return the principals of `super.users`, which `;` separates.

    Raises ValueError for one that is not Type:name.
    """
    users = [each.strip() for each in text.split(";")]
    for each in filter(None, users):
        Principal.parse(each)
    return frozenset(filter(None, users))


def bits_of(operations: Iterable[AclOperation]) -> int:
    """Return operations as a bit field of their codes."""
    return sum(1 << operation for operation in operations)


def _audit_message(
    client: Client,
    operation: AclOperation,
    kind: ResourceType,
    name: str,
    request: str,
    references: int,
    rule: Rule,
) -> str:
    """Return a line of the audit log; characters that could end the line are escaped."""
    message = (
        f"Principal = {client.principal} is {'Allowed' if rule.allowed else 'Denied'} "
        f"operation = {operation} from host = {java_address(client.client_host)} "
        f"on resource = {_RESOURCE_NAMES[kind]}:LITERAL:{name} for request = {request} "
        f"with resourceRefCount = {references} based on rule {rule.text}"
    )
    if message.isprintable():
        return message
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in message
    )
