"""The ACLs of a cluster as they were a few seconds ago, and decisions over them."""

import logging
from collections.abc import Mapping
from typing import Final

import attrs
import trio

from barnabas.client import ClientError, KafkaClient
from barnabas.cluster.metadata.acls import Acl, AclOperation, AclsImage, ResourceType
from barnabas.config import ConfigError, boolean_of
from barnabas.http.authentication import AccessUnavailableError
from barnabas.protocol.errors import ErrorCode, KafkaError, error_code
from barnabas.protocol.messages.describe_acls import DescribeAclsResponse
from barnabas.protocol.types import Uuid
from barnabas.security.acl_requests import describe_request, described_acls
from barnabas.security.principals import USER, Principal
from barnabas.security.standard_authorizer import StandardAuthorizer, super_users_of

logger = logging.getLogger(__name__)

_SUPER_USERS: Final = "super.users"
_WITHOUT_ACL: Final = "allow.everyone.if.no.acl.found"
ACL_PROPERTIES: Final = (_SUPER_USERS, _WITHOUT_ACL)
"""Properties of the brokers that DescribeConfigs does not show."""

_FRESH_S: Final = 5.0
"""For this time the ACLs are used without another look."""
_USABLE_S: Final = 60.0
"""For this time they are used when no broker answers."""
_RETRY_S: Final = 1.0
_REFRESH_TIMEOUT_S: Final = 5.0


@attrs.frozen
class AclSettings:
    """The settings of the brokers' authorizer that decide beside the ACLs."""

    super_users: frozenset[str] = frozenset()
    allow_without_acl: bool = False

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> "AclSettings":
        """Return the settings that properties describe. Raises ConfigError."""
        allow_without_acl = boolean_of(_WITHOUT_ACL, properties.get(_WITHOUT_ACL, "false"))
        try:
            super_users = super_users_of(properties.get(_SUPER_USERS, ""))
        except ValueError as error:
            raise ConfigError(f"Invalid value for {_SUPER_USERS}: {error}") from None
        return cls(super_users, allow_without_acl)


@attrs.frozen
class Caller:
    """The sender of a request, for decisions."""

    principal: Principal
    client_host: str

    @classmethod
    def named(cls, name: str, client_host: str) -> "Caller":
        """Return the caller of a user name."""
        return cls(Principal(USER, name), client_host)


class ClusterAcls:
    """Reads the ACLs of a cluster when they are needed, and decides by them."""

    def __init__(self, client: KafkaClient, settings: AclSettings) -> None:
        self._client = client
        self._authorizer = StandardAuthorizer(
            settings.super_users, allow_without_acl=settings.allow_without_acl
        )
        self._acls: list[Acl] | None = None
        self._read_at = float("-inf")
        self._tried_at = float("-inf")
        self._reading = trio.Lock()

    async def load(self) -> None:
        """Read the ACLs for the first time.

        Raises ConfigError when the brokers have no authorizer, or refuse.
        """
        try:
            await self._client.retry("reading the ACLs", self._read)
        except KafkaError as error:
            if error.code is ErrorCode.SECURITY_DISABLED:
                raise ConfigError(
                    "the brokers have no ACLs to authorize by: set authorizer.class.name in their "
                    "configuration"
                ) from None
            if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                raise ConfigError(
                    "the user of the Kafka client may not read the ACLs: it needs DESCRIBE on the "
                    "cluster"
                ) from None
            raise

    async def refresh(self) -> None:
        """Read the ACLs again when they are old. Raises AccessUnavailableError."""
        if self._is_newer_than(_FRESH_S):
            return
        async with self._reading:
            now = trio.current_time()
            if not self._is_newer_than(_FRESH_S) and now - self._tried_at >= _RETRY_S:
                self._tried_at = now
                await self._try_to_read()
        if not self._is_newer_than(_USABLE_S):
            raise AccessUnavailableError("the ACLs of the Kafka cluster cannot be read now")

    async def _try_to_read(self) -> None:
        try:
            with trio.fail_after(_REFRESH_TIMEOUT_S):
                await self._read()
        except (ClientError, KafkaError, trio.TooSlowError) as error:
            logger.warning("cannot read the ACLs error=%r", error)

    def _is_newer_than(self, seconds: float) -> bool:
        return trio.current_time() - self._read_at < seconds

    async def _read(self) -> None:
        started = trio.current_time()
        answer = await self._client.ask_any(describe_request(), DescribeAclsResponse)
        code = error_code(answer.error_code)
        if code is not ErrorCode.NONE:
            raise KafkaError(code, answer.error_message or "")
        found = described_acls(answer)
        if found != self._acls:
            self._acls = found
            numbered = {Uuid(n.to_bytes(16)): acl for n, acl in enumerate(found)}
            self._authorizer.load(AclsImage(numbered))
        self._read_at = started

    def allows(
        self,
        caller: Caller,
        operation: AclOperation,
        kind: ResourceType,
        name: str,
        *,
        request: str,
        only_filters: bool = False,
    ) -> bool:
        """Return True when the caller may do the operation on the resource.

        `request` is named in the audit log, where a decision that `only_filters` is at TRACE.
        """
        return self._authorizer.authorize(
            caller,
            operation,
            kind,
            name,
            request=request,
            log_allowed=not only_filters,
            log_denied=not only_filters,
        )
