"""The server's side of Kerberos: the keys of a service, and the contexts that clients establish."""

from barnabas.kerberos.gss_contexts import KerberosContext
from barnabas.kerberos.gss_failures import KerberosError, kerberos_error
from barnabas.kerberos.gssapi_library import (
    GssapiMissingError,
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

    def accept(self) -> KerberosContext:
        """Return a new context, for one client."""
        context = self._library.SecurityContext(creds=self._credentials, usage="accept")
        return KerberosContext(
            self._library,
            context,
            step_failure="a client's ticket is refused",
            message_failure="a client's message is refused",
        )


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
