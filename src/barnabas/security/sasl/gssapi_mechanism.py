"""SASL GSSAPI (RFC 4752): a Kerberos ticket, without a security layer.

The context belongs to the Kerberos library, whose calls may wait for files: they run in a thread.
"""

import enum
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

import attrs

from barnabas.kerberos.gss_failures import KerberosError
from barnabas.security.kerberos_names import KerberosShortNames, NoShortNameError
from barnabas.security.sasl.sasl_mechanism import Identity, SaslFailure, WorkNeeded

_NO_LAYER: Final = 1
_OFFER: Final = bytes((_NO_LAYER, 0, 0, 0))
"""The layers of the server, and the size of its messages: no layer, so no size."""


class GssContext(Protocol):
    """A context of the library on the server's side. The calls raise KerberosError."""

    @property
    def is_established(self) -> bool:
        """True when the client has proved who it is."""
        ...

    @property
    def client(self) -> str:
        """The principal of the client."""
        ...

    def step(self, token: bytes) -> bytes:
        """Take a token of the client; return the answer."""
        ...

    def wrap(self, message: bytes) -> bytes:
        """Return a message that the client can check."""
        ...

    def unwrap(self, message: bytes) -> bytes:
        """Return the content of a client's message."""
        ...


class _Stage(enum.Enum):
    CONTEXT = "the context is being established"
    OFFER = "the client waits for the server's layers"
    CHOICE = "the client chooses a layer"


@attrs.define
class GssapiExchange:
    """One authentication with GSSAPI. `accept` returns a new context."""

    accept: Callable[[], GssContext]
    names: KerberosShortNames
    identity: Identity | None = None
    _context: GssContext | None = None
    _stage: _Stage = _Stage.CONTEXT
    _outcome: "bytes | SaslFailure | None" = None

    def evaluate(self, token: bytes, now_ms: int) -> bytes:
        """Answer a token of the client. Raises SaslFailure and WorkNeeded."""
        outcome, self._outcome = self._outcome, None
        if outcome is None:
            raise WorkNeeded(partial(self._work, token))
        if isinstance(outcome, SaslFailure):
            raise outcome
        return outcome

    def _work(self, token: bytes) -> Callable[[], None]:
        """Evaluate a token, in a thread; return what keeps the outcome, in the loop."""
        outcome: bytes | SaslFailure
        identity: Identity | None = None
        try:
            if self._stage is _Stage.CHOICE:
                outcome, identity = b"", self._chosen(token)
            else:
                outcome = self._answer(token)
        except KerberosError as error:
            outcome = SaslFailure(str(error))
        except SaslFailure as failure:
            outcome = failure
        return partial(self._keep, outcome, identity)

    def _keep(self, outcome: "bytes | SaslFailure", identity: Identity | None) -> None:
        self._outcome, self.identity = outcome, identity

    def _answer(self, token: bytes) -> bytes:
        """Establish the context, then offer the layers. Raises KerberosError."""
        if self._context is None:
            self._context = self.accept()
        if self._stage is _Stage.CONTEXT:
            answer = self._context.step(token)
            if self._context.is_established:
                self._stage = _Stage.OFFER
            if answer or not self._context.is_established:
                return answer
        self._stage = _Stage.CHOICE
        return self._context.wrap(_OFFER)

    def _chosen(self, token: bytes) -> Identity:
        """Return the client that has chosen no layer. Raises SaslFailure and KerberosError.

        As in Kafka, the authorization id that may follow the choice has no effect.
        """
        context = self._context
        if context is None:
            raise SaslFailure("the context is not established")
        choice = context.unwrap(token)
        if len(choice) < len(_OFFER) or not choice[0] & _NO_LAYER:
            raise SaslFailure("the client chooses a security layer, and the server has none")
        try:
            return Identity(self.names.short_name(context.client))
        except NoShortNameError as error:
            raise SaslFailure(str(error)) from None
