"""The channel of every node: it finds the active controller and follows it.

Requests to this node's own controller do not travel. A request whose controller is gone, deposed or
unknown is sent again until its time is up, so the controller may carry it out twice (as in Kafka:
`NodeToControllerRequestThread`).
"""

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from barnabas import tasks
from barnabas.cluster.quorum.voters import LeaderAddress
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages_base import Message
from barnabas.server.api.context import AnyContext
from barnabas.server.controller_channel.local_controller import LocalControllerChannel
from barnabas.server.open_nursery import OpenNursery
from barnabas.server.peer_security import Secured, plain

if TYPE_CHECKING:
    from barnabas.client.failures import Address
    from barnabas.server.controller_channel.remote_controller import RemoteController

logger = logging.getLogger(__name__)

ResponseT = TypeVar("ResponseT", bound=Message)

_RETRIED: Final = (ErrorCode.NOT_CONTROLLER, ErrorCode.NETWORK_EXCEPTION)
_RETRY_S: Final = 0.05
_TIMEOUT_S: Final = 60.0


class QuorumControllerChannel:
    """Sends requests to the leader of the quorum (`ControllerChannel`).

    `leader` returns the leader as far as this node knows it. A controller that does not answer
    within `request_timeout_s` is connected to again. A caller waits at most `timeout_s`. `run` must
    be running while a request goes to another node.
    """

    def __init__(
        self,
        node_id: int,
        local: LocalControllerChannel,
        leader: Callable[[], LeaderAddress | None],
        *,
        request_timeout_s: float,
        timeout_s: float = _TIMEOUT_S,
        secured: Secured = plain,
    ) -> None:
        self._node_id = node_id
        self._local = local
        self._leader = leader
        self._request_timeout_s = request_timeout_s
        self._timeout_s = timeout_s
        self._secured = secured
        self._remote: RemoteController | None = None
        self._silences = 0
        self._nursery = OpenNursery()
        self._leader_changed = tasks.event()

    async def run(self, task_status: tasks.TaskStatus = tasks.IGNORED) -> None:
        """Serve the connections to other nodes until cancelled."""
        try:
            await self._nursery.serve(task_status)
        finally:
            self._disconnect()

    def follow_leader(self) -> None:
        """The quorum's leader has changed: requests that wait for another node are sent again."""
        leader = self._leader()
        if self._remote is not None and (
            leader is None or self._remote.address != _address(leader)
        ):
            self._disconnect()
        self._leader_changed.set()
        self._leader_changed = tasks.event()

    @property
    def silences(self) -> int:
        """The number of times that the controller did not answer, and was connected to again."""
        return self._silences + (0 if self._remote is None else self._remote.silences)

    def controller_versions(self) -> Mapping[int, tuple[int, int]] | None:
        """Return the versions that the controller of another node serves, by api key.

        None while this node's controller is active, or no other one was reached.
        """
        return self._remote.versions if self._remote is not None else None

    async def send(
        self,
        request: Message,
        response_type: type[ResponseT],
        *,
        version: int | None = None,
        on_behalf_of: AnyContext | None = None,
    ) -> ResponseT:
        """Send a request to the active controller (`ControllerChannel`)."""
        last: KafkaError | None = None
        with tasks.move_on_after(self._timeout_s):
            while True:
                changed = self._leader_changed
                try:
                    return await self._send_once(request, response_type, version, on_behalf_of)
                except KafkaError as error:
                    if error.code not in _RETRIED:
                        raise
                    last = error
                with tasks.move_on_after(_RETRY_S):
                    await changed.wait()
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, f"no active controller answered in time ({last})"
        )

    async def _send_once(
        self,
        request: Message,
        response_type: type[ResponseT],
        version: int | None,
        on_behalf_of: AnyContext | None,
    ) -> ResponseT:
        leader = self._leader()
        if leader is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "the active controller is unknown")
        if leader.node_id == self._node_id:
            return await self._local.send(
                request, response_type, version=version, on_behalf_of=on_behalf_of
            )
        remote = self._connect(leader)
        if on_behalf_of is not None:
            return await remote.forward(on_behalf_of, request, response_type)
        return await remote.send(request, response_type, max_version=version)

    # The connections to another node

    def _connect(self, leader: LeaderAddress) -> "RemoteController":
        from barnabas.client.failures import ClientError
        from barnabas.server.controller_channel.remote_controller import RemoteController

        address = _address(leader)
        if self._remote is None or self._remote.address != address:
            self._disconnect()
            if self._nursery.current is None:
                raise KafkaError(ErrorCode.NOT_CONTROLLER, "the channel is closed")
            try:
                self._remote = RemoteController(
                    address,
                    str(self._node_id),
                    self._nursery.current,
                    request_timeout_s=self._request_timeout_s,
                    secured=self._secured,
                )
            except ClientError as error:  # this node has no credentials for others
                raise KafkaError(ErrorCode.NETWORK_EXCEPTION, str(error)) from error
            logger.info(
                "using controller node_id=%d epoch=%d address=%s",
                leader.node_id,
                leader.epoch,
                address,
            )
        return self._remote

    def _disconnect(self) -> None:
        if self._remote is not None:
            self._silences += self._remote.silences
            self._remote.close()
            self._remote = None


def _address(leader: LeaderAddress) -> "Address":
    from barnabas.client.failures import Address

    return Address(leader.endpoint.host, leader.endpoint.port)
