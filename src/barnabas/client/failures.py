"""Failures of the client's calls, in addition to a `KafkaError` that the broker answered.

    ClientError
        ConnectionFailureError      one connection failed; `sent` when the request may have arrived
            BrokerGoneError         refused, reset or closed: no broker serves this address now
                BrokerRefusedError  refused: no process listens at this address
            BrokerSilentError       no answer within the timeout: the broker may still be working
            TlsError                the TLS handshake failed
            MalformedResponseError  the peer's bytes are not a response of Kafka's protocol
        AuthenticationError         the broker refused the credentials or the mechanism
            MechanismRefusedError   the broker does not have the mechanism
        UnsupportedVersionError     the broker and this client share no version of an api
        CallTimeoutError            the time of a whole call is over; `last` is the last failure
        DeliveryError               records were not acknowledged; they may be in the log or not

A refusal, a reset and a closed connection are certain signs of a lost broker, and silence is not:
peers of a cluster act on that difference.
"""

from typing import NamedTuple, Self

from barnabas.protocol.errors import ErrorCode, KafkaError, error_code


class Address(NamedTuple):
    """Host and port of a broker."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ClientError(Exception):
    """A call that failed on this side of the connection."""


class ConnectionFailureError(ClientError):
    """A connection failed. `sent` is False when the broker cannot have seen the request."""

    retriable = True
    """True when another attempt may succeed without any change of configuration."""

    def __init__(self, address: Address, reason: str, *, sent: bool = False) -> None:
        super().__init__(f"{address}: {reason}")
        self.address = address
        self.reason = reason
        self.sent = sent

    def for_request(self, *, sent: bool) -> Self:
        """Return the same failure as one request sees it."""
        return type(self)(self.address, self.reason, sent=sent)


class BrokerGoneError(ConnectionFailureError):
    """The connection was refused, reset or closed."""


class BrokerRefusedError(BrokerGoneError):
    """The connection was refused: no process listens at this address."""


class BrokerSilentError(ConnectionFailureError):
    """The broker did not accept or answer within the timeout."""


class TlsError(ConnectionFailureError):
    """The TLS handshake failed: certificates or protocol versions do not match."""

    retriable = False


class MalformedResponseError(ConnectionFailureError):
    """The peer sent bytes that are not a response of Kafka's protocol."""

    retriable = False


class AuthenticationError(ClientError):
    """The broker refused the SASL mechanism or the credentials, or failed to prove its own."""


class MechanismRefusedError(AuthenticationError):
    """The broker does not offer the SASL mechanism."""


class UnsupportedVersionError(ClientError):
    """The broker serves no version of an api that this client can send."""


class CallTimeoutError(ClientError):
    """A call did not succeed within its time; `last` is the failure of its last attempt."""

    def __init__(self, what: str, timeout_s: float, last: Exception | None) -> None:
        reason = f": {last}" if last is not None else ""
        super().__init__(f"{what} did not succeed within {timeout_s:g} s{reason}")
        self.last = last


class DeliveryError(ClientError):
    """Records were not acknowledged. `maybe_appended` is False when they are surely not written."""

    def __init__(self, where: str, last: Exception | None, *, maybe_appended: bool) -> None:
        state = "may have been written" if maybe_appended else "were not written"
        reason = f": {last}" if last is not None else ""
        super().__init__(f"records for {where} were not acknowledged and {state}{reason}")
        self.last = last
        self.maybe_appended = maybe_appended


def raise_for(number: int, message: str | None = None, *, about: str = "") -> None:
    """Raise KafkaError unless the number is that of no error.

    `about` is the name of what the request was for: brokers leave it out of some messages.
    """
    code = error_code(number)
    if code is ErrorCode.NONE:
        return
    text = message or ""
    if about not in text:
        text = f"{about}: {text}" if text else about
    raise KafkaError(code, text)
