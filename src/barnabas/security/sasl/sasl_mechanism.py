"""The interface of all SASL mechanisms: the exchange of one authentication, and its failures."""

from collections.abc import Callable
from typing import Protocol

import attrs


class SaslFailure(Exception):  # noqa: N818 - the failure of a client, not of this program
    """An authentication failed.

    The client receives `public_message`; when that is None, a text that names only the mechanism,
    so that a client does not learn which part was wrong. `reason` is for the log.
    """

    def __init__(self, reason: str, *, is_public: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.public_message = reason if is_public else None


class WorkNeeded(Exception):  # noqa: N818 - a request for work, not an error
    """An exchange needs work that belongs in a thread: it takes milliseconds, or waits for a file.

    `work` returns a function, which must be called in the loop. Then the exchange must evaluate the
    same token again.
    """

    def __init__(self, work: Callable[[], Callable[[], None]]) -> None:
        super().__init__()
        self.work = work


@attrs.frozen
class Identity:
    """The identity that a client has proved.

    `expires_at_ms` is when the credential ends, in milliseconds since the epoch; None for one that
    does not end.
    """

    user: str
    expires_at_ms: int | None = None
    token_authenticated: bool = False


class SaslExchange(Protocol):
    """One authentication; `identity` is set when it is complete."""

    @property
    def identity(self) -> Identity | None:
        """The identity that the client has proved; None while the exchange lasts."""
        ...

    def evaluate(self, token: bytes, now_ms: int) -> bytes:
        """Return the server's token that answers the client's.

        Raises SaslFailure, and WorkNeeded when the same token must be evaluated again.
        """
        ...


StartExchange = Callable[[], SaslExchange]
"""Starts an exchange of a mechanism."""
