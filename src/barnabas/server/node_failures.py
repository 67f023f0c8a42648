"""The failures that end a node, and the error of a response as an exception."""

from typing import Any

from barnabas.protocol.errors import KafkaError, error_code


class StartupError(Exception):
    """The node cannot start; the message is one line that says how to fix it."""


class DisksLostError(Exception):
    """The last data directory failed, or the one with the quorum's log: the node must stop."""


def raise_error(response: Any) -> None:
    """Raise the KafkaError of a response whose top level has an error code."""
    if response.error_code:
        code = error_code(response.error_code)
        raise KafkaError(code, getattr(response, "error_message", None) or code.name)
