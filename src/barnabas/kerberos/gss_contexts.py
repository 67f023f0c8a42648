"""One authentication with Kerberos, of a client or of a service."""

from barnabas.kerberos.gss_failures import kerberos_error
from barnabas.kerberos.gssapi_library import GssContext, Library


class KerberosContext:
    """A context of the library, whose failures are sentences.

    A step may wait for the KDC or for a file, so the calls are for threads. The texts
    `step_failure` and `message_failure` say what failed.
    """

    def __init__(
        self, kinds: Library, context: GssContext, *, step_failure: str, message_failure: str
    ) -> None:
        self._library = kinds
        self._context = context
        self._step_failure = step_failure
        self._message_failure = message_failure
        self.is_established = False
        """True when the other side has proved its identity."""

    @property
    def client(self) -> str:
        """The principal of the client."""
        return str(self._context.initiator_name)

    def step(self, token: bytes | None = None) -> bytes:
        """Take the other side's token, None at first; return the next one. Raises KerberosError."""
        try:
            answer = self._context.step(token) or b""
            # An error that has a token for the other side is raised here.
            self.is_established = self._context.complete
        except self._library.exceptions.GSSError as error:
            raise kerberos_error(self._library, error, self._step_failure) from None
        return answer

    def wrap(self, message: bytes) -> bytes:
        """Return a message that the other side can check."""
        return self._context.wrap(message, False).message

    def unwrap(self, message: bytes) -> bytes:
        """Return the content of the other side's message. Raises KerberosError."""
        try:
            return self._context.unwrap(message).message
        except self._library.exceptions.GSSError as error:
            raise kerberos_error(self._library, error, self._message_failure) from None
