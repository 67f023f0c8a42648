"""Errors of the Kerberos library as sentences that say what to do."""

from typing import Final

from barnabas.kerberos.gssapi_library import Library

_BASE: Final = -1765328384
"""The first code of the library's table; the errors of the protocol (RFC 4120) follow in order."""
_TICKET_EXPIRED: Final = _BASE + 32
_CREDENTIALS_EXPIRED: Final = 11
"""The code of calls (RFC 2744) for credentials that have ended."""

_REMEDIES: Final = {
    _BASE + 6: "the KDC does not know the client's principal; correct the principal, or add it",
    _BASE + 7: "the KDC does not know the service's principal; correct sasl.kerberos.service.name "
    "or the host in the address, or add SERVICE/HOST to the KDC with its keytab",
    _BASE + 24: "the keys in the keytab are not those of the KDC; write the keytab again",
    _BASE + 31: "the keys in the keytab are not those of the KDC; write the keytab again",
    _TICKET_EXPIRED: "the ticket has expired; run kinit again, or use a keytab",
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


def kerberos_error(library: Library, error: Exception, prefix: str) -> KerberosError:
    """Return a failure of the library, with the prefix that says what failed."""
    remedy = _REMEDIES.get(minor_code(error))
    if _routine_code(error) == _CREDENTIALS_EXPIRED:
        remedy = _REMEDIES[_TICKET_EXPIRED]
    texts = [prefix, _shown(library, error), remedy]
    return KerberosError(": ".join(each for each in texts if each))


def minor_code(error: Exception) -> int:
    """Return the code of the mechanism, which is signed."""
    code = _number(error, "min_code")
    return code - (1 << 32) if code >= 1 << 31 else code


def _routine_code(error: Exception) -> int:
    return _number(error, "maj_code") >> 16 & 0xFF


def _number(error: Exception, name: str) -> int:
    found = getattr(error, name, 0)
    return found if isinstance(found, int) else 0


def _shown(library: Library, error: Exception) -> str:
    """Return the library's text of the mechanism's error in one line, empty when it has none."""
    get_status = getattr(error, "get_all_statuses", None)
    if get_status is None:
        return str(error)
    code = _number(error, "min_code")
    if code == 0:
        return ""
    try:
        texts = get_status(code, False)
    except (library.exceptions.GSSError, ValueError):
        return ""
    return " ".join(" ".join(texts).split())
