"""Membership of a runner in its group: active, or standing by.

A runner is a static member (KIP-345): one that is killed and started again takes its predecessor's
place at once. A rebalance leaves the active runner active: the group's leader gives the partition
to its owner again. It stops when the group drops it, or gives the partition to another runner.
"""

import logging
import re
import socket
from typing import Final

import trio

from barnabas.client import ClientError, KafkaClient
from barnabas.client.group_session import (
    Assigned,
    GroupEvent,
    GroupSession,
    GroupSettings,
    join_group,
)
from barnabas.pipeline.jobs.core.activity_protocol import (
    PROTOCOL_TYPE,
    ActivityProtocol,
    Role,
    role_of,
)
from barnabas.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

_ILLEGAL: Final = re.compile(r"[^a-zA-Z0-9._-]+")
_INSTANCE_ID_MAX: Final = 249

_SESSION_TIMEOUT_S: Final = 6.0
"""The shortest that Kafka accepts by default (group.min.session.timeout.ms)."""
_REBALANCE_TIMEOUT_S: Final = 3.0
_HEARTBEAT_INTERVAL_S: Final = 1.0
_REJOIN_BACKOFF_S: Final = 1.0
_FOREIGN: Final = ErrorCode.INCONSISTENT_GROUP_PROTOCOL


class ForeignGroupError(Exception):
    """The group has members of another protocol, such as Java's Connect workers."""


class Activity:
    """This runner's role in its group."""

    def __init__(
        self, client: KafkaClient, group_id: str, topic: str, url: str, sql_url: str = ""
    ) -> None:
        self.role = Role(False, "")
        self._client = client
        self._protocol = ActivityProtocol(topic, url, sql_url)
        self._changed = trio.Event()
        self._session: GroupSession | None = None
        self._settings = GroupSettings(
            group_id,
            PROTOCOL_TYPE,
            _SESSION_TIMEOUT_S,
            _REBALANCE_TIMEOUT_S,
            _HEARTBEAT_INTERVAL_S,
            instance_id=_instance_id(url),
        )

    @property
    def is_decided(self) -> bool:
        """True when the group has an active runner, this one or another."""
        return bool(self.role.active_url)

    @property
    def is_active(self) -> bool:
        """True when this runner starts and stops jobs."""
        return self.role.is_active

    async def wait(self, *, active: bool) -> None:
        """Return when the runner is active, or is not."""
        while self.is_active is not active:
            await self._changed.wait()

    def step_down(self) -> None:
        """Stop being active, because this runner was fenced, and have the group decide again."""
        self._set(Role(False, ""))
        if self._session is not None:
            self._session.request_rejoin()

    async def run(self) -> None:
        """Be a member of the group for as long as the task runs.

        Raises ForeignGroupError when the group belongs to members of another protocol.
        """
        while True:
            try:
                async with join_group(
                    self._client, self._settings, self._protocol, self._on_event
                ) as session:
                    self._session = session
                    await session.wait_ended()
            except KafkaError as error:
                if error.code is _FOREIGN:
                    raise self._foreign() from None
                logger.warning("left group=%s error=%s", self._settings.group_id, error)
            except ClientError as error:
                logger.warning("left group=%s error=%s", self._settings.group_id, error)
            self._set(Role(False, ""))
            await trio.sleep(_REJOIN_BACKOFF_S)

    def _foreign(self) -> ForeignGroupError:
        group = self._settings.group_id
        return ForeignGroupError(
            f"group {group} has members of another protocol: a cluster of Java's Connect workers "
            "and runners must not share a group; set group.id"
        )

    def _on_event(self, event: GroupEvent) -> None:
        if isinstance(event, Assigned):
            self._set(role_of(event.assignment))
        elif event.is_lost:
            self._set(Role(False, ""))

    def _set(self, role: Role) -> None:
        if role.is_active is not self.role.is_active:
            logger.info(
                "runner is %s group=%s",
                "active" if role.is_active else "on standby",
                self._settings.group_id,
            )
        self.role = role
        self._protocol.is_active = role.is_active
        self._changed.set()
        self._changed = trio.Event()


def _instance_id(url: str) -> str:
    """Return the identity of a runner: its host, and the address that it listens on."""
    return _ILLEGAL.sub("-", f"{socket.gethostname()}-{url}")[:_INSTANCE_ID_MAX]
