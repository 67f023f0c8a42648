"""The registration of this node's controller with the active controller."""

import logging
from typing import Final

from barnabas import tasks
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from barnabas.server.controller_channel.controller_channel import ControllerChannel
from barnabas.server.node_failures import raise_error
from barnabas.server.quorum.rare_log import RareLog

logger = logging.getLogger(__name__)

_RETRY_S: Final = 1.0


class ControllerRegistration:
    """Sends the request until the active controller has accepted it."""

    def __init__(self, request: ControllerRegistrationRequest, channel: ControllerChannel) -> None:
        self._request = request
        self._channel = channel
        self._scope = tasks.cancel_scope()
        self._log = RareLog()

    async def run(self) -> None:
        """Register the controller, with retries; an earlier call that still retries ends."""
        self._scope.cancel()
        with tasks.cancel_scope() as self._scope:
            while True:
                try:
                    response = await self._channel.send(
                        self._request, ControllerRegistrationResponse
                    )
                    return raise_error(response)
                except KafkaError as error:
                    self._log_failure(error)
                await tasks.sleep(_RETRY_S)

    def _log_failure(self, error: KafkaError) -> None:
        if self._log.is_due(error.code, tasks.current_time()):
            logger.warning("cannot register the controller error=%s", error.code.name)
