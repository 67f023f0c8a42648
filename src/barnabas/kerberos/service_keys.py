"""The server's side of Kerberos: the keys of a service, and the contexts that clients establish."""

from barnabas.kerberos.gss_failures import KerberosError, kerberos_error
from barnabas.kerberos.gssapi_library import (
    GssapiMissingError,
    GssContext,
    GssCredentials,
    Library,
    gssapi,
)
from barnabas.kerberos.keytab import KeytabError, keytab_principals


class ServiceKeys:
    """The keys of a service's principal in a keytab. A keytab that is replaced is read again."""

    def __init__(self, principal: str, keytab: str) -> None:
        """Check that the keytab has the keys. Raises KerberosError."""
        self._library = library()
        self.principal = canonical_name(self._library, principal)
        self.default_realm = default_realm(self._library)
        check_keytab(keytab, self.principal)
        self._credentials = self._acquired(keytab)

    def _acquired(self, keytab: str) -> GssCredentials:
        kinds = self._library
        try:
            name = kinds.Name(self.principal, kinds.NameType.kerberos_principal)
            return kinds.Credentials(
                name=name,
                usage="accept",
                mechs=[kinds.MechType.kerberos],
                store={"keytab": f"FILE:{keytab}"},
            )
        except kinds.exceptions.GSSError as error:
            prefix = f"the keytab {keytab} cannot be used for {self.principal}"
            raise kerberos_error(kinds, error, prefix) from None

    def accept(self) -> "AcceptedContext":
        """Return a new context, for one client."""
        context = self._library.SecurityContext(creds=self._credentials, usage="accept")
        return AcceptedContext(self._library, context)


class AcceptedContext:
    """The authentication of one client. Each call may wait for a file: it is one for a thread."""

    def __init__(self, kinds: Library, context: GssContext) -> None:
        self._library = kinds
        self._context = context
        self.is_established = False
        """True when the client has proved its identity."""

    @property
    def client(self) -> str:
        """The principal of the client."""
        return str(self._context.initiator_name)

    def step(self, token: bytes) -> bytes:
        """Take a token of the client; return the answer. Raises KerberosError."""
        try:
            answer = self._context.step(token) or b""
            # An error that has a token for the client is raised here.
            self.is_established = self._context.complete
        except self._library.exceptions.GSSError as error:
            raise kerberos_error(self._library, error, "a client's ticket is refused") from None
        return answer

    def wrap(self, message: bytes) -> bytes:
        """Return a message that the client can check."""
        return self._context.wrap(message, False).message

    def unwrap(self, message: bytes) -> bytes:
        """Return the content of a client's message. Raises KerberosError."""
        try:
            return self._context.unwrap(message).message
        except self._library.exceptions.GSSError as error:
            raise kerberos_error(self._library, error, "a client's message is refused") from None


def library() -> Library:
    """Return the library. Raises KerberosError."""
    try:
        return gssapi()
    except GssapiMissingError as error:
        raise KerberosError(str(error)) from None


def canonical_name(kinds: Library, principal: str) -> str:
    """Return a principal with its realm. Raises KerberosError."""
    try:
        name = kinds.Name(principal, kinds.NameType.kerberos_principal)
        return str(name.canonicalize(kinds.MechType.kerberos))
    except kinds.exceptions.GSSError as error:
        prefix = f"{principal} cannot be read as a Kerberos principal"
        raise kerberos_error(kinds, error, prefix) from None


def default_realm(kinds: Library) -> str:
    """Return the default realm of krb5.conf, empty when there is none."""
    try:
        return canonical_name(kinds, "realm-of-this").rpartition("@")[2]
    except KerberosError:
        return ""


def check_keytab(keytab: str, principal: str) -> None:
    """Raise KerberosError unless a file is a keytab with keys of the principal."""
    try:
        with open(keytab, "rb") as file:
            principals = keytab_principals(file.read())
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise KerberosError(
            f"the keytab {keytab} cannot be read: {reason}; correct the path, or let this user "
            "read the file"
        ) from None
    except KeytabError as error:
        raise KerberosError(f"the file {keytab} is not a keytab: {error}") from None
    if principal not in principals:
        shown = ", ".join(principals) or "no principal"
        raise KerberosError(
            f"the keytab {keytab} has keys of {shown}, and none of {principal}; correct the "
            "principal, or write its keys to the keytab with ktadd -k"
        )
