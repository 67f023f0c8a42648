"""Limits on request bodies: their size, and the time in which they arrive."""

import math
from typing import Final

import trio

from barnabas.http.asgi import Message, Receive, Scope, header

BODY_TIMEOUT_S: Final = 75.0
"""As long as the host waits for the head of a request."""
BYTES_OF_A_SECOND: Final = 16_384
"""A body gets another second for each such part of it that has arrived."""


class BodyTooSlowError(Exception):
    """A request body does not arrive in time: status 408."""

    def __init__(self, received: int, seconds: float) -> None:
        super().__init__(f"the body did not arrive: {received} bytes in {seconds:.0f} s")


class BodyTooLargeError(Exception):
    """A request body is larger than the limit: status 413."""

    def __init__(self, bytes_max: int) -> None:
        super().__init__(f"the body is larger than {bytes_max} bytes")


def timed(receive: Receive) -> Receive:
    """Return a receiver that raises BodyTooSlowError for a body that does not arrive in time.

    After the body it waits without limit, as for the client to disconnect.
    """
    started = trio.current_time()
    received = 0
    timeout_s = BODY_TIMEOUT_S

    async def in_time() -> Message:
        nonlocal received, timeout_s
        with trio.move_on_at(started + timeout_s):
            message = await receive()
            received += len(message.get("body", b""))
            more = message["type"] == "http.request" and message.get("more_body", False)
            timeout_s = BODY_TIMEOUT_S + received / BYTES_OF_A_SECOND if more else math.inf
            return message
        raise BodyTooSlowError(received, timeout_s)

    return in_time


def limited(scope: Scope, receive: Receive, bytes_max: int) -> Receive:
    """Return a receiver that raises BodyTooLargeError once a body exceeds the limit.

    Raises BodyTooLargeError at once when the declared length exceeds it. A body without a declared
    length is counted as it arrives, so no more than the limit is kept.
    """
    declared = header(scope, b"content-length")
    if declared is not None and declared.isdigit():
        if int(declared) > bytes_max:
            raise BodyTooLargeError(bytes_max)
        return receive  # h11 ends the body at its declared length
    if header(scope, b"transfer-encoding") is None and scope["http_version"].startswith("1"):
        return receive
    received = 0

    async def counted() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > bytes_max:
            raise BodyTooLargeError(bytes_max)
        return message

    return counted
