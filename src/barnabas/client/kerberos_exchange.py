"""The client's side of SASL GSSAPI (RFC 4752): a Kerberos ticket, without a security layer."""

import enum
from typing import Final

from barnabas.client.failures import AuthenticationError
from barnabas.kerberos.gss_failures import KerberosError
from barnabas.kerberos.tickets import Tickets

_NO_LAYER: Final = 1
_CHOICE: Final = bytes((_NO_LAYER, 0, 0, 0))


class _Stage(enum.Enum):
    CONTEXT = "the context is being established"
    OFFER = "the server offers its layers"
    DONE = "the layer is chosen"


class GssapiExchange:
    """One authentication; its calls may wait for the KDC."""

    def __init__(self, tickets: Tickets, host: str) -> None:
        """Get a ticket for the service on a host. Raises AuthenticationError."""
        self._stage = _Stage.CONTEXT
        try:
            self._context = tickets.start(host)
            self._first = self._context.step()
        except KerberosError as error:
            raise AuthenticationError(str(error)) from None

    def first(self) -> bytes:
        """Return the ticket for the service, with the proof that it is the client's."""
        return self._first

    def respond(self, challenge: bytes) -> bytes | None:
        """Check the service's proof, then choose no security layer. Raises AuthenticationError."""
        try:
            return self._respond(challenge)
        except KerberosError as error:
            raise AuthenticationError(str(error)) from None

    def _respond(self, challenge: bytes) -> bytes | None:
        if self._stage is _Stage.CONTEXT:
            answer = self._context.step(challenge)
            if self._context.is_established:
                self._stage = _Stage.OFFER
            return answer
        if self._stage is _Stage.DONE:
            return None
        offer = self._context.unwrap(challenge)
        if len(offer) != len(_CHOICE) or not offer[0] & _NO_LAYER:
            raise AuthenticationError(
                "the broker demands a security layer of GSSAPI, which barnabas does not have; use "
                "TLS (SASL_SSL)"
            )
        self._stage = _Stage.DONE
        return self._context.wrap(_CHOICE)
