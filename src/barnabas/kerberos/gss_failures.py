"""Errors of the Kerberos library as sentences that say what to do."""

from typing import Final

from barnabas.kerberos.gssapi_library import Library

_BASE: Final = -1765328384
"""The first code of the library's table; the errors of the protocol (RFC 4120) follow in order."""
_REPLAY: Final = _BASE + 34
_NOT_YET_VALID: Final = _BASE + 33
_CLIENT_NOT_YET_VALID: Final = _BASE + 21
RETRIABLE: Final = frozenset({_REPLAY, _NOT_YET_VALID, _CLIENT_NOT_YET_VALID})
"""Errors after which a client may simply try again, as in Kafka's `KerberosError`."""

_REMEDIES: Final = {
    _BASE + 6: "the KDC does not know the client's principal; correct the principal, or add it",
    _BASE + 7: "the KDC does not know the service's principal; correct sasl.kerberos.service.name "
    "or the host in the address, or add SERVICE/HOST to the KDC with its keytab",
    _BASE + 24: "the keys in the keytab are not those of the KDC; write the keytab again",
    _BASE + 31: "the keys in the keytab are not those of the KDC; write the keytab again",
    _BASE + 32: "the ticket has expired; run kinit again, or use a keytab",
    _BASE + 37: "the clocks of this machine and of the KDC or the client differ by more than "
    "clockskew of krb5.conf allows; correct them (NTP)",
    _BASE + 41: "the ticket was made with other keys than those of the keytab; write the keytab "
    "again",
    _BASE + 44: "the ticket was made with another version of the keys; write the keytab again, "
    "and let clients get new tickets",
    _BASE + 45: "the keytab has no key for the ticket's principal; check the principal and the "
    "keytab with klist -k",
    _BASE + 68: "the principal belongs to another realm; correct it, or krb5.conf",
    _BASE + 154: "krb5.conf names no KDC of the realm; correct the principal's realm, or krb5.conf",
    _BASE + 156: "no KDC of the realm answers; check krb5.conf and the network",
    _BASE + 181: "the keytab has no key of the principal; check both with klist -k",
    _BASE + 195: "there are no tickets; run kinit, or use a keytab",
}


class KerberosError(Exception):
    """Kerberos refused something; the text says what to do."""

    def __init__(self, text: str, *, is_retriable: bool = False) -> None:
        super().__init__(text)
        self.is_retriable = is_retriable


def kerberos_error(library: Library, error: Exception, prefix: str) -> KerberosError:
    """Return a failure of the library, with the prefix that says what failed."""
    if not isinstance(error, library.exceptions.GSSError):
        return KerberosError(f"{prefix}: {error}")
    code = minor_code(error)
    shown = " ".join(text_of(error).split())
    remedy = _REMEDIES.get(code)
    text = f"{prefix}: {shown}" if remedy is None else f"{prefix}: {shown}: {remedy}"
    return KerberosError(text, is_retriable=code in RETRIABLE)


def minor_code(error: Exception) -> int:
    """Return the code of the mechanism, which is signed."""
    code = getattr(error, "min_code", 0)
    found = code if isinstance(code, int) else 0
    return found - (1 << 32) if found >= 1 << 31 else found


def text_of(error: Exception) -> str:
    """Return the library's text of the mechanism's error, or that of the call's."""
    get_status = getattr(error, "get_all_statuses", None)
    if get_status is None:
        return str(error)
    texts = get_status(getattr(error, "min_code", 0), False)
    return " ".join(texts) or str(error)
