"""A limit on the size of request bodies."""

from barnabas.http.asgi import Message, Receive, Scope, header


class BodyTooLargeError(Exception):
    """A request body is larger than the limit: status 413."""

    def __init__(self, bytes_max: int) -> None:
        super().__init__(f"the body is larger than {bytes_max} bytes")


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
